"""How far trained policies depart from the recorded actions, by direction of action space, and how they score.

    python research/departures.py DATA MODELS RUN...

DATA is a file or name, MODELS are dynamics of it, each RUN is a finished run on it. Directions are those of
`soft_directions.py`: eigenvectors of J'J, J = df/da of the forward ensemble, from the softest, in which an action moves
the next state least, to the stiffest. With `--actor FILE.npz:TAG` the mean action of the policy that recorded the data
is looked at too.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pull_stiffness import jacobians
from soft_directions import AT_BOUND, ROWS, directions, mean_action

from stacq import Dataset, evaluate, load
from stacq.core.types import Float32s, Floats
from stacq.core.workers import WorkerPool
from stacq.data.behaviour import read_actor
from stacq.dynamics.models import Dynamics
from stacq.report.statistics import describe
from stacq.runs.finished import final_policies

FIRST_SEED = 1_000


class Look(NamedTuple):
    """Some rows of the data, and the directions there."""

    observations: Floats  # [N, S]
    recorded: Floats  # [N, A]
    axes: Floats  # [N, A, A], softest first in the columns


def look_at(dataset: Dataset, dynamics: Dynamics) -> Look:
    rows = np.random.default_rng(0).choice(np.flatnonzero(dataset.successor_known), ROWS, replace=False)
    observations, recorded = dataset.observations[rows], dataset.actions[rows]
    s, a = jnp.asarray(dynamics.normaliser.apply(observations)), jnp.asarray(recorded, jnp.float32)
    slopes = np.asarray(jax.jit(jacobians)(dynamics.models, s, a))
    charges = np.linalg.eigvalsh(np.einsum("nsa,nsb->nab", slopes, slopes) / slopes.shape[1])
    print("charge for a unit of action: " + ", ".join(f"{each:.2g}" for each in np.median(charges, axis=0)))
    return Look(observations, recorded, np.asarray(jax.jit(directions)(dynamics.models, s, a)))


def facts(look: Look, actions: Float32s) -> str:
    away = np.sqrt((np.einsum("na,nab->nb", actions - look.recorded, look.axes) ** 2).mean(axis=0))
    edge = (np.abs(actions) > AT_BOUND).mean()
    return ", ".join(f"{each:.2f}" for each in away) + f"; {edge:.0%} at a bound"


def report(run: Path, look: Look, env: str, episodes: int, pool: WorkerPool) -> None:
    """A line per seed, and the score over seeds."""
    print(run)
    scores = []
    for seed, policy in final_policies(run).items():
        records = evaluate(policy, env, episodes, FIRST_SEED + seed, pool=pool)
        scores.append(np.mean([record.score for record in records if record.score is not None]))
        steps = np.mean([record.length for record in records])
        away = facts(look, policy(look.observations))
        print(f"  seed {seed}: {away}; score {scores[-1]:.1f}, {steps:.0f} steps", flush=True)
    over = describe(scores)
    print(f"  score {over.mean:.1f} ± {over.std:.1f} ({over.low:.1f} to {over.high:.1f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("models", type=Path)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--actor", help="FILE.npz:TAG of the policy that recorded")
    parser.add_argument("--episodes", type=int, default=50, help="of each seed")
    chosen = parser.parse_args()
    dataset = load(chosen.data)
    assert dataset.env_id is not None
    look = look_at(dataset, Dynamics.load(chosen.models))
    print(f"recorded: {facts(look, look.recorded)}")
    if chosen.actor:
        path, _, tag = chosen.actor.rpartition(":")
        print(f"mean of who recorded: {facts(look, mean_action(read_actor(Path(path), tag), look.observations))}")
    with WorkerPool() as pool:
        for run in chosen.runs:
            report(run, look, dataset.env_id, chosen.episodes, pool)


if __name__ == "__main__":
    main()
