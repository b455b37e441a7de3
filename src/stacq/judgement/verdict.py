"""From numbers to words: what each policy is worth beside the data, and which one to take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Word = Literal["better", "as good", "worse", "not judged"]
SHARED_ERROR = 0.3  # of the data's value above the worst: what intervals miss, 19 times in 20 (docs/judge.md)
FAR = 0.5  # share of proposed actions beyond the data from which nothing can be said for a policy
LEAST_TRUST = 0.1  # of the discount's own horizon: models that give up sooner have said nothing
CHANCE = {5: 1.00, 6: 0.89, 7: 0.79, 8: 0.74, 9: 0.70, 10: 0.65, 11: 0.62, 12: 0.59, 16: 0.50, 20: 0.45}
MANY = max(CHANCE)  # policies from which a rank correlation is worth a word without a warning


class Interval(NamedTuple):
    """A value and its 95 percent interval, discounted, in units of the data's rewards."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Judgement:
    """What one policy is worth, by every way of asking."""

    name: str
    value: Interval  # all ways together
    careful: float  # what policies are ranked by
    critics: Interval  # fitted Q evaluation
    critics_of_states: Interval | None  # its form Q(s, s'), for policies of state-constrained learning
    rollouts: Interval | None  # None without models
    horizon: float | None  # steps of a rollout that the models agree about, the median over rollouts
    far_actions: float  # share of proposed actions beyond the data
    far_states: float | None  # share of predicted next states beyond the data
    verdict: Word
    because: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a file holds them."""
        found = {key: value._asdict() if isinstance(value, Interval) else value for key, value in vars(self).items()}
        return found


@dataclass(frozen=True)
class Report:
    """All policies, best first, beside the data."""

    dataset: str
    discount: float
    data: Interval  # mean discounted return of the recorded episodes
    judged: tuple[Judgement, ...]
    recommended: str | None
    advice: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "discount": self.discount,
            "data": self.data._asdict(),
            "judged": [each.to_json() for each in self.judged],
            "recommended": self.recommended,
            "advice": self.advice,
            "notes": list(self.notes),
        }


def careful_value(critics: Interval, rollouts: Interval | None, near: float, data: float, worst: float) -> float:
    """What policies are ranked by: half of it what the models are sure of, half the data's value for the share of
    actions that are `near` the data's. Neither half is below `worst`.

    The second half tells policies apart of which the models know nothing. Where there are no models, the critics' low
    end stands in for them: critics overrate what no data contradicts, so they come second.
    """
    sure = critics if rollouts is None else rollouts
    return max(sure.low, worst) / 2 + (worst + near * (data - worst)) / 2


def together(parts: Sequence[Interval], value: float, slack: float) -> Interval:
    """From the lowest end to the highest, since each way errs in its own direction; widened by `slack`, since they
    learned from the same data and share some errors."""
    low, high = min(part.low for part in parts) - slack, max(part.high for part in parts) + slack
    return Interval(min(max(value, low), high), low, high)


def verdict_of(
    value: Interval, data: Interval, far_actions: float, horizon: float | None, discount: float
) -> tuple[Word, str]:
    """A word, and why; with the way in which it may be wrong."""
    believed = horizon is None or horizon >= LEAST_TRUST / max(1 - discount, 1e-6)
    if far_actions > FAR or not believed:
        return "not judged", _unknown(far_actions, horizon)
    if value.low > data.high:
        return "better", "its whole interval lies above the data's; wrong if the models and critics share an error"
    if value.high < data.low:
        return "worse", "its whole interval lies below the data's; wrong if it is good where the data never was"
    return "as good", "its interval meets the data's: the data cannot tell them apart"


def _unknown(far_actions: float, horizon: float | None) -> str:
    parts = [f"{far_actions:.0%} of its actions are unlike any in the data"]
    if horizon is not None:
        parts.append(f"the models agree for {horizon:,.0f} steps of it")
    return f"{', '.join(parts)}; it may be anything, so do not run it on this evidence"


def recommendation(judged: Sequence[Judgement], data: Interval) -> tuple[str | None, str]:
    """The first in rank that could be judged, if its value beats the data's.

    Where it does not, none is: a policy further down that claims more has less to show for it.
    """
    known = [each for each in judged if each.verdict != "not judged"]
    best = max(known, key=lambda each: each.careful, default=None)
    if best is None or best.verdict == "worse" or best.value.value <= data.value:
        return None, "none is better than the data, as far as the data can tell"
    if best.verdict == "better":
        return best.name, f"take {best.name}: its whole interval lies above the data's"
    return best.name, f"take {best.name} if any: it comes first, but its interval meets the data's"


def chance_note(count: int) -> str:
    """What a ranking of so few policies can be by chance; empty for many."""
    if count < 2 or count > MANY:
        return ""
    known = [size for size in CHANCE if size <= count]
    if not known:
        return f"{count} policies: any order of so few may be chance"
    limit = CHANCE[max(known)]
    return f"{count} policies: a rank correlation of {limit:.2f} with the truth is still chance at 5 percent"
