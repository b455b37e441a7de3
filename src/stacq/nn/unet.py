"""The two networks of Diffuser (Janner et al. 2022): a U-Net along time, and its lower half as a judge of plans.

Both take windows [..., H, D] with the time axis before the channels. A convolution is written as one product of
neighbouring steps with a matrix: where every seed of a run has weights of its own, products are batched well, and
convolutions are not.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

WIDTH = 5  # steps that a convolution of a block sees
GROUPS = 8  # of a normalisation; fewer where channels are few: see `group_norm`
HEADS, HEAD_WIDTH = 4, 32  # of the attention
WAVES = 10_000.0  # ratio of the longest wave of the time embedding to the shortest


class Affine(NamedTuple):
    """A convolution; one of width 1 is a layer for every step by itself."""

    kernel: Any  # [K, I, O]
    bias: Any  # [O], or none


class Norm(NamedTuple):
    gain: Any  # [C]
    bias: Any  # [C]


class Block(NamedTuple):
    affine: Affine
    norm: Norm


class Residual(NamedTuple):
    """Two blocks with the time added in between, and a way around them."""

    first: Block
    second: Block
    time: Affine
    around: Affine | None  # none where the channels stay the same


class Attention(NamedTuple):
    norm: Norm
    inner: Affine  # to queries, keys and values; without a bias
    outer: Affine


class Level(NamedTuple):
    """What happens at one length of the time axis."""

    first: Residual
    second: Residual
    attention: Attention | None
    resample: Affine | None  # to half or twice the length


class Halving(NamedTuple):
    residual: Residual
    resample: Affine


class UNet(NamedTuple):
    time: tuple[Affine, Affine]
    down: tuple[Level, ...]
    middle: Level
    up: tuple[Level, ...]
    head: Block
    out: Affine


class ValueNet(NamedTuple):
    time: tuple[Affine, Affine]
    down: tuple[Level, ...]
    narrow: tuple[Halving, Halving]
    head: tuple[Affine, Affine]


def denoised(net: UNet, x: jax.Array, t: jax.Array) -> jax.Array:
    """The clean window that a noisy one came from, [..., H, D]; `t` is one number or one per window."""
    time, skipped = mish(embedded(net.time, t)), []
    for level in net.down:
        x = _attended(level.attention, residual(level.second, residual(level.first, x, time), time))
        skipped.append(x)
        x = x if level.resample is None else along_time(level.resample, x, stride=2)
    x = _attended(net.middle.attention, residual(net.middle.first, x, time))
    x = residual(net.middle.second, x, time)
    for level in net.up:
        x = residual(level.first, jnp.concatenate([x, skipped.pop()], axis=-1), time)
        x = _attended(level.attention, residual(level.second, x, time))
        assert level.resample is not None
        x = doubled(level.resample, x)
    return along_time(net.out, block(net.head, x))


def judged(net: ValueNet, x: jax.Array, t: jax.Array) -> jax.Array:
    """What the rest of an episode is worth that goes on as in the noisy window, [...]."""
    raw = embedded(net.time, t)
    time = mish(raw)
    for level in net.down:
        x = residual(level.second, residual(level.first, x, time), time)
        assert level.resample is not None
        x = along_time(level.resample, x, stride=2)
    for part in net.narrow:
        x = along_time(part.resample, residual(part.residual, x, time), stride=2)
    flat = jnp.swapaxes(x, -1, -2).reshape(*x.shape[:-2], -1)
    raw = jnp.broadcast_to(raw, (*flat.shape[:-1], raw.shape[-1]))
    hidden = mish(dense(net.head[0], jnp.concatenate([flat, raw], axis=-1)))
    return dense(net.head[1], hidden)[..., 0]


def residual(part: Residual, x: jax.Array, time: jax.Array) -> jax.Array:
    inner = block(part.first, x) + dense(part.time, time)[..., None, :]
    return block(part.second, inner) + (x if part.around is None else along_time(part.around, x))


def block(part: Block, x: jax.Array) -> jax.Array:
    return mish(group_norm(part.norm, along_time(part.affine, x)))


def dense(layer: Affine, x: jax.Array) -> jax.Array:
    return _shifted(x @ layer.kernel[0], layer.bias)


def along_time(layer: Affine, x: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution over steps, padded with zeros such that a stride of 1 keeps the length."""
    width, _, outputs = layer.kernel.shape
    side, count = width // 2, -(-x.shape[-2] // stride)
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(side, side), (0, 0)])
    seen = [padded[..., k : k + (count - 1) * stride + 1 : stride, :] for k in range(width)]
    return _shifted(jnp.concatenate(seen, axis=-1) @ layer.kernel.reshape(-1, outputs), layer.bias)


def _shifted(x: Any, bias: Any) -> jax.Array:
    shifted: jax.Array = x if bias is None else x + bias
    return shifted


def doubled(layer: Affine, x: jax.Array) -> jax.Array:
    """The transposed convolution of width 4 and stride 2: y[2 i + k - 1] is the sum of x[i] kernel[k].

    Even outputs see the step itself and the one before, odd ones the step itself and the one after.
    """
    kernel, nothing = layer.kernel, jnp.zeros_like(x[..., :1, :])
    before = jnp.concatenate([nothing, x[..., :-1, :]], axis=-2)
    after = jnp.concatenate([x[..., 1:, :], nothing], axis=-2)
    even = x @ kernel[1] + before @ kernel[3]
    odd = x @ kernel[2] + after @ kernel[0]
    pairs = jnp.stack([even, odd], axis=-2)
    return _shifted(pairs.reshape(*x.shape[:-2], 2 * x.shape[-2], -1), layer.bias)


def group_norm(part: Norm, x: jax.Array) -> jax.Array:
    """Each group of channels to mean 0 and deviation 1 over all steps.

    A group has at least four channels, as in the published network. One of a single channel would wipe out all that
    stays the same over the window.
    """
    channels = x.shape[-1]
    groups = math.gcd(GROUPS, channels, max(channels // 4, 1))
    parts = x.reshape(*x.shape[:-1], groups, -1)
    centred = parts - parts.mean(axis=(-3, -1), keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred**2, axis=(-3, -1), keepdims=True) + 1e-5)
    return _shifted((centred * scale).reshape(x.shape) * part.gain, part.bias)


def mish(x: jax.Array) -> jax.Array:
    """x tanh(log(1 + exp x)), with one exponential: tanh(log(1 + e)) = n / (n + 2) where n = e (e + 2)."""
    e = jnp.exp(jnp.minimum(x, 20.0))
    n = e * (e + 2)
    bent: jax.Array = x * (n / (n + 2))
    return bent


def embedded(layers: tuple[Affine, Affine], t: jax.Array) -> jax.Array:
    """Sines and cosines of the step of the noise, through two layers, [..., E]."""
    half = layers[0].kernel.shape[1] // 2
    rates = np.exp(-np.log(WAVES) / max(half - 1, 1) * np.arange(half)).astype(np.float32)
    angle = jnp.asarray(t, jnp.float32)[..., None] * rates
    waves = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return dense(layers[1], mish(dense(layers[0], waves)))


def _attended(part: Attention | None, x: jax.Array) -> jax.Array:
    return x if part is None else x + attention(part, x)


def attention(part: Attention, x: jax.Array) -> jax.Array:
    """Linear attention: keys are weighed over time first, so that no step is compared with another one."""
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    inner = dense(part.inner, normal * part.norm.gain + part.norm.bias)
    q, k, v = jnp.split(inner.reshape(*x.shape[:-1], 3 * HEADS, HEAD_WIDTH), 3, axis=-2)  # [..., H, heads, width]
    context = jnp.einsum("...nhd,...nhe->...hde", jax.nn.softmax(k, axis=-3), v)
    found = jnp.einsum("...hde,...nhd->...nhe", context, q * HEAD_WIDTH**-0.5)
    return dense(part.outer, found.reshape(*x.shape[:-1], HEADS * HEAD_WIDTH))


def unet_shapes(size: int, channels: Sequence[int], *, attends: bool = False) -> UNet:
    """The network with shapes in the place of arrays; `channels` from the full length to the shortest."""
    embedding, last = channels[0], len(channels) - 1
    steps = list(pairwise((size, *channels)))
    down = tuple(
        _level(i, o, embedding, attends, None if place == last else _affine(o, o, 3))
        for place, (i, o) in enumerate(steps)
    )
    up = tuple(_level(2 * o, i, embedding, attends, _affine(i, i, 4)) for i, o in reversed(steps[1:]))
    middle = _level(channels[-1], channels[-1], embedding, attends, None)
    ends = _block(channels[0], channels[0]), _affine(channels[0], size)
    return UNet(_time(embedding), down, middle, up, *ends)


def value_shapes(size: int, channels: Sequence[int], horizon: int) -> ValueNet:
    embedding, wide = channels[0], channels[-1]
    down = tuple(_level(i, o, embedding, False, _affine(o, o, 3)) for i, o in pairwise((size, *channels)))
    widths = (wide, wide // 2, wide // 4)
    narrow = [Halving(_residual(i, o, embedding), _affine(o, o, 3)) for i, o in pairwise(widths)]
    length = -(-horizon // 2 ** (len(channels) + 2))
    flat = widths[-1] * length
    head = _affine(flat + embedding, flat // 2), _affine(flat // 2, 1)
    return ValueNet(_time(embedding), down, (narrow[0], narrow[1]), head)


def filled(key: jax.Array, shapes: Any) -> Any:
    """Weights and biases uniform in +-1/sqrt(inputs), norms that change nothing. One draw: each costs a compilation."""
    affines = [node for node in jax.tree.leaves(shapes, is_leaf=_is_part) if isinstance(node, Affine)]
    sizes = [leaf.size for leaf in jax.tree.leaves(affines)]
    pieces = iter(jnp.split(jax.random.uniform(key, (sum(sizes),), jnp.float32, -1, 1), np.cumsum(sizes)[:-1]))

    def fill(node: Any) -> Any:
        if isinstance(node, Norm):
            return Norm(jnp.ones(node.gain.shape), jnp.zeros(node.bias.shape))
        reach = math.prod(node.kernel.shape[:2]) ** -0.5
        return jax.tree.map(lambda leaf: next(pieces).reshape(leaf.shape) * reach, node)

    return jax.tree.map(fill, shapes, is_leaf=_is_part)


def names_of(tree: Any) -> dict[str, Any]:
    """Leaves by their place in the network, such as `down.0.first.time.bias`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def from_names(shapes: Any, arrays: Mapping[str, Any]) -> Any:
    """The network that `names_of` was given; KeyError where an array is missing."""
    found = [arrays[name] for name in names_of(shapes)]
    return jax.tree.unflatten(jax.tree.structure(shapes), found)


def _is_part(node: Any) -> bool:
    return isinstance(node, Affine | Norm)


def _shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.float32)  # type: ignore[no-untyped-call]


def _affine(inputs: int, outputs: int, width: int = 1, *, bias: bool = True) -> Affine:
    return Affine(_shape(width, inputs, outputs), _shape(outputs) if bias else None)


def _norm(channels: int) -> Norm:
    return Norm(_shape(channels), _shape(channels))


def _block(inputs: int, outputs: int) -> Block:
    return Block(_affine(inputs, outputs, WIDTH), _norm(outputs))


def _residual(inputs: int, outputs: int, embedding: int) -> Residual:
    around = None if inputs == outputs else _affine(inputs, outputs)
    return Residual(_block(inputs, outputs), _block(outputs, outputs), _affine(embedding, outputs), around)


def _attention(channels: int) -> Attention:
    inside = HEADS * HEAD_WIDTH
    return Attention(_norm(channels), _affine(channels, 3 * inside, bias=False), _affine(inside, channels))


def _level(inputs: int, outputs: int, embedding: int, attends: bool, resample: Affine | None) -> Level:
    parts = _residual(inputs, outputs, embedding), _residual(outputs, outputs, embedding)
    return Level(*parts, _attention(outputs) if attends else None, resample)


def _time(embedding: int) -> tuple[Affine, Affine]:
    return _affine(embedding, 4 * embedding), _affine(4 * embedding, embedding)
