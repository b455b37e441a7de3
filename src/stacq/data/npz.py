"""NumPy archives with D4RL's key names: what people without HDF5 have."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stacq.data.border import EPISODE_CUT, NOTHING_STATED, SUCCESSOR_KNOWN, Conventions, assemble
from stacq.data.checks import OPTIONAL, REQUIRED
from stacq.data.dataset import Dataset
from stacq.errors import InputError
from stacq.types import Array


def read_npz(path: Path | str, *, infos: Sequence[str] = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read `observations`, `actions`, `rewards`, `terminals` and the optional keys of D4RL; others are ignored."""
    path = Path(path)
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            raw = {key: archive[key] for key in (*REQUIRED, *OPTIONAL) if key in archive}
            wanted = [*infos, *(key for key in (SUCCESSOR_KNOWN, EPISODE_CUT) if f"infos/{key}" in archive)]
            extras: dict[str, Array] = {key: archive[f"infos/{key}"] for key in wanted}
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="a NumPy archive (.npz)", fix="check the path") from error
    except KeyError as error:
        raise InputError(
            f"key {error} is missing",
            where=path,
            expected="the per-row extras asked for",
            fix="ask for fewer extras",
        ) from error
    except (
        OSError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        NotImplementedError,
        TypeError,
        AttributeError,
    ) as error:
        raise InputError(
            f"not a readable NumPy archive: {error}",
            where=path,
            expected="an .npz file of plain arrays, as numpy.savez writes",
            fix="write it again with numpy.savez; objects (pickles) are refused",
        ) from error
    return assemble(raw, extras, where=str(path), conventions=conventions.over(Conventions(name=path.stem)))
