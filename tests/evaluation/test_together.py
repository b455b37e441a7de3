"""Policies that act in all episodes at once: the same episodes as one by one, and no workers."""

from typing import Any, ClassVar

import numpy as np
import pytest

from stacq import InputError, Normaliser, evaluate
from stacq.core.types import Float32s
from stacq.evaluation import together
from stacq.evaluation.recording import rollout
from stacq.evaluation.rollouts import Counting, EvaluationFailed, run_episode
from stacq.evaluation.together import Ended, run_together
from stacq.policies import Policy, Space
from toys import Walk


class Alone(Policy):
    """Noise around a push towards 0."""

    kind: ClassVar[str] = "toy"

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        assert rng is not None
        found: Float32s = np.clip(rng.normal(0, 0.3, 1) - 0.1 * seen, -1, 1).astype(np.float32)
        return found

    def arrays(self) -> dict[str, Float32s]:
        return {}


class Together(Alone):
    together: ClassVar[bool] = True


class Ragged(Walk):
    """Ends at a place, so that episodes differ in length."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, reward, _, truncated, info = super().step(action)
        return seen, reward, abs(self.place) > 1.1, truncated, info


SPACE = Space(Normaliser.identity(1), -np.ones(1, np.float32), np.ones(1, np.float32))
COUNTING = Counting(0.9, -1.0, 2.0)


@pytest.mark.parametrize("at_once", [256, 4, 1])
def test_episodes_do_not_depend_on_their_company(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "AT_ONCE", at_once)
    streams = [[(7, seed, index) for index in range(5)] for seed in (3, 4)]
    found = run_together([Together(SPACE)] * 2, Ragged, "ragged", streams, COUNTING)
    lengths = set()
    for seed, lane in zip((3, 4), found, strict=True):
        for index, episode in enumerate(lane):
            wanted = run_episode(Alone(SPACE), Ragged, "ragged", (7, seed), index, COUNTING)
            assert episode._replace(start=0) == wanted._replace(start=0)  # type: ignore[arg-type]
            assert np.array_equal(episode.start, wanted.start)
            lengths.add(episode.length)
    assert len(lengths) > 1


def test_evaluations_start_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = evaluate(lambda seen, rng: Alone(SPACE)(seen, rng), Ragged, 3, 1, workers=1)
    monkeypatch.setattr("stacq.evaluation.rollouts.WorkerPool", None)
    kept: list[int] = []
    found = evaluate(Together(SPACE), Ragged, 3, 1, on_episode=lambda record: kept.append(record.episode))
    assert found == wanted and kept == [0, 1, 2]


def test_what_goes_wrong_names_its_episode() -> None:
    def failing() -> Walk:
        return Walk("raise")

    with pytest.raises(EvaluationFailed, match=r"episode 0 in failing failed: RuntimeError: the motor is on fire"):
        evaluate(Together(SPACE), failing, 2)
    with pytest.raises(InputError, match="observations of 1 and actions of 1"):
        evaluate(Together(SPACE), "Hopper-v4", 1)


def test_nobody_waits_for_what_is_not_wanted_any_more() -> None:
    asked: list[int] = []

    def wanted() -> bool:
        asked.append(1)
        return len(asked) < 3

    with pytest.raises(Ended):
        run_together([Together(SPACE)], Walk, "walk", [[(0, 0)]], wanted=wanted)
    assert len(asked) == 3


def test_recordings_are_made_by_workers() -> None:
    with pytest.raises(InputError, match="recordings are made by workers"):
        rollout(Together(SPACE), Walk, 10)
