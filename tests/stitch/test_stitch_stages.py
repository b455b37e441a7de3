"""From recordings to stitched data in the cache: what lies there, and what happens after a stop."""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stacq import InputError, load
from stacq.data.dataset import Dataset
from stacq.data.maze import maze_dataset
from stacq.data.registry import task_of
from stacq.stitch import models, stages
from stacq.stitch.config import ForwardConfig, InverseConfig, RewardConfig, StitchConfig, ValueConfig
from stacq.stitch.paths import ROW, STITCHED, TO
from stacq.stitch.stages import DATA, read_report, stitched, stitched_at
from stacq.tabular.maze import load as load_maze

TINY = StitchConfig(
    iterations=3,
    radius=0.3,
    least_gain=0.01,
    limit=60,
    forward=ForwardConfig(members=3, elites=2, hidden=(16,), max_epochs=12, learning_rate=1e-2),
    value=ValueConfig(steps=150, hidden=(8, 8), learning_rate=3e-3, tau=0.1, batch=32),
    inverse=InverseConfig(steps=40, narrow=8),
    reward=RewardConfig(steps=40, hidden=(8,)),
)


@cache
def recordings() -> Dataset:
    return maze_dataset(load_maze("stitching"), copies=3)


class Stopped(Exception):
    """The plug is pulled."""


def stopping(function: Callable[..., Any], after: int) -> Callable[..., Any]:
    """The function, which works so many times."""
    left = [after]

    def called(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return function(*arguments)

    return called


@pytest.mark.slow
def test_a_stop_between_iterations_is_gone_on_from_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, said = recordings(), list[str]()
    places = [stitched_at(dataset, TINY, number) for number in (1, 2, 3)]
    for module, name, after, there in (
        (models, "fit_reward", 0, []),
        (stages, "one_iteration", 0, []),
        (stages, "one_iteration", 2, [True, True, False]),
    ):
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(module, name, stopping(getattr(module, name), after))
            stitched(dataset, TINY, said.append)
        assert [place.exists() for place in places] == (there or [False] * 3)
    assert len([line for line in said if line.startswith("forward model")]) == 1
    resumed = stitched(dataset, TINY, said.append)
    numbers = [line.partition(":")[0] for line in said if line.startswith("stitching")]
    assert numbers == ["stitching 1", "stitching 2", "stitching 3"]
    monkeypatch.setenv("STACQ_HOME", "elsewhere")
    assert stitched(dataset, TINY).fingerprint == resumed.fingerprint
    assert not stitched_at(dataset, TINY, 4).exists()


def test_stitched_data_is_data(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, said = recordings(), list[str]()
    after = stitched(dataset, dataclasses.replace(TINY, iterations=1), said.append)
    place = stitched_at(dataset, TINY, 1)
    assert after.name == dataset.name and said[-1] == f"stitched data: {place / DATA}"
    found = load(place / DATA, infos="all")
    assert found.fingerprint == after.fingerprint and found.env_id == dataset.env_id
    assert found.name == f"{dataset.name}+stitched1" and task_of(found.name) == task_of(dataset.name)
    report = read_report(place)
    assert report["stitches"] > 0 and report["stitches"] == found.infos[STITCHED].sum()
    assert report["return_after"] == pytest.approx(found.returns.mean(), abs=1e-4)
    assert all(b > a + 0.01 * abs(a) for a, b in zip(report["returns_before"], report["returns_after"], strict=True))
    row, to = found.infos[ROW], found.infos[TO]
    assert np.array_equal(found.observations, dataset.observations[row])
    assert np.array_equal(found.next_observations, dataset.next_observations[to])
    same = ~found.infos[STITCHED]
    assert np.array_equal(row[same], to[same]) and np.array_equal(found.actions[same], dataset.actions[row[same]])
    assert np.array_equal(found.terminals, dataset.terminals[to]) and found.lengths.max() <= TINY.limit
    inner = np.ones(len(found), dtype=np.bool_)
    inner[found.last_rows] = False
    assert np.array_equal(found.next_observations[inner], found.observations[np.flatnonzero(inner) + 1])

    def never(*arguments: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(stages, "made_models", never)
    assert stitched(dataset, dataclasses.replace(TINY, iterations=1)).fingerprint == after.fingerprint


def test_other_settings_are_other_data_and_other_seeds_too() -> None:
    dataset = recordings()
    other_value = dataclasses.replace(TINY.value, discount=0.9)
    changed = [{"radius": 0.1}, {"seed": 1}, {"least_gain": 0.2}, {"limit": 50}, {"value": other_value}]
    places = {stitched_at(dataset, dataclasses.replace(TINY, **each), 1) for each in [{}, *changed]}  # type: ignore[arg-type]
    assert len(places) == 6
    assert stitched_at(dataset, dataclasses.replace(TINY, iterations=9), 1) in places


@pytest.mark.slow
def test_damaged_data_is_told(tmp_path: Path) -> None:
    dataset = recordings()
    one = dataclasses.replace(TINY, iterations=1)
    stitched(dataset, one)
    report = stitched_at(dataset, one, 1) / "report.json"
    for text in ("{}", "nothing"):
        report.write_text(text)
        with pytest.raises(InputError, match="damaged"):
            stitched(dataset, one)


def test_two_rows_can_be_too_few() -> None:
    dataset = dataclasses.replace(recordings(), successor_known=np.arange(len(recordings())) == 3)
    with pytest.raises(InputError, match="too few to stitch"):
        stitched(dataset, TINY)
