"""Small recordings on a line, and forward models whose Gaussians are known."""

import jax.numpy as jnp
import numpy as np

from stacq.core.types import Float64s, Floats
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.nn.mlp import MLP


def line(episodes: list[list[float]], rewards: list[list[float]], ends: str) -> Dataset:
    """Recordings of places on a line, one reward less each; the action is the move. `ends`: t(erminal), o (timeout)."""
    s = [[place] for places in episodes for place in places[:-1]]
    s_next = [[place] for places in episodes for place in places[1:]]
    last = np.concatenate([np.arange(len(places) - 1) == len(places) - 2 for places in episodes])
    kind = np.concatenate([[end] * (len(places) - 1) for end, places in zip(ends, episodes, strict=True)])
    return from_arrays(
        np.array(s, np.float32),
        np.array(s_next, np.float32) - np.array(s, np.float32),
        np.concatenate(rewards).astype(np.float32),
        last & (kind == "t"),
        timeouts=last & (kind == "o"),
        next_observations=np.array(s_next, np.float32),
        conventions=Conventions(action_low=-4.0, action_high=4.0, name="line"),
    )


def moving(steps: list[float], log_deviations: list[float]) -> MLP:
    """Members for states of one number: a Gaussian around s + step, of its own deviation each."""
    members = len(steps)
    weights = jnp.tile(jnp.asarray([[1.0, 0.0]]), (members, 1, 1))
    return MLP((weights,), (jnp.stack([jnp.asarray(steps), jnp.asarray(log_deviations)], axis=1),))


def bell(x: float, sigma: float) -> float:
    return float(np.exp(-0.5 * (x / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi)))


def jumps_by_loops(
    dataset: Dataset, steps: list[float], sigmas: list[float], values: Floats, radius: float, between_only: bool
) -> list[int]:
    """The rule as it is told, pair by pair, with densities of members that move every dimension by the same."""
    found = []
    episode = [number for number, length in enumerate(dataset.lengths) for _ in range(length)]
    for i in range(len(dataset)):
        best = i
        if dataset.successor_known[i]:
            s, own = dataset.observations[i], dataset.next_observations[i]
            bar = np.mean([product(own - s - step, sigma) for step, sigma in zip(steps, sigmas, strict=True)])
            for j in range(len(dataset)):
                if not dataset.successor_known[j] or (between_only and episode[i] == episode[j]):
                    continue
                there = dataset.next_observations[j]
                near = np.linalg.norm(dataset.observations[j] - s) <= radius or np.linalg.norm(there - own) <= radius
                least = min(product(there - s - step, sigma) for step, sigma in zip(steps, sigmas, strict=True))
                if near and least > bar and values[j] > values[best]:
                    best = j
        found.append(best)
    return found


def product(gap: Floats, sigma: float) -> float:
    numbers: Float64s = np.asarray(gap, np.float64)
    return float(np.prod([bell(float(each), sigma) for each in numbers]))
