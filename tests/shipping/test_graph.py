"""ONNX graphs do in onnxruntime what the policies do in NumPy."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from ship_cases import ACTIONS, HIGH, LOW, SCALES, SIZE, chosen, exact, gaussian, layers, mlp, observations
from stacq import InputError, Normaliser, Policy, export
from stacq.core.types import Float32s
from stacq.data.behaviour import load_behaviour
from stacq.policies.gaussian import gaussian_policy
from stacq.shipping.graph import IR_VERSION, OPSET, network_of

PARITY = 1e-6


class Session:
    """A graph in onnxruntime, on one thread."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, observation: Float32s, **noise: Float32s) -> Any:
        return self.session.run(None, {"observation": observation, **noise})[0]


def session(policy: Policy, **options: Any) -> Session:
    return Session(export(policy, "policy.onnx", force=True, **options))


@pytest.mark.parametrize("hidden", [(), (16,), (256, 256)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("output", ["tanh", "clip"])
def test_a_network_acts_as_in_numpy(hidden: tuple[int, ...], activation: str, output: str) -> None:
    policy, rows = mlp(*hidden, activation=activation, output=output), observations()
    np.testing.assert_allclose(session(policy)(rows), policy(rows), rtol=0, atol=PARITY)


def test_a_gaussian_acts_by_its_mean_or_by_the_noise_that_it_is_given() -> None:
    policy, rows = gaussian(), observations()
    np.testing.assert_allclose(session(policy)(rows), policy(rows), rtol=0, atol=PARITY)
    noise = np.random.default_rng(4).standard_normal((len(rows), ACTIONS), dtype=np.float32)
    sampled = session(policy, sample=True)(rows, noise=noise)
    np.testing.assert_allclose(sampled, policy(rows, np.random.default_rng(4)), rtol=0, atol=PARITY)
    assert np.abs(sampled - policy(rows)).max() > 0.1


def test_sample_and_choose_takes_the_same_sample() -> None:
    """Row by row as Python does for one observation: in a batch Python draws other samples for every row."""
    policy, rows = chosen(), observations(6)
    wanted = np.stack([policy(row) for row in rows])
    np.testing.assert_allclose(session(policy)(rows), wanted, rtol=0, atol=PARITY)
    noise = np.random.default_rng(4).standard_normal((len(rows), policy.samples, policy.latent_size), dtype=np.float32)
    sampled = session(policy, sample=True)(rows, noise=noise)
    np.testing.assert_allclose(sampled, policy(rows, np.random.default_rng(4)), rtol=0, atol=PARITY)
    assert np.abs(sampled - wanted).max() > 0.1


@pytest.mark.parametrize("body", ["hopper", "walker2d", "halfcheetah"])
def test_trained_networks_are_as_exact_as_in_numpy(body: str) -> None:
    """Their weights are large, so float32 itself leaves errors above 1e-6; the graph makes none that are greater."""
    actor = load_behaviour(body, "medium")
    policy = gaussian_policy(actor.weights, actor.biases)
    for scale in (*SCALES, 100.0, 1e3, 1e4):
        rows = (scale * np.random.default_rng(0).standard_normal((500, policy.observation_size))).astype(np.float32)
        true = exact(network_of(policy, ""), rows)
        ours, theirs = np.abs(policy(rows) - true).max(), np.abs(session(policy)(rows) - true).max()
        assert theirs <= PARITY + 4 * ours, scale  # processors add in different orders


@pytest.mark.parametrize("policy", [mlp(8), gaussian(), chosen()], ids=lambda policy: policy.kind)
def test_the_batch_is_free_and_rows_do_not_mix(policy: Policy) -> None:
    run, rows = session(policy), observations(2)
    whole = run(rows)
    assert run(rows[:0]).shape == (0, ACTIONS)
    for row, action in zip(rows, whole, strict=True):
        np.testing.assert_allclose(run(row[None])[0], action, rtol=0, atol=PARITY)


@pytest.mark.parametrize("policy", [mlp(8), mlp(8, output="clip"), gaussian(), chosen()], ids=repr)
def test_an_observation_that_is_no_number_gives_no_action(policy: Policy) -> None:
    rows = np.zeros((4, SIZE), np.float32)
    rows[1, 2], rows[2, 0], rows[3, 4] = np.nan, np.inf, -np.inf
    actions = session(policy)(rows)
    assert np.isnan(actions[1:]).all() and np.isfinite(actions[0]).all()


def test_actions_stay_within_the_bounds() -> None:
    for policy in (mlp(16), mlp(16, output="clip"), chosen()):
        actions = session(policy)(observations())
        assert (actions >= LOW - PARITY).all() and (actions <= HIGH + PARITY).all()


def test_the_file_says_what_it_is() -> None:
    path = export(
        gaussian(), "arm.onnx", name="arm", observation_names=["a", "b", "c", "d", "e"], action_names=["x", "y", "z"]
    )
    model = onnx.load(path)
    facts = {each.key: each.value for each in model.metadata_props}
    assert (model.graph.name, model.producer_name, model.ir_version) == ("arm", "stacq", IR_VERSION)
    assert [each.version for each in model.opset_import] == [OPSET]
    assert [each.name for each in model.graph.input] == ["observation"]
    assert facts["kind"] == "gaussian" and facts["acts"] == "without chance"
    assert (facts["observation_size"], facts["action_size"]) == ("5", "3")
    assert facts["observation_names"] == '["a", "b", "c", "d", "e"]'
    assert facts["stacq_version"] == model.producer_version != ""


def test_the_same_policy_is_the_same_file() -> None:
    assert len({export(chosen(), f"{copy}.onnx").read_bytes() for copy in "ab"}) == 1


def test_without_the_package_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'stacq\[onnx\]'"):
        export(mlp(), "policy.onnx")
    assert not Path("policy.onnx").exists()


def test_chance_is_refused_where_there_is_none() -> None:
    with pytest.raises(InputError, match="does not sample"):
        export(mlp(), "policy.onnx", sample=True)


def test_a_layer_by_hand() -> None:
    """(1 - 1) / 2 = 0, so the output is the bias, 0.5; tanh 0.5 from [0, 10] is 5 + 5 tanh 0.5."""
    weights, _ = layers(1, 1)
    shown = Normaliser(np.array([1], np.float32), np.array([2], np.float32))
    policy = Policy.from_mlp(weights, [np.array([0.5])], shown, (0, 10))
    found = session(policy)(np.array([[1.0]], np.float32))
    np.testing.assert_allclose(found, [[5 + 5 * np.tanh(0.5)]], rtol=1e-6)
