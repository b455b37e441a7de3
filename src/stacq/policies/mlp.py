"""The deterministic policy: one multi-layer perceptron."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import check_choice
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s
from stacq.policies.networks import Activation, Layers, forward, layers_of, stored_layers
from stacq.policies.policy import Policy, onto_bounds, space_of

Output = Literal["tanh", "clip"]
WHERE = "Policy.from_mlp"


@dataclass(frozen=True, eq=False)
class MLPPolicy(Policy):
    """A network whose last layer is squashed into the action bounds.

    `output` says how: "tanh" maps (-1, 1) linearly onto the bounds, "clip" cuts the raw output at them.
    """

    layers: Layers
    activation: Activation = "relu"
    output: Output = "tanh"
    kind: ClassVar[str] = "mlp"

    @property
    def weights(self) -> tuple[Float32s, ...]:
        return self.layers.weights

    @property
    def biases(self) -> tuple[Float32s, ...]:
        return self.layers.biases

    def __repr__(self) -> str:
        sizes = "-".join(str(weight.shape[0]) for weight in self.weights)
        return f"Policy({sizes}-{self.action_size}, {self.activation}, {self.output})"

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        raw = forward(*self.layers, seen, self.activation)
        if self.output == "clip":
            return np.clip(raw, self.space.action_low, self.space.action_high)
        return onto_bounds(np.tanh(raw), self.space)

    def arrays(self) -> dict[str, Float32s]:
        return self.layers.arrays()

    def facts(self) -> dict[str, Any]:
        return {"activation": self.activation, "output": self.output}


def mlp_policy(
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    normaliser: Normaliser | None = None,
    bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
    *,
    activation: Activation = "relu",
    output: Output = "tanh",
) -> MLPPolicy:
    """A policy from arrays, checked."""
    layers = layers_of(weights, biases, WHERE)
    check_choice("activation", activation, get_args(Activation), where=WHERE)
    check_choice("output", output, get_args(Output), where=WHERE)
    return MLPPolicy(space_of(normaliser, bounds, layers.inputs, layers.outputs, WHERE), layers, activation, output)


def from_file(
    arrays: Mapping[str, Float32s],
    facts: Mapping[str, Any],
    normaliser: Normaliser,
    bounds: tuple[ArrayLike, ArrayLike],
) -> MLPPolicy:
    layers = stored_layers(arrays, WHERE)
    return mlp_policy(*layers, normaliser, bounds, activation=facts["activation"], output=facts["output"])
