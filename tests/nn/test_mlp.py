"""Networks: shapes, the distribution they start from, and what a key decides."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stacq.nn.mlp import (
    MLP,
    _rounded_product,
    each_member,
    each_member_of_each,
    frozen_for,
    init_ensemble,
    init_mlp,
    input_precision,
)

SIZES = (100, 300, 25, 4)


def layers(network: MLP) -> list[tuple[jax.Array, jax.Array]]:
    return list(zip(network.weights, network.biases, strict=True))


def test_shapes() -> None:
    network = init_mlp(jax.random.key(0), SIZES)
    assert [weight.shape for weight in network.weights] == [(100, 300), (300, 25), (25, 4)]
    assert [bias.shape for bias in network.biases] == [(300,), (25,), (4,)]
    assert {array.dtype for layer in layers(network) for array in layer} == {np.dtype(np.float32)}
    ensemble = init_ensemble(jax.random.key(0), 5, SIZES)
    assert ensemble.members == 5
    assert [weight.shape for weight in ensemble.weights] == [(5, 100, 300), (5, 300, 25), (5, 25, 4)]
    assert jax.vmap(MLP.__call__)(ensemble, jnp.zeros((5, 7, 100))).shape == (5, 7, 4)


def test_every_layer_is_uniform_within_its_bound() -> None:
    """Standard deviation of a uniform in +-b: b/sqrt(3); mean 0; all within b, and some near it on both sides."""
    for layer, inputs in zip(layers(init_ensemble(jax.random.key(1), 200, SIZES)), SIZES, strict=False):
        for array in layer:
            values = np.asarray(array).ravel() * np.sqrt(inputs)
            error = 5 / np.sqrt(values.size)
            assert abs(values.mean()) < error and abs(values.std() * np.sqrt(3) - 1) < error
            assert 0.98 < values.max() <= 1 + 1e-6 and -1 - 1e-6 <= values.min() < -0.98


def test_no_number_is_used_twice() -> None:
    """Slices of one draw that overlapped would repeat values, up to the bounds of their layers."""
    network = init_mlp(jax.random.key(2), SIZES)
    unit = [
        np.asarray(array).ravel() * np.sqrt(inputs)
        for layer, inputs in zip(layers(network), SIZES, strict=False)
        for array in layer
    ]
    values = np.sort(np.concatenate(unit))
    # 37,729 draws from 2^23 values collide about 85 times by chance alone.
    assert (np.diff(values) < 1e-8).sum() < 150


def test_the_key_decides_and_members_differ() -> None:
    first, again, other = (init_ensemble(jax.random.key(seed), 2, SIZES) for seed in (0, 0, 1))
    for ours, same, another in zip(first.weights, again.weights, other.weights, strict=True):
        np.testing.assert_array_equal(ours, same)
        assert not np.array_equal(ours, another) and not np.array_equal(ours[0], ours[1])


def test_a_row_and_each_of_its_many_are_the_joined_inputs() -> None:
    ensemble = init_ensemble(jax.random.key(0), 2, (5, 8, 3))
    s, many = jax.random.normal(jax.random.key(1), (4, 3)), jax.random.normal(jax.random.key(2), (4, 6, 2))
    wide = jnp.concatenate([jnp.broadcast_to(s[:, None], (4, 6, 3)), many], axis=-1)
    np.testing.assert_allclose(each_member_of_each(ensemble, s, many), each_member(ensemble, wide), atol=1e-6)


@pytest.mark.parametrize("sizes", [(3, 2), [3, 5, 2]])
def test_a_network_computes_affine_layers_with_relu_between(sizes: tuple[int, ...] | list[int]) -> None:
    network = init_mlp(jax.random.key(3), sizes)
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    wanted = x
    for index, (weight, bias) in enumerate(layers(network)):
        wanted = np.asarray(np.maximum(wanted, 0) if index else wanted) @ np.asarray(weight) + np.asarray(bias)
    np.testing.assert_allclose(np.asarray(network(jnp.asarray(x))), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("backend", "biases"), [("gpu", "bfloat16"), ("cpu", "float32")])
def test_a_frozen_network_is_rounded_and_nearly_the_same(
    monkeypatch: pytest.MonkeyPatch, backend: str, biases: str
) -> None:
    monkeypatch.setattr("stacq.nn.precision._cpu_multiplies_bfloat16", lambda: True)
    ensemble = init_ensemble(jax.random.key(4), 3, (20, 64, 64, 5))
    half = frozen_for(backend, ensemble)
    assert [weight.dtype.name for weight in half.weights] == ["float32", "bfloat16", "bfloat16"]
    assert [bias.dtype.name for bias in half.biases] == ["float32", biases, biases]
    assert each_member(half, jnp.zeros((2, 20))).dtype.name == biases
    x = jax.random.normal(jax.random.key(5), (50, 20))

    def score(x: jax.Array, network: MLP) -> jax.Array:
        return (each_member(network, x).astype(jnp.float32) ** 2).sum()

    for of in (each_member, lambda network, x: jax.grad(score)(x, network)):
        whole, rounded = (np.asarray(of(each, x), np.float64) for each in (ensemble, half))
        assert 1e-4 < np.linalg.norm(rounded - whole) / np.linalg.norm(whole) < 0.05


@pytest.mark.parametrize("shape", [(20,), (7, 20), (2, 3, 20)])
@pytest.mark.parametrize("total", ["float32", "bfloat16"])
def test_a_product_of_rounded_factors_has_rounded_slopes(shape: tuple[int, ...], total: str) -> None:
    """Of inputs and of weights, whatever stands before the last axis; sums in float32 are exact to its accuracy."""
    x, weight, slope = (jax.random.normal(jax.random.key(i), part) for i, part in enumerate((shape, (20, 5), (5,))))
    half = weight.astype(jnp.bfloat16)

    def score(x: jax.Array, half: jax.Array) -> jax.Array:
        return (_rounded_product(x, half, jnp.dtype(total)) * slope.astype(total)).sum().astype(jnp.float32)

    of_x, of_weight = jax.grad(score, argnums=(0, 1))(x, half)
    rounded_x, rounded_slope = (np.asarray(part.astype(jnp.bfloat16), np.float64) for part in (x, slope))
    wanted_x = np.broadcast_to(np.asarray(half, np.float64) @ rounded_slope, shape)
    wanted_weight = np.outer(rounded_x.reshape(-1, 20).sum(axis=0), rounded_slope)
    assert (of_x.dtype, of_weight.dtype) == (x.dtype, half.dtype)
    np.testing.assert_allclose(of_x, wanted_x, rtol=1e-5 if total == "float32" else 0.02, atol=1e-5)
    np.testing.assert_allclose(np.asarray(of_weight, np.float64), wanted_weight, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("relu_first", [False, True])
def test_layers_are_standardised_before_the_relu_or_after_it(relu_first: bool) -> None:
    ensemble = replace(init_ensemble(jax.random.key(4), 1, (3, 8, 6, 2), layer_norm=True), relu_first=relu_first)
    x = np.linspace(-2, 2, 12).reshape(4, 3)
    wanted = x
    for index, (weight, bias) in enumerate(layers(ensemble)):
        if index and relu_first:
            wanted = np.maximum(wanted, 0)
        if index:
            wanted = (wanted - wanted.mean(1, keepdims=True)) / np.sqrt(wanted.var(1, keepdims=True) + 1e-5)
        if index and not relu_first:
            wanted = np.maximum(wanted, 0)
        wanted = wanted @ np.asarray(weight[0], np.float64) + np.asarray(bias[0], np.float64)
    np.testing.assert_allclose(each_member(ensemble, jnp.asarray(x, jnp.float32))[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(6,), (2, 9, 6)])
def test_members_give_the_same_in_one_product_and_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    """On a GPU and on a CPU: outputs, and the gradients of members and inputs."""
    ensemble = init_ensemble(jax.random.key(6), 3, (6, 8, 8, 2), layer_norm=True)
    x = jax.random.normal(jax.random.key(7), shape)
    found = []
    for backend in ("cpu", "gpu"):

        def score(ensemble: MLP, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = each_member(ensemble, x)
            return (outputs**2).sum(), outputs

        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        found.append(jax.jit(jax.grad(score, argnums=(0, 1), has_aux=True))(ensemble, x))
    assert found[0][1].shape == (3, *shape[:-1], 2)
    for ours, theirs in zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("version", "split"), [("7.5", False), ("8.0", True), ("12.1", True), ("gfx942", False), ("unknown", False)]
)
def test_inputs_are_multiplied_as_accurately_as_the_device_can(
    monkeypatch: pytest.MonkeyPatch, version: str, split: bool
) -> None:
    """Three TF32 products only where there are any, and not where a precision is in force."""
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=version)])
    three = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    assert input_precision() == (three if split else jax.lax.Precision.HIGHEST)
    with jax.default_matmul_precision("highest"):
        assert input_precision() is None
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        assert input_precision() == jax.lax.Precision.HIGHEST
