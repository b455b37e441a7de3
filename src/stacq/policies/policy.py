"""What every policy shares: the normaliser and the action bounds inside, checks, and files that cannot run code."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.outside import UNKNOWN_TYPE, parsed_json
from stacq.core.reading import check_regular
from stacq.core.types import Bools, Float32s, Floats
from stacq.policies.networks import float32

if TYPE_CHECKING:
    from stacq.policies.mlp import MLPPolicy, Output
    from stacq.policies.networks import Activation

FORMAT = "stacq.policy.v1"
SUFFIX = ".safetensors"
LARGEST = 1 << 30  # bytes of a policy file; the recommended network has half a million
Actor = Callable[[Floats, np.random.Generator], Floats]
"""What can be evaluated: (observation, random generator) -> action. The generator is the episode's own."""
Crew = Callable[[Bools, Floats, Sequence[Sequence[np.random.Generator]]], Floats]
"""What acts in many episodes at once: (which go on [K, E], observations [K, E, S], their generators) -> [K, E, A]."""


class Space(NamedTuple):
    """Between the outside world and the networks: how states are scaled, and where actions end."""

    normaliser: Normaliser
    action_low: Float32s  # [A]
    action_high: Float32s  # [A]


@dataclass(frozen=True, eq=False)
class Policy(ABC):
    """A policy of one kind. A kind says how it acts on a normalised observation, and which arrays it is."""

    space: Space
    kind: ClassVar[str]
    together: ClassVar[bool] = False
    """Whether it is evaluated in all episodes at once, by `crew`, in the process that asks and not in workers.

    Such a kind may load what workers do without, and remember something from one step of an episode to the next.
    """

    @property
    def observation_size(self) -> int:
        return len(self.space.normaliser.mean)

    @property
    def action_size(self) -> int:
        return len(self.space.action_low)

    @abstractmethod
    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        """The raw action for a normalised observation, [S], or for a batch, [B, S]."""

    @abstractmethod
    def arrays(self) -> dict[str, Float32s]:
        """Everything but normaliser and bounds, by name."""

    @classmethod
    def crew(cls, policies: "Sequence[Policy]", episodes: int) -> Crew:
        """What acts in so many episodes of each of these policies of this kind; here, in one after the other."""
        del episodes

        def act(running: Bools, seen: Floats, rngs: Sequence[Sequence[np.random.Generator]]) -> Floats:
            actions = np.zeros((*running.shape, policies[0].action_size), np.float32)
            for lane, place in np.argwhere(running).tolist():
                actions[lane, place] = policies[lane](seen[lane, place], rngs[lane][place])
            return actions

        return act

    def facts(self) -> dict[str, Any]:
        """What is no array, as JSON holds it."""
        return {}

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
            seen = self.space.normaliser.apply(observation)
        if not np.isfinite(seen).all():
            place = np.argwhere(~np.isfinite(seen))[0].tolist()
            raise InputError(
                f"an observation with {np.asarray(observation)[tuple(place)]} at {place}",
                where="policy",
                expected="finite numbers that float32 can hold",
                fix="leave it out, or repair the sensor",
            )
        return self.act(seen, rng)

    def save(self, path: Path | str) -> None:
        """One safetensors file; nothing in it can run code."""
        from stacq.core.files import replacing, save_tensors

        normaliser, low, high = self.space
        arrays = {
            "normaliser.mean": normaliser.mean,
            "normaliser.scale": normaliser.scale,
            "action_low": low,
            "action_high": high,
            **self.arrays(),
        }
        facts = {"format": FORMAT, "kind": self.kind, **self.facts()}
        metadata = {"facts": json.dumps(facts)}  # of several entries, safetensors would write any one first
        with replacing(Path(path)) as temporary:
            save_tensors(temporary, {key: np.ascontiguousarray(value) for key, value in arrays.items()}, metadata)

    @staticmethod
    def load(path: Path | str) -> "Policy":
        """Read what `save` wrote, of whatever kind; of a directory, the one policy in it, such as that of a run of one
        seed."""
        path = _policy_file(Path(path))
        facts, arrays = _read(path)
        if facts.get("format") != FORMAT:
            raise InputError(
                "these tensors are not a stacq policy",
                where=path,
                expected="a file written by Policy.save",
                fix="build one with Policy.from_mlp and save it",
            )
        build = _builders().get(facts.get("kind", "mlp"))
        if build is None:
            raise InputError(
                f"a policy of the unknown kind {facts.get('kind')!r}",
                where=path,
                expected=" or ".join(_builders()),
                fix="load it with the version of stacq that saved it",
            )
        try:
            normaliser = Normaliser(float32(arrays["normaliser.mean"]), float32(arrays["normaliser.scale"]))
            return build(arrays, facts, normaliser, (arrays["action_low"], arrays["action_high"]))
        except KeyError as error:
            raise InputError(
                f"the policy is incomplete: no {error}",
                where=path,
                expected="every array that Policy.save writes",
                fix="save it again",
            ) from error
        except InputError as error:  # it is the file's fault, not the caller's
            raise InputError(error.problem, where=path, expected=error.expected, fix="save the policy again") from error
        except (TypeError, ValueError) as error:
            raise InputError(
                f"what it says of itself cannot be used: {error}",
                where=path,
                expected="facts that Policy.save writes",
                fix="save the policy again",
            ) from error

    @staticmethod
    def from_mlp(
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike],
        normaliser: Normaliser | None = None,
        bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
        *,
        activation: "Activation" = "relu",
        output: "Output" = "tanh",
    ) -> "MLPPolicy":
        """A policy from arrays of any origin. Weights are [inputs, outputs]: transpose those of PyTorch."""
        from stacq.policies.mlp import mlp_policy

        return mlp_policy(weights, biases, normaliser, bounds, activation=activation, output=output)


Builder = Callable[[Mapping[str, Float32s], Mapping[str, Any], Normaliser, tuple[ArrayLike, ArrayLike]], Policy]


def _builders() -> dict[str, Builder]:
    """How a policy of each kind is made from a file."""
    from stacq.policies import chosen, gaussian, mlp, nearest, planner

    kinds = {"mlp": mlp.from_file, "gaussian": gaussian.from_file, "chosen": chosen.from_file}
    return {**kinds, "planner": planner.from_file, "nearest": nearest.from_file}


def space_of(
    normaliser: Normaliser | None, bounds: tuple[ArrayLike, ArrayLike], observation: int, action: int, where: str
) -> Space:
    """A normaliser and bounds that fit networks of these sizes; refused where they do not."""
    normaliser = normaliser or Normaliser.identity(observation)
    _check_normaliser(normaliser, observation, where)
    low, high = map(float32, bounds)
    fits = all(bound.shape in ((), (action,)) for bound in (low, high))
    with np.errstate(over="ignore", invalid="ignore"):
        sensible = fits and np.isfinite(high - low).all() and (low < high).all()
    if not sensible:
        raise InputError(
            f"bounds {low.tolist()} to {high.tolist()}",
            where=where,
            expected=f"finite low < high, one number or {action} of them",
            fix="give the bounds of the action space",
        )
    return Space(normaliser, np.broadcast_to(low, (action,)), np.broadcast_to(high, (action,)))


def _check_normaliser(normaliser: Normaliser, size: int, where: str) -> None:
    shapes = normaliser.mean.shape, normaliser.scale.shape
    if shapes != ((size,), (size,)):
        raise InputError(
            f"the normaliser is for observations of {shapes[0][0] if len(shapes[0]) == 1 else shapes} numbers",
            where=where,
            expected=f"a mean and a scale of {size}, the inputs of the first layer",
            fix="fit the normaliser on the observations that the network was trained on",
        )
    finite = np.isfinite(normaliser.mean).all() and np.isfinite(normaliser.scale).all()
    if not finite or not (normaliser.scale > 0).all():
        raise InputError(
            "the normaliser's mean or scale is NaN or infinite, or its scale is not above 0",
            where=where,
            expected="finite numbers, and scales above 0",
            fix="fit the normaliser on finite observations",
        )


def onto_bounds(share: Float32s, space: Space) -> Float32s:
    """From [-1, 1] linearly onto the bounds."""
    part = (share + np.float32(1)) * np.float32(0.5)
    return np.asarray(space.action_low + part * (space.action_high - space.action_low))


def _policy_file(path: Path) -> Path:
    """The file itself, or the only one in a directory; which of several seeds is meant is the caller's to say."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"policies/*{SUFFIX}")) or sorted(path.glob(f"*{SUFFIX}"))
    if len(found) == 1:
        return found[0]
    raise InputError(
        f"this is a directory with {len(found)} policies" if found else "this is a directory without policies",
        where=path,
        expected="a policy file, or a directory with a single one",
        fix=f"name one of them, such as {found[0]}" if found else "name the run's directory, once it has ended",
    )


def _read(path: Path | str) -> tuple[Mapping[str, Any], dict[str, Float32s]]:
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, LARGEST)
        with safe_open(path, framework="numpy") as file:
            return _facts(file.metadata() or {}), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="a policy file", fix="check the path") from error
    except (SafetensorError, OSError, *UNKNOWN_TYPE) as error:
        raise InputError(
            f"not a readable policy: {error}",
            where=path,
            expected="a .safetensors file written by Policy.save",
            fix="save the policy again",
        ) from error


def _facts(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """What a file says about itself; in older ones every fact has an entry of its own."""
    try:
        found = parsed_json(metadata.get("facts", "null"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else metadata
