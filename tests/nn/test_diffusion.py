"""Noise on windows and its undoing, against float64 loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stacq.core.types import Float64s
from stacq.nn.diffusion import Guide, Schedule, cosine_schedule, fixed_places, held, noised, undone


def by_loop(steps: int) -> dict[str, list[float]]:
    """From the definitions: alpha bar of the cosine schedule, steps cut at 0.999, Bayes' rule for the step before."""

    def curve(place: int) -> float:
        x = (steps + 1) * place / steps  # the published code spreads T + 1 points from 0 to T + 1
        return float(np.cos((x / (steps + 1) + 0.008) / 1.008 * np.pi / 2) ** 2)

    found: dict[str, list[float]] = {name: [] for name in Schedule._fields}
    kept = 1.0
    for t in range(steps):
        beta, before = min(1 - curve(t + 1) / curve(t), 0.999), kept
        kept *= 1 - beta
        # q(x_{t-1} | x_t, x_0): a Gaussian prior of mean sqrt(before) x_0, seen through sqrt(1 - beta) and noise beta
        prior, seen = (1 - before), beta / (1 - beta)
        share = prior / (prior + seen)
        found["beta"].append(beta)
        found["kept"].append(kept)
        found["of_clean"].append((1 - share) * np.sqrt(before))
        found["of_noisy"].append(share / np.sqrt(1 - beta))
        found["variance"].append(max(prior * (1 - share), 1e-20))
    return found


@pytest.mark.parametrize("steps", [1, 3, 20])
def test_the_schedule_and_the_posterior(steps: int) -> None:
    for name, values in by_loop(steps).items():
        found = getattr(cosine_schedule(steps), name)
        assert found.dtype == np.float32 and found.shape == (steps,)
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-7)
    assert cosine_schedule(20).kept[-1] < 1e-3 and cosine_schedule(20).kept[0] > 0.98


def test_noise_on_a_window() -> None:
    rng = np.random.default_rng(0)
    x, noise, t = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4, 2)), [0, 7, 19]
    kept = by_loop(20)["kept"]
    wanted = [np.sqrt(kept[k]) * x[i] + np.sqrt(1 - kept[k]) * noise[i] for i, k in enumerate(t)]
    found = noised(cosine_schedule(20), jnp.asarray(x), jnp.asarray(t), jnp.asarray(noise))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_is_known_is_never_noisy() -> None:
    fixed = fixed_places(4, 1, 3, goal=False)
    assert fixed.sum() == 2 and fixed[0].tolist() == [False, True, True]
    assert fixed_places(4, 1, 3, goal=True)[[0, -1]].tolist() == [[False, True, True]] * 2
    assert fixed_places(1, 1, 3, goal=True).sum() == 2
    np.testing.assert_array_equal(held(jnp.zeros((4, 3)), jnp.ones((4, 3)), fixed), fixed.astype(np.float32))


STEPS, HORIZON, SIZE = 5, 4, 3
FIXED = fixed_places(HORIZON, 1, SIZE, goal=True)
DRAWS = np.random.default_rng(1).normal(size=(STEPS + 1, 2, HORIZON, SIZE))
KNOWN = np.random.default_rng(2).normal(size=(2, HORIZON, SIZE))


def plans_by_loop(start: int, scale: float, pushes: int, until: int) -> tuple[Float64s, Float64s]:
    """J = -sum (x - 1)^2 (t + 1), and a network that says tanh(x) / (t + 1)."""
    told, x = by_loop(STEPS), np.where(FIXED, KNOWN, DRAWS[STEPS])
    value = np.zeros(2)
    for t in reversed(range(start)):
        for _ in range(pushes if t >= until else 0):
            gradient = -2 * (x - 1) * (t + 1)
            x = np.where(FIXED, KNOWN, x + scale * told["variance"][t] * gradient)
        value = -((x - 1) ** 2).sum(axis=(1, 2)) * (t + 1)
        mean = told["of_clean"][t] * np.tanh(x) / (t + 1) + told["of_noisy"][t] * x
        x = np.where(FIXED, KNOWN, mean + (np.sqrt(told["variance"][t]) * DRAWS[t] if t else 0))
    return x, value


@pytest.mark.parametrize(("start", "scale", "pushes", "until"), [(5, 0.3, 2, 2), (5, 0.3, 1, 0), (3, 0.1, 2, 4)])
def test_undoing_the_noise(start: int, scale: float, pushes: int, until: int) -> None:
    def value(x: jax.Array, t: jax.Array) -> jax.Array:
        return -((x - 1) ** 2).sum(axis=(1, 2)) * (t + 1)

    def hold(x: jax.Array) -> jax.Array:
        return held(x, jnp.asarray(KNOWN, jnp.float32), FIXED)

    def noise(t: Any) -> jax.Array:
        return jnp.asarray(DRAWS, jnp.float32)[t]

    def denoise(x: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.tanh(x) / (t + 1)

    found = undone(
        noise(STEPS), start, cosine_schedule(STEPS), denoise, Guide(value, scale, pushes, until), hold, noise
    )
    for ours, theirs in zip(found, plans_by_loop(start, scale, pushes, until), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(found[0])[:, FIXED], KNOWN.astype(np.float32)[:, FIXED])
