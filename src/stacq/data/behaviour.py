"""Stochastic actors that record data: the shipped behaviour policies, and others of their kind from a file."""

import zipfile
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from stacq.core.archives import BrokenArchive, opened
from stacq.core.errors import InputError
from stacq.core.types import Array, Float32s, Floats
from stacq.data.registry import BODIES
from stacq.policies import Policy
from stacq.policies.networks import forward

LOG_STD_RANGE = (-20.0, 2.0)
WALKER_LOG_STD_RANGE = (-10.0, 2.0)
PREFIX = "behaviour/"  # how the command line names these policies: behaviour/hopper-medium


@dataclass(frozen=True, eq=False)
class TanhGaussian:
    """A soft actor-critic actor: Gaussian with a learned spread, squashed by tanh into (-1, 1)."""

    weights: tuple[Float32s, ...]
    biases: tuple[Float32s, ...]
    log_std_range: tuple[float, float] = LOG_STD_RANGE

    @property
    def observation_size(self) -> int:
        return int(self.weights[0].shape[0])

    @property
    def action_size(self) -> int:
        return int(self.weights[-1].shape[1]) // 2

    def gaussian(self, observation: Floats) -> tuple[Float32s, Float32s]:
        """Mean and logarithm of the spread, before they are squashed and before the latter is clipped."""
        output = forward(self.weights, self.biases, observation.astype(np.float32))
        return output[..., : self.action_size], output[..., self.action_size :]

    def __call__(self, observation: Floats, rng: np.random.Generator) -> Float32s:
        """Sample, as the recordings did; the mean action would visit far fewer states."""
        mean, log_std = self.gaussian(observation)
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        return np.tanh(mean + np.exp(np.clip(log_std, *self.log_std_range)) * noise)

    def mode(self, observation: Floats) -> Float32s:
        """The action without chance: the squashed mean."""
        mean: Float32s = np.tanh(self.gaussian(observation)[0])
        return mean


@dataclass(frozen=True)
class Uniform:
    """Actions drawn evenly from (-1, 1)."""

    action_size: int

    def __call__(self, observation: Floats, rng: np.random.Generator) -> Float32s:
        return rng.uniform(-1.0, 1.0, self.action_size).astype(np.float32)


@cache
def load_behaviour(body: str, tag: str) -> TanhGaussian:
    """The actor of one body: `medium`, `expert`, or `replay/NNNNNNN`, a snapshot after that many steps."""
    if body not in BODIES or tag not in tags(body):
        known = ", ".join(f"{PREFIX}{name}-{kind}" for name in BODIES for kind in ("medium", "expert"))
        raise InputError(f"no behaviour policy '{body}-{tag}'", expected=f"one of {known}", fix="check the name")
    with as_file(_file(body)) as path:
        return read_actor(path, tag)


@cache
def load_walker() -> TanhGaussian:
    """The ant's controller. It sees positions without the place, velocities, and a direction of length 10."""
    with as_file(_file("ant")) as path:
        return replace(read_actor(path, "goal"), log_std_range=WALKER_LOG_STD_RANGE)


def read_actor(path: Path, tag: str) -> TanhGaussian:
    """The actor under `TAG/w0, TAG/b0, ...` of an .npz file, with weights as [inputs, outputs].

    The last layer gives the means and then the logarithms of the spreads, so it is twice as wide as the action.
    """
    try:
        with opened(path) as archive:
            held = {name.rsplit("/", 1)[0] for name in archive.names if name.endswith("/w0")}
            names = {name: archive.header(name) for name in archive.names if name.rsplit("/", 1)[0] == tag}
            arrays = {name.rsplit("/", 1)[1]: values for name, values in archive.read(names).items()}
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="an .npz file of actors", fix="check the path") from error
    except (BrokenArchive, OSError) as error:
        raise InputError(
            f"not a readable NumPy archive: {error}",
            where=path,
            expected="an .npz file of plain arrays, as numpy.savez writes",
            fix="write it again with numpy.savez; objects (pickles) are refused",
        ) from error
    if tag not in held:
        raise InputError(
            f"no actor '{tag}'",
            where=path,
            expected="one of " + ", ".join(sorted(held)) if held else "arrays called TAG/w0, TAG/b0, TAG/w1, ...",
            fix=f"name it after the file: {path}:TAG",
        )
    return _actor(arrays, f"{path}:{tag}")


def _actor(arrays: dict[str, Array], where: str) -> TanhGaussian:
    """Checked as the layers of any policy are, and that there is a spread to every mean."""
    layers = range(sum(name.startswith("w") for name in arrays))
    try:
        weights, biases = ([arrays[f"{kind}{layer}"] for layer in layers] for kind in "wb")
        chain = Policy.from_mlp(weights, biases)
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"the actor is incomplete or no network: {error}",
            where=where,
            expected="numbers under w0, b0, w1, b1, ... without a gap",
            fix="write every layer",
        ) from error
    if chain.action_size % 2:
        raise InputError(
            f"the last layer gives {chain.action_size} numbers",
            where=where,
            expected="an even count: the means of the action, then the logarithms of the spreads",
            fix="a network without spreads is a stacq.Policy: save it with Policy.save",
        )
    return TanhGaussian(chain.weights, chain.biases)


@cache
def tags(body: str) -> tuple[str, ...]:
    """Every policy of a body, replay snapshots in training order."""
    with as_file(_file(body)) as path, zipfile.ZipFile(path) as archive:
        return tuple(sorted({name.rsplit("/", 1)[0] for name in archive.namelist()}))


def snapshots(body: str) -> tuple[str, ...]:
    return tuple(tag for tag in tags(body) if tag.startswith("replay/"))


def _file(body: str) -> Traversable:
    return files("stacq.data") / "behaviours" / f"{body}.npz"
