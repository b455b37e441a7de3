"""The policy that samples actions and takes the one its critic values most."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s
from stacq.policies.networks import Layers, stored_layers
from stacq.policies.policy import Policy, onto_bounds, space_of

WHERE = "a policy that samples and chooses"
PARTS = ("decoder", "correction", "critic")


@dataclass(frozen=True, eq=False)
class ChosenPolicy(Policy):
    """Actions are decoded from a clipped Gaussian latent, corrected a little, and judged by one critic."""

    decoder: Layers  # [S + Z] -> [A], squashed by tanh
    correction: Layers  # [S + A] -> [A], squashed by tanh and scaled by `reach`
    critic: Layers  # [S + A] -> [1]
    samples: int = 100
    reach: float = 0.05
    latent_clip: float = 0.5
    kind: ClassVar[str] = "chosen"

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        """Without a generator the samples are those of seed 0: the same observation gets the same action."""
        rng = np.random.default_rng(0) if rng is None else rng
        latent = rng.standard_normal((*seen.shape[:-1], self.samples, self.latent_size), dtype=np.float32)
        latent = np.clip(latent, -self.latent_clip, self.latent_clip)
        a = np.tanh(_of_each(self.decoder, seen, latent))
        a = np.clip(a + np.float32(self.reach) * np.tanh(_of_each(self.correction, seen, a)), -1, 1)
        best = _of_each(self.critic, seen, a)[..., 0].argmax(axis=-1)
        chosen = np.take_along_axis(a, best[..., None, None], axis=-2)[..., 0, :]
        return onto_bounds(chosen, self.space)

    @property
    def latent_size(self) -> int:
        return self.decoder.inputs - self.observation_size

    def arrays(self) -> dict[str, Float32s]:
        parts = zip(PARTS, (self.decoder, self.correction, self.critic), strict=True)
        return {name: array for part, layers in parts for name, array in layers.arrays(f"{part}.").items()}

    def facts(self) -> dict[str, Any]:
        return {"samples": self.samples, "reach": self.reach, "latent_clip": self.latent_clip}


def _of_each(layers: Layers, s: Float32s, many: Float32s) -> Float32s:
    """The outputs on [s, x] for every x of `many`, [..., K, X]: the first layer multiplies s once, not K times.

    A robot waits for every action, so sums and ReLUs are made in place.
    """
    first, size = layers.weights[0], s.shape[-1]
    hidden = many @ first[size:]
    hidden += (s @ first[:size] + layers.biases[0])[..., None, :]
    for weight, bias in zip(layers.weights[1:], layers.biases[1:], strict=True):
        np.maximum(hidden, 0, out=hidden)
        hidden = hidden @ weight
        hidden += bias
    return hidden


def from_file(
    arrays: Mapping[str, Float32s],
    facts: Mapping[str, Any],
    normaliser: Normaliser,
    bounds: tuple[ArrayLike, ArrayLike],
) -> ChosenPolicy:
    decoder, correction, critic = (stored_layers(arrays, WHERE, f"{part}.") for part in PARTS)
    observation, action = len(normaliser.mean), decoder.outputs
    pair = observation + action
    sizes = decoder.inputs > observation, correction.inputs == pair, critic.inputs == pair, critic.outputs == 1
    if not all(sizes) or correction.outputs != action or int(facts["samples"]) < 1:
        raise InputError(
            "its networks do not fit each other",
            where=WHERE,
            expected="decoder [S + Z] to [A], correction [S + A] to [A], critic [S + A] to [1], at least one sample",
            fix="save it again",
        )
    space = space_of(normaliser, bounds, observation, action, WHERE)
    numbers = int(facts["samples"]), float(facts["reach"]), float(facts["latent_clip"])
    return ChosenPolicy(space, decoder, correction, critic, *numbers)
