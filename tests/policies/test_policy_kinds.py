"""Policies that sample, and policies that sample and choose: what they do, and that files keep them whole."""

import numpy as np
import pytest

from stacq import InputError, Normaliser, Policy
from stacq.core.types import Float32s
from stacq.policies import ChosenPolicy, GaussianPolicy, Layers
from stacq.policies.gaussian import gaussian_policy
from stacq.policies.policy import space_of

BOUNDS = (np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32))


def constant(*outputs: float, inputs: int) -> Layers:
    """One layer that gives the same whatever comes."""
    return Layers((np.zeros((inputs, len(outputs)), np.float32),), (np.array(outputs, np.float32),))


def gaussian(mean: float = 0.5, log_std: float = -1.0) -> GaussianPolicy:
    return gaussian_policy(*constant(mean, mean, log_std, log_std, inputs=3), bounds=BOUNDS)


def test_a_gaussian_policy_takes_its_mean_without_a_generator() -> None:
    share = (np.tanh(0.5) + 1) / 2
    np.testing.assert_allclose(gaussian()(np.zeros(3)), [2 * share - 1, 4 * share], rtol=1e-6)


def test_a_gaussian_policy_samples_what_it_says() -> None:
    """Undone, tanh and bounds leave a Gaussian with the mean and the deviation of the network."""
    rng = np.random.default_rng(0)
    actions = gaussian()(np.zeros((20_000, 3)), rng).astype(np.float64)
    raw = np.arctanh(2 * (actions - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) - 1)
    np.testing.assert_allclose(raw.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(raw.std(axis=0), np.exp(-1), atol=0.01)


def test_the_spread_is_clipped() -> None:
    still = gaussian_policy(*constant(0.5, 9.0, inputs=3), log_std_range=(-20.0, -15.0))
    np.testing.assert_allclose(still(np.zeros(3), np.random.default_rng(0)), np.tanh([0.5]), atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (7, 3)])
def test_one_generator_gives_one_batch(shape: tuple[int, ...]) -> None:
    policy = gaussian()
    first, again = (policy(np.zeros(shape), np.random.default_rng(1)) for _ in range(2))
    assert first.shape == (*shape[:-1], 2) and np.array_equal(first, again)


def chosen(samples: int = 100, reach: float = 0.05) -> ChosenPolicy:
    """Decodes its latent as the action, and values actions close to 0.3."""
    decoder = Layers((np.array([[0.0], [1.0]], np.float32),), (np.zeros(1, np.float32),))
    # 1 - |a - 0.3|, from two hidden units
    hidden = np.array([[0.0, 0.0], [1.0, -1.0]], np.float32)
    critic = Layers(
        (hidden, np.array([[-1.0], [-1.0]], np.float32)), (np.array([-0.3, 0.3], np.float32), np.ones(1, np.float32))
    )
    return ChosenPolicy(space_of(None, (-1, 1), 1, 1, "test"), decoder, constant(0.0, inputs=2), critic, samples, reach)


def test_the_sample_of_greatest_value_is_chosen() -> None:
    action = chosen(1_000)(np.zeros((5, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(action, 0.3, atol=0.01)
    alone = chosen(1)(np.zeros((200, 1)), np.random.default_rng(0))
    assert alone.std() > 0.2 and np.abs(alone).max() <= np.tanh(0.5) + 1e-6  # one sample leaves nothing to choose


def test_the_correction_moves_an_action_within_reach() -> None:
    pushed = ChosenPolicy(
        chosen().space, constant(0.0, inputs=2), constant(9.0, inputs=2), chosen().critic, samples=3, reach=0.05
    )
    np.testing.assert_allclose(pushed(np.zeros(1)), 0.05, atol=1e-6)


@pytest.mark.parametrize("policy", [gaussian(), chosen(10)])
def test_files_keep_every_kind(policy: Policy, tmp_path: object) -> None:
    path = f"{tmp_path}/policy.safetensors"
    policy.save(path)
    again = Policy.load(path)
    rows = np.random.default_rng(0).normal(size=(4, policy.observation_size))
    before, after = (each(rows, np.random.default_rng(1)) for each in (policy, again))
    assert type(again) is type(policy) and np.array_equal(before, after) and again.facts() == policy.facts()


def resaved(policy: Policy, path: str, **facts: object) -> None:
    """The same file with other facts."""
    import json

    from safetensors.numpy import load_file, save_file

    policy.save(path)
    changed = {"format": "stacq.policy.v1", "kind": policy.kind, **policy.facts(), **facts}
    save_file(load_file(path), path, metadata={"facts": json.dumps(changed)})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "oracle"}, "unknown kind 'oracle'"),
        ({"samples": 0}, "do not fit"),
        ({"kind": "mlp"}, "0 weight matrices"),
    ],
)
def test_files_of_other_kinds_are_refused(facts: dict[str, object], message: str, tmp_path: object) -> None:
    path = f"{tmp_path}/policy.safetensors"
    resaved(chosen(), path, **facts)
    with pytest.raises(InputError, match=message):
        Policy.load(path)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="3 outputs"):
        gaussian_policy(*constant(0, 0, 0, inputs=3))
    with pytest.raises(InputError, match="log deviation from 2"):
        gaussian_policy(*constant(0, 0, inputs=3), log_std_range=(2.0, -5.0))
    with pytest.raises(InputError, match="normaliser is for observations of 2"):
        gaussian_policy(*constant(0, 0, inputs=3), Normaliser.identity(2))


def test_an_observation_that_is_no_number_is_refused_by_every_kind() -> None:
    for policy in (gaussian(), chosen()):
        rows: Float32s = np.full((2, policy.observation_size), np.nan, np.float32)
        with pytest.raises(InputError, match="finite"):
            policy(rows)
