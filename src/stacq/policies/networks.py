"""Multi-layer perceptrons as lists of NumPy arrays, checked once."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.types import Float32s

Activation = Literal["relu", "tanh"]
TRANSPOSE = "transpose the weights (PyTorch stores [outputs, inputs])"


class Layers(NamedTuple):
    """Affine layers with a nonlinearity between them."""

    weights: tuple[Float32s, ...]  # each [inputs, outputs]
    biases: tuple[Float32s, ...]  # each [outputs]

    @property
    def inputs(self) -> int:
        return int(self.weights[0].shape[0])

    @property
    def outputs(self) -> int:
        return int(self.weights[-1].shape[1])

    def arrays(self, prefix: str = "") -> dict[str, Float32s]:
        """By name, as policy files hold them."""
        named = {f"{prefix}weights.{index}": weight for index, weight in enumerate(self.weights)}
        return named | {f"{prefix}biases.{index}": bias for index, bias in enumerate(self.biases)}


def layers_of(weights: Sequence[ArrayLike], biases: Sequence[ArrayLike], where: str) -> Layers:
    """Arrays of any origin as float32 layers; refused where they do not follow on each other."""
    matrices, vectors = tuple(map(float32, weights)), tuple(map(float32, biases))
    check_chain(matrices, vectors, where)
    return Layers(matrices, vectors)


def float32(values: ArrayLike) -> Float32s:
    """As the network calculates; what float32 cannot hold becomes infinite, and is refused for that."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"an array of {array.dtype}", where="policy", expected="real numbers", fix="convert it")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def stored_layers(arrays: Mapping[str, Float32s], where: str, prefix: str = "") -> Layers:
    """What `Layers.arrays` wrote; KeyError where one is missing."""
    count = range(sum(key.startswith(f"{prefix}weights.") for key in arrays))
    weights = [arrays[f"{prefix}weights.{index}"] for index in count]
    return layers_of(weights, [arrays[f"{prefix}biases.{index}"] for index in count], where)


def forward(
    weights: Sequence[Float32s], biases: Sequence[Float32s], inputs: Float32s, activation: Activation = "relu"
) -> Float32s:
    """Affine layers with a nonlinearity between them, none after the last; one row or a batch."""
    hidden = inputs
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = hidden @ weight + bias
        hidden = np.maximum(hidden, 0) if activation == "relu" else np.tanh(hidden)
    return np.asarray(hidden @ weights[-1] + biases[-1])


def check_chain(weights: Sequence[Float32s], biases: Sequence[Float32s], where: str) -> None:
    """Every layer takes what the one before gives, and holds finite numbers."""
    if not weights or len(weights) != len(biases):
        raise InputError(
            f"{len(weights)} weight matrices and {len(biases)} bias vectors",
            where=where,
            expected="one bias for each weight matrix, at least one of each",
            fix="pass both lists in layer order",
        )
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or bias.shape != weight.shape[1:] or not weight.size:
            raise InputError(
                f"layer {layer} has weights {weight.shape} and biases {bias.shape}",
                where=where,
                expected="weights [inputs, outputs] and biases [outputs]",
                fix=TRANSPOSE if bias.shape == weight.shape[:1] else "check the order of the lists",
            )
        if layer and weight.shape[0] != weights[layer - 1].shape[1]:
            raise InputError(
                f"layer {layer} takes {weight.shape[0]} inputs, layer {layer - 1} gives {weights[layer - 1].shape[1]}",
                where=where,
                expected="each layer to take what the one before gives",
                fix=f"{TRANSPOSE}, or check their order",
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError(
                f"layer {layer} holds NaN or infinity",
                where=where,
                expected="finite weights",
                fix="the training diverged: take an earlier checkpoint",
            )
