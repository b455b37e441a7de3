"""A policy as plain NumPy: raw observation in, raw action out, normaliser inside.

Workers that roll out policies import this module and nothing heavier.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from stacq.data.normaliser import Normaliser
from stacq.errors import InputError, check_choice
from stacq.reading import check_regular
from stacq.types import Float32s, Floats

FORMAT = "stacq.policy.v1"
LARGEST = 1 << 30  # bytes of a policy file; the recommended network has half a million
Activation = Literal["relu", "tanh"]
Output = Literal["tanh", "clip"]
Actor = Callable[[Floats, np.random.Generator], Floats]
"""What can be evaluated: (observation, random generator) -> action. The generator is the episode's own."""


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic multi-layer perceptron whose last layer is squashed into the action bounds.

    `output` says how: "tanh" maps (-1, 1) linearly onto the bounds, "clip" cuts the raw output at them.
    """

    weights: tuple[Float32s, ...]  # each [inputs, outputs]
    biases: tuple[Float32s, ...]  # each [outputs]
    normaliser: Normaliser
    action_low: Float32s  # [A]
    action_high: Float32s  # [A]
    activation: Activation = "relu"
    output: Output = "tanh"

    @staticmethod
    def from_mlp(
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike],
        normaliser: Normaliser | None = None,
        bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
        *,
        activation: Activation = "relu",
        output: Output = "tanh",
    ) -> "Policy":
        """A policy from arrays of any origin. Weights are [inputs, outputs]: transpose those of PyTorch."""
        matrices = tuple(np.asarray(weight, dtype=np.float32) for weight in weights)
        vectors = tuple(np.asarray(bias, dtype=np.float32) for bias in biases)
        _check_chain(matrices, vectors)
        size = matrices[-1].shape[1]
        normaliser = normaliser or Normaliser.identity(matrices[0].shape[0])
        if normaliser.mean.shape != matrices[0].shape[:1]:
            raise InputError(
                f"the normaliser is for observations of {len(normaliser.mean)} numbers",
                where="Policy.from_mlp",
                expected=f"{matrices[0].shape[0]}, the inputs of the first layer",
                fix="fit the normaliser on the observations that the network was trained on",
            )
        check_choice("activation", activation, get_args(Activation), where="Policy.from_mlp")
        check_choice("output", output, get_args(Output), where="Policy.from_mlp")
        return Policy(matrices, vectors, normaliser, *_bounds(bounds, size), activation, output)

    def __repr__(self) -> str:
        layers = "-".join(str(weight.shape[0]) for weight in self.weights)
        return f"Policy({layers}-{self.action_size}, {self.activation}, {self.output})"

    @property
    def observation_size(self) -> int:
        return int(self.weights[0].shape[0])

    @property
    def action_size(self) -> int:
        return int(self.weights[-1].shape[1])

    def __call__(self, observation: Floats, rng: np.random.Generator | None = None) -> Float32s:
        """The action for one observation [S], or actions for a batch [B, S].

        An observation that is not finite is refused: its action would not be a number, and might reach a motor.
        """
        if np.shape(observation)[-1:] != (self.observation_size,):
            raise InputError(
                f"an observation of shape {np.shape(observation)}",
                where="policy",
                expected=f"{self.observation_size} numbers, or a batch of such rows",
                fix="give the raw observation as the data has it",
            )
        with np.errstate(over="ignore", invalid="ignore"):
            seen = self.normaliser.apply(observation)
        if not np.isfinite(seen).all():
            place = np.argwhere(~np.isfinite(seen))[0].tolist()
            raise InputError(
                f"an observation with {np.asarray(observation)[tuple(place)]} at {place}",
                where="policy",
                expected="finite numbers that float32 can hold",
                fix="leave it out, or repair the sensor",
            )
        raw = forward(self.weights, self.biases, seen, self.activation)
        if self.output == "clip":
            return np.clip(raw, self.action_low, self.action_high)
        share = (np.tanh(raw) + np.float32(1)) * np.float32(0.5)
        return self.action_low + share * (self.action_high - self.action_low)

    def save(self, path: Path | str) -> None:
        """One safetensors file; nothing in it can run code."""
        from safetensors.numpy import save_file

        from stacq.files import replacing

        arrays = {
            "normaliser.mean": self.normaliser.mean,
            "normaliser.scale": self.normaliser.scale,
            "action_low": self.action_low,
            "action_high": self.action_high,
        }
        arrays |= {f"weights.{index}": weight for index, weight in enumerate(self.weights)}
        arrays |= {f"biases.{index}": bias for index, bias in enumerate(self.biases)}
        facts = {"format": FORMAT, "activation": self.activation, "output": self.output}
        metadata = {"facts": json.dumps(facts)}  # of several entries, safetensors would write any one first
        with replacing(Path(path)) as temporary:
            save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, temporary, metadata=metadata)

    @staticmethod
    def load(path: Path | str) -> "Policy":
        """Read what `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            check_regular(path, LARGEST)
            with safe_open(path, framework="numpy") as file:
                facts = _facts(file.metadata() or {})
                arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except FileNotFoundError as error:
            raise InputError("no such file", where=path, expected="a policy file", fix="check the path") from error
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"not a readable policy: {error}",
                where=path,
                expected="a .safetensors file written by Policy.save",
                fix="save the policy again",
            ) from error
        if facts.get("format") != FORMAT:
            raise InputError(
                "these tensors are not a stacq policy",
                where=path,
                expected="a file written by Policy.save",
                fix="build one with Policy.from_mlp and save it",
            )
        layers = range(sum(key.startswith("weights.") for key in arrays))
        try:
            return Policy.from_mlp(
                [arrays[f"weights.{index}"] for index in layers],
                [arrays[f"biases.{index}"] for index in layers],
                Normaliser(arrays["normaliser.mean"], arrays["normaliser.scale"]),
                (arrays["action_low"], arrays["action_high"]),
                activation=facts["activation"],
                output=facts["output"],
            )
        except KeyError as error:
            raise InputError(
                f"the policy is incomplete: no {error}",
                where=path,
                expected="every array that Policy.save writes",
                fix="save it again",
            ) from error


def forward(
    weights: Sequence[Float32s], biases: Sequence[Float32s], inputs: Float32s, activation: Activation = "relu"
) -> Float32s:
    """Affine layers with a nonlinearity between them, none after the last; one row or a batch."""
    hidden = inputs
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = hidden @ weight + bias
        hidden = np.maximum(hidden, 0) if activation == "relu" else np.tanh(hidden)
    return np.asarray(hidden @ weights[-1] + biases[-1])


def _bounds(bounds: tuple[ArrayLike, ArrayLike], size: int) -> tuple[Float32s, Float32s]:
    low, high = (np.asarray(bound, dtype=np.float32) for bound in bounds)
    fits = all(bound.shape in ((), (size,)) for bound in (low, high))
    if not fits or not np.isfinite([low.min(), low.max(), high.min(), high.max()]).all() or not (low < high).all():
        raise InputError(
            f"bounds {low.tolist()} to {high.tolist()}",
            where="Policy.from_mlp",
            expected=f"finite low < high, one number or {size} of them",
            fix="give the bounds of the action space",
        )
    return np.broadcast_to(low, (size,)), np.broadcast_to(high, (size,))


def _facts(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """What a file says about itself; in older ones every fact has an entry of its own."""
    try:
        found = json.loads(metadata.get("facts", "null"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else metadata


def _check_chain(weights: Sequence[Float32s], biases: Sequence[Float32s]) -> None:
    if not weights or len(weights) != len(biases):
        raise InputError(
            f"{len(weights)} weight matrices and {len(biases)} bias vectors",
            where="Policy.from_mlp",
            expected="one bias for each weight matrix, at least one of each",
            fix="pass both lists in layer order",
        )
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or bias.shape != weight.shape[1:]:
            hint = "transpose the weights (PyTorch stores [outputs, inputs])" if bias.shape == weight.shape[:1] else ""
            raise InputError(
                f"layer {layer} has weights {weight.shape} and biases {bias.shape}",
                where="Policy.from_mlp",
                expected="weights [inputs, outputs] and biases [outputs]",
                fix=hint or "check the order of the lists",
            )
        if layer and weight.shape[0] != weights[layer - 1].shape[1]:
            raise InputError(
                f"layer {layer} takes {weight.shape[0]} inputs, layer {layer - 1} gives {weights[layer - 1].shape[1]}",
                where="Policy.from_mlp",
                expected="each layer to take what the one before gives",
                fix="transpose the weights (PyTorch stores [outputs, inputs]), or check their order",
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError(
                f"layer {layer} holds NaN or infinity",
                where="Policy.from_mlp",
                expected="finite weights",
                fix="the training diverged: take an earlier checkpoint",
            )
