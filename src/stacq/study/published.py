"""Scores that others printed, on D4RL's own data: shown in columns of their own, and never mixed with ours."""

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

from stacq.data.registry import base_name


class Source(NamedTuple):
    """Where numbers were printed, and what they are."""

    title: str
    statistic: str


SOURCES = {
    "paper": Source(
        "Hepburn, Jin and Montana, State-constrained offline reinforcement learning, table 1",
        "final policies; mean and deviation over 5 seeds for StaCQ and OneStep StaCQ, others as printed there",
    ),
    "paper-fixed": Source(
        "the same, appendix E, left half", "final policies, mean; one hyperparameter for all datasets"
    ),
    "paper-tuned": Source(
        "the same, appendix E, right half",
        "final policies, mean and deviation over 5 seeds; tuned per environment, four critics",
    ),
    "corl-last": Source("CORL, README of February 2024", "last checkpoint, mean"),
}


class Score(NamedTuple):
    """A printed number; the deviation is None where none was printed."""

    source: str
    method: str  # an algorithm's name
    dataset: str  # without maker, version and size
    mean: float
    std: float | None


@cache
def scores() -> tuple[Score, ...]:
    """Every number of `published.csv`."""
    text = (resources.files("stacq.study") / "published.csv").read_text("utf-8")
    return tuple(
        Score(
            row["source"], row["method"], row["dataset"], float(row["mean"]), float(row["std"]) if row["std"] else None
        )
        for row in csv.DictReader(text.splitlines())
    )


def printed(source: str, dataset: str) -> dict[str, Score]:
    """What a source prints of a dataset, by algorithm."""
    name = base_name(dataset)
    return {each.method: each for each in scores() if (each.source, each.dataset) == (source, name)}
