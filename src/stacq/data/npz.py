"""NumPy archives with D4RL's key names: what people without HDF5 have."""

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Array, Infos
from stacq.data.border import EPISODE_CUT, NOTHING_STATED, SUCCESSOR_KNOWN, Conventions, assemble
from stacq.data.checks import OPTIONAL, REQUIRED, check_shapes, misspelt, row_shape
from stacq.data.dataset import Dataset

MARKS = (SUCCESSOR_KNOWN, EPISODE_CUT)
# Every way in which NumPy and zipfile stumble over broken bytes.
BROKEN_BYTES = (OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, zipfile.BadZipFile, zlib.error)
BROKEN_SIZES = (MemoryError, OverflowError, RuntimeError)


def read_npz(path: Path | str, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read `observations`, `actions`, `rewards`, `terminals` and the optional keys of D4RL; others are ignored."""
    path = Path(path)
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            raw = {key: _array(archive, key, path) for key in (*REQUIRED, *OPTIONAL) if key in archive}
            stored = [key.removeprefix("infos/") for key in archive if key.startswith("infos/")]
            wanted = stored if infos == "all" else [*infos, *(key for key in MARKS if key in stored)]
            extras = {key: _array(archive, f"infos/{key}", path) for key in wanted}
            notes = misspelt(list(archive))
            check_shapes({key: (value.shape, value.dtype) for key, value in raw.items()}, str(path), archive)
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="a NumPy archive (.npz)", fix="check the path") from error
    except InputError:
        raise
    except (*BROKEN_BYTES, *BROKEN_SIZES) as error:
        raise InputError(
            f"not a readable NumPy archive ({type(error).__name__})",
            where=path,
            expected="an .npz file of plain arrays, as numpy.savez writes",
            fix="write it again with numpy.savez; objects (pickles) are refused",
        ) from error
    dataset = assemble(raw, extras, where=str(path), conventions=conventions.over(Conventions(name=path.stem)))
    return replace(dataset, notes=(*dataset.notes, *notes))


def _array(archive: Any, key: str, path: Path) -> Array:
    if key not in archive:
        found = sorted(name.removeprefix("infos/") for name in archive if name.startswith("infos/"))
        raise InputError(
            f"key '{key}' is missing",
            where=path,
            expected="the per-row extras asked for",
            fix=f"ask for one of: {', '.join(found) or 'none (the archive has no infos)'}",
        )
    value = archive[key]
    if not isinstance(value, np.ndarray):
        raise InputError(f"key '{key}' is not an array", where=path, expected="plain arrays", fix="write it again")
    return value.reshape(row_shape(key, value.shape))
