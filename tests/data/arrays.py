"""Small logged data for tests: plain arrays under D4RL's names."""

from typing import Any

import numpy as np
from hypothesis import strategies as st


def logged(
    lengths: list[int], ends: list[str], *, sizes: tuple[int, int] = (3, 2), seed: int = 0, dtype: Any = np.float32
) -> dict[str, Any]:
    """Episodes of given lengths; each ends as 'terminal', 'timeout', 'both' or 'cut'. Successors included."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    walk = [rng.standard_normal((length + 1, sizes[0])).astype(dtype) for length in lengths]
    last = np.cumsum(lengths) - 1
    terminals, timeouts = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    terminals[[row for row, end in zip(last, ends, strict=True) if end in ("terminal", "both")]] = True
    timeouts[[row for row, end in zip(last, ends, strict=True) if end in ("timeout", "both")]] = True
    return {
        "observations": np.concatenate([steps[:-1] for steps in walk]),
        "actions": rng.uniform(-1, 1, (rows, sizes[1])).astype(dtype),
        "rewards": rng.standard_normal(rows).astype(dtype),
        "next_observations": np.concatenate([steps[1:] for steps in walk]),
        "terminals": terminals,
        "timeouts": timeouts,
    }


@st.composite
def recordings(draw: st.DrawFn) -> dict[str, Any]:
    """Any small, valid set of D4RL arrays: with or without the optional keys, of either float type."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6).filter(lambda each: sum(each) >= 2))
    kinds = st.sampled_from(["terminal", "timeout", "both"])
    ends = [draw(kinds) for _ in lengths[:-1]] + [draw(st.sampled_from(["terminal", "timeout", "both", "cut"]))]
    sizes = (draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    raw = logged(lengths, ends, sizes=sizes, seed=draw(st.integers(0, 2**31)), dtype=dtype)
    if draw(st.booleans()):
        del raw["next_observations"]
    return raw
