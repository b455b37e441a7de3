"""The bodies that move in D4RL's mazes, as numbers and as MuJoCo models: maze2d's ball and AntMaze's ant."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stacq.envs.layouts import LARGE, LAYOUTS, MEDIUM, UMAZE, Cell, Grid, Layout

RESET_NOISE = 0.1  # of both bodies: positions are disturbed evenly up to it, velocities by so much of a normal number
GOAL_RADIUS = 0.5  # of both bodies, in their own units of length


@dataclass(frozen=True, eq=False)
class Body:
    """What moves, and what D4RL asks of it. An observation is all positions and then all velocities."""

    name: str
    xml: Callable[[Layout], str]
    grid: Grid
    frame_skip: int  # steps of the simulator for each action
    strength: float  # what an action of 1 asks of a motor
    fastest: float | None  # velocities are cut off there before each step
    off_centre: float  # along each axis: where episodes begin and end, seen from a cell's middle
    goal_noise: tuple[float, ...]  # a goal lies beyond that by the sum of even draws up to these
    limits: dict[str, int]  # steps of an episode, by layout
    cells: dict[str, tuple[Cell, Cell]]  # of start and goal, by layout


def _box(size: float, height: float, x: float, y: float, z: float, look: str) -> str:
    return f'<geom type="box" size="{size} {size} {height}" pos="{x:g} {y:g} {z:g}" {look}/>'


_GROUND = 'type="plane" rgba="0.93 0.93 0.91 1"'
_WALL_LOOK = 'rgba="0.35 0.39 0.45 1"'
_LIGHT = '<light directional="true" diffuse="0.7 0.7 0.7" dir="0.2 0.3 -1" pos="0 0 8"/>'


def point_xml(layout: Layout) -> str:
    """maze2d: a ball on two sliding joints, without gravity.

    Its joints count from (1.2, 1.2), while the walls stand at whole numbers from (1, 1). D4RL's ball also touches the
    ground, which holds it up and nothing else; here it floats.
    """
    walls = "".join(_box(0.5, 0.2, i + 1, j + 1, 0, _WALL_LOOK) for i, j in layout.walls)
    return f"""
<mujoco model="point">
  <compiler angle="radian"/>
  <option timestep="0.01" gravity="0 0 0" iterations="20" integrator="Euler"/>
  <visual><headlight ambient="0.4 0.4 0.4"/></visual>
  <default>
    <joint damping="1" limited="false"/>
    <geom friction="0.5 0.1 0.1" density="1000" margin="0.002" condim="1" contype="2" conaffinity="1"/>
    <motor ctrlrange="-1 1" ctrllimited="true" gear="100"/>
  </default>
  <worldbody>
    {_LIGHT}
    <geom name="ground" size="40 40 0.25" pos="0 0 -0.1" contype="0" conaffinity="0" {_GROUND}/>
    {walls}
    <body name="ball" pos="1.2 1.2 0">
      <geom name="ball" type="sphere" size="0.1" contype="1" rgba="0.8 0.25 0.2 1"/>
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
    </body>
  </worldbody>
  <actuator><motor joint="x"/><motor joint="y"/></actuator>
</mujoco>"""


# Number, sides of the torso, axis and range of the ankle. The hips turn by 30 degrees to both sides.
_LEGS = (
    (1, (1, 1), "-1 1 0", "30 70"),
    (2, (-1, 1), "1 1 0", "-70 -30"),
    (3, (-1, -1), "-1 1 0", "-70 -30"),
    (4, (1, -1), "1 1 0", "30 70"),
)
MOTORS = ("hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3")
"""In the order of the action's numbers."""


def _leg(number: int, side: tuple[int, int], axis: str, span: str) -> str:
    """Three capsules: one fixed to the torso, one on the hip, one on the ankle."""
    near, far = (f"{length * side[0]:g} {length * side[1]:g} 0" for length in (0.2, 0.4))
    capsule = 'type="capsule" size="0.08" fromto="0 0 0'
    return f"""
      <body name="leg_{number}">
        <geom {capsule} {near}"/>
        <body name="thigh_{number}" pos="{near}">
          <joint name="hip_{number}" axis="0 0 1" range="-30 30"/>
          <geom {capsule} {near}"/>
          <body name="foot_{number}" pos="{near}">
            <joint name="ankle_{number}" axis="{axis}" range="{span}"/>
            <geom {capsule} {far}"/>
          </body>
        </body>
      </body>"""


def ant_xml(layout: Layout) -> str:
    """AntMaze: a torso on four legs with eight motors; parts of the ant do not collide with each other.

    Two switches make steps a fifth faster and leave the physics as they are: parts that cannot move against each other
    count as one body, and the solver does not look for independent groups of contacts.
    """
    size = ANT_GRID.size
    walls = "".join(
        _box(size / 2, size / 4, *ANT_GRID.centre(cell), size / 4, f'conaffinity="1" {_WALL_LOOK}')
        for cell in layout.walls
    )
    motors = "".join(f'<motor joint="{joint}"/>' for joint in MOTORS)
    return f"""
<mujoco model="ant">
  <compiler angle="degree" fusestatic="true"/>
  <option timestep="0.02" integrator="RK4"><flag island="disable"/></option>
  <visual><headlight ambient="0.4 0.4 0.4"/><map znear="0.005"/></visual>
  <default>
    <joint type="hinge" limited="true" armature="1" damping="1"/>
    <geom conaffinity="0" condim="3" density="5" friction="1 0.5 0.5" margin="0.01" solref="0.02 1"
      solimp="0.8 0.8 0.01" rgba="0.8 0.25 0.2 1"/>
    <motor ctrlrange="-30 30" ctrllimited="true" gear="1"/>
  </default>
  <worldbody>
    {_LIGHT}
    <geom name="floor" size="40 40 40" conaffinity="1" {_GROUND}/>
    {walls}
    <body name="torso" pos="0 0 0.75">
      <geom name="torso" type="sphere" size="0.25"/>
      <joint name="root" type="free" limited="false" armature="0" damping="0" margin="0.01"/>
      {"".join(_leg(*leg) for leg in _LEGS)}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""


ANT_GRID = Grid(size=4.0, first=-4.0, x_is_row=False)
POINT_GRID = Grid(size=1.0, first=-0.2, x_is_row=True)
ANT = Body(
    "ant",
    ant_xml,
    ANT_GRID,
    frame_skip=5,
    strength=30.0,
    fastest=None,
    off_centre=0.0,
    goal_noise=(1.0, 0.5),
    limits={"umaze": 700, "medium": 1000, "large": 1000},
    cells={layout.name: (layout.start, layout.goal) for layout in LAYOUTS.values()},
)
POINT = Body(
    "point",
    point_xml,
    POINT_GRID,
    frame_skip=1,
    strength=1.0,
    fastest=5.0,
    off_centre=0.2,  # at whole numbers, as in maze2d
    goal_noise=(),
    limits={"umaze": 300, "medium": 600, "large": 800},
    cells={
        "umaze": (UMAZE.goal, UMAZE.start),  # maze2d's goal is where AntMaze's start is
        "medium": (MEDIUM.start, MEDIUM.goal),
        "large": (LARGE.start, LARGE.goal),
    },
)
BODIES = {body.name: body for body in (POINT, ANT)}


@dataclass(frozen=True)
class Arena:
    """A body in a maze: what one environment is about."""

    body: Body
    layout: Layout

    @property
    def start(self) -> Cell:
        return self.body.cells[self.layout.name][0]

    @property
    def goal(self) -> Cell:
        return self.body.cells[self.layout.name][1]

    @property
    def limit(self) -> int:
        """Steps of an episode."""
        return self.body.limits[self.layout.name]

    def spot(self, cell: Cell) -> tuple[float, float]:
        """Where in a cell episodes begin and end, but for noise."""
        x, y = self.body.grid.centre(cell)
        return x + self.body.off_centre, y + self.body.off_centre

    @property
    def usual_goal(self) -> tuple[float, float]:
        """The mean of the goals that are drawn for evaluations."""
        x, y = self.spot(self.goal)
        shift = sum(self.body.goal_noise) / 2
        return x + shift, y + shift

    def goal_in(self, cell: Cell, rng: np.random.Generator) -> tuple[float, float]:
        """A goal as D4RL draws it: past the cell's spot, and never below 0 where there is any chance in it."""
        x, y = self.spot(cell)
        for most in self.body.goal_noise:
            dx, dy = rng.uniform(0.0, most, 2).tolist()
            x, y = x + dx, y + dy
        return (max(x, 0.0), max(y, 0.0)) if self.body.goal_noise else (x, y)


ARENAS = {
    f"stacq/{title}-{layout.name}-v0": Arena(body, layout)
    for title, body in (("PointMaze", POINT), ("AntMaze", ANT))
    for layout in LAYOUTS.values()
}
"""By the id of the environment."""
