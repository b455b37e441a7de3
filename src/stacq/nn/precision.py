"""How a training multiplies: what one may choose, and what that means on the device at hand."""

import contextlib
from functools import cache
from pathlib import Path
from typing import get_args

import jax

from stacq.core.types import Precision

PRECISIONS: tuple[str, ...] = get_args(Precision)
EXACT = "highest"  # JAX's name for products in full float32


def rounds_models(precision: Precision, backend: str) -> bool:
    """Whether frozen models are multiplied in bfloat16: with `auto` where that is faster."""
    return precision == "bfloat16" or (precision == "auto" and has_bfloat16(backend))


def has_bfloat16(backend: str) -> bool:
    """Whether it multiplies bfloat16 faster than float32: every GPU, and some CPUs."""
    return backend != "cpu" or _cpu_multiplies_bfloat16()


@cache
def _cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for it; others would turn the factors into float32 first, and gain nothing."""
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:  # only Linux has the file
        return False


def products_of(precision: Precision) -> contextlib.AbstractContextManager[object]:
    """Around a training: with `float32` all its products are full ones, otherwise JAX's default holds.

    That default rounds factors on recent GPUs (TF32) and nothing on a CPU. So it does no harm that threads do not see
    it: a training has them on a CPU only.
    """
    return jax.default_matmul_precision(EXACT) if precision == "float32" else contextlib.nullcontext()


def precision_text(precision: Precision, backend: str) -> str:
    """What it comes to here, for the line before a run with frozen models."""
    if precision == "float32":
        return "precision: float32 throughout"
    text = f"precision: frozen models in {'bfloat16' if rounds_models(precision, backend) else 'float32'} ({precision})"
    slow = precision == "bfloat16" and not has_bfloat16(backend)
    return f"{text}; this processor has no instructions for it: float32 is faster here" if slow else text
