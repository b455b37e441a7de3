"""The one place where observations are scaled, and the only epsilon that does it."""

from dataclasses import dataclass

import numpy as np

from stacq.core.types import Float32s, Floats

EPSILON = 1e-3  # D4RL practice: (s - mean) / (std + 1e-3)


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Shift and scale per observation dimension; fitted once, it travels with every artefact."""

    mean: Float32s  # [S]
    scale: Float32s  # [S], the standard deviation plus epsilon

    @staticmethod
    def fit(observations: Floats) -> "Normaliser":
        """From observations alone, never from successors, as every published baseline does."""
        mean = observations.mean(axis=0, dtype=np.float64)
        std = observations.std(axis=0, dtype=np.float64)
        # A dimension that never changed tells nothing: a sensor that drifts later must not drown all others.
        still = observations.min(axis=0) == observations.max(axis=0)
        return Normaliser(mean.astype(np.float32), np.where(still, 1, std + EPSILON).astype(np.float32))

    @staticmethod
    def identity(size: int) -> "Normaliser":
        return Normaliser(np.zeros(size, dtype=np.float32), np.ones(size, dtype=np.float32))

    @property
    def is_identity(self) -> bool:
        """Whether states are shown as they are."""
        return not self.mean.any() and bool((self.scale == 1).all())

    def apply(self, observations: Floats) -> Float32s:
        return ((observations - self.mean) / self.scale).astype(np.float32)

    def invert(self, normalised: Floats) -> Float32s:
        return (normalised * self.scale + self.mean).astype(np.float32)
