"""Honest scores: independent of workers, attributable, and loud when something breaks."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stacq import EpisodeRecord, InputError, Normaliser, Policy, evaluate
from stacq.core.workers import WorkerPool
from stacq.data.behaviour import load_behaviour
from stacq.evaluation.records import COLUMNS, csv_line, parse_records
from stacq.evaluation.rollouts import EvaluationFailed
from toys import Goal, Walk, noisy, still


def nan_later(observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([np.nan if observation[0] > 3 else 1.0])


def too_wide(observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.zeros(2)


def returns(records: list[EpisodeRecord]) -> list[float]:
    return [record.episode_return for record in records]


def test_records_do_not_depend_on_the_number_of_workers() -> None:
    runs = [evaluate(noisy, Walk, 7, 3, workers=workers) for workers in (1, 2, 3)]
    assert runs[0] == runs[1] == runs[2]
    assert len(set(returns(runs[0]))) == 7


def test_the_seed_decides() -> None:
    assert returns(evaluate(noisy, Walk, 2, 0, workers=1)) != returns(evaluate(noisy, Walk, 2, 1, workers=1))


def test_more_episodes_begin_with_the_same_ones() -> None:
    few, many = evaluate(noisy, Walk, 2, 5, workers=1), evaluate(noisy, Walk, 4, 5, workers=2)
    assert many[:2] == few


def test_what_a_record_holds() -> None:
    record = evaluate(still, Walk, 1, 0, workers=1, algorithm="bc", dataset="mine", step=500)[0]
    assert (record.algorithm, record.dataset, record.seed, record.step, record.episode) == ("bc", "mine", 0, 500, 0)
    assert record.length == 10 and record.score is None and record.success is True
    assert 0 < record.episode_return < 10


def test_dictionary_observations_are_flattened_by_sorted_key() -> None:
    """Weights look at the second entry only: 'observation' comes after 'goal'."""
    policy = Policy.from_mlp([np.array([[0.0], [-1.0]])], [np.zeros(1)], output="clip")
    assert abs(evaluate(policy, Goal, 1, 0, workers=1)[0].episode_return) < 1.0


def test_an_environment_that_raises() -> None:
    with pytest.raises(EvaluationFailed, match=r"episode 0 .*motor is on fire"):
        evaluate(still, partial(Walk, "raise"), 3, workers=2)


def test_a_worker_that_dies() -> None:
    with pytest.raises(EvaluationFailed, match=r"episode 0 .*SIGKILL"):
        evaluate(still, partial(Walk, "die"), 3, workers=1)


def test_a_policy_that_returns_nan() -> None:
    with pytest.raises(EvaluationFailed, match=r"episode 0 .*nan.* at step [34]"):
        evaluate(nan_later, Walk, 2, workers=1)


def test_a_policy_of_the_wrong_shape() -> None:
    with pytest.raises(EvaluationFailed, match=r"shape \(2,\) at step 0, expected \(1,\)"):
        evaluate(too_wide, Walk, 1, workers=1)


def test_a_policy_for_another_environment() -> None:
    with pytest.raises(InputError, match="observations of 11 and actions of 3"):
        evaluate(load_behaviour("hopper", "medium"), "Walker2d-v4", 1, workers=1)


def test_printing_environments_do_no_harm() -> None:
    assert len(evaluate(still, partial(Walk, "print"), 2, workers=1)) == 2


def test_unknown_environments_get_suggestions() -> None:
    with pytest.raises(InputError, match="Hopper-v4"):
        evaluate(still, "Hoper-v4", 1, workers=1)


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(InputError, match="Discrete"):
        evaluate(still, "CartPole-v1", 1, workers=1)


def test_data_of_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="belongs to walker2d"):
        evaluate(load_behaviour("hopper", "medium"), "Hopper-v4", 1, dataset="walker2d-medium-v2")


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed of 0 or more"):
        evaluate(still, Walk, 1, -1)


def test_no_episodes() -> None:
    with pytest.raises(InputError, match="at least one episode"):
        evaluate(still, Walk, 0)


def test_a_warm_pool_serves_many_evaluations() -> None:
    seen: list[int] = []
    with WorkerPool(2) as pool:
        first = evaluate(noisy, Walk, 3, pool=pool, on_episode=lambda record: seen.append(record.episode))
        assert evaluate(noisy, Walk, 3, pool=pool) == first
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("body", ["Hopper-v4", "Hopper-v5"])
def test_locomotion_scores_are_normalised(body: str) -> None:
    record = evaluate(load_behaviour("hopper", "medium"), body, 1, workers=1)[0]
    expected = 100 * (record.episode_return + 20.272305) / (3234.3 + 20.272305)
    assert record.score == pytest.approx(expected) and 10 < expected < 110 and record.success is None


def test_a_network_from_elsewhere_is_scored() -> None:
    behaviour = load_behaviour("hopper", "expert")
    weights = [*behaviour.weights[:2], behaviour.weights[2][:, :3]]
    biases = [*behaviour.biases[:2], behaviour.biases[2][:3]]
    policy = Policy.from_mlp(weights, biases, Normaliser.identity(11), (-1, 1))
    assert evaluate(policy, "Hopper-v4", 1, workers=1)[0].episode_return > 2500


def test_csv_round_trip_is_exact() -> None:
    records = [
        EpisodeRecord("a,b", 'q"d', 1, 2, 3, 0.1 + 0.2, 5, 1 / 3, True),
        EpisodeRecord("", "", 0, 0, 0, -1e-300, 1, None, None),
        EpisodeRecord("x", "y", 0, 0, 1, 2.0, 1, None, False),
    ]
    lines = [csv_line(COLUMNS), *(csv_line(record.row()) for record in records)]
    assert parse_records(lines) == records
    assert lines[0] == "algorithm,dataset,seed,step,episode,return,length,score,success\n"


def test_mujoco_complaints_stay_out_of_the_working_directory() -> None:
    from stacq.envs.gym import make_env

    env = make_env("Hopper-v4").unwrapped
    env.reset()
    env.data.qvel[:] = 1e30
    env.do_simulation(np.zeros(3), 1)
    assert not Path("MUJOCO_LOG.TXT").exists()


@pytest.mark.parametrize(
    ("policy", "env", "said"),
    [("policy.safetensors", Walk, "Policy.load"), (still, None, "a Gymnasium id"), (still, Walk(), "makes its own")],
)
def test_what_is_no_policy_or_no_environment_is_told_before_any_worker(policy: Any, env: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        evaluate(policy, env, episodes=1, workers=1)
