"""Shapes and types of the functions that others build on, by names of axes. Nothing is computed or compiled.

Types that differ must be converted explicitly: JAX's own promotion is refused.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from algo_cases import random_dynamics

from stacq.dynamics.models import Models, forward_mean, forward_members, inverse_mean
from stacq.nn.mlp import each_member
from stacq.reach.agreement import distance, norm_of, residuals
from stacq.reach.ranges import ranges

AXES = {"B": 7, "K": 11, "S": 5, "A": 3, "F": 2, "X": 8}  # X: states and actions together; all different


@cache
def models() -> Models:
    return random_dynamics(0, [-1.0] * AXES["A"], [1.0] * AXES["A"], state=AXES["S"], members=AXES["F"]).models


def array(axes: str) -> Any:
    return jax.eval_shape(lambda: jnp.zeros([AXES[axis] for axis in axes.split()]))


@pytest.mark.parametrize(
    ("function", "inputs", "outputs"),
    [
        (forward_members, ("B S", "B A"), "F B S"),
        (forward_members, ("K B S", "K B A"), "F K B S"),
        (forward_mean, ("B S", "B A"), "B S"),
        (forward_mean, ("S", "A"), "S"),
        (inverse_mean, ("B S", "B S"), "B A"),
        (lambda models, x: each_member(models.forward, x), ("B X",), "F B S"),
        (residuals, ("B S", "B S", "A", "A"), ("B S", "B A")),
        (ranges, ("B S", "K A"), ("B S", "B S")),
        (lambda models, *arrays: distance(models, *arrays, norm="l2"), ("B S", "B S", "B S", "A", "A"), "B"),
        (lambda models, scaled: norm_of(scaled, "linf"), ("K B S",), "K B"),
    ],
)
def test_axes(function: Any, inputs: tuple[str, ...], outputs: str | tuple[str, ...]) -> None:
    with jax.numpy_dtype_promotion("strict"):
        found = jax.eval_shape(function, models(), *map(array, inputs))
    wanted = tuple(map(array, outputs)) if isinstance(outputs, tuple) else array(outputs)
    assert jax.tree.map(form, found) == jax.tree.map(form, wanted)


def form(array: Any) -> tuple[tuple[int, ...], str]:
    return tuple(array.shape), str(array.dtype)


def test_another_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="Incompatible shapes"):
        jax.eval_shape(forward_mean, models(), array("B A"), array("B S"))
