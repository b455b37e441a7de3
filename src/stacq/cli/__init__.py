"""The command line: thin verbs over the library, one frozen dataclass each.

Exit codes: 0 done, 1 the work failed, 2 the input was wrong, 130 stopped by Ctrl-C, 143 by SIGTERM.
Imports are made inside the verbs, so that `stacq --help` answers at once.
"""

import contextlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import tyro
from tyro.conf import subcommand

from stacq.cli.data import Data, DataVerb
from stacq.cli.judge import Judge
from stacq.cli.learn import DynamicsGroup, FitDynamics, Reach, RunAll, Study, Train
from stacq.cli.misplaced import check_options
from stacq.cli.ship import Export
from stacq.cli.show import Algorithms, Evaluate, Maze, ReportPage
from stacq.core.errors import InputError
from stacq.core.printable import printable_lines

Verb = (
    Annotated[RunAll, subcommand("run")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Study, subcommand("study")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[ReportPage, subcommand("report")]
    | Annotated[Judge, subcommand("judge")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Algorithms, subcommand("algos")]
    | Annotated[Maze, subcommand("maze")]
    | Annotated[Reach, subcommand("reach")]
    | Annotated[DynamicsGroup, subcommand("dynamics")]
    | Annotated[Data, subcommand("data")]
)
ALONE: dict[str, Any] = {
    "run": RunAll,
    "train": Train,
    "study": Study,
    "evaluate": Evaluate,
    "report": ReportPage,
    "judge": Judge,
    "export": Export,
    "algos": Algorithms,
    "maze": Maze,
    "reach": Reach,
}
"""Verbs that are parsed by themselves, so that what is said of a wrong option is about this verb."""
FORMULAS = ("--reward", "--terminal", "--timeout")
DESCRIPTION = "State-constrained offline reinforcement learning."


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run, and turn every expected way of failing into a sentence and an exit code."""
    verb = _parsed(sys.argv[1:] if arguments is None else arguments)
    from stacq.core.files import too_long
    from stacq.core.interrupts import Terminated, terminate_as_interrupt
    from stacq.core.surroundings import check_here, check_memory, memory_error
    from stacq.core.workers import WorkerFailed
    from stacq.evaluation.rollouts import EvaluationFailed
    from stacq.runs.failed import StudyFailed, TrainingFailed

    stopped = f"stopped; {getattr(verb, 'STOPPED', 'nothing was written')}"
    try:
        with terminate_as_interrupt():
            check_here()
            if getattr(verb, "LEARNS", False):
                check_memory()
            verb.run()
    except InputError as error:
        _fail(f"error: {error}", 2)
    except (EvaluationFailed, StudyFailed, TrainingFailed) as error:
        _fail(f"error: {error}", 1)
    except WorkerFailed as error:
        _fail(f"error: {error.summary}\n{error.details}".rstrip(), 1)
    except Terminated:
        _fail(stopped, 143)
    except KeyboardInterrupt:
        _fail(stopped, 130)
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        explained = memory_error(error) or too_long(error)
        if explained is not None:
            _fail(f"error: {explained}", 2)
        if not isinstance(error, MemoryError):
            raise
        _fail(f"error: there is not enough memory: {error}".removesuffix(": "), 1)


def _parsed(arguments: Sequence[str]) -> Any:
    try:
        return parse(arguments)
    except InputError as error:
        _fail(f"error: {error}", 2)


def parse(arguments: Sequence[str]) -> Any:
    arguments = _with_formulas(arguments)
    if list(arguments) == ["--version"]:
        print(f"stacq {version('stacq')}")
        sys.exit(0)
    if list(arguments[:2]) == ["dynamics", "fit"]:
        return tyro.cli(FitDynamics, prog="stacq dynamics fit", args=arguments[2:])
    if list(arguments) == ["dynamics"]:
        arguments = ["dynamics", "--help"]
    if arguments and arguments[0] == "data":
        return tyro.cli(DataVerb, prog="stacq data", description=Data.__doc__, args=arguments[1:])
    check_options(arguments)
    if arguments and arguments[0] in ALONE:
        return tyro.cli(ALONE[arguments[0]], prog=f"stacq {arguments[0]}", args=arguments[1:])
    return tyro.cli(Verb, prog="stacq", description=DESCRIPTION, args=arguments)


def _with_formulas(arguments: Sequence[str]) -> list[str]:
    """A formula that begins with a minus is no option: it is tied to the option that it belongs to."""
    found: list[str] = []
    for each in arguments:
        if found and found[-1] in FORMULAS and each.startswith("-") and not each.startswith("--"):
            found[-1] += f"={each}"
        else:
            found.append(each)
    return found


def _fail(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # the code says it too
        print(printable_lines(message), file=sys.stderr)
    sys.exit(code)
