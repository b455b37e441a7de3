"""Seeds and counts of every verb: beyond what can be done they are refused at once, in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import InputError, Options, Policy, evaluate, from_arrays, generate
from stacq.cli import main
from stacq.data.generate import _room, roll_out_group
from stacq.data.maze import maze_dataset
from stacq.data.registry import recipe
from stacq.data.tasks import TASKS
from stacq.dynamics.fit import fit
from stacq.dynamics.recipes import SMALL
from stacq.pipeline.plan import make_plan
from stacq.reach.config import ReachConfig
from stacq.reach.options import resolved
from stacq.tabular.maze import load as load_maze

HUGE = (2**31, 2**32 + 1, 2**63, 2**70, 10**300)
DATA = from_arrays(**logged([300, 300], ["terminal", "timeout"], sizes=(11, 3)))
SOURCE, SCORE = ("logs.npz",), ("policy.safetensors", "--env", "Hopper-v4")
TRAIN = ("train", *SOURCE, "--algo", "td3bc", "--small", "--no-evaluate", "--out", "run")
COMMANDS = (  # an option, and a command that it would end in hours, if at all
    (("data", "generate", "hopper-medium"), ("--size", "--seed")),
    (("evaluate", *SCORE), ("--seed", "--episodes")),
    (("dynamics", "fit", *SOURCE, "--preset", "small"), ("--seed", "--epochs")),
    (("reach", *SOURCE), ("--reach-seed", "--actions", "--cap")),
    (TRAIN, ("--seeds", "--first-seed", "--steps", "--episodes")),
    (("run", *SOURCE, "--out", "runs"), ("--seeds", "--steps")),
    (("study", "smoke"), ("--seeds", "--processes", "--cores")),
    (("maze",), ("--steps-reach",)),
)
OPTIONS = [(command, option) for command, options in COMMANDS for option in options]


@pytest.fixture(autouse=True)
def inputs() -> None:
    np.savez("logs.npz", **logged([300, 300], ["terminal", "timeout"], sizes=(11, 3)))
    Policy.from_mlp([np.zeros((11, 3))], [np.zeros(3)]).save("policy.safetensors")


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=[f"{command[0]} {option}" for command, option in OPTIONS])
def test_no_verb_takes_a_number_that_is_too_large(
    command: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(Path.cwd().iterdir())
    for number in (*HUGE, 99999999999999, -1):
        with pytest.raises(SystemExit) as caught:
            main([*command, option, str(number)])
        error = capsys.readouterr().err
        assert caught.value.code == 2 and str(number) in error and "expected: " in error, (number, error)
    assert set(Path.cwd().iterdir()) == before


@pytest.mark.parametrize("setting", ["batch", "hidden", "policy_every"])
def test_hyperparameters_are_bounded_too(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*TRAIN, "--set", f"{setting}={2**31}"])
    assert setting in capsys.readouterr().err


def test_evaluations_are_counted_before_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*TRAIN, "--steps", str(10**9), "--eval-every", "2"])
    assert "500000000 evaluations" in capsys.readouterr().err


def test_32_bits_were_cut_without_a_word() -> None:
    """Why seeds end there: to the generator of compiled programs these two are the same."""
    import jax

    assert (jax.random.key_data(jax.random.key(1)) == jax.random.key_data(jax.random.key(2**32 + 1))).all()


@pytest.mark.parametrize("seed", [*HUGE, -1, 1.5, "1", None, np.nan])
def test_seeds_in_python(seed: Any) -> None:
    def still(observation: Any, rng: Any) -> Any:
        return np.zeros(3)

    for call in (
        lambda: evaluate(still, "Hopper-v4", 1, seed),
        lambda: generate("hopper-medium", seed=seed),
        lambda: fit(DATA, SMALL.__class__(seed=seed)),
        lambda: resolved(ReachConfig(seed=seed)),
        lambda: maze_dataset(load_maze("stitching"), seed=seed),
        lambda: make_plan(DATA, Options("td3bc", first_seed=seed)),
    ):
        with pytest.raises(InputError):
            call()


def test_seeds_of_numpy_are_seeds() -> None:
    assert resolved(ReachConfig(seed=np.int64(7))).seed == 7  # type: ignore[arg-type]


def test_rows_that_the_memory_does_not_hold() -> None:
    """As many as can be numbered are within bounds; what they need is told as soon as it is known."""
    from stacq.data.generate import Group

    part = roll_out_group(TASKS["hopper"], Group("uniform", (0,)))
    assert recipe("hopper-medium", size=2**31 - 1).rows == 2**31 - 1
    with pytest.raises(InputError, match=r"1,000,000,000,000 rows need 2\d\d,\d\d\d GB of memory"):
        _room(part, 10**12)


def test_a_name_with_a_size_or_seed_beyond_all_bounds() -> None:
    for name in (
        "hopper-medium-v0@99999999999999",
        "hopper-medium-v0+seed4294967297",
        f"hopper-medium-v0@{'9' * 5000}",
    ):
        with pytest.raises(InputError):
            recipe(f"stacq/{name}")


def test_a_memory_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 8 GiB")

    monkeypatch.setattr("stacq.report.inspect.show", full)
    with pytest.raises(SystemExit) as caught:
        main(["data", "inspect", "logs.npz"])
    assert caught.value.code == 1
    assert capsys.readouterr().err == "error: there is not enough memory: Unable to allocate 8 GiB\n"
