"""What there is to train with, as text."""

from collections.abc import Iterator
from typing import Any

from stacq import algos
from stacq.algos.algorithm import Algorithm
from stacq.algos.settings import preset
from stacq.data.registry import MAZE_ROWS

MAZE = f"stacq/maze-{next(iter(MAZE_ROWS))}-v0"


def algorithms_text() -> str:
    """Every algorithm: what it does, what it needs, how long it trains, its variants."""
    return "\n\n".join("\n".join(_lines(algos.find(name))) for name in algos.names())


def _lines(algorithm: Algorithm) -> Iterator[str]:
    first = next(iter(algorithm.variants))
    usual, small, maze = (
        preset(algorithm, name, variant=first, small=small).config
        for name, small in (("", False), ("", True), (MAZE, False))
    )
    steps = [_steps(algorithm, config) for config in (usual, small, maze)]
    yield f"{algorithm.name}: {algorithm.title}"
    yield f"  {algorithm.about}"
    yield f"  needs {_needs(algorithm)}"
    yield f"  steps: {steps[0]}, --small {steps[1]}, in the plane mazes {steps[2]}"
    for family in algorithm.small_in:
        config = preset(algorithm, f"{family}-umaze", variant=first, small=True).config
        yield f"  --small in {family}: {_steps(algorithm, config)}"
    for variant, what in algorithm.variants.items():
        yield f"  --variant {variant}: {what.about}"


def _steps(algorithm: Algorithm, config: Any) -> str:
    return " + ".join(f"{phase.steps:,}" for phase in algorithm.phases(config))


def _needs(algorithm: Algorithm) -> str:
    if algorithm.needs.reachable:
        return "dynamics and reachable sets"
    return "the data alone" if algorithm.needs.data is None else "the data, of which it makes its own first"
