"""Steps per second of training on two cores, beside the same algorithms in eager PyTorch.

    pip install torch==2.13.0
    python benchmarks/training_speed.py

Both sides take turns in one process, on the same random data of a walking robot's sizes; medians are shown, and the
first turn of each, which compiles or warms up, is not counted. Nor are turns during which other processes took part
of the cores: PyTorch's threads wait for each other busily, and two of them on one core are many times slower. Five
seeds train side by side here and would be five runs one after the other there, so their steps are added up. The share
is of the rate that a large matrix product reaches in the same minutes.

The eager side is float32 throughout. On CPUs with instructions for bfloat16 our frozen ensemble is bfloat16 behind its
first layer, as it is in real runs; `--precision float32` leaves that out, so that both sides multiply the same numbers.

`--small` takes the sizes of the small preset, where five seeds on two cores are the thing to look at.

`--cores 1` counts processor time instead of seconds, and can therefore be trusted on a busy machine as well.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq import algos
from stacq.algos.algorithm import Sizes
from stacq.algos.world import Extras, World, pack_rows
from stacq.core.types import Array, Precision
from stacq.nn.mlp import frozen_for, init_ensemble
from stacq.nn.precision import PRECISIONS
from stacq.training.loop import Carry, compiled_advance, init_states, zero_sums

STATE, ACTION = 17, 6
ROWS = 100_000
PRODUCTS = 40
ROUNDS = 9
QUIET = 0.05  # share of the cores that other processes may take
PATIENCE = 300  # seconds
BAR = 1.5
Turn = Callable[[int], object]


class Shape(NamedTuple):
    """What decides how much work a step is."""

    batch: int
    slots: int
    hidden: tuple[int, ...]
    critics: int  # of StaCQ; TD3+BC has two
    models: int
    model_hidden: tuple[int, ...]
    turn: dict[str, int]  # steps


FULL = Shape(256, 256, (256, 256), 4, 7, (256, 256, 256), {"stacq": 8, "td3bc": 60})
SMALL = Shape(128, 128, (128, 128), 2, 3, (128, 128), {"stacq": 100, "td3bc": 400})


def data(rows: int = ROWS) -> dict[str, Array]:
    """Every row has one reachable state beside the own successor, so that all slots are used."""
    rng = np.random.default_rng(0)
    s = rng.standard_normal((rows, STATE))
    real = {
        "s": s,
        "a": rng.uniform(-1, 1, (rows, ACTION)),
        "r": rng.standard_normal(rows),
        "s_next": s + 0.1 * rng.standard_normal((rows, STATE)),
        "done": rng.random(rows) < 0.001,
    }
    whole = {"start": np.arange(rows), "size": np.ones(rows), "rows": rng.permutation(rows)}
    return {name: x.astype(np.float32) for name, x in real.items()} | {
        name: x.astype(np.int32) for name, x in whole.items()
    }


def make_world(arrays: dict[str, Array], shape: Shape = FULL, precision: Precision = "auto") -> World:
    on_device = {name: jnp.asarray(values) for name, values in arrays.items()}
    models = init_ensemble(jax.random.key(0), shape.models, (STATE + ACTION, *shape.model_hidden, STATE))
    rows = len(arrays["s"])
    return World(
        rows=pack_rows(*(arrays[name] for name in ("s", "a", "r", "s_next", "done"))),
        anchors=jnp.arange(rows, dtype=jnp.int32),
        usable=jnp.ones(rows, bool),
        chained=jnp.ones(rows, bool),
        ensemble=frozen_for(jax.default_backend(), models, precision),
        extras=Extras(on_device["start"], on_device["size"], on_device["rows"], None),
        precision=precision,
    )


def config(name: str, shape: Shape = FULL) -> Any:
    sizes: dict[str, Any] = {"batch": shape.batch, "hidden": shape.hidden}
    if name == "stacq":
        sizes |= {"slots": shape.slots, "critics": shape.critics}
    return algos.find(name).Config(**sizes)


def training(name: str, world: World, sizes: Sizes, cfg: Any, seeds: int) -> Turn:
    """A function that trains all seeds on by so many steps."""
    algorithm, numbers = algos.find(name), jnp.arange(seeds)
    updates = algorithm.phases(cfg)[0].updates
    state = init_states(algorithm, numbers, sizes, cfg)
    carry = Carry(state, zero_sums(updates, state, world, numbers, cfg), jnp.asarray(0, jnp.int32))
    advance = compiled_advance()

    def turn(steps: int) -> object:
        nonlocal carry
        carry = advance(carry, world, numbers, cfg, updates, steps // len(updates))
        return carry.step.block_until_ready()

    return turn


def theirs(name: str, arrays: dict[str, Array], shape: Shape) -> Turn:
    import torch

    import eager_torch

    tensors = eager_torch.Data({key: torch.from_numpy(values) for key, values in arrays.items()})
    cfg = config(name, shape)
    learner: Any
    if name == "stacq":
        models = eager_torch.ForwardModels(shape.models, STATE, ACTION, shape.model_hidden)
        learner = eager_torch.StaCQ(tensors, cfg.batch, cfg.slots, cfg.hidden, cfg.critics, models, cfg.steps)
    else:
        learner = eager_torch.TD3BC(tensors, cfg.batch, cfg.hidden, cfg.critics, cfg.actor_every)

    def turn(steps: int) -> object:
        for _ in range(steps):
            learner.step()
        return learner

    return turn


def matrix_product() -> Turn:
    square = jax.random.normal(jax.random.key(0), (1024, 1024))
    product = jax.jit(lambda x: x @ x)

    def turn(steps: int) -> object:
        for _ in range(steps):
            product(square).block_until_ready()
        return product

    return turn


def flops(name: str, cfg: Any, shape: Shape = FULL) -> float:
    """Of the matrix products in one step; a backward pass costs as much again for weights, and for inputs."""

    def network(*sizes: int) -> float:
        return sum(2.0 * inputs * outputs for inputs, outputs in pairwise(sizes))

    critics, every = int(cfg.critics), int(getattr(cfg, "actor_every", 1))
    batch, hidden = int(cfg.batch), tuple(map(int, cfg.hidden))
    actor, pair, act = network(STATE, *hidden, ACTION), 2 * STATE, STATE + ACTION
    if name == "td3bc":
        critic, into = network(act, *hidden, 1), 2.0 * act * hidden[0]
        learn = batch * (actor + critics * (critic + 3 * critic - into))
        return learn + batch * (3 * actor - 2 * STATE * hidden[0] + 2 * critic) / every
    critic, into = network(pair, *hidden, 1), 2.0 * pair * hidden[0]
    models = shape.models * network(act, *shape.model_hidden, STATE)
    pairs = batch + int(cfg.slots)
    reward = batch * (3 * critic - into) + pairs * critic
    target = pairs * (actor + models + critics * critic)
    learn = pairs * critics * (3 * critic - into)
    best = pairs * critics * critic
    climb = batch * (3 * actor - 2 * STATE * hidden[0] + 2 * models + 2 * critics * critic)
    return reward + target + learn + best + climb


def busy() -> float:
    """Seconds of processor time that the whole machine has spent, on all cores."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    spent = sum(int(fields[place]) for place in (0, 1, 2, 5, 6, 7))  # all but idle and waiting for disks
    return spent / os.sysconf("SC_CLK_TCK")


def timed(turn: Turn, steps: int, cores: int) -> tuple[float, bool]:
    """Steps per second, and whether other processes left the cores alone."""
    others, start, own = busy(), time.perf_counter(), time.process_time()
    turn(steps)
    seconds, own = time.perf_counter() - start, time.process_time() - own
    disturbance = (busy() - others - own) / (seconds * cores)
    return steps / (own if cores == 1 else seconds), cores == 1 or disturbance < QUIET


def alternated(turns: dict[str, tuple[Turn, int]], cores: int) -> tuple[dict[str, float], bool]:
    """Median steps per second of each, one turn of everyone after the other, and whether they may be trusted.

    Goes on until everyone had enough quiet turns; where patience ends first, all turns count and none proves a thing.
    """
    quiet: dict[str, list[float]] = {name: [] for name in turns}
    every: dict[str, list[float]] = {name: [] for name in turns}
    for turn, steps in turns.values():
        turn(steps)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and min(map(len, quiet.values())) < ROUNDS:
        for name, (turn, steps) in turns.items():
            rate, undisturbed = timed(turn, steps, cores)
            every[name].append(rate)
            quiet[name] += [rate] if undisturbed else []
    trusted = min(map(len, quiet.values())) >= ROUNDS
    return {name: statistics.median(found) for name, found in (quiet if trusted else every).items()}, trusted


def compare(name: str, arrays: dict[str, Array], shape: Shape, cores: int, precision: Precision) -> None:
    world, cfg, steps = make_world(arrays, shape, precision), config(name, shape), shape.turn[name]
    assert world.ensemble is not None
    turns = {"matrix": (matrix_product(), PRODUCTS)}
    for label, seeds in (("1 seed", 1), ("5 seeds", 5)):
        turns[label] = training(name, world, Sizes(STATE, ACTION), cfg, seeds), steps
    if find_spec("torch"):
        turns["torch"] = (theirs(name, arrays, shape), steps)
    rates, trusted = alternated(turns, cores)
    peak, step = rates["matrix"] * 2 * 1024**3, flops(name, cfg, shape)
    over_seeds = {label: rate * (5 if label == "5 seeds" else 1) for label, rate in rates.items() if label != "matrix"}
    kind = f", our frozen ensemble in {world.ensemble.weights[-1].dtype}" * (name == "stacq")
    print(f"{name}: {step / 1e9:.2f} GFLOP a step; a matrix product of 1,024 reaches {peak / 1e9:.0f} GFLOP/s{kind}")
    for label, rate in over_seeds.items():
        beside = f", {rate / over_seeds['torch']:.2f} times eager PyTorch" if "torch" in over_seeds else ""
        print(f"  {label:<8} {rate:8.1f} steps/s, {rate * step / peak:4.0%} of the matrix-product rate{beside}")
    if "torch" in over_seeds:
        print(f"  {verdict(over_seeds, trusted)}")
    print(f"  load averages {', '.join(f'{load:.1f}' for load in os.getloadavg())}", flush=True)


def verdict(over_seeds: dict[str, float], trusted: bool) -> str:
    if not trusted:
        return f"no verdict: other processes kept the cores busy for {PATIENCE} s; run it on an idle machine"
    reached = min(over_seeds["1 seed"], over_seeds["5 seeds"]) >= BAR * over_seeds["torch"]
    return f"bar of {BAR} times eager PyTorch: {'reached' if reached else 'MISSED'}"


def use_cores(count: int) -> None:
    """Before either library starts its threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    if find_spec("torch"):
        import torch

        torch.set_num_threads(count)
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", end=", ")
    else:
        print("torch is not installed: nothing to compare with (pip install torch==2.13.0)")
    print(f"jax {jax.__version__}, python {platform.python_version()}, {count} cores, {platform.machine()}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps per second of training, beside eager PyTorch.")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", choices=list(FULL.turn))
    parser.add_argument("--small", action="store_true", help="networks and batches of the small preset")
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="of our frozen ensemble")
    args = parser.parse_args()
    use_cores(args.cores)
    for name in [args.only] if args.only else list(FULL.turn):
        compare(name, data(), SMALL if args.small else FULL, args.cores, args.precision)


if __name__ == "__main__":
    main()
