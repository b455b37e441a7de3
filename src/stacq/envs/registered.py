"""Importing this module makes Gymnasium know every environment of the package.

Since version 1.0 Gymnasium looks for no plugins, but it imports a module that stands before an id:
`gymnasium.make("stacq.envs.registered:stacq/AntMaze-umaze-v0")` needs nothing imported before.
"""

import gymnasium

from stacq.envs import maze  # registers the plane mazes
from stacq.envs.bodies import ARENAS

ENV_IDS = (*maze.ENV_IDS, *ARENAS)


def _register() -> None:
    for env_id, arena in ARENAS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                "stacq.envs.physical:PhysicalMaze",
                max_episode_steps=arena.limit,
                kwargs={"body": arena.body.name, "layout": arena.layout.name},
                disable_env_checker=True,
            )


_register()
