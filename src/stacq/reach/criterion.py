"""The test that a pair must pass to count as reachable, the paper's or the calibrated one, and what known pairs say."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Array, Bools, Float32s, Floats, Ints
from stacq.dynamics.models import Dynamics, Models
from stacq.reach.agreement import distance, residuals
from stacq.reach.calibration import Calibration, refined, refined_scores
from stacq.reach.config import Norm

# Refining costs about A + 2 plain tests, and most candidates are hopeless before it. Measured in docs/reachability.md:
# of the candidates that pass the calibrated test, less than half a percent have a plain error above 0.3 ranges.
NEAR = 0.3
# Weak models err by more than that even on known pairs: the bound rises until this share of those that pass is kept.
KEPT = 0.995
LOW_RECALL = 0.9  # share of true successors below which a warning is due


class Candidates(NamedTuple):
    """Pairs of an anchor and a row whose successor it may reach; states are gathered by blocks, to spare memory."""

    s: Float32s  # [N, S], normalised
    s_next: Float32s  # [N, S]
    anchors: Ints  # [B] rows
    sizes: Float32s  # [B, S]: how far one step from an anchor goes
    place: Ints  # [M]: which anchor
    rows: Ints  # [M]

    def only(self, chosen: Bools) -> "Candidates":
        return self._replace(place=self.place[chosen], rows=self.rows[chosen])

    def over(self, function: Callable[..., Any], count: int) -> Iterator[Any]:
        """Results of `function(s, s', sizes)` as NumPy arrays, in blocks of one shape: one program serves all."""
        for first in range(0, len(self.rows), count):
            place, rows = (part[first : first + count] for part in (self.place, self.rows))
            i, j = padded(place, count), padded(rows, count)
            found = function(*map(jnp.asarray, (self.s[self.anchors[i]], self.s_next[j], self.sizes[i])))
            yield jax.tree.map(lambda leaf, size=len(rows): np.asarray(leaf)[:size], found)


def padded(values: Array, count: int) -> Array:
    """`count` rows, by repeating the first."""
    missing = count - len(values)
    return np.concatenate([values, np.repeat(values[:1], missing, axis=0)]) if missing else values


class Blocks(NamedTuple):
    """Pairs per call: a GPU wants large blocks, a CPU small ones, and refining takes A + 1 times the memory."""

    plain: int
    refining: int


class Device(NamedTuple):
    """What every test of pairs needs there."""

    models: Models
    low: jax.Array  # [A]; infinite where actions are not clipped
    high: jax.Array
    blocks: Blocks


def device_of(dynamics: Dynamics, clip: bool, blocks: Blocks) -> Device:
    low, high = dynamics.action_low, dynamics.action_high
    wide = np.full_like(low, np.inf)
    low, high = (low, high) if clip else (-wide, wide)
    return Device(dynamics.models, jnp.asarray(low), jnp.asarray(high), blocks)


@dataclass(frozen=True)
class Criterion:
    """The paper's test with its norm and bound; where there is a calibration, what passes is tested by it as well."""

    norm: Norm
    bound: float  # on the plain error, in ranges
    calibration: Calibration | None = None

    def accepts(self, device: Device, pairs: Candidates) -> Bools:
        """Which pairs count as reachable, [M]."""
        models, low, high, blocks = device

        def plain(*states: jax.Array) -> Any:
            return distance(models, *states, low, high, self.norm)

        passed: Bools = _joined(pairs.over(plain, blocks.plain)) <= self.bound
        if self.calibration is None:
            return passed
        passed[passed] = scores(self.calibration, device, pairs.only(passed)) <= self.calibration.threshold
        return passed

    def errors(self, device: Device, pairs: Candidates) -> Floats:
        """By dimension, in ranges or in units of what the calibration tolerates, [M, S]."""
        if self.calibration is None:
            return plain_errors(device, pairs)
        return self.calibration.errors(*refined_errors(device, pairs), pairs.sizes[pairs.place])


def scores(calibration: Calibration, device: Device, pairs: Candidates) -> Float32s:
    """Of the pairs after refining, [M]: one program for fitting the threshold and for testing against it.

    Another program would round differently, and a known pair that sets the threshold could fail its own test.
    """
    models, low, high, blocks = device
    trust = jnp.asarray(calibration.trust, dtype=jnp.float32)

    def score(*states: jax.Array) -> Any:
        return refined_scores(models, *states, low, high, trust, calibration.epsilon)

    return _joined(pairs.over(score, blocks.refining))


def _joined(blocks: Iterable[Float32s]) -> Float32s:
    return np.concatenate([np.zeros(0, dtype=np.float32), *blocks])


def plain_errors(device: Device, pairs: Candidates) -> Float32s:
    """|f(s, I(s, s')) - s'| in ranges, [M, S]."""
    models, low, high, blocks = device
    found = pairs.over(lambda s, s_next, sizes: residuals(models, s, s_next, low, high)[0] / sizes, blocks.plain)
    scaled: Float32s = np.abs(np.concatenate(list(found)))
    return scaled


def refined_errors(device: Device, pairs: Candidates) -> tuple[Float32s, Float32s]:
    """f(s, a) - s' with the refined action, and the members' spread there, each [M, S]."""
    models, low, high, blocks = device
    found = list(pairs.over(lambda *states: refined(models, *states, low, high)[:2], blocks.refining))
    return np.concatenate([block[0] for block in found]), np.concatenate([block[1] for block in found])


def calibrated(device: Device, pairs: Candidates, *, recall: float, epsilon: float) -> Criterion:
    """The test that at least this share of `pairs`, held-out rows and their successors, passes.

    A little more is asked of the calibration itself, since the plain test before it takes some.
    """
    sizes = pairs.sizes[pairs.place]
    columns = [column.astype(np.float64) for column in (*refined_errors(device, pairs), sizes)]
    fitted = Calibration.fit(*columns, recall=recall / KEPT, epsilon=epsilon)
    found = scores(fitted, device, pairs)
    calibration = fitted.passed_by(found, recall / KEPT)
    plain = plain_errors(device, pairs).max(axis=1)[found <= calibration.threshold]
    bound = max(NEAR, float(np.quantile(plain, KEPT, method="inverted_cdf")))
    return Criterion("linf", bound, calibration)


@dataclass(frozen=True)
class KnownPairs:
    """The result of the test for rows and their recorded successors: all of them are reachable."""

    rows: int
    held_out: bool  # no model was fitted to them
    recall: float  # share that passes
    worst_dimension: int  # see `weakest`


def judged(criterion: Criterion, device: Device, pairs: Candidates, held_out: bool) -> KnownPairs:
    """Recall on known pairs; only pairs that no part of the test was fitted to tell the truth."""
    failed = ~criterion.accepts(device, pairs)
    tolerated = criterion.bound if criterion.calibration is None else criterion.calibration.threshold
    worst = weakest(criterion.errors(device, pairs), tolerated)
    return KnownPairs(len(failed), held_out, float(1 - failed.mean()), worst)


def weakest(errors: Floats, tolerated: float) -> int:
    """The dimension that exceeds what is tolerated in most rows of `errors`, [N, S]; the hardest if none ever does."""
    failing = (~(errors <= tolerated)).sum(axis=0)  # what is no number fails
    return int(failing.argmax() if failing.any() else np.median(errors, axis=0).argmax())


def to_facts(criterion: Criterion, known: KnownPairs) -> dict[str, Any]:
    """What a manifest says about the test: plain numbers that survive JSON unchanged."""
    facts: dict[str, Any] = {"known_pairs": asdict(known)}
    if criterion.calibration is not None:
        fitted = asdict(criterion.calibration)
        facts["calibration"] = fitted | {"trust": list(fitted["trust"]), "bound": criterion.bound}
    return facts


def calibrated_from(facts: Mapping[str, Any]) -> Criterion:
    """The calibrated test that `to_facts` described."""
    fitted = dict(facts["calibration"])
    bound = fitted.pop("bound")
    return Criterion("linf", bound, Calibration(**fitted | {"trust": tuple(fitted["trust"])}))
