"""Forward and inverse ensembles: f(s, a) -> s' and I(s, s') -> a.

Inside, states are normalised; the methods of `Dynamics` take and give raw units. Everything is float32 at full
precision: on GPUs the reduced formats are as coarse as the tolerances of the reachability test.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stacq.core.artefacts import Artefact, damaged, read_artefact, write_artefact
from stacq.core.errors import InputError
from stacq.core.files import content_hash
from stacq.core.normaliser import Normaliser
from stacq.core.types import Array, Float32s, Ints
from stacq.nn.mlp import MLP

KIND = "dynamics"
PRECISION = "highest"
BLOCK = 8_192  # rows of a prediction at a time: activations of all members are a thousand times as large


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Models:
    """Both ensembles, in normalised units.

    A forward member predicts the state difference in units of `step_scale`, the standard deviation of the
    data's differences: without it, the dimensions that one step hardly moves would count for nothing in the
    loss, and these are the ones that decide reachability.
    """

    forward: MLP  # [F, ...] members: (s, a) -> (s' - s - step_mean) / step_scale
    inverse: MLP  # [I, ...] members: (s, s') -> a
    step_mean: jax.Array  # [S]
    step_scale: jax.Array  # [S]


def forward_members(models: Models, s: jax.Array, a: jax.Array) -> jax.Array:
    """Next states by every member, [F, ..., S]."""
    with jax.default_matmul_precision(PRECISION):
        steps: jax.Array = jax.vmap(lambda member: member(jnp.concatenate([s, a], axis=-1)))(models.forward)
    return s + models.step_mean + models.step_scale * steps


def forward_mean(models: Models, s: jax.Array, a: jax.Array) -> jax.Array:
    """Section 4.1: the prediction f(s, a) is the ensemble's mean, [..., S]."""
    return forward_members(models, s, a).mean(axis=0)


def inverse_mean(models: Models, s: jax.Array, s_next: jax.Array) -> jax.Array:
    """Section 4.1: the prediction I(s, s') is the ensemble's mean, [..., A]; it may leave the action bounds."""
    with jax.default_matmul_precision(PRECISION):
        actions: jax.Array = jax.vmap(lambda member: member(jnp.concatenate([s, s_next], axis=-1)))(models.inverse)
    return actions.mean(axis=0)


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


_forward = jax.jit(forward_mean)
_spread = jax.jit(lambda models, s, a: forward_members(models, s, a).std(axis=0))
_inverse = jax.jit(inverse_mean)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Trained dynamics of one dataset, usable on their own: raw states and actions in, raw out."""

    models: Models
    normaliser: Normaliser
    action_low: Float32s  # [A]
    action_high: Float32s  # [A]
    config: dict[str, Any]
    parents: dict[str, str]
    held_out: Ints = field(default_factory=_no_rows)  # rows of the dataset that no member saw; empty if not known

    @staticmethod
    def load(directory: Path | str) -> "Dynamics":
        """Read what `save` wrote, verified against its hash."""
        artefact = read_artefact(Path(directory), KIND)
        normaliser, low, high = _edges(artefact)
        states, actions = len(normaliser.mean), len(low)
        return Dynamics(
            models=Models(
                forward=_network(artefact, "forward", states + actions, states),
                inverse=_network(artefact, "inverse", 2 * states, actions),
                step_mean=jnp.asarray(artefact.array("step_mean", np.float32, (states,))),
                step_scale=jnp.asarray(artefact.array("step_scale", np.float32, (states,))),
            ),
            normaliser=normaliser,
            action_low=low,
            action_high=high,
            config=dict(artefact.config),
            parents=dict(artefact.parents),
            held_out=_held_out(artefact),
        )

    def save(self, directory: Path | str, beside: Mapping[str, bytes] | None = None) -> None:
        """With `beside`, files that appear together with the models, by name."""
        write_artefact(Path(directory), KIND, self.arrays(), self.config, self.parents, beside)

    def arrays(self) -> dict[str, Array]:
        """Everything that is saved, by name.

        The held-out rows are among it, since what is calibrated on them depends on them; where there are none
        the name is left out, so that artefacts without them keep their hash.
        """
        arrays: dict[str, Any] = {
            "normaliser.mean": self.normaliser.mean,
            "normaliser.scale": self.normaliser.scale,
            "action_low": self.action_low,
            "action_high": self.action_high,
            "step_mean": self.models.step_mean,
            "step_scale": self.models.step_scale,
        }
        if len(self.held_out):
            arrays["held_out"] = self.held_out
        for name, network in (("forward", self.models.forward), ("inverse", self.models.inverse)):
            arrays |= {f"{name}.weights.{layer}": weight for layer, weight in enumerate(network.weights)}
            arrays |= {f"{name}.biases.{layer}": bias for layer, bias in enumerate(network.biases)}
        return {key: np.asarray(value) for key, value in arrays.items()}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that is saved: what is made from the dynamics names them by it."""
        return content_hash(self.arrays())

    def predict(self, observations: ArrayLike, actions: ArrayLike) -> Float32s:
        """Next observations, [..., S], as the mean of the forward ensemble."""
        s, a = self._state(observations, "observations"), self._action(actions)
        return self.normaliser.invert(_in_blocks(partial(_forward, self.models), s, a))

    def spread(self, observations: ArrayLike, actions: ArrayLike) -> Float32s:
        """Standard deviation of the forward members' predictions, [..., S], in raw units."""
        s, a = self._state(observations, "observations"), self._action(actions)
        return _in_blocks(partial(_spread, self.models), s, a) * self.normaliser.scale

    def infer(self, observations: ArrayLike, next_observations: ArrayLike) -> Float32s:
        """Actions that lead from one observation to the next, [..., A]; not clipped to the bounds."""
        s = self._state(observations, "observations")
        return _in_blocks(partial(_inverse, self.models), s, self._state(next_observations, "next_observations"))

    def _state(self, values: ArrayLike, name: str) -> Float32s:
        return _checked(values, name, len(self.normaliser.mean), self.normaliser.apply)

    def _action(self, values: ArrayLike) -> Float32s:
        return _checked(values, "actions", len(self.action_low), lambda array: array.astype(np.float32))


def _edges(artefact: Artefact) -> tuple[Normaliser, Float32s, Float32s]:
    """What stands between raw units and the networks: the normaliser, and the bounds of the actions."""
    mean = artefact.array("normaliser.mean", np.float32, (None,))
    scale = artefact.array("normaliser.scale", np.float32, mean.shape)
    low = artefact.array("action_low", np.float32, (None,))
    high = artefact.array("action_high", np.float32, low.shape)
    if not (len(mean) and len(low) and (scale > 0).all() and (low < high).all()):
        raise damaged(artefact.directory, "its scales are not above 0, or its action bounds are not low < high")
    return Normaliser(mean, scale), low, high


def _network(artefact: Artefact, name: str, inputs: int, outputs: int) -> MLP:
    """An ensemble from its layers, each of which must take what the one before gives."""
    count = sum(key.startswith(f"{name}.weights.") for key in artefact.arrays)
    if not count:
        raise damaged(artefact.directory, f"its {name} networks are missing")
    weights, biases = [], []
    for layer in range(count):
        size = outputs if layer == count - 1 else None
        weights.append(artefact.array(f"{name}.weights.{layer}", np.float32, (None, inputs, size)))
        members, _, inputs = weights[-1].shape
        biases.append(artefact.array(f"{name}.biases.{layer}", np.float32, (members, inputs)))
    if len({len(weight) for weight in weights}) > 1 or 0 in weights[0].shape:
        raise damaged(artefact.directory, f"its {name} networks have layers of different numbers of members, or none")
    return MLP(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)))


def _held_out(artefact: Artefact) -> Ints:
    if "held_out" not in artefact.arrays:
        return _no_rows()
    rows = artefact.array("held_out", np.int64, (None,))
    if (rows < 0).any():
        raise damaged(artefact.directory, "its rows held out are no numbers of rows")
    return rows


def _checked(values: ArrayLike, name: str, size: int, ready: Callable[[Array], Float32s]) -> Float32s:
    """Ready for the models, which know float32 alone: a number that is finite only in float64 is refused too."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "OSUMmc":
        raise InputError(
            f"{name} are of type {array.dtype}", expected="numbers, in a regular array", fix="convert them"
        )
    if array.shape[-1:] != (size,):
        raise InputError(f"{name} have shape {array.shape}", expected=f"{size} numbers in the last axis", fix="reshape")
    with np.errstate(over="ignore", invalid="ignore"):
        found = ready(array)
    if not np.isfinite(found).all():
        place = np.argwhere(~np.isfinite(found))[0].tolist()
        raise InputError(
            f"{name} hold {array[tuple(place)]} at {place}",
            expected="finite numbers that float32 can hold",
            fix="remove these rows first",
        )
    return found


def _in_blocks(function: Callable[..., jax.Array], first: Float32s, second: Float32s) -> Float32s:
    """`function` of two arrays with the same leading axes, in blocks filled up to a power of two.

    All rows at once would take tens of gigabytes for a million, and every number of rows a program of its own.
    """
    axes = first.shape[:-1]
    if axes != second.shape[:-1]:
        raise InputError(
            f"shapes {first.shape} and {second.shape}", expected="the same number of rows in both", fix="repeat one"
        )
    rows = int(np.prod(axes))
    flat = [each.reshape(rows, each.shape[-1]) for each in (first, second)]
    size = min(BLOCK, 1 << max(rows - 1, 0).bit_length())
    found = []
    for start in range(0, max(rows, 1), size):
        parts = [np.zeros((size, each.shape[1]), np.float32) for each in flat]
        count = min(size, rows - start)
        for part, each in zip(parts, flat, strict=True):
            part[:count] = each[start : start + count]
        found.append(np.asarray(function(*parts))[:count])
    whole: Float32s = np.concatenate(found)
    return whole.reshape(*axes, whole.shape[-1])
