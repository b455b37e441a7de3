"""From runs or policies to a judgement without an environment: `stacq judge`, and the end of `stacq run` on logs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stacq.core.errors import InputError
from stacq.core.files import check_writable, write_json
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.dynamics.models import Dynamics
from stacq.judgement.candidates import Candidate, Source, candidates_from, check_sizes, dataset_of
from stacq.judgement.config import JudgeConfig, check_config
from stacq.judgement.judging import judged
from stacq.judgement.verdict import Report
from stacq.pipeline.models import made_dynamics
from stacq.pipeline.options import Stages
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.train import keep_compiled
from stacq.report.page import write_page
from stacq.report.page_judge import judge_section
from stacq.runs.summary import RunSummary, read_run

PAGE, NUMBERS = "judge.html", "judge.json"


def judge(
    runs: Source | Sequence[Source] | Mapping[str, Source],
    data: Dataset | Path | str | None = None,
    config: JudgeConfig | None = None,
    *,
    dynamics: Dynamics | Path | str | None = None,
    out: Path | str | None = None,
    conventions: Conventions = NOTHING_STATED,
    reporter: Reporter | None = None,
    **keywords: Any,
) -> Report:
    """What policies are worth, from recorded data alone: ranked, with intervals, and with advice.

    `runs` are run directories, policy files or policies, or a mapping from names to them. The data is that of the
    runs unless it is given. Dynamics are given, or made by the small recipe. With `out`, a page and the numbers are
    written into that folder.
    """
    config = _config(config, keywords)
    sources = [runs] if isinstance(runs, str | Path) or callable(runs) else runs
    named = candidates_from(sources)
    dataset = _data(data, list(sources.values()) if isinstance(sources, Mapping) else list(sources), conventions)
    check_sizes(named, dataset.observation_size, dataset.action_size, dataset.name)
    if out is not None:
        check_writable(Path(out) / PAGE)
    report = judge_candidates(dataset, named, config, dynamics=dynamics, reporter=reporter or Reporter())
    if out is not None:
        write_judgement(Path(out), report, _summaries(sources))
    return report


def judge_candidates(
    dataset: Dataset,
    candidates: Sequence[Candidate],
    config: JudgeConfig = JudgeConfig(),
    *,
    dynamics: Dynamics | Path | str | None = None,
    reporter: Reporter = Reporter(),
) -> Report:
    """With models of the dynamics where there are rows enough to fit some."""
    keep_compiled()
    if not isinstance(dynamics, Dynamics):
        dynamics = _dynamics(dataset, None if dynamics is None else Path(dynamics), reporter)
    elif (made_from := dynamics.parents.get("dataset", dataset.fingerprint)) != dataset.fingerprint:
        reporter.say(f"note: these dynamics were fitted to other data (hash {made_from[:12]})")
    report = judged(dataset, candidates, dynamics, config, say=reporter.say)
    reporter.judged(report)
    return report


def judge_trained(
    dataset: Dataset,
    runs: Sequence[Path],
    dynamics: Dynamics | None,
    reporter: Reporter,
    config: JudgeConfig = JudgeConfig(),
) -> Report | None:
    """The policies that were trained just now; None, with the reason, where the data cannot judge them."""
    try:
        return judge_candidates(dataset, candidates_from(runs), config, dynamics=dynamics, reporter=reporter)
    except InputError as error:
        reporter.say(f"! the policies are not judged: {error.problem}")
        return None


def write_judgement(out: Path, report: Report, runs: Sequence[RunSummary]) -> Path:
    """The page, and everything on it as numbers."""
    write_json(out / NUMBERS, report.to_json())
    title = f"What policies for {report.dataset or 'this data'} are worth"
    return write_page(out / PAGE, runs, title=title, first=[judge_section(report)])


def _dynamics(dataset: Dataset, place: Path | None, reporter: Reporter) -> Dynamics | None:
    try:
        return made_dynamics(dataset, Stages(dynamics=place), small=True, reporter=reporter).dynamics
    except InputError as error:
        if place is not None or "too few to fit" not in error.problem:
            raise
        reporter.say(f"note: {error.problem}; the policies are judged without models")
        return None


def _config(config: JudgeConfig | None, keywords: Mapping[str, Any]) -> JudgeConfig:
    try:
        found = JudgeConfig(**keywords) if config is None else config
    except TypeError as error:
        known = ", ".join(JudgeConfig.__dataclass_fields__)
        raise InputError(str(error), where="stacq.judge", expected=known, fix="check the name") from error
    if not isinstance(found, JudgeConfig) or (config is not None and keywords):
        raise InputError("the options come twice, or are of another kind", where="stacq.judge", expected="JudgeConfig")
    check_config(found)
    return found


def _data(data: Dataset | Path | str | None, sources: Sequence[Source], conventions: Conventions) -> Dataset:
    if isinstance(data, Dataset):
        return data
    name = data if data is not None else dataset_of(sources)
    if name is None:
        raise InputError(
            "it is not known which data the policies belong to",
            where="judge",
            expected="the data, or run directories that name it",
            fix="name the data (--data)",
        )
    return load(name, conventions=conventions)


def _summaries(sources: Sequence[Source] | Mapping[str, Source]) -> list[RunSummary]:
    """Of the run directories, for the rest of the page."""
    values = sources.values() if isinstance(sources, Mapping) else sources
    return [read_run(Path(each)) for each in values if isinstance(each, str | Path) and Path(each).is_dir()]
