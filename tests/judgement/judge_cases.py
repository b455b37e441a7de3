"""A chain of states whose values are known, small judges, and a policy of every kind."""

import functools

import numpy as np

from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import fit
from stacq.dynamics.models import Dynamics
from stacq.dynamics.recipes import FitConfig
from stacq.judgement.config import FQEConfig, JudgeConfig, OutcomeConfig
from stacq.policies import ChosenPolicy, GaussianPolicy, Layers, MLPPolicy, Policy
from stacq.policies.gaussian import gaussian_policy
from stacq.policies.policy import Space

LENGTH = 5  # states 0 to 4; the task ends on the last one, which pays 1
DISCOUNT = 0.9
QUICK = JudgeConfig(
    discount=DISCOUNT,
    starts=4,
    horizon=12,
    fqe=FQEConfig(members=2, hidden=(32,), steps=1_200, first_steps=300, batch=64, learning_rate=3e-3),
    outcome=OutcomeConfig(hidden=(32,), steps=1_500),
)


@functools.cache
def chain(episodes: int = 150, seed: int = 0) -> Dataset:
    """One-hot places; an action above 0 goes right, another left. Uniform actions, each of -1 and 1 about as often."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[object]] = {name: [] for name in ("s", "a", "r", "s_next", "terminal", "timeout")}
    for _ in range(episodes):
        place = int(rng.integers(0, LENGTH - 1))
        for step in range(12):
            action = float(rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1.0))
            after = min(max(place + (1 if action > 0 else -1), 0), LENGTH - 1)
            over = after == LENGTH - 1
            values = (onehot(place), [action], float(over), onehot(after), over, not over and step == 11)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
            place = after
            if over:
                break
    arrays = {name: np.array(values) for name, values in rows.items()}
    return from_arrays(
        arrays["s"].astype(np.float32),
        arrays["a"].astype(np.float32),
        arrays["r"].astype(np.float32),
        terminals=arrays["terminal"].astype(bool),
        timeouts=arrays["timeout"].astype(bool),
        next_observations=arrays["s_next"].astype(np.float32),
        conventions=Conventions(name="chain"),
    )


def onehot(place: int) -> list[float]:
    return [float(place == each) for each in range(LENGTH)]


@functools.cache
def models() -> Dynamics:
    config = FitConfig(forward_members=2, inverse_members=1, hidden=(64,), max_epochs=60, batch=32)
    return fit(chain(), config).dynamics


def always(action: float) -> MLPPolicy:
    """The same action everywhere."""
    return Policy.from_mlp([np.zeros((LENGTH, 1))], [np.array([np.arctanh(action)])])


def exact_value(right: bool, start: int) -> float:
    """Discounted reward of going right, or left, for ever: the last place pays 1 on arrival."""
    return DISCOUNT ** (LENGTH - 2 - start) if right else 0.0


def every_kind() -> dict[str, Policy]:
    rng = np.random.default_rng(0)
    space = Space(always(0.5).space.normaliser, np.full(1, -1, np.float32), np.full(1, 1, np.float32))

    def layers(inputs: int, outputs: int) -> Layers:
        return Layers((rng.standard_normal((inputs, outputs)).astype(np.float32),), (np.zeros(outputs, np.float32),))

    chosen = ChosenPolicy(space, layers(LENGTH + 2, 1), layers(LENGTH + 1, 1), layers(LENGTH + 1, 1), samples=3)
    gaussian: GaussianPolicy = gaussian_policy([np.zeros((LENGTH, 2))], [np.zeros(2)])
    return {"mlp": always(0.8), "gaussian": gaussian, "chosen": chosen}
