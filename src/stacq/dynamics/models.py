"""Forward and inverse ensembles: f(s, a) -> s' and I(s, s') -> a.

Inside, states are normalised; `Dynamics` speaks raw units. Everything is float32 at full precision:
on GPUs the reduced formats are as coarse as the tolerances that reachability tests with.
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

from stacq.artefacts import read_artefact, write_artefact
from stacq.data.normaliser import Normaliser
from stacq.errors import InputError
from stacq.files import content_hash
from stacq.nn.mlp import MLP
from stacq.types import Array, Float32s, Ints

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
        arrays = artefact.arrays

        def network(name: str) -> MLP:
            layers = range(sum(key.startswith(f"{name}.weights.") for key in arrays))
            weights = tuple(jnp.asarray(arrays[f"{name}.weights.{layer}"]) for layer in layers)
            return MLP(weights, tuple(jnp.asarray(arrays[f"{name}.biases.{layer}"]) for layer in layers))

        step_mean, step_scale = jnp.asarray(arrays["step_mean"]), jnp.asarray(arrays["step_scale"])
        return Dynamics(
            models=Models(network("forward"), network("inverse"), step_mean, step_scale),
            normaliser=Normaliser(arrays["normaliser.mean"], arrays["normaliser.scale"]),
            action_low=arrays["action_low"],
            action_high=arrays["action_high"],
            config=dict(artefact.config),
            parents=dict(artefact.parents),
            held_out=arrays.get("held_out", _no_rows()),
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
