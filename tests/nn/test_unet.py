"""The networks of plans: their layers against loops, their shapes, and how far they see."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import unet_oracle as oracle

from stacq.nn import unet
from stacq.nn.unet import Affine, denoised, filled, from_names, judged, names_of, unet_shapes, value_shapes

SIZE, HORIZON, CHANNELS = 3, 4, (4, 8)
STEPS = (0, 3)


def strange(shapes: Any, seed: int) -> Any:
    """Numbers of no particular origin everywhere, norms too."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.4, leaf.shape), jnp.float32), shapes)


@cache
def networks() -> tuple[Any, Any]:
    shapes = unet_shapes(SIZE, CHANNELS, attends=True), value_shapes(SIZE, (4, 8), HORIZON)
    return strange(shapes[0], 1), strange(shapes[1], 2)


def windows(count: int = 2, horizon: int = HORIZON) -> jax.Array:
    return jnp.asarray(np.random.default_rng(3).normal(size=(count, horizon, SIZE)), jnp.float32)


def test_both_networks_are_what_loops_make_of_their_definitions() -> None:
    pairs: Any = ((denoised, oracle.denoised), (judged, oracle.judged))
    for (ours, theirs), net in zip(pairs, networks(), strict=True):
        found = jax.jit(ours)(net, windows(), jnp.asarray(STEPS))
        wanted = [theirs(net, x, t) for x, t in zip(np.asarray(windows()), STEPS, strict=True)]
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("width", "stride", "length"), [(5, 1, 6), (3, 2, 6), (3, 2, 5), (3, 2, 1), (1, 1, 3)])
def test_a_convolution_along_time(width: int, stride: int, length: int) -> None:
    layer = strange(unet._affine(SIZE, 2, width), 4)
    x = windows(1, length)[0]
    np.testing.assert_allclose(unet.along_time(layer, x, stride), oracle.conv(layer, np.asarray(x), stride), atol=1e-5)


def test_a_transposed_convolution_doubles_the_length() -> None:
    layer = strange(unet._affine(SIZE, SIZE, 4), 5)
    for length in (1, 4):
        x = windows(1, length)[0]
        found = unet.doubled(layer, x)
        assert found.shape == (2 * length, SIZE)
        np.testing.assert_allclose(found, oracle.transposed(layer, np.asarray(x)), atol=1e-5)


def test_mish_of_any_size_is_finite_and_so_is_its_slope() -> None:
    x = jnp.asarray([-1e4, -90.0, -3.0, 0.0, 2.0, 19.0, 21.0, 1e4])
    wanted = [*oracle.mish(np.asarray(x[:-1], np.float64)), 1e4]
    np.testing.assert_allclose(unet.mish(x), wanted, rtol=1e-4, atol=1e-6)
    assert np.isfinite(jax.vmap(jax.grad(unet.mish))(x)).all()


@pytest.mark.parametrize(
    ("channels", "horizon", "attends"), [((32, 64, 128, 256), 32, False), ((32, 128, 256), 4, True), ((8,), 6, False)]
)
def test_shapes(channels: tuple[int, ...], horizon: int, attends: bool) -> None:
    """A window in, a window or a number out; the head of the value has 64 features in both published settings."""
    shapes = unet_shapes(14, channels, attends=attends), value_shapes(14, channels, horizon)
    x, t = jax.ShapeDtypeStruct((5, horizon, 14), jnp.float32), jax.ShapeDtypeStruct((5,), jnp.int32)  # type: ignore[no-untyped-call]
    assert jax.eval_shape(denoised, shapes[0], x, t).shape == (5, horizon, 14)
    assert jax.eval_shape(judged, shapes[1], x, t).shape == (5,)
    if channels[0] == 32:
        assert shapes[1].head[0].kernel.shape == (1, 64 + 32, 32) and shapes[1].head[1].kernel.shape == (1, 32, 1)
        assert [level.first.first.affine.kernel.shape[:2] for level in shapes[0].up] == [
            (5, 2 * width) for width in reversed(channels[1:])
        ]
        assert (shapes[0].down[0].attention is not None) == attends and shapes[1].down[0].attention is None


def test_how_far_a_step_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without norms, which look at all steps: four residual blocks of two convolutions and the head, two steps each."""
    monkeypatch.setattr(unet, "group_norm", lambda part, x: x)
    net = strange(unet_shapes(1, (4,)), 6)
    slope = jax.jit(jax.jacobian(lambda x: denoised(net, x[:, None], jnp.asarray(1.0))[:, 0]))(jnp.zeros(48))
    distance = np.abs(np.arange(48)[:, None] - np.arange(48))
    np.testing.assert_array_equal(np.abs(np.asarray(slope)) > 0, distance <= 2 * (4 * 2 + 1))


def test_initial_weights_are_within_the_published_bounds() -> None:
    net = jax.jit(lambda key: filled(key, unet_shapes(SIZE, (8, 16))))(jax.random.key(0))
    affines = [each for each in jax.tree.leaves(net, is_leaf=unet._is_part) if isinstance(each, Affine)]
    for each in affines:
        reach = np.prod(each.kernel.shape[:2]) ** -0.5
        assert 0.7 * reach < np.abs(each.kernel).max() <= reach and np.abs(each.bias).max() <= reach
    norms = [each for each in jax.tree.leaves(net, is_leaf=unet._is_part) if not isinstance(each, Affine)]
    assert all((each.gain == 1).all() and not each.bias.any() for each in norms)
    assert len({float(each.kernel.ravel()[0]) for each in affines}) == len(affines)


def test_names_and_back() -> None:
    for net in networks():
        named = names_of(net)
        again = from_names(net, named)
        assert type(again) is type(net)
        assert all(one is other for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(net), strict=True))
    assert "down.0.first.time.bias" in names_of(networks()[0])
    with pytest.raises(KeyError):
        from_names(networks()[0], {})
