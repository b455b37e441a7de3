"""Why does a StaCQ policy fall? Its departures from the data by direction of action space, and a swap in the simulator.

    python research/soft_directions.py walker2d MODELS RUN

MODELS are dynamics of stacq/BODY-medium-v0, RUN a directory that `stacq train` left, finished or stopped: its newest
checkpoint is read. Directions are the eigenvectors of J'J, J = df/da of the forward ensemble, from the softest, in
which an action moves the next state least, to the stiffest (`pull_stiffness.py`: what a pull to a state charges there).

The first part is measured in states of the data: how far the policy's action is from the recorded one, how wrong the
models are about it, and how much of the value that it is promised there remains when the simulator takes the step. The
second drives the simulator by the policy with some directions handed over to the mean action of the policy that
recorded the data. Two cores need about ten minutes.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pull_stiffness import jacobians
from reachability_truth import BODIES

from stacq import load
from stacq.algos.common import act
from stacq.algos.stacq import Config, actor_value
from stacq.core.artefacts import read_artefact
from stacq.core.types import Bools, Float32s, Floats
from stacq.data.behaviour import TanhGaussian, load_behaviour
from stacq.data.registry import task_of
from stacq.data.tasks import normalised_score
from stacq.dynamics.models import Dynamics, Models, forward_mean
from stacq.envs.gym import make_env
from stacq.envs.simulator import Simulator
from stacq.nn.mlp import MLP
from stacq.runs.finished import CONFIG
from stacq.training.checkpoints import KIND
from stacq.training.resume import CHECKPOINTS

ROWS = 1_500
AT_BOUND = 0.99
EPISODES, FIRST_SEED = 4, 1_000  # per seed of the run


class Learned(NamedTuple):
    """Networks of every seed of a run, [K, ...]."""

    actor: MLP
    critic: MLP  # [K, M, ...]
    config: Config


def learned(run: Path) -> Learned:
    """From the newest checkpoint, by the names of its arrays."""
    newest = max(path for path in (run / CHECKPOINTS).iterdir() if path.name.isdigit())
    arrays = read_artefact(newest, KIND).arrays
    config = Config(**json.loads((run / CONFIG).read_text(encoding="utf-8"))["config"])

    def network(part: str, *, layer_norm: bool = False) -> MLP:
        layers = [
            [jnp.asarray(arrays[name]) for name in sorted(arrays) if f"state.{part}.network.{kind}[" in name]
            for kind in ("weights", "biases")
        ]
        return MLP(tuple(layers[0]), tuple(layers[1]), layer_norm)

    print(f"{run.name}, step {int(newest.name):,}")
    return Learned(network("actor"), network("critic", layer_norm=config.layer_norm), config)


def of_seed(network: MLP, seed: int) -> MLP:
    one: MLP = jax.tree.map(lambda values: values[seed], network)
    return one


def directions(models: Models, s: jax.Array, a: jax.Array) -> jax.Array:
    """Unit vectors in the columns, softest first, [N, A, A]."""
    slopes = jacobians(models, s, a)
    found: jax.Array = jnp.linalg.eigh(jnp.einsum("nsa,nsb->nab", slopes, slopes))[1]
    return found


def mean_action(behaviour: TanhGaussian, observations: Floats) -> Float32s:
    return np.tanh(behaviour.gaussian(observations)[0])


def on_the_data(body: str, dynamics: Dynamics, networks: Learned) -> Iterator[str]:
    dataset = load(f"stacq/{body}-medium-v0", infos=("qpos", "qvel"))
    rows = np.flatnonzero(dataset.successor_known & ~dataset.terminals)
    rows = np.random.default_rng(0).choice(rows, ROWS, replace=False)
    normalised = dynamics.normaliser.apply
    observations, recorded = dataset.observations[rows], dataset.actions[rows]
    s, s_next = jnp.asarray(normalised(observations)), jnp.asarray(normalised(dataset.next_observations[rows]))
    axes = np.asarray(jax.jit(directions)(dynamics.models, s, jnp.asarray(recorded)))
    simulator = Simulator(BODIES[body])
    states = [np.asarray(dataset.infos[name][rows], np.float64) for name in ("qpos", "qvel")]
    predict = jax.jit(lambda a: forward_mean(dynamics.models, s, a))

    def landed(actions: Float32s) -> Float32s:
        """Where the simulator goes, normalised."""
        seen = [simulator.next_observation(*at) for at in zip(*states, actions.astype(np.float64), strict=True)]
        return normalised(np.array(seen, np.float32))

    def facts(actions: Float32s) -> str:
        away = np.sqrt((np.einsum("na,nab->nb", actions - recorded, axes) ** 2).mean(axis=0))
        wrong = np.sqrt(((np.asarray(predict(jnp.asarray(actions))) - landed(actions)) ** 2).mean())
        edge = (np.abs(actions) > AT_BOUND).mean()
        parts = ", ".join(f"{each:.2f}" for each in away)
        return f"from the recorded action {parts}; {edge:.0%} at a bound; models wrong by {wrong:.4f}"

    yield f"recorded: {facts(recorded)}"
    yield f"mean of the behaviour: {facts(mean_action(load_behaviour(body, 'medium'), observations))}"
    for seed in range(networks.actor.members):
        actor, critic = of_seed(networks.actor, seed), of_seed(networks.critic, seed)
        actions = np.asarray(act(actor, s))
        there = s_next, predict(jnp.asarray(actions)), jnp.asarray(landed(actions))
        own, promised, kept = (float(actor_value(critic, s, each, networks.config).mean()) for each in there)
        yield f"seed {seed}: {facts(actions)}; value {own:.1f}, promised {promised - own:+.2f}, kept {kept - own:+.2f}"


def in_the_simulator(body: str, dynamics: Dynamics, networks: Learned) -> Iterator[str]:
    task, behaviour = task_of(BODIES[body]), load_behaviour(body, "medium")
    assert task is not None and task.env_id is not None
    seeds = np.repeat(np.arange(networks.actor.members), EPISODES)
    actors: MLP = jax.tree.map(lambda values: values[seeds], networks.actor)
    envs = [make_env(task.env_id) for _ in seeds]
    size = task.action_size

    @jax.jit
    def mixed(s: jax.Array, mean: jax.Array, handed_over: jax.Array) -> jax.Array:
        a = jax.vmap(act)(actors, s)
        axes = directions(dynamics.models, s, mean)
        share = jnp.einsum("nab,na->nb", axes, mean - a) * handed_over
        return jnp.clip(a + jnp.einsum("nab,nb->na", axes, share), -1, 1)

    def driven(handed_over: Bools) -> str:
        seen = np.stack([env.reset(seed=FIRST_SEED + place)[0] for place, env in enumerate(envs)])
        earned, length, up = np.zeros(len(envs)), np.zeros(len(envs)), np.ones(len(envs), bool)
        while up.any():
            s, mean = dynamics.normaliser.apply(seen.astype(np.float32)), mean_action(behaviour, seen)
            actions = np.asarray(mixed(jnp.asarray(s), jnp.asarray(mean), jnp.asarray(handed_over, jnp.float32)))
            for place in np.flatnonzero(up):
                seen[place], reward, fallen, late, _ = envs[place].step(actions[place])
                earned[place] += reward
                length[place] += 1
                up[place] = not (fallen or late)
        scores = np.array([normalised_score(task, each) for each in earned]).reshape(-1, EPISODES).mean(axis=1)
        by_seed = " ".join(f"{each:.0f}" for each in scores)
        return f"score {scores.mean():.1f} (by seed {by_seed}), {length.mean():.0f} steps"

    place = np.arange(size)
    yield f"the policy: {driven(place < 0)}"
    for count in range(1, size):
        yield f"the softest {count} handed over: {driven(place < count)}"
    for count in range(1, size):
        yield f"the stiffest {count} handed over: {driven(place >= size - count)}"
    yield f"all handed over: {driven(place >= 0)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("body", choices=["hopper", "walker2d", "halfcheetah"])
    parser.add_argument("models", type=Path)
    parser.add_argument("run", type=Path)
    chosen = parser.parse_args()
    dynamics, networks = Dynamics.load(chosen.models), learned(chosen.run)
    for part in (on_the_data, in_the_simulator):
        for line in part(chosen.body, dynamics, networks):
            print(line, flush=True)


if __name__ == "__main__":
    main()
