"""What a study's tables and page show, whatever they are written in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from stacq.report.statistics import aggregates
from stacq.study.published import SOURCES, Source, printed
from stacq.study.results import Entry, Missing, Place, by_dataset, ranks

MOST_SUMMED = 60  # methods
ALL_LOST = "all seeds lost"


@dataclass(frozen=True, eq=False)
class Contents:
    """Rows and columns in the order of the study, with what is known of them."""

    title: str
    shows: str  # the statistic of the main table
    datasets: Sequence[str]
    methods: Sequence[str]
    entries: Mapping[Place, Entry]
    missing: Sequence[Missing] = ()
    published: Sequence[str] = ()
    names: Mapping[str, str] | None = None  # of datasets, by label
    sources: Mapping[str, Source] = None  # type: ignore[assignment]
    lost: Collection[Place] = ()  # where no seed is left

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", SOURCES)

    def entry(self, dataset: str, method: str) -> Entry | None:
        return self.entries.get((dataset, method))

    def text(self, dataset: str, method: str) -> str:
        """Mean ± deviation, and how many seeds are not in them; empty where nothing was run."""
        entry = self.entry(dataset, method)
        if entry is None:
            return ALL_LOST if (dataset, method) in self.lost else ""
        return spread(entry, self.shows) + (f", {len(entry.lost)} lost" if entry.lost else "")

    def best(self, dataset: str) -> set[str]:
        """Methods with the best mean of a dataset, as it is printed."""
        methods = [method for method in self.methods if (dataset, method) in self.entries]
        means = {method: round(self.entries[dataset, method].shown(self.shows).mean(), 1) for method in methods}
        return {method for method, mean in means.items() if mean == max(means.values())}

    @cached_property
    def complete(self) -> list[str]:
        """Datasets that every method with any number has, with scores: the only ones to be put together."""
        methods = {method for _, method in self.entries}
        return [
            dataset
            for dataset, group in by_dataset(self.entries).items()
            if {*group} == methods and all(entry.measure == "score" for entry in group.values())
        ]

    @cached_property
    def summary(self) -> list[list[str]]:
        """What `summary_rows` says, made once for all the files that show it; nothing for a single dataset."""
        return summary_rows(self) if len(self.datasets) > 1 else []

    def scores(self, method: str) -> dict[str, object]:
        """Of the complete datasets, as the statistics take them."""
        return {dataset: self.entries[dataset, method].shown(self.shows) for dataset in self.complete}


def spread(entry: Entry, statistic: str) -> str:
    """Mean ± deviation over seeds."""
    found = entry.described(statistic)
    return f"{found.mean:.1f}" if found.runs == 1 else f"{found.mean:.1f} ± {found.std:.1f}"


def interval(entry: Entry, statistic: str) -> str:
    """Of 95 percent; empty for one or two seeds, whose interval says less than their mean and spread."""
    found = entry.described(statistic)
    return f"{found.low:.1f} to {found.high:.1f}" if found.runs > 2 else ""


def summary_rows(contents: Contents) -> list[list[str]]:
    """Mean, interquartile mean and mean rank over the datasets that all methods have; empty if there are none.

    A bootstrap of hundreds of methods would take minutes, and nobody reads so wide a table.
    """
    if not contents.complete or len(contents.methods) > MOST_SUMMED:
        return []
    known = {method for _, method in contents.entries}
    found = {method: aggregates(contents.scores(method)) for method in contents.methods if method in known}  # type: ignore[arg-type]
    placed = ranks(
        {place: entry for place, entry in contents.entries.items() if place[0] in contents.complete}, contents.shows
    )
    rows = {
        f"mean of {len(contents.complete)}": {method: f"{each.mean.value:.1f}" for method, each in found.items()},
        "IQM": {method: f"{each.interquartile_mean.value:.1f}" for method, each in found.items()},
        "IQM, 95 % interval": {
            method: ""
            if each.interquartile_mean.low != each.interquartile_mean.low
            else f"{each.interquartile_mean.low:.1f} to {each.interquartile_mean.high:.1f}"
            for method, each in found.items()
        },
        "mean rank": {method: f"{rank:.2f}" for method, rank in placed.items()},
    }
    return [[name, *(values.get(method, "") for method in contents.methods)] for name, values in rows.items()]


def printed_columns(contents: Contents, source: str) -> tuple[list[str], list[list[str]]]:
    """Algorithms and rows of what a source prints about the study's datasets."""
    names = contents.names or {}
    found = {dataset: printed(source, names.get(dataset, dataset)) for dataset in contents.datasets}
    wanted = {entry.algorithm for entry in contents.entries.values()}
    known = dict.fromkeys(name for scores in found.values() for name in scores)
    methods = [name for name in known if name in wanted] or list(known)
    rows = [[dataset, *(_number(scores.get(name)) for name in methods)] for dataset, scores in found.items() if scores]
    return methods, rows


def _number(score: object) -> str:
    mean, std = getattr(score, "mean", None), getattr(score, "std", None)
    if mean is None:
        return ""
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"
