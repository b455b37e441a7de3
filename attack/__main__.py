"""`python -m attack`: every category in turn, each with its share of the time, then a table and a line for machines."""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from attack import commands, disks, files, kills, servers, shadows, specials, surroundings
from attack.bench import Bench
from attack.samples import samples
from attack.verdict import Finding, Kind, Outcome

Attack = Callable[[Bench, Iterator[int]], Iterator[Outcome]]
CATEGORIES: dict[str, tuple[Attack, float]] = {  # with shares of the time
    "files": (files.attack, 0.12),
    "servers": (servers.attack, 0.06),
    "shadows": (shadows.attack, 0.05),
    "surroundings": (surroundings.attack, 0.05),
    "specials": (specials.attack, 0.11),
    "commands": (commands.attack, 0.14),
    "disks": (disks.attack, 0.13),
    "kills": (kills.attack, 0.34),
}
SHORT_MINUTES, LONG_MINUTES = 2.0, 60.0
TOLD = 12  # different findings of a category that are printed whole
WIDTH = 120


def main() -> None:
    options = parsed()
    began = time.monotonic()
    end = began + 60 * options.minutes
    folder = Path(tempfile.mkdtemp(prefix="stacq-attack-"))
    benches = [Bench(folder / str(place), options.seed, options.short, folder) for place in range(options.processes)]
    console = Console(markup=False, highlight=False, width=WIDTH)
    try:
        samples(benches[0])
        results = {name: run(name, benches, console, stop, options.case) for name, stop in schedule(options.only, end)}
    finally:
        for bench in benches:
            bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    write_findings(options.findings, results, benches[0])
    told = summary(results, console)
    print(f"attack: {told} seed={options.seed} seconds={time.monotonic() - began:.0f}", flush=True)
    sys.exit(1 if any(outcome.findings for each in results.values() for outcome in each) else 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attack", description="An attack on stacq, bounded and seeded.")
    parser.add_argument("--minutes", type=float, help="in all; by default 60, and 2 for a short one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=CATEGORIES, help="one category")
    parser.add_argument("--case", type=int, help="one case of it, by its number")
    parser.add_argument("--short", action="store_true", help="the quick part, for every change")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="cases at a time")
    parser.add_argument("--findings", type=Path, default=Path("build/attack.jsonl"), help="where they are written")
    options = parser.parse_args()
    if options.case is not None and options.only is None:
        parser.error("--case needs --only")
    options.minutes = options.minutes or (SHORT_MINUTES if options.short else LONG_MINUTES)
    options.processes = 1 if options.case is not None else max(options.processes, 1)
    return options


def schedule(only: str | None, end: float) -> Iterator[tuple[str, float]]:
    """Each category with the time when it stops; what one leaves of its share goes to those that follow."""
    names = [only] if only else list(CATEGORIES)
    for place, name in enumerate(names):
        now, left = time.monotonic(), sum(CATEGORIES[each][1] for each in names[place:])
        yield name, now + (end - now) * CATEGORIES[name][1] / left


def run(name: str, benches: Sequence[Bench], console: Console, end: float, case: int | None) -> list[Outcome]:
    """One category, its cases dealt out to the benches; findings are told as they come, those of one kind once."""
    console.print(f"{name}: begun", style="bold")
    seen, began = set[str](), time.monotonic()

    def work(place: int) -> list[Outcome]:
        numbers = iter([case]) if case is not None else until(end, place, len(benches))
        outcomes = []
        for outcome in CATEGORIES[name][0](benches[place], numbers):
            outcomes.append(outcome)
            for finding in outcome.findings:
                if finding.signature not in seen and len(seen) < TOLD:
                    console.print(tell(finding, repeating(name, benches[0], outcome.number)), soft_wrap=True)
                seen.add(finding.signature)
        return outcomes

    with ThreadPoolExecutor(len(benches)) as pool:
        outcomes = [outcome for each in pool.map(work, range(len(benches))) for outcome in each]
    console.print(f"{name}: {len(outcomes)} cases in {time.monotonic() - began:.0f} s, {len(seen)} different findings")
    return sorted(outcomes, key=lambda outcome: outcome.number)


def until(end: float, first: int, step: int) -> Iterator[int]:
    """Numbers until the time is up, and one in any case."""
    return itertools.takewhile(lambda number: number == first or time.monotonic() < end, itertools.count(first, step))


def tell(finding: Finding, again: str) -> str:
    return f"{finding.kind}: {finding.what}\n{finding.detail[-800:]}\n  again: {again}"


def repeating(name: str, bench: Bench, number: int) -> str:
    short = " --short" if bench.short else ""
    return f'make attack ARGS="--seed {bench.seed}{short} --only {name} --case {number}"'


def write_findings(path: Path, results: dict[str, list[Outcome]], bench: Bench) -> None:
    """All of them, one JSON object to a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as handle:
        for name, outcomes in results.items():
            for outcome in outcomes:
                again = repeating(name, bench, outcome.number)
                for each in outcome.findings:
                    told = {"category": name, "kind": each.kind, "what": each.what, "detail": each.detail}
                    handle.write(json.dumps({**told, "again": again}) + "\n")


def summary(results: dict[str, list[Outcome]], console: Console) -> str:
    """The table, and its totals in one line."""
    table = Table("category", "inputs", "kills", *Kind, "findings")
    totals = [0] * (len(Kind) + 3)
    for name, outcomes in results.items():
        findings = [finding.kind for outcome in outcomes for finding in outcome.findings]
        counts = [sum(outcome.inputs for outcome in outcomes), sum(outcome.kills for outcome in outcomes)]
        counts += [*(findings.count(kind) for kind in Kind), len(findings)]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        table.add_row(name, *map(str, counts))
    table.add_row("all", *map(str, totals))
    console.print(table)
    return f"inputs={totals[0]} kills={totals[1]} findings={totals[-1]}"


if __name__ == "__main__":
    main()
