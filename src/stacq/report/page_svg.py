"""Markup that cannot forget to escape, numbers as the page writes them, and scales to draw with."""

import html
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stacq.algos import BUILT_IN
from stacq.core.printable import printable_lines
from stacq.core.types import Float64s

DASH = "–"  # what stands where a number is not known
MINUS = "−"
SLOTS = 7  # colours in page.css
TINY, LARGE, HUGE = 1e-3, 1e4, 1e9  # where the numbers along an axis change their form
MOST_POINTS = 400  # of one line in a chart


class Markup(str):
    """Text that is HTML already; every other string is escaped where it enters an element, control characters too."""


def el(name: str, *children: object, **attributes: object) -> Markup:
    """An element. `class_` and the like lose their last underscore, others become hyphens."""
    opened = f"{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if name in ("input", "br", "meta"):
        return Markup(f"<{opened}>")
    return Markup(f"<{opened}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    return Markup(
        "".join(c if isinstance(c, Markup) else html.escape(printable_lines(c)) for c in children if c is not None)
    )


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(printable_lines(place(value) if isinstance(value, float) else value))}"'


def place(value: float) -> str:
    """A coordinate: a hundredth of a unit is finer than anyone sees."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def shown(value: float | None, decimals: int = 1) -> str:
    """A number for people; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:,.{decimals}f}"
    return text.lstrip("-") if not any(digit in text for digit in "123456789") else text.replace("-", MINUS)


def percent(share: float | None, decimals: int = 1) -> str:
    text = shown(None if share is None else 100 * share, decimals)
    return text if text == DASH else f"{text}%"


def span(low: float, high: float, decimals: int = 1, unit: str = "") -> str:
    """An interval in words, which no minus sign can confuse."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return DASH
    return f"{shown(low, decimals)} to {shown(high, decimals)}{unit}"


def decimals_for(values: Iterable[float]) -> int:
    """As many decimals for a whole column as its largest number needs."""
    size = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 3


def steps_text(step: float) -> str:
    """Training steps, short."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(step) >= size:
            return f"{step / size:g}{unit}"
    return f"{step:g}"


def palette(labels: Mapping[str, str]) -> dict[str, int]:
    """A colour for each label, by label and algorithm.

    The first label of an algorithm of the package has the same colour on every page; others take what is left.
    """
    order = {name: place % SLOTS for place, name in enumerate(BUILT_IN)}
    slots: dict[str, int] = {}
    for label, algorithm in labels.items():
        if algorithm in order and order[algorithm] not in slots.values():
            slots[label] = order[algorithm]
    free = [slot for slot in range(SLOTS) if slot not in slots.values()] or list(range(SLOTS))
    others = (label for label in labels if label not in slots)
    return slots | {label: free[place % len(free)] for place, label in enumerate(list(others))}


@dataclass(frozen=True)
class Scale:
    """From data to coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        return _decades(self.low, self.high) if self.log else nice_ticks(self.low, self.high, count)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between the ends."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), min(math.ceil(math.log10(high)), sys.float_info.max_10_exp) + 1)
    steps = (1, 2, 5) if high / low < 100 else (1,)
    return [value for power in powers for step in steps if low <= (value := step * 10.0**power) <= high]


def tick_text(ticks: Sequence[float]) -> Callable[[float], str]:
    """All ticks of an axis with the same decimals; large and tiny ones short enough for the margin."""
    size = max(map(abs, ticks), default=0.0)
    if size >= HUGE or 0 < size < TINY:
        return lambda value: f"{value:.1e}".replace("-", MINUS) if value else "0"
    if size >= LARGE:
        return lambda value: steps_text(value).replace("-", MINUS)
    decimals = max((len(f"{tick:.6g}".partition(".")[2]) for tick in ticks), default=0)
    return lambda value: shown(value, decimals)


def padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Ends of an axis around all finite values."""
    known = [value for value in values if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    room = (high - low) * share or abs(high) * share or 1.0
    return low - room, high + room


def path_of(points: Iterable[tuple[float, float]]) -> str:
    """A path with a gap wherever a point is not known."""
    parts, pen = [], "M"
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            parts.append(f"{pen}{place(x)} {place(y)}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def thinned(rows: Float64s, most: int = MOST_POINTS) -> Float64s:
    """At most about so many rows, the last one always among them."""
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).round().astype(np.int64))]
