"""Policies from plain arrays."""

import json
from pathlib import Path

import numpy as np
import pytest

from stacq import InputError, Normaliser, Policy


def small(**options: object) -> Policy:
    weights = [np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([[0.5], [1.0]])]
    return Policy.from_mlp(weights, [np.array([0.0, 0.5]), np.array([-1.0])], **options)  # type: ignore[arg-type]


def test_by_hand() -> None:
    """s = (1, 2): hidden relu(1, -1 + 4 + 0.5) = (1, 3.5); output 0.5 + 3.5 - 1 = 3; tanh 3."""
    assert small()(np.array([1.0, 2.0])) == pytest.approx([np.tanh(3.0)], abs=1e-6)


@pytest.mark.parametrize("observation", [0.5, [0.5], [0.5, 1, 2], [[0.5], [1.0]]])
def test_an_observation_of_another_size_is_refused(observation: object) -> None:
    """NumPy would stretch a single number over all of them."""
    with pytest.raises(InputError, match="expected: 2 numbers"):
        small()(np.array(observation))


def test_bounds_and_normaliser_by_hand() -> None:
    """(3 - 1) / 2 = 1 and (4 - 0) / 2 = 2, so the same output; tanh 3 from [0, 10] is 5 + 5 tanh 3."""
    scaled = small(
        normaliser=Normaliser(np.array([1, 0], dtype=np.float32), np.array([2, 2], dtype=np.float32)), bounds=(0, 10)
    )
    assert scaled(np.array([3.0, 4.0])) == pytest.approx([5 + 5 * np.tanh(3.0)], abs=1e-5)


def test_clipped_output_and_tanh_layers_by_hand() -> None:
    assert small(output="clip", bounds=(-2, 2))(np.array([1.0, 2.0])) == pytest.approx([2.0])
    hidden = np.tanh([1.0, 3.5])
    assert small(output="clip", activation="tanh")(np.array([1.0, 2.0])) == pytest.approx(
        [0.5 * hidden[0] + hidden[1] - 1], abs=1e-6
    )


def test_the_same_policy_is_the_same_file(tmp_path: Path) -> None:
    paths = [tmp_path / f"{copy}.safetensors" for copy in range(8)]
    for path in paths:
        small().save(path)
    assert len({path.read_bytes() for path in paths}) == 1


def test_a_file_with_an_entry_for_every_fact_is_read(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    small(output="clip").save(tmp_path / "now.safetensors")
    with safe_open(tmp_path / "now.safetensors", framework="numpy") as file:
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    facts = {"format": "stacq.policy.v1", "activation": "relu", "output": "clip"}
    save_file(arrays, tmp_path / "before.safetensors", metadata=facts)
    assert Policy.load(tmp_path / "before.safetensors").facts() == {"activation": "relu", "output": "clip"}


def test_one_row_equals_its_row_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape) for shape in ((3, 32), (32, 32), (32, 2))]
    policy = Policy.from_mlp(weights, [np.zeros(32), np.zeros(32), np.zeros(2)])
    batch = rng.standard_normal((7, 3))
    np.testing.assert_allclose(policy(batch), np.stack([policy(row) for row in batch]), atol=1e-6)
    assert policy(batch).dtype == np.float32


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    policy = small(output="clip", activation="tanh", bounds=(-3, 2))
    policy.save(tmp_path / "policy.safetensors")
    again = Policy.load(tmp_path / "policy.safetensors")
    row = np.array([0.3, -0.2])
    assert again(row).tolist() == policy(row).tolist()
    assert again.facts() == {"activation": "tanh", "output": "clip"}


@pytest.mark.parametrize(
    ("weights", "biases", "words"),
    [
        ([np.zeros((4, 2))], [np.zeros(4)], "transpose"),
        ([np.zeros((2, 4)), np.zeros((3, 1))], [np.zeros(4), np.zeros(1)], "layer 1 takes 3"),
        ([np.zeros((2, 4))], [], "one bias for each"),
        ([], [], "at least one"),
        ([np.full((2, 1), np.nan)], [np.zeros(1)], "NaN"),
    ],
)
def test_ill_fitting_arrays(weights: list[np.ndarray], biases: list[np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Policy.from_mlp(weights, biases)


@pytest.mark.parametrize("bounds", [(1, -1), (np.nan, 1), (-np.inf, 1), (np.zeros(2), np.ones(2)), (0, 0)])
def test_senseless_bounds(bounds: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="finite low < high"):
        small(bounds=bounds)


def test_unknown_activations_and_outputs() -> None:
    with pytest.raises(InputError, match="relu, tanh"):
        small(activation="gelu")
    with pytest.raises(InputError, match="tanh, clip"):
        small(output="none")


def test_an_incomplete_policy_file(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    facts = {"format": "stacq.policy.v1", "activation": "relu", "output": "tanh"}
    save_file({"weights.0": np.zeros((2, 1), dtype=np.float32)}, tmp_path / "policy", metadata=facts)
    with pytest.raises(InputError, match="incomplete"):
        Policy.load(tmp_path / "policy")


def test_an_ill_fitting_normaliser() -> None:
    with pytest.raises(InputError, match="normaliser is for observations of 3"):
        small(normaliser=Normaliser.identity(3))


def test_files_that_are_no_policy(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(InputError, match="not a readable policy"):
        Policy.load(tmp_path / "junk")
    with pytest.raises(InputError, match="no such file"):
        Policy.load(tmp_path / "none")
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(2)}, tmp_path / "other")
    with pytest.raises(InputError, match="not a stacq policy"):
        Policy.load(tmp_path / "other")


def test_a_directory_with_one_policy_is_that_policy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without policies"):
        Policy.load(tmp_path)
    first = tmp_path / "policies" / "seed-0.safetensors"
    first.parent.mkdir()
    small().save(first)
    (tmp_path / "policies" / "notes.txt").write_text("mine")
    for directory in (tmp_path, first.parent):
        np.testing.assert_array_equal(Policy.load(directory)(np.ones(2)), small()(np.ones(2)))
    small().save(first.with_name("seed-1.safetensors"))
    with pytest.raises(InputError, match=r"with 2 policies[\s\S]*such as .*seed-0.safetensors"):
        Policy.load(tmp_path)


def test_normaliser_round_trip() -> None:
    data = np.random.default_rng(0).normal(3, 5, (1000, 2)).astype(np.float32)
    normaliser = Normaliser.fit(data)
    scaled = normaliser.apply(data)
    assert np.abs(scaled.mean(axis=0)).max() < 1e-5 and np.abs(scaled.std(axis=0) - 1).max() < 1e-3
    np.testing.assert_allclose(normaliser.invert(scaled), data, rtol=1e-5, atol=1e-5)


def test_normaliser_of_a_constant_column_is_finite() -> None:
    normaliser = Normaliser.fit(np.full((10, 1), 7.0, dtype=np.float32))
    assert normaliser.apply(np.array([[7.0]])).tolist() == [[0.0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_an_observation_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"at \[1\]"):
        small()(np.array([0.0, bad]))
    with pytest.raises(InputError, match=r"at \[2, 0\]"):
        small()(np.array([[0.0, 0.0], [1.0, 1.0], [bad, 0.0]]))


def test_a_policy_shows_its_sizes_and_not_its_weights() -> None:
    assert repr(small(output="clip")) == "Policy(2-2-1, relu, clip)"


ARRAYS = {
    "weights.0": np.ones((3, 4), np.float32),
    "biases.0": np.zeros(4, np.float32),
    "weights.1": np.ones((4, 2), np.float32),
    "biases.1": np.zeros(2, np.float32),
    "normaliser.mean": np.zeros(3, np.float32),
    "normaliser.scale": np.ones(3, np.float32),
    "action_low": -np.ones(2, np.float32),
    "action_high": np.ones(2, np.float32),
}
FACTS = {"format": "stacq.policy.v1", "activation": "relu", "output": "tanh"}
SHAPES = [(), (0,), (1,), (2,), (3,), (5,), (3, 3), (0, 0), (4, 0), (3, 1), (1, 2), (3, 4, 1)]


def stored(path: Path, changes: dict[str, np.ndarray | None], facts: str = json.dumps(FACTS)) -> Path:
    from safetensors.numpy import save_file

    kept = {key: value for key, value in (ARRAYS | changes).items() if value is not None}
    save_file(kept, path, metadata={"facts": facts})
    return path


def acts_or_is_refused(path: Path) -> bool:
    """What is loaded acts: nothing is left to be found out at the first action."""
    try:
        policy = Policy.load(path)
    except InputError as error:
        assert str(path) in str(error)
        return False
    assert np.isfinite(policy(np.zeros(policy.observation_size))).all()
    return True


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_other_shapes_are_refused_when_loaded(tmp_path: Path, name: str) -> None:
    path = tmp_path / "policy"
    for shape in SHAPES:
        fits = name != "action_low" and shape in (ARRAYS[name].shape, *[()] * (name == "action_high"))  # 1 is no low
        assert acts_or_is_refused(stored(path, {name: np.ones(shape, np.float32)})) == fits, shape
    assert not acts_or_is_refused(stored(path, {name: None}))
    assert not acts_or_is_refused(stored(path, {name: ARRAYS[name].astype(np.complex64)}))
    assert acts_or_is_refused(stored(path, {name: ARRAYS[name].astype(np.float64)}))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 0.0, -1.0])
@pytest.mark.parametrize("name", ARRAYS)
def test_values_that_no_policy_has_are_refused_when_loaded(tmp_path: Path, name: str, value: float) -> None:
    path = stored(tmp_path / "policy", {name: np.full(ARRAYS[name].shape, value)})
    sensible = value in (0.0, -1.0)
    allowed = {"normaliser.scale": (), "action_high": (0.0,)}.get(name, (0.0, -1.0))
    assert acts_or_is_refused(path) == (sensible and value in allowed)


def test_bounds_so_wide_that_their_distance_is_infinite(tmp_path: Path) -> None:
    wide = np.full(2, 3e38, np.float32)
    assert not acts_or_is_refused(stored(tmp_path / "policy", {"action_low": -wide, "action_high": wide}))
    with pytest.raises(InputError, match="finite low < high"):
        small(bounds=(-3e38, 3e38))


@pytest.mark.parametrize("scale", [[1.0], [1.0, 1.0, 1.0], [[1.0, 1.0]], [1.0, 0.0], [1.0, np.nan]])
def test_a_normaliser_with_another_scale(scale: list[float]) -> None:
    with pytest.raises(InputError, match="normaliser"):
        small(normaliser=Normaliser(np.zeros(2, np.float32), np.array(scale, np.float32)))


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("value", [None, 1, [], {}, "x", ["relu"], "\x1b", 2**70])
def test_odd_facts_of_a_policy_file(tmp_path: Path, name: str, value: object) -> None:
    assert not acts_or_is_refused(stored(tmp_path / "policy", {}, json.dumps({**FACTS, name: value})))
    assert not acts_or_is_refused(stored(tmp_path / "policy", {}, json.dumps(value)))


@pytest.mark.parametrize("facts", ["[" * 100_000, "{", "", "1" * 5000, '{"format":' * 2000])
def test_facts_that_are_no_facts(tmp_path: Path, facts: str) -> None:
    assert not acts_or_is_refused(stored(tmp_path / "policy", {}, facts))


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3"])
def test_a_type_that_numpy_does_not_have(tmp_path: Path, kind: str) -> None:
    size = 2 if kind == "BF16" else 1
    header = json.dumps({"weights.0": {"dtype": kind, "shape": [1], "data_offsets": [0, size]}}).encode()
    (tmp_path / "policy").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    assert not acts_or_is_refused(tmp_path / "policy")
