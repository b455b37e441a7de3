"""Records of evaluation episodes: one row of `records.csv` each, written and read."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from stacq.core.printable import printable

COLUMNS = ("algorithm", "dataset", "seed", "step", "episode", "return", "length", "score", "success")


@dataclass(frozen=True)
class EpisodeRecord:
    """One evaluation episode, tidy: every statistic is made from these at report time."""

    algorithm: str
    dataset: str
    seed: int
    step: int  # of training
    episode: int
    episode_return: float  # undiscounted; column "return"
    length: int
    score: float | None  # D4RL's normalised score, None where no reference returns are known
    success: bool | None  # None where the environment does not say

    def row(self) -> tuple[object, ...]:
        """Values under COLUMNS; floats at full precision, unknown as empty, names without control characters."""
        values = (printable(self.algorithm), printable(self.dataset), self.seed, self.step, self.episode)
        score = "" if self.score is None else repr(self.score)
        success = "" if self.success is None else int(self.success)
        return (*values, repr(self.episode_return), self.length, score, success)


def csv_line(values: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def parse_records(lines: Iterable[str]) -> list[EpisodeRecord]:
    """Records from the lines of a CSV file, header first, value for value as they were written."""
    return [_parse(row) for row in csv.DictReader(lines)]


def _parse(row: dict[str, str]) -> EpisodeRecord:
    if None in row or None in row.values():
        raise ValueError(f"{len(COLUMNS)} values were expected: {', '.join(COLUMNS)}")
    seed, step, episode, length = (_count(row[key]) for key in ("seed", "step", "episode", "length"))
    return EpisodeRecord(
        algorithm=row["algorithm"],
        dataset=row["dataset"],
        seed=seed,
        step=step,
        episode=episode,
        episode_return=float(row["return"]),
        length=length,
        score=float(row["score"]) if row["score"] else None,
        success=bool(int(row["success"])) if row["success"] else None,
    )


def _count(text: str) -> int:
    if not 0 <= (value := int(text)) < 2**63:
        raise ValueError(f"{text[:20]} is no number from 0 that fits 64 bits")
    return value
