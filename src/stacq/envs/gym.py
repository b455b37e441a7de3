"""Gymnasium environments without Gymnasium's log output, made once per process and described by plain values."""

import contextlib
import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s, Floats
from stacq.envs.bodies import ARENAS
from stacq.envs.ids import registered_name

EnvSource = str | Callable[[], Any]
"""A Gymnasium id, or a function that makes an environment with Gymnasium's interface."""
GLOBAL_DRAWS = "ogbench:"  # environments that draw from NumPy's global generator
STEP_LIMIT = 100_000  # ends an episode in an environment that has no limit of its own


@dataclass(frozen=True, eq=False)
class EnvFacts:
    """What an environment says of itself."""

    label: str
    observation_size: int
    action_size: int
    action_low: Float64s
    action_high: Float64s
    max_episode_steps: int | None


def make_env(source: EnvSource) -> Any:
    """Make an environment; MuJoCo's warnings stay out of the working directory.

    A module in front of an id, as in `module:Name-v0`, is imported, unless the id comes from a file.
    """
    if not isinstance(source, str):
        return source()
    if source.startswith("stacq/") and source not in ARENAS:
        from stacq.envs import maze  # registers them; they need neither MuJoCo nor Gymnasium

        return maze.make(source)
    try:
        import gymnasium
    except ImportError as error:
        raise _missing(source, error) from error
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    _quiet_mujoco()
    if source in ARENAS:
        import_module("stacq.envs.registered")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v4 ids are called out of date; they are D4RL's tasks, v5 are not
        try:
            env = gymnasium.make(registered_name(source), disable_env_checker=True)
        except InputError:
            raise
        except gymnasium.error.DependencyNotInstalled as error:
            raise _missing(source, error) from error
        except ImportError as error:
            raise _missing(source, error) from error
        except (gymnasium.error.Error, ValueError) as error:
            raise _unknown(source, error, list(gymnasium.registry)) from error
    return _with_own_draws(env, source) if source.startswith(GLOBAL_DRAWS) else env


def _with_own_draws(env: Any, source: str) -> Any:
    from stacq.envs.global_draws import OwnDraws

    return OwnDraws(env, steps_draw="teleport" in source)


def facts_of(env: Any, label: str) -> EnvFacts:
    """Sizes and bounds from the spaces; discrete actions are refused."""
    space = env.action_space
    if not hasattr(space, "low") or len(space.shape) != 1:
        raise InputError(
            f"actions are {space}", where=label, expected="a box of real numbers", fix="use a continuous-action task"
        )
    spec = getattr(env, "spec", None)
    return EnvFacts(
        label=label,
        observation_size=_space_size(env.observation_space),
        action_size=int(space.shape[0]),
        action_low=np.asarray(space.low, dtype=np.float64),
        action_high=np.asarray(space.high, dtype=np.float64),
        max_episode_steps=getattr(spec, "max_episode_steps", None),
    )


def flatten(observation: Any) -> Floats:
    """Dictionaries by sorted key, tuples by position, depth first, each part raveled: the readers' order."""
    if isinstance(observation, dict):
        return np.concatenate([flatten(observation[key]) for key in sorted(observation)])
    if isinstance(observation, tuple | list):
        return np.concatenate([flatten(part) for part in observation])
    return np.asarray(observation).reshape(-1)


def _space_size(space: Any) -> int:
    if hasattr(space, "spaces"):
        parts = space.spaces.values() if isinstance(space.spaces, dict) else space.spaces
        return sum(_space_size(part) for part in parts)
    return int(np.prod(space.shape or (1,)))


def _quiet_mujoco() -> None:
    """Without a handler MuJoCo writes its warnings to MUJOCO_LOG.TXT in the working directory."""
    with contextlib.suppress(ImportError):
        import mujoco

        mujoco.set_mju_user_warning(_ignore)


def _ignore(message: str) -> None:
    """An unstable simulation shows in the returns; Gymnasium's own tasks end the episode."""


def _missing(source: str, error: Exception) -> InputError:
    name, _, number = source.rpartition("-v")
    if number in ("2", "3"):
        return InputError(
            "Gymnasium has retired this version",
            where=source,
            expected="a v4 or v5 id",
            fix=f"use {name}-v4, the same task",
        )
    return InputError(
        f"cannot be made here: {error}",
        where=source,
        expected="Gymnasium with the MuJoCo bodies",
        fix="pip install 'stacq[mujoco]'",
    )


def _unknown(source: str, error: Exception, known: list[str]) -> InputError:
    near = difflib.get_close_matches(source, known, n=3, cutoff=0.6)
    return InputError(
        f"no such environment: {' '.join(str(error).split())}",
        where=source,
        expected="a Gymnasium id such as Hopper-v4",
        fix=(f"did you mean {', '.join(near)}? " if near else "check the id; ")
        + "one of your own is named with the module that registers it, module:Name-v0",
    )
