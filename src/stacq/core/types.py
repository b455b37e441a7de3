"""Names for the arrays that cross module borders; shapes are given in the comments next to them."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32] | NDArray[np.int64]  # numbers of rows, where there may be hundreds of millions
Bools = NDArray[np.bool_]
Array = NDArray[Any]

Infos = Sequence[str] | Literal["all"]
"""Which per-row extras of a file to load."""

Precision = Literal["auto", "float32", "bfloat16"]
"""How a training multiplies: `nn/precision.py` says what each means on the device at hand."""
