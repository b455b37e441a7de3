"""Who is judged: policies of runs, files, or policies at hand, each under a name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stacq.core.errors import InputError
from stacq.core.files import exists
from stacq.policies import Policy
from stacq.runs.finished import read_finished
from stacq.runs.summary import run_of

STATE_CONSTRAINED = ("stacq", "onestep-stacq")


class Candidate(NamedTuple):
    """A policy under a name of its own."""

    name: str
    policy: Policy
    states: bool = False  # whether it was trained on values Q(s, s')
    group: str = ""  # of its run: seeds of one run belong together


Source = Path | str | Policy


def candidates_from(sources: Sequence[Source] | Mapping[str, Source]) -> list[Candidate]:
    """Every policy that is named; of a run directory all seeds. Names that come twice get a number."""
    named = sources.items() if isinstance(sources, Mapping) else ((None, source) for source in sources)
    found = [each for name, source in named for each in _of(name, source)]
    if not found:
        raise InputError("no policy to judge", where="judge", expected="runs, files or policies", fix="name one")
    return _apart(found)


def check_sizes(candidates: Sequence[Candidate], observation: int, action: int, dataset: str) -> None:
    """Refuse a policy for other data, before anything long begins."""
    for each in candidates:
        sizes = each.policy.observation_size, each.policy.action_size
        if sizes != (observation, action):
            raise InputError(
                f"{each.name} is for observations of {sizes[0]} and actions of {sizes[1]} numbers",
                where=dataset or "dataset",
                expected=f"policies for {observation} and {action}, the sizes of the data",
                fix="judge it on the data it was trained on (--data)",
            )


def dataset_of(sources: Sequence[Source]) -> str | None:
    """The dataset that all run directories among them name; None if none does."""
    runs = [Path(source) for source in sources if not isinstance(source, Policy) and Path(source).is_dir()]
    names = sorted({read_finished(run).dataset for run in runs} - {""})
    if len(names) > 1:
        raise InputError(
            f"the runs are of several datasets: {', '.join(names)}",
            where="judge",
            expected="runs of one dataset",
            fix="judge them apart, or name the data (--data)",
        )
    return names[0] if names else None


def _of(name: str | None, source: Source) -> list[Candidate]:
    if isinstance(source, Policy):
        return [Candidate(name or source.kind, source)]
    if not isinstance(source, str | Path):
        raise InputError(
            f"a policy is {type(source).__name__} {source!r:.60}",
            where="judge",
            expected="a run directory, a policy file, or a stacq.Policy",
            fix="turn a function into networks with stacq.Policy.from_mlp",
        )
    path = Path(source)
    if exists(path) and path.is_dir():
        run, algorithm = read_finished(path), run_of(path).algorithm
        label, states = name or run.label, algorithm in STATE_CONSTRAINED
        return [Candidate(f"{label}, seed {seed}", policy, states, label) for seed, policy in run.policies.items()]
    return [Candidate(name or path.stem, Policy.load(path))]


def _apart(candidates: Sequence[Candidate]) -> list[Candidate]:
    seen: dict[str, int] = {}
    found = []
    for each in candidates:
        seen[each.name] = seen.get(each.name, 0) + 1
        count = seen[each.name]
        found.append(each if count == 1 else each._replace(name=f"{each.name} ({count})"))
    return found
