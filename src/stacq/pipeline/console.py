"""The stages as text on a terminal: what will be done, how it goes, what came out."""

import contextlib
import dataclasses
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from stacq.core.printable import printable
from stacq.core.progress import Update, on_terminal, progress, tell
from stacq.core.terminal import Console
from stacq.data.dataset import Dataset
from stacq.data.inspect import summarise
from stacq.judgement.verdict import Report as Judged
from stacq.nn.precision import precision_text
from stacq.pipeline.options import setting_text
from stacq.pipeline.plan import Plan
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.trained import Trained
from stacq.reach.quality_facts import Quality
from stacq.reach.stitching import Stitching
from stacq.report.dynamics_text import print_again, print_quality
from stacq.report.judge_text import print_judgement
from stacq.report.reach_text import print_stitching
from stacq.report.statistics import is_pair
from stacq.report.tables import plural, spread_text
from stacq.runs.finished import lost_text
from stacq.runs.summary import nothing_to_stitch, read_run
from stacq.training.pace import Listener, Report

SHOWN = ("critic_loss", "actor_loss", "q")  # of the losses, in a line
PLAIN_SECONDS = 30.0  # between two lines where there is no terminal
SETTLED = 3  # chunks before a rate is believed: the first one compiles, the next may be a few steps long
WRONG, NOTICED = 2, 10  # an estimate is given again if it was wrong by this factor, and by more than a few seconds
LOG_WIDTH = 100  # columns of reports in a log
LONG = 20 * 60  # seconds; for a longer run, options that make it shorter are printed


class ConsoleReporter(Reporter):
    """Prints every stage on standard output, and progress on standard error.

    If it is `brief`, it prints a line for each stage, and the whole reports go to the run's log.
    """

    def __init__(self, console: Console | None = None, *, brief: bool = False) -> None:
        self.console = console or Console(markup=False)
        self.brief = brief
        self.display: TrainingDisplay | None = None
        self._kept = io.StringIO()
        self._log = Console(file=self._kept, width=LOG_WIDTH) if brief else self.console

    def say(self, text: str) -> None:
        if self.display is not None:
            self.display.say(text)
        else:
            self.console.print(text, soft_wrap=True)

    def detail(self, text: str) -> None:
        if self.brief:
            self._log.print(text, soft_wrap=True)
        else:
            self.say(text)

    def begun(self, plan: Plan) -> None:
        self.say(announcement(plan))

    def concerns(self, dataset: Dataset) -> None:
        """What `stacq data inspect` warns of."""
        for warning in summarise(dataset).warnings:
            self.say(f"! {warning}")

    @contextlib.contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Update]:
        with progress(label, total, unit) as update:
            yield update

    def fitted(self, quality: Quality | Mapping[str, Any], directory: Path) -> None:
        if isinstance(quality, Quality):
            print_quality(quality, self._log)
        else:
            print_again(quality, self._log)
        if self.brief:
            self.say(fitted_line(quality.to_json() if isinstance(quality, Quality) else quality, directory))

    def reachable(self, found: Stitching, options: Mapping[str, Any], directory: Path, picture: Path) -> None:
        print_stitching(found, options, self._log)
        self.detail(f"sets: {directory}\npicture: {picture}")
        if self.brief:
            self.say(reachable_line(found, directory))

    def diagnostics(self, plan: Plan, directory: Path) -> str:
        if not self.brief:
            return ""
        found = self._kept.getvalue()
        self._kept.seek(0)
        self._kept.truncate()
        return found + describe_plan(plan, directory)

    @contextlib.contextmanager
    def training(self, plan: Plan, directory: Path) -> Iterator[Listener]:
        if self.brief:
            self.say(f"run directory: {directory} (settings and reports in its log.txt)")
        else:
            self.say(describe_plan(plan, directory))
        with TrainingDisplay(plan, self.console) as self.display:
            yield self.display.update
        self.display = None

    def result(self, plan: Plan, trained: Trained) -> None:
        self.say(describe_result(plan, trained))

    def judged(self, report: Judged) -> None:
        print_judgement(report, self.console)


def announcement(plan: Plan) -> str:
    """One line before anything begins: data, method, amount, and what comes before the training."""
    schedule, phases = plan.schedule, plan.algorithm.phases(plan.config)
    steps = " + ".join(f"{phase.steps:,}" for phase in phases)
    text = f"{printable(plan.dataset.name) or 'the dataset'}, {len(plan.dataset):,} rows: {plan.label}, "
    text += f"{plural(len(schedule.seeds), 'seed')} of {steps} steps"
    text += ", after dynamics and reachable sets" if plan.algorithm.needs.reachable else ""
    scored = f"; scored in {printable(plan.env)} every {schedule.eval_every:,} steps" if plan.env else ""
    return text + (scored or "; no environment is known, so nothing is scored (--env names one)")


def fitted_line(numbers: Mapping[str, Any], directory: Path) -> str:
    """Dynamics in one line, with the warnings that their report has."""
    trip = numbers["round_trip"]
    line = f"dynamics: {trip['recall'][0]:.1%} of true successors pass at epsilon {trip['epsilons'][0]:g}; {directory}"
    return "\n".join([line, *(f"! {warning}" for warning in numbers["warnings"])])


def reachable_line(found: Stitching, directory: Path) -> str:
    """Reachable sets in one line, with what should worry their user."""
    line = (
        f"reachable sets: {found.extra:.3g} states per state beyond its own successor; groups of linked episodes: "
        f"{found.components_before:,} before, {found.components_after:,} after; {directory}"
    )
    return "\n".join([line, *(f"! {warning}" for warning in found.warnings())])


def describe_plan(plan: Plan, directory: Path) -> str:
    """One paragraph before a run."""
    schedule, config, phases = plan.schedule, plan.config, plan.algorithm.phases(plan.config)
    text = (
        f"training {plan.algorithm.name} ({plan.options.variant}) on {printable(plan.dataset.name) or 'the dataset'}: "
    )
    text += f"{plural(len(schedule.seeds), 'seed')}, {' + '.join(f'{phase.steps:,}' for phase in phases)} steps"
    if plan.algorithm.needs.reachable and plan.algorithm.needs.pairs:
        text += f", {config.batch} + {config.slots} pairs per step"
    text += (
        f", every {schedule.eval_every:,} steps {plan.preset.episodes} episodes in {printable(plan.env)}"
        if plan.env
        else ""
    )
    text += "" if plan.env else "; no environment is known, so nothing is scored (--env names one)"
    shown = "states as they are" if plan.normaliser.is_identity else "states normalised"
    scale, shift = plan.reward_scale, plan.preset.shown.reward_shift
    shown += f", rewards times {scale:.3g}" if scale != 1 else ""
    shown += f", rewards {shift:+g}" if shift else ""
    lines = [f"{text}; {shown}", f"settings: {settings_text(config)}"]
    if plan.dynamics is not None or plan.algorithm.needs.frozen or plan.options.precision != "auto":
        lines.append(precision_text(plan.options.precision, jax.default_backend()))
    return "\n".join([*lines, f"run directory: {directory}"])


def settings_text(config: Any) -> str:
    """Every number of a preset, as `--set` takes them."""
    values = ((each.name, getattr(config, each.name)) for each in dataclasses.fields(config))
    return " ".join(f"{name}={setting_text(value)}" for name, value in values)


def describe_result(plan: Plan, trained: Trained) -> str:
    """The final policies' scores with their interval; other statistics are named for what they are."""
    result = trained.result
    lost = lost_text(result.get("lost", []), len(plan.schedule.seeds))
    stitched = nothing_to_stitch([read_run(trained.directory)])
    warning = [text for text in (lost, f"! {stitched}" if stitched else "") if text]
    if result.get("final") is None:
        return "\n".join([*warning, f"policies: {trained.directory / 'policies'}"])
    final = np.array(result["final"])
    values = "" if is_pair(final) else f"by seed {', '.join(f'{value:.1f}' for value in final)}; "
    lines = [f"final policies, {result['measure']}: {final.mean():.1f} ({values}{spread_text(final)})"]
    rest = (("best evaluation", "best"), ("mean of the last ten, or of all if there are fewer", "last_ten"))
    lines += [f"  {name}: {np.mean(result[key]):.1f}" for name, key in rest]
    kept = f"kept in {trained.directory}: policies/, records.csv, metrics.jsonl, result.json"
    return "\n".join([*warning, *lines, kept])


class TrainingDisplay:
    """A live bar on a terminal, sparse lines elsewhere; a context manager."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan, self.console = plan, console
        self.seeds = len(plan.schedule.seeds)
        self.live = on_terminal()
        self.bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=Console(stderr=True),
        )
        self.task: TaskID | None = None
        self.facts = ""
        self.chunks, self.until, self.printed = 0, 0, time.monotonic()
        self.promised = 0.0  # when the phase will end, by the last estimate that was said

    def __enter__(self) -> "TrainingDisplay":
        if self.live:
            self.bar.start()
            self.task = self.bar.add_task("", total=None, rate="", facts="")
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.bar.stop()

    def say(self, text: str) -> None:
        (self.bar.console if self.live else self.console).print(text, soft_wrap=True)

    def update(self, report: Report) -> None:
        if report.until != self.until:
            self.chunks, self.until = 0, report.until
        self.chunks += not report.losses
        now = time.monotonic()
        waits = self.chunks > SETTLED and report.behind > WRONG * max(self.promised - now, NOTICED)
        if not report.losses and (self.chunks == SETTLED or waits):
            self.promised = now + time_left(report)
            self.say(self.estimate(report))
        if report.losses:
            self.facts = _facts(report)
        if self.task is not None:
            rate = f"{report.rate:,.0f} steps/s"
            self.bar.update(self.task, completed=report.step, total=report.total, rate=rate, facts=self.facts)
        elif time.monotonic() - self.printed >= PLAIN_SECONDS and self.chunks >= SETTLED:
            self.printed = time.monotonic()
            left = duration(time_left(report))
            line = f"training: {report.step:,} of {report.total:,} steps, {report.rate:,.0f}/s, {left} left"
            line += " in this phase" * (report.until < report.total)
            tell(f"{line}  {self.facts}")

    def estimate(self, report: Report) -> str:
        """How long the rest will take at the speed just measured, and what would shorten it."""
        left = time_left(report)
        device = jax.default_backend()
        seeds = plural(self.seeds, "seed")
        text = f"{report.rate:,.0f} steps/s of {seeds} on this {device}: about {duration(left)} to go"
        if report.until < report.total:
            text += f" to step {report.until:,} of {report.total:,}, where another phase begins"
        if report.behind > training_left(report):
            text += (
                ", since evaluating takes longer than training; shorter with a larger --eval-every or fewer --episodes"
            )
        elif left >= LONG:
            ways = ["a GPU"] * (device == "cpu") + ["--small"] * (not self.plan.options.small)
            ways += ["fewer --seeds"] * (self.seeds > 1)
            text += f"; shorter with {', '.join([*ways, 'fewer --steps'])}"
        return text


def time_left(report: Report) -> float:
    """Seconds to the end of the phase. Evaluations run during the training, so the slower of the two counts."""
    return max(training_left(report), report.behind)


def training_left(report: Report) -> float:
    return (report.until - report.step) / max(report.rate, 1e-9)


def duration(seconds: float) -> str:
    """Roughly, as people say it."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return plural(round(seconds), "second") if seconds >= 0.5 else "less than a second"


def _facts(report: Report) -> str:
    losses = [f"{name} {np.nanmean(report.losses[name]):.3g}" for name in SHOWN if name in report.losses]
    scores = " ".join(f"{value:.1f}" for _, value in sorted(report.scores.items()))
    return ", ".join(losses) + (f" | last scores {scores}" if scores else "")
