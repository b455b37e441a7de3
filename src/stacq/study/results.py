"""Records of a study's cells put together: one entry for each dataset and method, over all seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s
from stacq.data.registry import family_of
from stacq.report.statistics import Description, describe
from stacq.runs.summary import LAST
from stacq.study.records import ESTIMATES, Record

Place = tuple[str, str]  # dataset, method
SUCCESS = ("antmaze", "pointmaze", "ogbench-pointmaze")  # families whose score is a percentage of episodes


@dataclass(frozen=True, eq=False)
class Entry:
    """All seeds of one method on one dataset."""

    dataset: str
    method: str
    algorithm: str
    measure: str  # of all its numbers: score, return
    seeds: tuple[int, ...]
    steps: tuple[int, ...]  # at which every seed was evaluated, [K]
    values: Float64s  # [seeds, K]
    lost: tuple[int, ...]
    source: str = ""  # the dataset's full name
    extra: float | None = None  # reachable states beyond the own successor, for each state of the data
    estimates: tuple[float, float] | None = None  # final ones: the critics' value at starts, the discounted return

    @property
    def final(self) -> Float64s:
        return self.values[:, -1]

    @property
    def best(self) -> Float64s:
        return np.asarray(self.values.max(axis=1))

    @property
    def last_ten(self) -> Float64s:
        return np.asarray(self.values[:, -LAST:].mean(axis=1))

    def shown(self, statistic: str) -> Float64s:
        found: Float64s = getattr(self, statistic)
        return found

    def described(self, statistic: str) -> Description:
        """Over seeds. An interval of success rates ends at 0 and 100 percent."""
        found = describe(self.shown(statistic))
        if family_of(self.source) not in SUCCESS:
            return found
        return found._replace(low=max(found.low, 0.0), high=min(found.high, 100.0))


class Missing(NamedTuple):
    """A cell without numbers, and why."""

    dataset: str
    method: str
    why: str


def entries_of(records: Iterable[Record]) -> dict[Place, Entry]:
    """In the order of the records; seeds of several runs are put side by side at the steps that they share."""
    records = list(records)
    _check_same_rows(records)
    groups: dict[Place, list[Record]] = {}
    for record in records:
        if record["scores"]:
            groups.setdefault((record["dataset"], record["method"]), []).append(record)
    return {place: _entry(group) for place, group in groups.items()}


def _check_same_rows(records: Iterable[Record]) -> None:
    """Scores on other rows are no scores on the same dataset: regenerated rows differ between processors."""
    found: dict[str, str] = {}
    for record in records:
        name, rows = record["dataset"], record.get("dataset_hash")
        if rows and found.setdefault(name, rows) != rows:
            raise InputError(
                f"rows with the hash {found[name]:.12} and rows with {rows:.12}",
                where=f"records of {name}",
                expected="one recording for each dataset of a study",
                fix="show the records of one recording at a time",
            )


def _entry(records: Sequence[Record]) -> Entry:
    first = records[0]
    steps = sorted(set.intersection(*({*record["evaluated"]} for record in records)))
    seeds: list[int] = []
    rows: list[Any] = []
    for record in records:
        places = [record["evaluated"].index(step) for step in steps]
        for seed, values in zip(record["seeds"], record["scores"], strict=True):
            if seed not in seeds:
                seeds.append(seed)
                rows.append([values[place] for place in places])
    lost = sorted({seed for record in records for seed in record["lost"]})
    value, earned = (_last(records, name, steps[-1]) for name in ESTIMATES)
    return Entry(
        first["dataset"],
        first["method"],
        first["algorithm"],
        first["measure"],
        tuple(seeds),
        tuple(steps),
        np.array(rows, dtype=np.float64).reshape(len(seeds), len(steps)),
        tuple(lost),
        first.get("full_name") or first.get("source") or first["dataset"],
        (first.get("sets") or {}).get("extra_per_state"),
        None if value is None or earned is None else (value, earned),
    )


def _last(records: Sequence[Record], name: str, step: int) -> float | None:
    """The mean over all seeds of what stands beside the scores at that step; None if a record lacks it."""
    if not all(record.get(name) for record in records):
        return None
    found = {
        seed: values[record["evaluated"].index(step)]
        for record in records
        for seed, values in zip(record["seeds"], record[name], strict=True)
    }
    return float(np.mean(list(found.values())))


def lost_places(records: Iterable[Record]) -> set[Place]:
    """Where seeds were lost and none is left."""
    lost, left = set(), set()
    for record in records:
        place = record["dataset"], record["method"]
        lost |= {place} if record["lost"] else set()
        left |= {place} if record["seeds"] else set()
    return lost - left


def by_dataset(entries: Mapping[Place, Entry]) -> dict[str, dict[str, Entry]]:
    found: dict[str, dict[str, Entry]] = {}
    for (dataset, method), entry in entries.items():
        found.setdefault(dataset, {})[method] = entry
    return found


def methods_of(entries: Iterable[Place]) -> list[str]:
    return list(dict.fromkeys(method for _, method in entries))


def ranks(entries: Mapping[Place, Entry], statistic: str) -> dict[str, float]:
    """The mean rank of every method over the datasets that all of them have; 1 is best, ties share a rank."""
    methods, groups = methods_of(entries), by_dataset(entries)
    shared = [group for group in groups.values() if len(group) == len(methods)]
    if not shared:
        return {}
    means = np.array([[group[name].shown(statistic).mean() for name in methods] for group in shared])  # [T, M]
    above = (means[:, None, :] > means[:, :, None]).sum(axis=2)
    same = (means[:, None, :] == means[:, :, None]).sum(axis=2)
    placed = (above + (same + 1) / 2).mean(axis=0)
    return dict(zip(methods, placed.tolist(), strict=True))
