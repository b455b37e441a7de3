"""The shipped behaviour policies: stochastic actors from which locomotion data is regenerated."""

import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

import numpy as np

from stacq.data.registry import BODIES
from stacq.errors import InputError
from stacq.policies.networks import forward
from stacq.types import Float32s, Floats

LOG_STD_RANGE = (-20.0, 2.0)
PREFIX = "behaviour/"  # how the command line names these policies: behaviour/hopper-medium


@dataclass(frozen=True, eq=False)
class TanhGaussian:
    """A soft actor-critic actor: Gaussian with a learned spread, squashed by tanh into (-1, 1)."""

    weights: tuple[Float32s, ...]
    biases: tuple[Float32s, ...]

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
        return np.tanh(mean + np.exp(np.clip(log_std, *LOG_STD_RANGE)) * noise)


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
    with as_file(_file(body)) as path, np.load(path, allow_pickle=False) as archive:
        weights = tuple(archive[f"{tag}/w{layer}"].astype(np.float32) for layer in range(3))
        biases = tuple(archive[f"{tag}/b{layer}"].astype(np.float32) for layer in range(3))
    return TanhGaussian(weights, biases)


@cache
def tags(body: str) -> tuple[str, ...]:
    """Every policy of a body, replay snapshots in training order."""
    with as_file(_file(body)) as path, zipfile.ZipFile(path) as archive:
        return tuple(sorted({name.rsplit("/", 1)[0] for name in archive.namelist()}))


def snapshots(body: str) -> tuple[str, ...]:
    return tuple(tag for tag in tags(body) if tag.startswith("replay/"))


def _file(body: str) -> Traversable:
    return files("stacq.data") / "behaviours" / f"{body}.npz"
