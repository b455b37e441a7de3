"""Machines that share no files: what one leaves, another one finds in the store."""

import os
import tarfile
from pathlib import Path

import pytest
from study_cases import SMALL, cells

from stacq.core.errors import InputError
from stacq.study.jobs import jobs_of
from stacq.study.states import Places, read_state
from stacq.study.store import Store, chain, do_away, fetch, received, send, stamps
from stacq.study.work import Task


def written(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_only_what_is_new_is_sent_and_checkpoints_come_first(tmp_path: Path) -> None:
    here, there, store = tmp_path / "here", tmp_path / "there", Store(str(tmp_path / "store"))
    written(here, home__data__old="1", home__data__again="1")
    before = stamps(here)
    written(here, home__data__again="22", runs__r__records="r", runs__r__checkpoints__c="c", runs__r__lock="")
    written(here, **{"runs__.hidden": "h", "home__compiled__x": "x", "logs__l": "l"})
    send(store, "k", here, before)
    with tarfile.open(tmp_path / "store" / "k.tar") as packed:
        assert packed.getnames()[0] == "runs/r/checkpoints/c"
        assert sorted(packed.getnames()[1:]) == ["home/data/again", "runs/r/records"]
    fetch(store, "k", there)
    assert (there / "home" / "data" / "again").read_text() == "22"
    fetch(store, "k", tmp_path / "part", only="runs/")
    assert {path.name for path in (tmp_path / "part").iterdir()} == {"runs"}
    fetch(store, "unknown", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_archive_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    written(tmp_path, evil="e")
    (tmp_path / "store").mkdir()
    with tarfile.open(tmp_path / "store" / "k.tar", "w") as packed:
        packed.add(tmp_path / "evil", "runs/../../outside")
    with pytest.raises(tarfile.OutsideDestinationError):
        fetch(Store(str(tmp_path / "store")), "k", tmp_path / "in")
    assert not (tmp_path / "outside").exists()


def test_a_place_that_needs_another_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(InputError, match="fsspec"):
        Store("s3://bucket/folder")


@pytest.mark.slow
def test_a_cell_is_done_away_and_its_run_comes_back(tmp_path: Path) -> None:
    (first, *_) = cells(SMALL.replace("learning_rate = [1e-3, 1e-2]", "learning_rate = 1e-3"))
    (job,) = [each for each in jobs_of([first]) if each.kind == "cell"]
    assert chain(job) == [each.key for each in jobs_of([first])]
    store, places = str(tmp_path / "store"), Places(tmp_path / "study", tmp_path / "runs")
    home = os.environ["STACQ_HOME"]
    ended = do_away(Task(job, places), store)
    assert ended.state is not None and ended.state.state == "done" and not places.runs.exists()
    found = received(Store(store), places, job.key, ended.state)
    assert found.state is not None and (Path(found.state.run) / "result.json").exists()
    kept = read_state(places, job.key)
    assert kept is not None and kept.run == str(places.runs / Path(kept.run).name)
    assert not Path(home, "data").exists()  # the machine's own cache was not touched
