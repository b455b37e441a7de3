"""Reachable sets: equal to a brute-force search, whole after any kill, and honest about their options."""

import errno
import signal
import subprocess
import sys
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import reach_oracle as oracle
import stacq.reach.build as module
from stacq import Conventions, Dataset, InputError, Normaliser, from_arrays
from stacq.core.artefacts import cache_directory, read_artefact
from stacq.dynamics.fit import fit
from stacq.dynamics.models import Dynamics, Models
from stacq.dynamics.recipes import FitConfig
from stacq.nn.mlp import MLP
from stacq.reach import chunks
from stacq.reach.build import kept_at, reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.criterion import Candidates
from stacq.reach.options import resolved
from stacq.reach.ranges import box_sizes, widened
from stacq.reach.sets import ReachableSets, own_present

STEP = 0.1


def walks(episodes: int = 12, length: int = 25, seed: int = 0, terminals: bool = False) -> Dataset:
    """A point in the plane that moves by a tenth of its action; starts close together, so that paths cross."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (episodes, length, 2)).astype(np.float32)
    places = np.cumsum(np.concatenate([rng.uniform(-0.2, 0.2, (episodes, 1, 2)), STEP * actions], axis=1), axis=1)
    places = places.astype(np.float32)
    ends = np.zeros((episodes, length), dtype=bool)
    ends[:, -1] = True
    stored: dict[str, Any] = {} if terminals else {"next_observations": places[:, 1:].reshape(-1, 2)}
    return from_arrays(
        places[:, :-1].reshape(-1, 2),
        actions.reshape(-1, 2),
        np.zeros(episodes * length),
        ends.reshape(-1) if terminals else np.zeros(episodes * length, dtype=bool),
        timeouts=np.zeros(episodes * length, dtype=bool) if terminals else ends.reshape(-1),
        **stored,
        conventions=Conventions(name="walks"),
    )


def exact_models(dataset: Dataset) -> Dynamics:
    """Dynamics that are exactly right: s' = s + 0.1 a, a = 10 (s' - s); relu(x) - relu(-x) is x."""
    eye = jnp.eye(2, dtype=jnp.float32)
    both = jnp.concatenate([jnp.eye(4), -jnp.eye(4)], axis=1)

    def linear(matrix: Any) -> MLP:
        return MLP((both[None], jnp.concatenate([matrix, -matrix])[None]), (jnp.zeros((1, 8)), jnp.zeros((1, 2))))

    forward = linear(jnp.concatenate([0 * eye, STEP * eye]))
    inverse = linear(jnp.concatenate([-eye / STEP, eye / STEP]))
    models = Models(forward, inverse, jnp.zeros(2), jnp.ones(2))
    bounds = np.full(2, -1, np.float32), np.full(2, 1, np.float32)
    return Dynamics(models, Normaliser.identity(2), *bounds, {}, {"dataset": dataset.fingerprint})


@cache
def learned() -> tuple[Dataset, Dynamics]:
    dataset = walks(seed=3)
    config = FitConfig(2, 2, hidden=(16,), batch=32, max_epochs=30, learning_rate=1e-2)
    return dataset, fit(dataset, config).dynamics


def assert_equal_to_brute_force(sets: ReachableSets, dataset: Dataset, dynamics: Dynamics, config: ReachConfig) -> None:
    """Every pair judged by the oracle; it may abstain on one in a hundred, which lie on a bound."""
    assert config.actions is not None
    frame = oracle.frame_of(dataset, dynamics)
    box = oracle.boxes(frame, oracle.tried(frame, config.actions, config.estimator, config.seed))
    i, j, on_a_face = oracle.inside(frame, box)
    errors = oracle.plain_errors(frame, frame.s[i], frame.s_next[j], box.sizes[i], config.clip)
    value, own = oracle.norms(errors)[config.norm], i == j
    undecided = ~own & (on_a_face | (np.abs(value / config.epsilon - 1) < oracle.NEAR))
    assert oracle.differing(sets, i, j, (value <= config.epsilon) | own, undecided) == []
    assert undecided.mean() < 0.01 and len(dataset) < sets.pairs < 0.8 * len(i)


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.02), ("l1", 0.03), ("l2", 0.02), ("l2-unrooted", 0.0005)])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("estimator", "actions"), [("random", 100), ("corners", 9)])
def test_equal_to_brute_force(norm: Any, epsilon: float, clip: bool, estimator: Any, actions: int) -> None:
    """Bounds that about half of the pairs in boxes keep to."""
    dataset, dynamics = learned()
    config = ReachConfig(epsilon=epsilon, norm=norm, clip=clip, actions=actions, estimator=estimator)
    assert_equal_to_brute_force(reachable_sets(dataset, dynamics, config), dataset, dynamics, config)


def test_with_exact_models_the_sets_are_the_truth() -> None:
    """A state is reachable if it lies within a tenth in both directions, up to the sampled range."""
    dataset = walks()
    sets = reachable_sets(dataset, exact_models(dataset), ReachConfig(estimator="corners", actions=0, clip=True))
    gap = np.abs(dataset.observations[:, None] - dataset.next_observations[None]).max(axis=2)
    truth = [set(np.flatnonzero(row <= STEP * (1 + 1e-6))) for row in gap]
    found = [set(sets.of(row).tolist()) for row in range(len(dataset))]
    edge = [set(np.flatnonzero(np.abs(row - STEP) < 1e-5)) for row in gap]
    assert all(a - e == b - e for a, b, e in zip(found, truth, edge, strict=True))


def test_unknown_successors_are_no_candidates_and_have_no_own() -> None:
    dataset = walks(terminals=True)
    assert not dataset.successor_known.all()
    sets = reachable_sets(dataset, exact_models(dataset))
    sets.check(dataset)
    assert (own_present(sets) == dataset.successor_known).all()
    assert dataset.successor_known[sets.indices].all()


def test_chunks_do_not_change_the_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dataset, dynamics = learned()
    whole = reachable_sets(dataset, dynamics)
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    monkeypatch.setattr(chunks, "CHUNK", 37)
    pieces = reachable_sets(dataset, dynamics)
    np.testing.assert_array_equal(whole.indptr, pieces.indptr)
    np.testing.assert_array_equal(whole.indices, pieces.indices)
    assert whole.facts == pieces.facts


@pytest.mark.parametrize("cap", [None, pytest.param(3, marks=pytest.mark.slow)])
def test_nor_does_the_number_of_pairs_that_are_held_at_a_time(
    cap: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset, dynamics = learned()
    config = ReachConfig(epsilon=0.5, cap=cap)
    whole = reachable_sets(dataset, dynamics, config)
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    monkeypatch.setattr(chunks, "CROWD", 50)
    held: list[tuple[int, int]] = []
    keep = chunks.ChunkMaker._tested

    def noting(self: Any, anchors: Any, low: Any, high: Any) -> Any:
        found = keep(self, anchors, low, high)
        held.append((len(anchors), found.facts[0]))
        return found

    monkeypatch.setattr(chunks.ChunkMaker, "_tested", noting)
    pieces = reachable_sets(dataset, dynamics, config)
    assert sum(anchors for anchors, _ in held) == len(dataset) and len(held) > 10
    assert all(pairs <= 50 or anchors == 1 for anchors, pairs in held)
    np.testing.assert_array_equal(whole.indptr, pieces.indptr)
    np.testing.assert_array_equal(whole.indices, pieces.indices)
    assert whole.facts == pieces.facts


def test_parts_are_as_large_as_they_may_be() -> None:
    counts = np.array([3, 3, 4, 11, 0, 0, 10, 1, 2])
    assert list(chunks.manageable(counts, 10)) == [slice(0, 3), slice(3, 4), slice(4, 7), slice(7, 9)]
    assert list(chunks.manageable(counts[:0], 10)) == []


def test_progress_is_told_within_chunks_by_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = learned()
    monkeypatch.setattr(chunks, "CHUNK", 150)
    monkeypatch.setattr(chunks, "TELL_BLOCKS", 1)
    monkeypatch.setattr(chunks, "STATES", {"cpu": 50})
    monkeypatch.setattr(chunks, "CROWD", 500)
    told: list[tuple[int, str, bool]] = []

    def update(done: int, total: int | None = None, *, kept: bool = False, phase: str = "") -> None:
        assert total is None
        told.append((done, phase, kept))

    with monkeypatch.context() as patch:
        patch.setattr(module, "ReachableSets", None)  # stopped before the sets are put together
        with pytest.raises(TypeError):
            reachable_sets(dataset, dynamics, progress=update)
    steps = [done for done, _, _ in told]
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == len(dataset)
    assert [phase for _, phase, _ in told[:5]] == ["known pairs", *["ranges"] * 3, "join and agreement"]
    assert 0 < steps[1] < 150 and not any(kept for *_, kept in told)
    told.clear()
    reachable_sets(dataset, dynamics, progress=update)
    assert told == [(150, "", True), (300, "", True)]  # nothing of it was made now


def test_both_engines_agree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dataset, dynamics = learned()
    one = reachable_sets(dataset, dynamics, engine="cpu")
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    np.testing.assert_array_equal(one.indices, reachable_sets(dataset, dynamics, engine="gpu").indices)


def test_the_cache_key_covers_data_models_and_options() -> None:
    dataset, dynamics = learned()
    reachable_sets(dataset, dynamics)
    seen: list[str] = []
    reachable_sets(dataset, dynamics, log=seen.append)
    assert seen == ["found before, with the same data, models and options"]
    reachable_sets(dataset, dynamics, replace(ReachConfig(), epsilon=0.2), log=seen.append)
    assert len(seen) > 2
    places = [
        kept_at(dataset, dynamics, ReachConfig()),
        kept_at(walks(seed=9), dynamics, ReachConfig()),
        kept_at(dataset, exact_models(dataset), ReachConfig()),
        *(kept_at(dataset, dynamics, ReachConfig(**{name: value})) for name, value in OTHER_OPTIONS.items()),
    ]
    assert len(set(places)) == len(places)
    assert set(OTHER_OPTIONS) | {"recall"} == {each.name for each in fields(ReachConfig)}


OTHER_OPTIONS: dict[str, Any] = {
    "criterion": "calibrated",
    "epsilon": 0.2,
    "norm": "l1",
    "estimator": "random",
    "actions": 7,
    "clip": True,
    "cap": 3,
    "seed": 1,
}


def test_caps_are_counted_and_keep_the_own_successor() -> None:
    dataset, dynamics = learned()
    config = ReachConfig(epsilon=0.5)
    free, capped = reachable_sets(dataset, dynamics, config), reachable_sets(dataset, dynamics, replace(config, cap=3))
    assert capped.sizes.max() <= 3 < free.sizes.max()
    assert capped.facts["capped"] == free.pairs - capped.pairs > 0
    capped.check(dataset)
    for row in range(len(dataset)):
        assert set(capped.of(row)) <= set(free.of(row))


def test_what_a_cap_leaves_out_is_decided_by_the_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dataset, dynamics = learned()
    found = []
    for place, seed in (("one", 1), ("two", 1), ("three", 2)):
        monkeypatch.setenv("STACQ_HOME", str(tmp_path / place))
        config = ReachConfig(epsilon=0.5, cap=3, estimator="corners", actions=0, seed=seed)
        found.append(reachable_sets(dataset, dynamics, config).indices.tolist())
    assert found[0] == found[1] != found[2]


def test_actions_are_clipped_to_the_bounds_of_the_data() -> None:
    """Bounds that are neither symmetric nor one: the sets are those of a brute-force search, and not all alike."""
    dataset, dynamics = learned()
    low, high = np.array([-0.3, 0.1], np.float32), np.array([0.2, 0.6], np.float32)
    narrow = replace(dynamics, action_low=low, action_high=high)
    dataset = replace(dataset, action_low=low, action_high=high)
    found = []
    for clip in (False, True):
        config = ReachConfig(epsilon=0.02, clip=clip, actions=100, estimator="random")
        sets = reachable_sets(dataset, narrow, config)
        assert_equal_to_brute_force(sets, dataset, narrow, config)
        found.append(sets.pairs)
    assert found[1] < found[0]


def test_a_dimension_that_nothing_moves_has_a_width_all_the_same() -> None:
    """Far from zero float32 cannot tell a millionth from nothing: errors would be divided by zero."""
    low = high = s_next = np.full((2, 1), 100, np.float32)
    low, high = widened(low, high, s_next, np.array([True, False]))
    assert low[0, 0] < 100 < high[0, 0] and (box_sizes(low, high) > 0).all()
    plane = walks(episodes=30)
    still = from_arrays(
        np.hstack([plane.observations, np.full((len(plane), 1), 100, np.float32)]),
        plane.actions,
        plane.rewards,
        plane.terminals,
        timeouts=plane.timeouts,
        next_observations=np.hstack([plane.next_observations, np.full((len(plane), 1), 100, np.float32)]),
    )
    tiny = FitConfig(2, 2, hidden=(16,), batch=32, max_epochs=2, normalise=False)
    dynamics = fit(still, tiny).dynamics
    for criterion in ("paper", "calibrated"):
        reachable_sets(still, dynamics, ReachConfig(criterion=criterion)).check(still)


def test_a_calibration_is_judged_on_rows_that_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = learned()
    seen: dict[str, set[int]] = {}
    for name in ("calibrated", "judged"):
        keep = getattr(chunks, name)

        def noting(*arguments: Any, name: str = name, keep: Any = keep, **options: Any) -> Any:
            seen[name] = set(next(each for each in arguments if isinstance(each, Candidates)).rows.tolist())
            return keep(*arguments, **options)

        monkeypatch.setattr(chunks, name, noting)
    reachable_sets(dataset, dynamics, ReachConfig(criterion="calibrated"))
    assert seen["calibrated"] and seen["judged"] and not seen["calibrated"] & seen["judged"]
    assert seen["calibrated"] | seen["judged"] <= set(dynamics.held_out.tolist())


def test_saved_sets_are_verified(tmp_path: Path) -> None:
    dataset, dynamics = learned()
    sets = reachable_sets(dataset, dynamics)
    sets.save(tmp_path / "sets")
    again = ReachableSets.load(tmp_path / "sets", dataset)
    np.testing.assert_array_equal(again.indices, sets.indices)
    assert again.config == sets.config and again.facts == sets.facts
    with pytest.raises(InputError, match="another dataset"):
        ReachableSets.load(tmp_path / "sets", walks(seed=9))


@pytest.mark.parametrize("harm", ["own", "order", "range", "rows"])
def test_broken_promises_are_found(harm: str) -> None:
    dataset, dynamics = learned()
    sets = reachable_sets(dataset, dynamics, ReachConfig(epsilon=0.5))
    indices, indptr = sets.indices.copy(), sets.indptr.copy()
    row = int(np.flatnonzero(sets.sizes > 1)[0])
    if harm == "own":
        other = next(j for j in sets.of(row) if j != row)
        indices[indptr[row] : indptr[row + 1]][sets.of(row) == row] = other
    elif harm == "order":
        indices[indptr[row] : indptr[row + 1]] = indices[indptr[row] : indptr[row + 1]][::-1]
    elif harm == "range":
        indices[-1] = len(dataset)
    else:
        indptr = indptr[:-1]
    with pytest.raises(InputError, match="do not fit"):
        replace(sets, indices=indices, indptr=indptr).check(dataset)


def test_options_are_frozen_in_the_manifest_and_the_choice_is_told() -> None:
    dataset, dynamics = learned()
    said: list[str] = []
    sets = reachable_sets(dataset, dynamics, ReachConfig(epsilon=0.2), log=said.append)
    assert sets.config["estimator"] == "corners" and sets.config["epsilon"] == 0.2
    assert any("corners of the action box and 64 uniform actions" in line for line in said)
    assert read_artefact(cache_directory("reach", sets.config, sets.parents), "reach").config["options"] == dict(
        sets.config
    )


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
import stacq.reach.build as module
from stacq.reach import chunks
from stacq.reach.config import ReachConfig
from test_reach_build import learned
chunks.CHUNK = 37
make, done = chunks.ChunkMaker.make, 0
def count(self, start):
    global done
    done += 1
    if done == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return make(self, start)
chunks.ChunkMaker.make = count
module.reachable_sets(*learned(), ReachConfig(criterion=sys.argv[2]))
"""


@pytest.mark.parametrize("criterion", [pytest.param("paper", marks=pytest.mark.slow), "calibrated"])
def test_a_killed_run_goes_on_and_leaves_the_same_bits(
    criterion: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 37)
    arguments = [sys.executable, "-c", KILLED, str(Path(__file__).parent), criterion]
    died = subprocess.run(arguments, timeout=120, check=False)
    assert died.returncode == -signal.SIGKILL
    left = sorted(path.name for path in (tmp_path / "home" / "reach").rglob("*.npz"))
    assert left == ["000000000.npz", "000000037.npz", "000000074.npz"]
    made: list[int] = []
    keep = chunks.ChunkMaker.make

    def noting(self: Any, start: int) -> Any:
        made.append(start)
        return keep(self, start)

    monkeypatch.setattr(chunks.ChunkMaker, "make", noting)
    dataset, dynamics = learned()
    config = ReachConfig(criterion=criterion)
    with monkeypatch.context() as patch:
        patch.setattr(chunks.ChunkMaker, "_known", None)  # the test that the killed run prepared is taken over
        resumed = reachable_sets(dataset, dynamics, config)
    assert made[0] == 111
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    fresh = reachable_sets(dataset, dynamics, config)
    for one in (resumed, fresh):
        one.check(dataset)
    np.testing.assert_array_equal(resumed.indices, fresh.indices)
    files = [sorted((tmp_path / home / "reach").rglob("*.*")) for home in ("home", "other")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_a_full_disk_is_a_clear_error_and_the_next_run_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 37)
    write = np.savez
    written: list[str] = []

    def until_full(handle: Any, **arrays: Any) -> None:
        if len(written) == 3:
            handle.write(b"the first bytes of a chunk")
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(handle.name)
        write(handle, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", until_full)
        with pytest.raises(InputError, match="No space left on device") as caught:
            reachable_sets(*learned())
    assert "000000111.npz" in str(caught.value) and "free some space" in str(caught.value)
    left = sorted(path.relative_to(tmp_path / "home" / "reach") for path in (tmp_path / "home").rglob("*.*"))
    assert {path.parts[0][:9] for path in left} == {".partial-"}  # no artefact, whole or half
    assert sorted(path.name for path in left if len(path.parts) == 2) == [
        "000000000.npz",
        "000000037.npz",
        "000000074.npz",
        "test.json",
    ]
    dataset, dynamics = learned()
    done = reachable_sets(dataset, dynamics)
    done.check(dataset)
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    fresh = reachable_sets(dataset, dynamics)
    np.testing.assert_array_equal(done.indices, fresh.indices)
    assert done.facts == fresh.facts


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("000000037.npz", None),
        ("test.json", None),
        ("test.json", b'{"known_pairs": {"rows": 5}}'),
        ("test.json", b'{"known_pairs":' * 100_000),
    ],
    ids=["a chunk", "a test", "another test", "a deep test"],
)
def test_a_damaged_part_of_an_interrupted_run_is_made_again(
    name: str, content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 37)
    dataset, dynamics = learned()
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr(module, "ReachableSets", None)
        reachable_sets(dataset, dynamics)
    part = next((tmp_path / "home" / "reach").rglob(name))
    part.write_bytes(part.read_bytes()[:20] if content is None else content)
    done = reachable_sets(dataset, dynamics)
    monkeypatch.setenv("STACQ_HOME", str(tmp_path / "other"))
    fresh = reachable_sets(dataset, dynamics)
    np.testing.assert_array_equal(done.indices, fresh.indices)
    assert done.facts == fresh.facts


def test_a_disk_that_fills_up_at_the_end_leaves_no_artefact(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = learned()
    place = kept_at(dataset, dynamics, ReachConfig())

    def full(arrays: Any, path: Path, **_: Any) -> None:
        Path(path).write_bytes(b"the first bytes")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.numpy.save_file", full)
        with pytest.raises(InputError, match="No space left on device"):
            reachable_sets(dataset, dynamics)
    assert not place.exists() and [path.name[:9] for path in place.parent.iterdir()] == [".partial-"]
    reachable_sets(dataset, dynamics).check(dataset)
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_an_unwritable_cache_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(InputError, match="cannot write"):
        reachable_sets(*learned())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"actions": -5}, "actions is -5"),
        ({"estimator": "random", "actions": 0}, "actions is 0"),
        ({"cap": 0}, "cap is 0"),
        ({"seed": -1}, "seed -1"),
        ({"norm": "l3"}, r"norm is 'l3'(.|\n)*one of"),
        ({"criterion": "papers"}, "criterion is 'papers'"),
        ({"estimator": "grid"}, "estimator is 'grid'"),
        ({"recall": 0.9}, "a recall was asked for"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_any_work(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        reachable_sets(*learned(), ReachConfig(**options))


def test_the_number_of_actions_stands_where_it_is_given() -> None:
    """On a CPU, where these tests run, the corners are taken unless said otherwise."""
    chosen = [
        ReachConfig(),
        ReachConfig(actions=7),
        ReachConfig(estimator="random"),
        ReachConfig(estimator="corners", actions=0),
    ]
    found = [(each.estimator, each.actions) for each in map(resolved, chosen)]
    assert found == [("corners", 64), ("corners", 7), ("random", 1000), ("corners", 0)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"action_high": np.full(2, 2, np.float32)}, r"actions from \[-1.0, -1.0\] to \[2.0, 2.0\]"),
        ({"normaliser": Normaliser.identity(3)}, "observations of 3 and actions of 2"),
    ],
)
def test_dynamics_of_another_machine_are_refused(change: dict[str, Any], said: str) -> None:
    dataset, dynamics = learned()
    with pytest.raises(InputError, match=said):
        reachable_sets(dataset, replace(dynamics, **change))
