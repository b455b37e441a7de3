"""NumPy archives with D4RL's key names: what people without HDF5 have."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stacq.core.archives import Archive, BrokenArchive, Header, opened
from stacq.core.errors import InputError
from stacq.core.reading import plain
from stacq.core.types import Infos
from stacq.data.border import assemble
from stacq.data.checks import OPTIONAL, REQUIRED, check_shapes, misspelt, row_shape
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.succession import EPISODE_CUT, SUCCESSOR_KNOWN

MARKS = (SUCCESSOR_KNOWN, EPISODE_CUT)


def read_npz(path: Path | str, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read `observations`, `actions`, `rewards`, `terminals` and the optional keys of D4RL; others are ignored."""
    path = Path(path)
    with told_archive(path) as archive:
        names = archive.names
        headers = _headers(archive, infos, path)
        shapes = {key: (row_shape(key, header.shape), header.dtype) for key, header in headers.items()}
        check_shapes(
            {key: shape for key, shape in shapes.items() if "/" not in key}, str(path), names, conventions.given
        )
        values = {key: value.reshape(shapes[key][0]) for key, value in archive.read(headers).items()}
    extras = {key.removeprefix("infos/"): values.pop(key) for key in list(values) if "/" in key}
    known = Conventions(name=plain(path.stem))
    dataset = assemble(values, extras, where=str(path), conventions=conventions.over(known))
    return replace(dataset, notes=(*dataset.notes, *misspelt(names)))


@contextmanager
def told_archive(path: Path) -> Iterator[Archive]:
    """An archive open for reading, with every way it can be wrong told in a sentence."""
    try:
        with opened(path) as archive:
            yield archive
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="a NumPy archive (.npz)", fix="check the path") from error
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror or error}",
            where=path,
            expected="a NumPy archive (.npz)",
            fix="check what it is, and its permissions",
        ) from error
    except BrokenArchive as error:
        raise InputError(
            f"not a readable NumPy archive: {error}",
            where=path,
            expected="an .npz file of plain arrays, as numpy.savez writes",
            fix="write it again with numpy.savez; objects (pickles) are refused",
        ) from error


def _headers(archive: Archive, infos: Infos, path: Path) -> dict[str, Header]:
    """Of the arrays to be read: the rows, the extras asked for, and our own marks."""
    stored = [name.removeprefix("infos/") for name in archive.names if name.startswith("infos/")]
    wanted = stored if infos == "all" else [*infos, *(key for key in MARKS if key in stored)]
    for key in wanted:
        if key not in stored:
            raise InputError(
                f"key 'infos/{key}' is missing",
                where=path,
                expected="the per-row extras asked for",
                fix=f"ask for one of: {', '.join(sorted(stored)) or 'none (the archive has no infos)'}",
            )
    rows = [key for key in (*REQUIRED, *OPTIONAL) if key in archive.names]
    return {key: archive.header(key) for key in (*rows, *(f"infos/{key}" for key in wanted))}
