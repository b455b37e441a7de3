"""Steps of balls and ants in their environments, and rows of their recordings.

    python benchmarks/mazes.py

Rates of one process are for each second of its own CPU time, so that other work on the machine counts little; the rate
of all cores is for each second of the clock, worker start-up included.
"""

import time

from stacq.core.workers import available_cores
from stacq.data.generate import Group, Rollout, roll_out
from stacq.data.registry import recipe
from stacq.data.walking import walk_group
from stacq.data.walks import WALKS, Walk
from stacq.envs.gym import make_env

BARS = {"point": 40_000, "ant": 5_000}  # steps per second and core
GROUPS = {"point": 40, "ant": 6}
ROWS = {"point": 400_000, "ant": 40_000}  # on all cores
SHARE = 0.8  # of those, for recordings


def stepping(env_id: str, groups: list[Rollout]) -> float:
    """Steps per second of an environment that is given the recorded actions from the recorded starts."""
    env, steps = make_env(env_id), sum(len(group.rewards) for group in groups)
    env.reset(seed=0)
    started = time.process_time()
    for group in groups:
        env.unwrapped.set_state(group.qpos[0], group.qvel[0])
        for action in group.actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                state = env.unwrapped.data.qpos.copy(), env.unwrapped.data.qvel.copy()
                env.reset()
                env.unwrapped.set_state(*state)  # on with the walk
    return steps / (time.process_time() - started)


def recording(walk: Walk, count: int) -> tuple[float, list[Rollout]]:
    """Rows per second of a recording in this process, and the rows."""
    walk_group(walk, Group("", (1,)))
    started = time.process_time()
    groups = [walk_group(walk, Group("", (0, 0, index))) for index in range(count)]
    return sum(len(group.rewards) for group in groups) / (time.process_time() - started), groups


def main() -> None:
    cores = available_cores()
    for name in ("pointmaze-umaze", "pointmaze-large", "antmaze-umaze", "antmaze-large-diverse"):
        plan = recipe(name)
        body = "ant" if plan.info.task.family == "antmaze" else "point"
        rate, groups = recording(WALKS[name], GROUPS[body])
        alone = stepping(str(plan.info.env_id), groups)
        print(f"{name}: {alone:,.0f} steps/s in the environment (bar: {BARS[body]:,})")
        print(
            f"  recorded {rate:,.0f} rows/s (bar: {SHARE * BARS[body]:,.0f}), {rate / alone:.0%} of the environment's"
        )
        if name in ("pointmaze-large", "antmaze-large-diverse"):
            started = time.perf_counter()
            rows = len(roll_out(recipe(name, size=ROWS[body])))
            together = rows / (time.perf_counter() - started)
            print(f"  {cores} workers {together:,.0f} rows/s: a million in {1e6 / together / 60:.1f} minutes")


if __name__ == "__main__":
    main()
