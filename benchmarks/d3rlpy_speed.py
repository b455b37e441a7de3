"""Steps per second of training next to d3rlpy's own loop, and next to a plain scan of the same updates.

    python benchmarks/d3rlpy_speed.py            # sizes of the published settings
    python benchmarks/d3rlpy_speed.py --small    # of the small preset

d3rlpy needs an environment of its own (docs/data.md). All sides take turns in one process, on the same random data of a
walking robot's sizes; medians are shown, and the first turn of each is not counted. d3rlpy is run through `fitter`, the
loop behind its `fit`, on as many threads as cores. Our five seeds would be five runs one after the other there, so
their steps are added up. `--cores 1` counts processor time, and can be trusted on a busy machine as well.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq import algos
from stacq.algos.algorithm import Sizes
from stacq.algos.world import World, draw_rows, gather
from stacq.core.types import Array
from training_speed import ACTION, STATE, Turn, alternated, data, make_world, training, use_cores

STEPS = {"td3bc": (60, 2_000), "iql": (60, 1_000), "rebrac": (12, 500), "bcq": (40, 400)}  # of our turns: full, small
THEIRS = {"td3bc": (40, 100), "iql": (40, 100), "rebrac": (10, 40), "bcq": (4, 10)}
BARS = {"iql": (4, 12), "rebrac": (4, 12), "bcq": (20, 20)}  # times d3rlpy's rate


def config(name: str, small: bool) -> Any:
    algorithm = algos.find(name)
    return algorithm.Config(**(algorithm.small if small else algorithm.published.get("hopper", {})))


def plain_scan(name: str, world: World, cfg: Any) -> Turn:
    """What one seed costs without any of our loop: gather, update, next."""
    algorithm = algos.find(name)
    updates = algorithm.phases(cfg)[0].updates
    state = algorithm.init(jax.random.key(0), Sizes(STATE, ACTION), cfg)

    @jax.jit
    def scan(state: Any, keys: jax.Array) -> Any:
        def round_(now: Any, key: jax.Array) -> tuple[Any, None]:
            for place, update in enumerate(updates):
                k_rows, k_update = jax.random.split(jax.random.fold_in(key, place))
                now, _ = update(now, gather(world.rows, draw_rows(world, k_rows, cfg.batch)), world, k_update, cfg)
            return now, None

        return jax.lax.scan(round_, state, keys)[0]

    def turn(steps: int) -> object:
        nonlocal state
        state = scan(state, jax.random.split(jax.random.key(1), steps // len(updates)))
        return jax.tree.map(np.asarray, state)

    return turn


def with_d3rlpy(name: str, arrays: dict[str, Array], small: bool, steps: int) -> Turn:
    """Each turn is an epoch of their loop."""
    import d3rlpy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    learner = theirs(d3rlpy, name, small).create(device="cpu:0")
    ends = np.zeros(len(arrays["s"]), dtype=np.bool_)
    ends[999::1000] = True
    replay = d3rlpy.dataset.MDPDataset(
        arrays["s"], arrays["a"], arrays["r"][:, None], np.zeros_like(ends), ends.astype(np.float32)
    )
    epochs: Iterator[Any] = learner.fitter(
        replay,
        n_steps=10**9,
        n_steps_per_epoch=steps,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        save_interval=10**9,
    )

    def turn(count: int) -> object:
        assert count == steps
        return next(epochs)

    return turn


def theirs(d3rlpy: Any, name: str, small: bool) -> Any:
    """The same sizes as ours."""
    cfg = config(name, small)
    kinds = {"td3bc": "TD3PlusBC", "iql": "IQL", "rebrac": "ReBRAC", "bcq": "BCQ"}
    more: dict[str, Any] = {}
    if name == "bcq":
        coder = d3rlpy.models.VectorEncoderFactory(list(cfg.vae_hidden))
        more = {"imitator_encoder_factory": coder}
    if name == "iql":
        more = {"value_encoder_factory": d3rlpy.models.VectorEncoderFactory(list(cfg.hidden))}
    nets = d3rlpy.models.VectorEncoderFactory(list(cfg.hidden))
    normed = d3rlpy.models.VectorEncoderFactory(list(cfg.hidden), use_layer_norm=True)
    return getattr(d3rlpy.algos, f"{kinds[name]}Config")(
        batch_size=cfg.batch,
        actor_encoder_factory=nets,
        critic_encoder_factory=normed if name == "rebrac" else nets,
        **more,
    )


def compare(name: str, small: bool, cores: int) -> None:
    arrays, cfg = data(), config(name, small)
    world, ours, other = make_world(arrays), STEPS[name][small], THEIRS[name][small]
    turns = {
        "1 seed": (training(name, world, Sizes(STATE, ACTION), cfg, 1), ours),
        "5 seeds": (training(name, world, Sizes(STATE, ACTION), cfg, 5), ours),
        "plain scan": (plain_scan(name, world, jax.tree.map(jnp.float32, cfg)), ours),
        "d3rlpy": (with_d3rlpy(name, arrays, small, other), other),
    }
    rates, trusted = alternated(turns, cores)
    rates["5 seeds"] *= 5
    print(f"{name}, {'small' if small else 'published'} sizes{'' if trusted else ', on a busy machine'}:")
    for label, rate in rates.items():
        print(f"  {label:<10} {rate:8.1f} steps/s, {rate / rates['d3rlpy']:6.1f} times d3rlpy's")
    print(f"  one seed takes {rates['plain scan'] / rates['1 seed'] - 1:+.1%} of a plain scan's time more", flush=True)
    if name in BARS:
        reached = rates["5 seeds"] >= BARS[name][small] * rates["d3rlpy"]
        print(f"  bar of {BARS[name][small]} times d3rlpy's: {'reached' if reached else 'MISSED'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps per second of training, next to d3rlpy's.")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--small", action="store_true", help="networks and batches of the small preset")
    args = parser.parse_args()
    use_cores(args.cores)
    for name in args.only:
        compare(name, args.small, args.cores)


if __name__ == "__main__":
    main()
