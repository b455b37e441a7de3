"""Fitting: what is learned, from which rows, when each member stops, and that seeds decide everything."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dynamics_cases import linear_data
from stacq.core.artefacts import ARRAYS, MANIFEST, write_artefact
from stacq.core.errors import InputError
from stacq.core.files import content_hash
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s, Floats
from stacq.data.dataset import Dataset
from stacq.dynamics import epochs
from stacq.dynamics import fit as fitting
from stacq.dynamics.fit import Curve, Fit, fit
from stacq.dynamics.models import KIND, Dynamics
from stacq.dynamics.recipes import PRESETS, FitConfig

CONFIG = FitConfig(forward_members=3, inverse_members=2, hidden=(16,), learning_rate=1e-2, max_epochs=30, batch=32)
# Steps too long to settle: members stop early, and not all at once.
RESTLESS = replace(
    CONFIG, learning_rate=0.05, schedule="constant", forward_patience=2, inverse_patience=1, scale_targets=False
)


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Every episode ends in a row whose successor is NaN."""
    return linear_data([20] * 40)


@pytest.fixture(scope="module")
def fitted(data: Dataset) -> Fit:
    return fit(data, CONFIG)


@pytest.fixture(scope="module")
def restless(data: Dataset) -> Fit:
    return fit(data, RESTLESS)


def bits(dynamics: Dynamics) -> bytes:
    return b"".join(array.tobytes() for array in dynamics.arrays().values())


def rmse(error: Floats) -> float:
    return float(np.sqrt(np.mean(error**2)))


def test_a_linear_system_is_learned(data: Dataset, fitted: Fit) -> None:
    rows = fitted.held_out
    s, a, s_next = data.observations[rows], data.actions[rows], data.next_observations[rows]
    assert rmse(fitted.dynamics.predict(s, a) - s_next) < 0.1 * rmse(s - s_next)
    assert rmse(fitted.dynamics.infer(s, s_next) - a) < 0.3 * a.std()


def test_the_seed_decides_every_bit(data: Dataset, fitted: Fit) -> None:
    short = replace(CONFIG, max_epochs=2)
    first, again, other = (fit(data, replace(short, seed=seed)) for seed in (3, 3, 4))
    assert bits(first.dynamics) == bits(again.dynamics)
    np.testing.assert_equal(tuple(first.curves[-1]), tuple(again.curves[-1]))
    np.testing.assert_array_equal(first.held_out, again.held_out)
    assert bits(first.dynamics) != bits(other.dynamics)
    assert not np.array_equal(first.held_out, other.held_out)


def test_one_program_serves_every_epoch_and_seed(data: Dataset) -> None:
    config = replace(CONFIG, max_epochs=2, learning_rate=2e-2)
    compiled: Any = epochs.run_epoch
    before = compiled._cache_size()
    for seed in (0, 1):
        fit(data, replace(config, seed=seed))
    assert compiled._cache_size() == before + 1


def test_rows_with_an_unknown_successor_are_never_used(data: Dataset, fitted: Fit) -> None:
    held_out, rows = fitting._hold_out(data, CONFIG)
    np.testing.assert_array_equal(held_out, fitted.held_out)
    assert len(held_out) == int(0.05 * data.successor_known.sum())
    np.testing.assert_array_equal(np.sort(np.concatenate([held_out, rows])), np.flatnonzero(data.successor_known))
    assert all(np.isfinite(array).all() for array in fitted.dynamics.arrays().values())
    assert all(np.isfinite(losses).all() for curve in fitted.curves for losses in curve[1:])


def test_every_member_has_a_split_of_its_own() -> None:
    split = fitting._split(jax.random.key(0), 3, 200, CONFIG)
    training, validation = np.asarray(split.training), np.asarray(split.validation)
    assert training.shape == (3, 180) and validation.shape == (3, 20)
    for member in range(3):
        together = np.concatenate([training[member], validation[member]])
        np.testing.assert_array_equal(np.sort(together), np.arange(200))
    assert len({tuple(sorted(rows)) for rows in validation.tolist()}) == 3


def test_an_epoch_visits_every_row_at_most_once() -> None:
    split = fitting._split(jax.random.key(0), 2, 200, CONFIG)
    orders = np.asarray(epochs.orders_of(jax.random.key(1), split.training, 5, CONFIG.batch))
    assert orders.shape == (5, 2, 32)
    for member in range(2):
        rows = orders[:, member].ravel()
        assert len(set(rows.tolist())) == 160
        assert set(rows.tolist()) <= set(np.asarray(split.training[member]).tolist())


def stop_epochs(losses: Float32s, patience: int) -> list[int]:
    """By hand from [epochs, members]: the last epoch that each member trained in."""
    stops = []
    for curve in losses.T:
        best, stale, stop = np.inf, 0, len(curve) - 1
        for epoch, loss in enumerate(curve):
            best, stale = (loss, 0) if loss < best else (best, stale + 1)
            if stale == patience:
                stop = epoch
                break
        stops.append(stop)
    return stops


def validation(curves: tuple[Curve, ...], name: str) -> Float32s:
    return np.array([getattr(curve, f"{name}_validation") for curve in curves])


def test_members_stop_on_their_own_and_then_stand_still(restless: Fit) -> None:
    forward, inverse = (validation(restless.curves, name) for name in ("forward", "inverse"))
    stops = [*stop_epochs(forward, 2), *stop_epochs(inverse, 1)]
    assert len(set(stops)) > 1
    assert len(restless.curves) - 1 == max(stops) < RESTLESS.max_epochs - 1
    for stop, losses in zip(stops, np.concatenate([forward, inverse], axis=1).T, strict=True):
        assert (losses[stop:] == losses[stop]).all()
    running = [sum(stop > curve.epoch for stop in stops) for curve in restless.curves]
    assert [curve.running for curve in restless.curves] == running


def test_the_snapshot_is_the_best_of_the_curve(data: Dataset, restless: Fit) -> None:
    _, rows = fitting._hold_out(data, RESTLESS)
    arrays = fitting._rows(data, rows, Normaliser.fit(data.observations), RESTLESS)[0]
    keys = jax.random.split(jax.random.key(RESTLESS.seed), 5)
    models = restless.dynamics.models
    sides = ((models.forward, epochs._forward_batch, "forward"), (models.inverse, epochs._inverse_batch, "inverse"))
    for key, (network, batch, name) in zip(keys, sides, strict=False):
        held = fitting._split(key, network.members, len(rows), RESTLESS).validation
        losses = jax.vmap(epochs._loss)(network, *batch(arrays, held))
        np.testing.assert_allclose(losses, validation(restless.curves, name).min(axis=0), rtol=1e-4)


def test_targets_in_their_own_units_change_no_interface(data: Dataset, fitted: Fit, restless: Fit) -> None:
    assert (np.asarray(restless.dynamics.models.step_scale) == 1).all()
    assert (np.asarray(fitted.dynamics.models.step_scale) != 1).all()
    for each in (fitted, restless):
        predicted = each.dynamics.predict(data.observations[:5], data.actions[:5])
        assert predicted.shape == (5, 2) and predicted.dtype == np.float32
        assert np.abs(predicted - data.next_observations[:5]).max() < 1.5
        assert (each.dynamics.spread(data.observations[:5], data.actions[:5]) > 0).all()


def test_saved_and_loaded_dynamics_predict_the_same_bits(data: Dataset, fitted: Fit, tmp_path: Path) -> None:
    fitted.dynamics.save(tmp_path / "dynamics")
    loaded = Dynamics.load(tmp_path / "dynamics")
    s, a, s_next = data.observations[:7], data.actions[:7], data.next_observations[:7]
    for ours, theirs in ((fitted.dynamics.predict, loaded.predict), (fitted.dynamics.spread, loaded.spread)):
        np.testing.assert_array_equal(ours(s, a), theirs(s, a))
    np.testing.assert_array_equal(fitted.dynamics.infer(s, s_next), loaded.infer(s, s_next))
    assert loaded.parents == {"dataset": data.fingerprint}
    assert {**loaded.config, "hidden": tuple(loaded.config["hidden"])} == asdict(CONFIG) == fitted.dynamics.config
    np.testing.assert_array_equal(loaded.held_out, fitted.held_out)
    assert loaded.held_out.dtype == np.int64 and len(loaded.held_out)


def test_dynamics_saved_without_held_out_rows_still_load(fitted: Fit, tmp_path: Path) -> None:
    arrays = {key: value for key, value in fitted.dynamics.arrays().items() if key != "held_out"}
    written = write_artefact(tmp_path / "old", KIND, arrays, fitted.dynamics.config, fitted.dynamics.parents)
    old = Dynamics.load(tmp_path / "old")
    assert old.held_out.dtype == np.int64 and not len(old.held_out)
    assert content_hash(old.arrays()) == written.content != content_hash(fitted.dynamics.arrays())


def test_held_out_rows_are_verified_by_the_hash(fitted: Fit, tmp_path: Path) -> None:
    fitted.dynamics.save(tmp_path / "dynamics")
    arrays = load_file(tmp_path / "dynamics" / ARRAYS)
    arrays["held_out"] = arrays["held_out"] + 1
    save_file(arrays, tmp_path / "dynamics" / ARRAYS)
    with pytest.raises(InputError, match="damaged"):
        Dynamics.load(tmp_path / "dynamics")


def test_the_scale_of_steps_is_summed_in_double_precision() -> None:
    """300,000 equal steps of a float32 tenth: single-precision sums drift, and find a spread where there is none."""
    data = linear_data([2])
    rows = np.zeros(300_000, dtype=np.int64)
    step = replace(data, observations=np.zeros((2, 2), np.float32), next_observations=np.full((2, 2), 0.1, np.float32))
    _, mean, scale = fitting._rows(step, rows, Normaliser.identity(2), CONFIG)
    assert np.asarray(mean).dtype == np.asarray(scale).dtype == np.float32
    assert (np.asarray(mean) == np.float32(0.1)).all()
    assert (np.asarray(scale) == np.float32(fitting.MIN_STEP_SCALE)).all()


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
def test_a_damaged_artefact_is_refused(fitted: Fit, tmp_path: Path, name: str) -> None:
    fitted.dynamics.save(tmp_path / "dynamics")
    path = tmp_path / "dynamics" / name
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content[: None if name == ARRAYS else -5])
    with pytest.raises(InputError, match="damaged"):
        Dynamics.load(tmp_path / "dynamics")
    path.unlink()
    with pytest.raises(InputError, match="missing"):
        Dynamics.load(tmp_path / "dynamics")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_predictions_of_non_finite_input_are_refused(fitted: Fit, bad: float) -> None:
    fine, broken = np.zeros((3, 2)), np.zeros((3, 2))
    broken[1, 0] = bad
    for call in (fitted.dynamics.predict, fitted.dynamics.spread, fitted.dynamics.infer):
        for pair in ((broken, fine), (fine, broken)):
            with pytest.raises(InputError, match=r"at \[1, 0\]"):
                call(*pair)


def test_inputs_of_the_wrong_size_are_refused(fitted: Fit) -> None:
    for call in (fitted.dynamics.predict, fitted.dynamics.infer):
        for pair in ((np.zeros((3, 2)), np.zeros((3, 1))), (np.zeros(3), np.zeros(2)), (np.zeros(2), 0.0)):
            with pytest.raises(InputError, match="shape"):
                call(*pair)


def test_single_states_and_batches_agree(data: Dataset, fitted: Fit) -> None:
    together = fitted.dynamics.predict(data.observations[:4], data.actions[:4])
    alone = fitted.dynamics.predict(data.observations[2], data.actions[2])
    assert alone.shape == (2,)
    np.testing.assert_allclose(alone, together[2], rtol=1e-5, atol=1e-6)


def test_presets_build(data: Dataset) -> None:
    key = jax.random.key(0)
    for config in PRESETS.values():
        assert isinstance(hash(config), int)
        state = jax.eval_shape(lambda config=config: fitting._init(key, key, data, config))
        for learner, members in zip(state, (config.forward_members, config.inverse_members), strict=True):
            shapes = [weight.shape for weight in learner.network.weights]
            assert len(shapes) == len(config.hidden) + 1 and {shape[0] for shape in shapes} == {members}
    assert PRESETS["paper"].hidden == (256, 256, 256)
    assert PRESETS["paper-antmaze"].hidden == (256, 256, 256, 256)
    assert not PRESETS["paper-antmaze"].normalise


def test_too_little_data_is_refused(data: Dataset) -> None:
    with pytest.raises(InputError, match="known successor"):
        fit(linear_data([10, 10]), CONFIG)


def test_states_are_left_as_they_are_where_that_is_asked_for(data: Dataset) -> None:
    """As AntMaze's presets do."""
    short = replace(CONFIG, max_epochs=1)
    plain, scaled = (fit(data, replace(short, normalise=each)).dynamics.normaliser for each in (False, True))
    assert plain.is_identity and not scaled.is_identity


@pytest.mark.parametrize("rows", [45_000, 80_000])
def test_a_tenth_of_the_rows_is_kept_for_validation(rows: int) -> None:
    split = fitting._split(jax.random.key(0), 2, rows, CONFIG)
    assert (split.training.shape, split.validation.shape) == ((2, rows - rows // 10), (2, rows // 10))


def test_validation_counts_every_row_once(data: Dataset, fitted: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole chunks and a rest."""
    rows = np.flatnonzero(data.successor_known)
    held = fitting._rows(data, rows, fitted.dynamics.normaliser, CONFIG)[0]
    forward = fitted.dynamics.models.forward
    learner = fitting._learner(forward, epochs.optimiser(CONFIG, 1))
    chosen = jax.numpy.asarray(np.random.default_rng(0).permutation(len(rows))[: 3 * 70].reshape(3, 70))
    whole = [
        float(epochs._loss(member, *epochs._forward_batch(held, mine))) for member, mine in members(forward, chosen)
    ]
    for chunk in (7, 32, 69, 70, 200):
        monkeypatch.setattr(epochs, "VALIDATION_CHUNK", chunk)
        _, losses = epochs.judge_members(learner, held, chosen, epochs._forward_batch, jax.numpy.ones(3, bool))
        np.testing.assert_allclose(losses, whole, rtol=1e-5)


def members(ensemble: Any, rows: Any) -> list[tuple[Any, Any]]:
    return [(jax.tree.map(lambda each, place=place: each[place], ensemble), rows[place]) for place in range(len(rows))]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_epochs": 0}, "max_epochs is 0"),
        ({"max_epochs": -3}, "max_epochs is -3"),
        ({"batch": 0}, "batch is 0"),
        ({"inverse_members": 0}, "inverse_members is 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(data: Dataset, change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit(data, replace(CONFIG, **change))


def test_the_unit_of_actions_does_not_matter(data: Dataset) -> None:
    """A valve from 0 to 4,000 is learned like a torque from -1 to 1: the same numbers reach the networks."""
    half, middle = np.array([2000.0, 0.001], np.float32), np.array([2000.0, 3.0], np.float32)
    other = replace(
        data,
        actions=(data.actions.astype(np.float64) * half + middle).astype(np.float32),
        action_low=data.action_low * half + middle,
        action_high=data.action_high * half + middle,
    )
    config = replace(CONFIG, max_epochs=5)
    ours, theirs = fit(data, config).dynamics, fit(other, config).dynamics
    s, a, s_next = data.observations[:100], data.actions[:100], data.observations[:100] + 0.1
    moved = rmse(ours.predict(s, a) - s)
    np.testing.assert_allclose(theirs.predict(s, other.actions[:100]), ours.predict(s, a), atol=1e-2 * moved)
    np.testing.assert_allclose((theirs.infer(s, s_next) - middle) / half, ours.infer(s, s_next), atol=1e-2)


def test_bounds_of_one_leave_every_bit_alone(data: Dataset, fitted: Fit) -> None:
    forward, inverse = fitted.dynamics.models.forward, fitted.dynamics.models.inverse
    for kept, same in zip(fitting._of_raw_actions(forward, inverse, data), (forward, inverse), strict=True):
        jax.tree.map(np.testing.assert_array_equal, kept, same)


def test_a_short_recording_has_more_epochs_and_as_much_more_patience(data: Dataset) -> None:
    """760 rows with a successor: 38 are held out, 72 validate, 650 are 20 batches of 32."""
    config = replace(CONFIG, max_epochs=10, forward_patience=4, inverse_patience=3, least_steps=500)
    longer = fitting.lengthened(config, data)
    assert (longer.max_epochs, longer.forward_patience, longer.inverse_patience) == (25, 10, 8)
    assert fitting.lengthened(longer, data) == longer
    assert fitting.lengthened(replace(config, least_steps=200), data).max_epochs == 10
    patient = replace(config, least_steps=300, forward_patience=99, inverse_patience=99)
    assert len(fit(data, patient).curves) == 15


def test_a_fit_that_never_was_one_is_refused(data: Dataset) -> None:
    """Untrained networks would be handed on as dynamics."""
    with pytest.raises(InputError, match="5 of 5 members never had a finite validation loss"):
        fit(data, replace(CONFIG, learning_rate=1e30, max_epochs=2))


def test_many_rows_are_predicted_in_blocks(data: Dataset, fitted: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    s, a = data.observations[:50], data.actions[:50]
    whole = fitted.dynamics.predict(s, a), fitted.dynamics.spread(s, a), fitted.dynamics.infer(s, s + 0.1)
    monkeypatch.setattr("stacq.dynamics.models.BLOCK", 16)
    parts = fitted.dynamics.predict(s, a), fitted.dynamics.spread(s, a), fitted.dynamics.infer(s, s + 0.1)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    folded = fitted.dynamics.predict(s.reshape(5, 10, -1), a.reshape(5, 10, -1))
    np.testing.assert_array_equal(folded.reshape(parts[0].shape), parts[0])
    assert fitted.dynamics.predict(s[:0], a[:0]).shape == (0, s.shape[1])


def test_what_float32_cannot_hold_is_refused(data: Dataset, fitted: Fit) -> None:
    s, a = data.observations[:3].astype(np.float64), data.actions[:3]
    s[1, 0] = 1e300
    with pytest.raises(InputError, match=r"observations hold 1e\+300 at \[1, 0\]"):
        fitted.dynamics.predict(s, a)
    with pytest.raises(InputError, match="the same number of rows"):
        fitted.dynamics.predict(data.observations[:3], data.actions[:5])
    with pytest.raises(InputError, match="expected: numbers"):
        fitted.dynamics.predict([["a"] * s.shape[1]], a[:1])
    with pytest.raises(InputError, match="expected: numbers"):
        fitted.dynamics.predict([[1.0], [1.0, 2.0]], a[:2])
