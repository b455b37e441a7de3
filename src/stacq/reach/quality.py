"""How good a fit is, in numbers: errors on rows that no member saw, open loops, spread, and the round trip."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Bools, Float32s, Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import Fit
from stacq.dynamics.models import Models, forward_mean, forward_members, inverse_mean
from stacq.reach.criterion import LOW_RECALL, Blocks, Candidates, device_of, plain_errors, weakest
from stacq.reach.quality_facts import Bins, Calibration, Errors, OpenLoop, Quality, RoundTrip
from stacq.reach.ranges import box_sizes, range_actions, ranges, widened

HORIZONS = (1, 5, 20)  # steps of an open loop
MOST_STARTS = 5_000  # open loops per horizon
BINS = 10  # quantile bins of the ensemble's spread
RANGE_ACTIONS = 1_000  # as the paper
ROUND_TRIP_ROWS = {"cpu": 500}  # a thousand actions per row are slow there
MOST_ROUND_TRIP_ROWS = 1_000
EPSILONS = (0.1, 0.05)  # the paper's tolerance, and half of it
SEED = 42  # of the choice of rows and of the actions behind ranges


def measure(fit: Fit, dataset: Dataset) -> Quality:
    """Judge a fit on the rows that it kept from every member."""
    _check(fit, dataset)
    rows, models = fit.held_out, fit.dynamics.models
    s, s_next = (fit.dynamics.normaliser.apply(values[rows]) for values in _states(dataset))
    actions = dataset.actions[rows].astype(np.float32)
    members = np.asarray(_members(models, s, actions))  # [F, N, S]
    normalised = _errors(members, s, s_next)
    round_trip = _round_trip(fit, s, s_next)
    return Quality(
        name=dataset.name,
        forward_members=models.forward.members,
        inverse_members=models.inverse.members,
        hidden=tuple(int(bias.shape[-1]) for bias in models.forward.biases[:-1]),
        epochs=len(fit.curves),
        held_out=len(rows),
        normalised=normalised,
        raw=_scaled(normalised, fit.dynamics.normaliser.scale),
        inverse=_rmse(np.asarray(_inverse(models, s, s_next)) - actions),
        inverse_spread=_plain(actions.std(axis=0, dtype=np.float64)),
        open_loop=tuple(_open_loop(fit, dataset, steps, at) for steps, at in _starts(fit, dataset) if len(at)),
        calibration=_calibrate(members.std(axis=0), members.mean(axis=0) - s_next),
        round_trip=round_trip,
        warnings=(*_recall_warning(round_trip), *_idle_warning(normalised)),
    )


_members = jax.jit(forward_members)
_inverse = jax.jit(inverse_mean)


def _check(fit: Fit, dataset: Dataset) -> None:
    if fit.dynamics.parents.get("dataset") != dataset.fingerprint:
        raise InputError(
            "these dynamics were fitted to another dataset",
            where=dataset.name or "dataset",
            expected="the dataset that the held-out rows belong to",
            fix="measure with the dataset that was passed to fit",
        )
    if not len(fit.held_out):
        raise InputError(
            "the fit held no rows out",
            where=dataset.name or "dataset",
            expected="rows that no member saw, to judge the fit by",
            fix="fit to more data",
        )


def _states(dataset: Dataset) -> tuple[Floats, Floats]:
    return dataset.observations, dataset.next_observations


def _errors(members: Float32s, s: Float32s, s_next: Float32s) -> Errors:
    alone = np.mean([_rmse(prediction - s_next) for prediction in members], axis=0)
    return Errors(_rmse(members.mean(axis=0) - s_next), _plain(alone), _rmse(s - s_next))


def _scaled(errors: Errors, scale: Float32s) -> Errors:
    raw = (_plain(np.array(each) * scale) for each in (errors.ensemble, errors.member, errors.identity))
    return Errors(*raw)


def _starts(fit: Fit, dataset: Dataset) -> list[tuple[int, Ints]]:
    """For each horizon, held-out rows whose loop of that many rows stays in their episode and ends somewhere known."""
    rows = fit.held_out
    end = dataset.episode_offsets[np.searchsorted(dataset.episode_offsets, rows, side="right")]
    found = []
    for steps in HORIZONS:
        inside = rows[rows + steps <= end]
        inside = inside[dataset.successor_known[inside + steps - 1]]
        found.append((steps, _some(inside, MOST_STARTS)))
    return found


def _some(rows: Ints, most: int) -> Ints:
    """At most that many of the rows, a seeded choice in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(SEED).choice(rows, most, replace=False))


def _open_loop(fit: Fit, dataset: Dataset, steps: int, starts: Ints) -> OpenLoop:
    normalise = fit.dynamics.normaliser.apply
    rows = starts + np.arange(steps)[:, None]  # [K, N]
    s = normalise(dataset.observations[starts])
    truth = normalise(dataset.next_observations[rows])  # [K, N, S]
    predicted = np.asarray(_roll(fit.dynamics.models, s, dataset.actions[rows].astype(np.float32)))
    ensemble = [_rmse(each) for each in predicted - truth]
    identity = [_rmse(each) for each in s - truth]
    return OpenLoop(
        steps=steps,
        starts=len(starts),
        ensemble=ensemble[-1],
        identity=identity[-1],
        path=_plain(np.mean(ensemble, axis=1)),
        identity_path=_plain(np.mean(identity, axis=1)),
    )


@jax.jit
def _roll(models: Models, s: jax.Array, actions: jax.Array) -> jax.Array:
    """States that the ensemble's mean passes through when it is fed its own predictions, [K, N, S]."""

    def step(s: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        s_next = forward_mean(models, s, a)
        return s_next, s_next

    return jax.lax.scan(step, s, actions)[1]


def _calibrate(spread: Float32s, error: Float32s) -> Calibration:
    size = np.abs(error)
    unit = np.sqrt(np.mean(size.astype(np.float64) ** 2, axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    return Calibration(
        correlation=tuple(_rank_correlation(x, y) for x, y in zip(spread.T, size.T, strict=True)),
        within_one=_plain((size <= spread).mean(axis=0)),
        within_two=_plain((size <= 2 * spread).mean(axis=0)),
        per_dimension=tuple(_bins(x, y) for x, y in zip((spread / unit).T, (size / unit).T, strict=True)),
        pooled=_bins((spread / unit).ravel(), (size / unit).ravel()),
    )


def _bins(spread: Float64s, error: Float64s) -> Bins:
    order = np.argsort(spread, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return Bins(*(tuple(_rms(values[part]) for part in parts) for values in (spread, error)))


def _rank_correlation(x: Floats, y: Floats) -> float:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: Floats) -> Float64s:
    """Places in the sorted order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _round_trip(fit: Fit, s: Float32s, s_next: Float32s) -> RoundTrip:
    """The criterion as published: uniform actions, L-infinity norm, inverse actions not clipped."""
    dynamics = fit.dynamics
    chosen = _some(np.arange(len(s)), ROUND_TRIP_ROWS.get(jax.default_backend(), MOST_ROUND_TRIP_ROWS))
    s, s_next = s[chosen], s_next[chosen]
    actions = range_actions(dynamics.action_low, dynamics.action_high, RANGE_ACTIONS, "random", SEED)
    low, high = map(np.asarray, ranges(dynamics.models, jnp.asarray(s), jnp.asarray(actions)))
    sizes = box_sizes(*widened(low, high, s_next, np.ones(len(s), dtype=np.bool_)))
    rows = np.arange(len(s))
    device = device_of(dynamics, clip=False, blocks=Blocks(len(s), len(s)))
    return _recall(plain_errors(device, Candidates(s, s_next, rows, sizes, rows, rows)))


def _recall(scaled: Float32s) -> RoundTrip:
    fails: list[Bools] = [~(scaled <= epsilon) for epsilon in EPSILONS]  # each [N, S]; NaN fails
    failing = tuple(_plain(each.mean(axis=0)) for each in fails)
    recall = tuple(float(1 - each.any(axis=1).mean()) for each in fails)
    return RoundTrip(len(scaled), RANGE_ACTIONS, EPSILONS, recall, failing, weakest(scaled, EPSILONS[0]))


def _recall_warning(trip: RoundTrip) -> list[str]:
    if trip.recall[0] >= LOW_RECALL:
        return []
    return [
        f"only {trip.recall[0]:.0%} of true successors pass the paper's criterion at epsilon {trip.epsilons[0]:g} "
        f"(dimension {trip.worst} fails most often): reachable sets by it will miss many true neighbours; "
        "train longer or on more data, or let `stacq reach` use `--criterion calibrated`"
    ]


def _idle_warning(errors: Errors) -> list[str]:
    pairs = zip(errors.ensemble, errors.identity, strict=True)
    idle = [dimension for dimension, (ours, same) in enumerate(pairs) if ours > same]
    if not idle:
        return []
    where = f"dimension{'s' if len(idle) > 1 else ''} {', '.join(map(str, idle[:8]))}{' ...' if len(idle) > 8 else ''}"
    return [f"in {where} the forward model is worse than no change at all"]


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def _rmse(errors: Floats) -> tuple[float, ...]:
    """Root mean square over rows, per dimension."""
    return _plain(np.sqrt(np.mean(np.square(errors, dtype=np.float64), axis=0)))


def _plain(values: Floats | Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
