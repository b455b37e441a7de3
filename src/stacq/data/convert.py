"""From any readable source to a format that other libraries read."""

from pathlib import Path

from stacq.core.errors import InputError
from stacq.core.files import exists
from stacq.core.staging import sweep
from stacq.core.types import Infos
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.hdf5 import write_hdf5
from stacq.data.load import HDF5_SUFFIXES, MINARI_PREFIX, load


def convert(
    source: str,
    target: str,
    *,
    infos: Infos = "all",
    conventions: Conventions = NOTHING_STATED,
    force: bool = False,
) -> Path:
    """Load `source` and write it to `target`: a .hdf5 path (D4RL's layout) or `minari:ID`.

    A file that is there is written over with `force` only; a Minari dataset never is.
    """
    minari = target.startswith(MINARI_PREFIX)
    if not minari and Path(target).suffix.lower() not in HDF5_SUFFIXES:
        raise InputError(
            f"cannot tell the format of '{target}'",
            expected="a path ending in .hdf5, or minari:ID",
            fix="name the target so",
        )
    if not minari:
        sweep(Path(target).parent)
    if not minari and exists(Path(target)) and not force:
        raise InputError(
            "this file exists already", where=target, expected="a new name", fix="choose another, or add --force"
        )
    dataset = load(source, infos=infos, conventions=conventions)
    if minari:
        from stacq.data.minari_write import write_minari  # optional dependency

        return write_minari(dataset, target.removeprefix(MINARI_PREFIX))
    write_hdf5(dataset, target)
    return Path(target)
