"""The one network shape of the library."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp

from stacq.core.types import Precision
from stacq.nn.precision import rounds_models

TF32_SINCE = 8  # NVIDIA's compute capability, its first number


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MLP:
    """Affine layers with ReLU between them, none after the last; with `layer_norm`, standardised before each ReLU.

    With `relu_first`, after it. The standardisation has no gain or shift of its own: the next layer's weights can do
    as much.

    Called on one example or on a batch. An ensemble holds the same arrays with a leading member axis, and
    is called through `each_member`.

    Inputs are multiplied to float32's accuracy. A GPU would otherwise round the factors to three digits, and two
    states a step apart differ in the third. Later layers use the device's default for the type of their weights,
    and sum in the type of their biases.
    """

    weights: tuple[jax.Array, ...]  # each [inputs, outputs]
    biases: tuple[jax.Array, ...]  # each [outputs]
    layer_norm: bool = field(default=False, metadata={"static": True})
    relu_first: bool = field(default=False, metadata={"static": True})

    def __call__(self, x: jax.Array) -> jax.Array:
        return self._behind(jnp.matmul(x, self.weights[0], precision=input_precision()) + self.biases[0])

    def of_each(self, s: jax.Array, many: jax.Array) -> jax.Array:
        """The outputs on [s, x] for every x of a row's `many`: [..., S] and [..., K, X] give [..., K, O].

        The first layer multiplies s once, not K times, and the joined inputs are never written down.
        """
        split, precision = s.shape[-1], input_precision()
        own = jnp.matmul(s, self.weights[0][:split], precision=precision) + self.biases[0]
        return self._behind(own[..., None, :] + jnp.matmul(many, self.weights[0][split:], precision=precision))

    def _behind(self, x: jax.Array) -> jax.Array:
        """All that follows the first layer."""
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = self._bent(x)
            x = (x @ weight if x.dtype == weight.dtype else _rounded_product(x, weight, bias.dtype)) + bias
        return x

    def _bent(self, x: jax.Array) -> jax.Array:
        """What lies between two affine layers."""
        if not self.layer_norm:
            return jax.nn.relu(x)
        return _standardised(jax.nn.relu(x)) if self.relu_first else jax.nn.relu(_standardised(x))

    @property
    def members(self) -> int:
        """Size of the leading axis; only an ensemble has one."""
        return int(self.biases[0].shape[0])


def init_mlp(key: jax.Array, sizes: Sequence[int]) -> MLP:
    """Weights and biases uniform in +-1/sqrt(inputs), the initialisation behind every published number."""
    network: MLP = _init(key, tuple(sizes))
    return network


def init_ensemble(key: jax.Array, members: int, sizes: Sequence[int], *, layer_norm: bool = False) -> MLP:
    """Independent members, stacked along a leading axis."""
    ensemble = jax.vmap(lambda member: init_mlp(member, sizes))(jax.random.split(key, members))
    return replace(ensemble, layer_norm=layer_norm)


def each_member(ensemble: MLP, x: jax.Array) -> jax.Array:
    """The outputs of all members on the same inputs, [M, ..., O].

    A GPU wants the members in one product, and the inputs once for each: shared ones would be multiplied by all first
    layers side by side, and the result transposed. On a CPU one member after the other is faster: its activations
    stay in the cache, and independent members can share the cores.
    """
    if jax.default_backend() == "cpu":
        return jnp.stack([member(x) for member in _unstacked(ensemble)])
    outputs: jax.Array = jax.vmap(MLP.__call__)(ensemble, jnp.broadcast_to(x, (ensemble.members, *x.shape)))
    return outputs


def each_member_of_each(ensemble: MLP, s: jax.Array, many: jax.Array) -> jax.Array:
    """`MLP.of_each` of all members, [M, ..., K, O]."""
    return jnp.stack([member.of_each(s, many) for member in _unstacked(ensemble)])


def _unstacked(ensemble: MLP) -> list[MLP]:
    """The members as networks of their own. Gradients of a split are joined once; those of slices would be padded."""
    leaves, shape = jax.tree.flatten(ensemble)
    split = [jax.lax.split(values, (1,) * ensemble.members) for values in leaves]
    return [jax.tree.unflatten(shape, [part[0] for part in parts]) for parts in zip(*split, strict=True)]


def frozen_for(backend: str, network: MLP, precision: Precision = "auto") -> MLP:
    """A network that no longer learns, with `auto` as `backend` runs it fastest: in bfloat16 after the first layer.

    A CPU that multiplies such factors twice as fast as float32 sums them in float32 at no cost; on a GPU the sums are
    rounded too. Of the dynamics ensembles this moves predictions by 0.2 percent of a step, a seventh of their own
    error or less.
    """
    if not rounds_models(precision, backend):
        return network
    half: MLP = jax.tree.map(lambda values: values.astype(jnp.bfloat16), network)
    weights, biases = (network.weights[0], *half.weights[1:]), (network.biases[0], *half.biases[1:])
    return replace(network, weights=weights, biases=network.biases if backend == "cpu" else biases)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _rounded_product(x: jax.Array, weight: jax.Array, total: jnp.dtype) -> jax.Array:
    """x @ weight with x rounded to the weights' type and the sums in `total`; what comes back is rounded as well.

    Left to itself, the derivative of a product with wider sums multiplies in the wide type.
    """
    return jnp.matmul(x.astype(weight.dtype), weight, preferred_element_type=total)


def _rounded_forward(
    x: jax.Array, weight: jax.Array, total: jnp.dtype
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _rounded_product(x, weight, total), (x, weight)


def _rounded_backward(
    total: jnp.dtype, factors: tuple[jax.Array, jax.Array], slope: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, weight = factors
    rows, slope = tuple(range(x.ndim - 1)), slope.astype(weight.dtype)
    of_x = jnp.tensordot(slope, weight, axes=(-1, 1), preferred_element_type=total)
    of_weight = jnp.tensordot(x.astype(weight.dtype), slope, axes=(rows, rows), preferred_element_type=total)
    return of_x.astype(x.dtype), of_weight.astype(weight.dtype)


_rounded_product.defvjp(_rounded_forward, _rounded_backward)


def input_precision() -> jax.lax.Precision | jax.lax.DotAlgorithmPreset | None:
    """Of the first product. Three TF32 products of split factors are as accurate as one in float32, and faster.

    Where a precision is in force (`jax.default_matmul_precision`), that one counts.
    """
    if jax.config.jax_default_matmul_precision is not None:  # type: ignore[attr-defined]
        return None
    device = jax.config.jax_default_device or jax.devices()[0]  # type: ignore[attr-defined]
    version = re.fullmatch(r"(\d+)\.\d+", str(getattr(device, "compute_capability", "")))  # AMD's are names
    if version and int(version[1]) >= TF32_SINCE:
        return jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    return jax.lax.Precision.HIGHEST


def _standardised(x: jax.Array) -> jax.Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


@partial(jax.jit, static_argnames="sizes")
def _init(key: jax.Array, sizes: tuple[int, ...]) -> MLP:
    """One draw for all layers: a random generator is slow to compile, and each shape would bring its own."""
    layers = list(pairwise(sizes))
    flat = jax.random.uniform(key, (sum((i + 1) * o for i, o in layers),), jnp.float32, -1, 1)
    weights, biases, start = [], [], 0
    for inputs, outputs in layers:
        stop = start + (inputs + 1) * outputs
        layer = flat[start:stop].reshape(inputs + 1, outputs) * inputs**-0.5
        weights.append(layer[:-1])
        biases.append(layer[-1])
        start = stop
    return MLP(tuple(weights), tuple(biases))
