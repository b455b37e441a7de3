"""Reachability once more, in float64 and plain NumPy: nothing here calls the library, which only lends its arrays.

Pairs are looked at all at once, without a tree, blocks or chunks. Every number is written out.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from stacq.core.types import Bools, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics, Models
from stacq.nn.mlp import MLP

NEAR = 3e-4  # a share of a bound, or of a range at a face: so near to it float32 may decide otherwise


class Frame(NamedTuple):
    """What a search is about, in the models' units."""

    models: Models
    s: Float64s  # [N, S]
    s_next: Float64s  # [N, S]; NaN where it is not known
    known: Bools  # [N]
    low: Float64s  # [A] bounds of actions
    high: Float64s  # [A]


class Box(NamedTuple):
    """How far one step goes from every state, each [N, S]."""

    low: Float64s
    high: Float64s

    @property
    def sizes(self) -> Float64s:
        return np.maximum(self.high - self.low, 2e-6)


class Refined(NamedTuple):
    """What is left of a step to s' after refining, how far members are apart there, and the action."""

    residual: Float64s  # [P, S]
    spread: Float64s  # [P, S]
    action: Float64s  # [P, A]


class Fitted(NamedTuple):
    trust: Float64s  # [S]
    threshold: float


def frame_of(dataset: Dataset, dynamics: Dynamics) -> Frame:
    mean, scale = (each.astype(np.float64) for each in (dynamics.normaliser.mean, dynamics.normaliser.scale))
    s, s_next = ((each - mean) / scale for each in (dataset.observations, dataset.next_observations))
    bounds = dynamics.action_low.astype(np.float64), dynamics.action_high.astype(np.float64)
    return Frame(dynamics.models, s, s_next, dataset.successor_known, *bounds)


def layers_of(ensemble: MLP, member: int) -> list[tuple[Float64s, Float64s]]:
    pairs = zip(ensemble.weights, ensemble.biases, strict=True)
    return [(np.asarray(w)[member].astype(np.float64), np.asarray(b)[member].astype(np.float64)) for w, b in pairs]


def each_output(ensemble: MLP, *inputs: Float64s) -> Float64s:
    """Of every member, [M, P, O]."""
    found = []
    for member in range(len(np.asarray(ensemble.biases[0]))):
        x = np.concatenate(inputs, axis=-1)
        layers = layers_of(ensemble, member)
        for weight, bias in layers[:-1]:
            x = np.maximum(x @ weight + bias, 0.0)
        found.append(x @ layers[-1][0] + layers[-1][1])
    return np.array(found)


def forward(models: Models, s: Float64s, a: Float64s) -> Float64s:
    """The next state by every member, [M, P, S]."""
    mean, scale = np.asarray(models.step_mean, np.float64), np.asarray(models.step_scale, np.float64)
    return np.asarray(s + mean + scale * each_output(models.forward, s, a))


def inverse(models: Models, s: Float64s, s_next: Float64s) -> Float64s:
    return np.asarray(each_output(models.inverse, s, s_next).mean(axis=0))


def slopes(models: Models, s: Float64s, a: Float64s) -> Float64s:
    """By how much the predicted state moves with the action, [P, S, A]: the mean over members."""
    found = []
    for member in range(len(np.asarray(models.forward.biases[0]))):
        layers = layers_of(models.forward, member)
        x = np.concatenate([s, a], axis=-1)
        moves = np.repeat(np.eye(x.shape[1])[None, s.shape[1] :], len(x), axis=0)  # [P, A, inputs]
        for weight, bias in layers[:-1]:
            x = x @ weight + bias
            moves = moves @ weight * (x > 0)[:, None]
            x = np.maximum(x, 0.0)
        found.append(moves @ layers[-1][0])
    scaled = np.mean(found, axis=0) * np.asarray(models.step_scale, np.float64)
    return np.asarray(scaled.swapaxes(1, 2))


def tried(frame: Frame, count: int, estimator: str, seed: int) -> Float64s:
    """The actions behind the ranges: all corners of the bounds if asked for, and uniform ones of the seed."""
    uniform = np.random.default_rng(seed).uniform(frame.low, frame.high, (count, len(frame.low)))
    corners = [corner for corner in product(*zip(frame.low, frame.high, strict=True)) if estimator == "corners"]
    return np.array([*corners, *uniform], dtype=np.float32).astype(np.float64)


def boxes(frame: Frame, actions: Float64s) -> Box:
    """Appendix B, and room for the recorded successor."""
    low, high = np.full_like(frame.s, np.inf), np.full_like(frame.s, -np.inf)
    for action in actions:
        reached = forward(frame.models, frame.s, np.tile(action, (len(frame.s), 1))).mean(axis=0)
        low, high = np.minimum(low, reached), np.maximum(high, reached)
    rows = frame.known[:, None]
    low = np.where(rows, np.minimum(low, frame.s_next - 1e-6), low)
    return Box(low, np.where(rows, np.maximum(high, frame.s_next + 1e-6), high))


def inside(frame: Frame, box: Box) -> tuple[Ints, Ints, Bools]:
    """Pairs (i, j) with s'_j in the box of s_i or next to it, and which of them lie on a face as float32 sees it."""
    gap = np.minimum(frame.s_next[None] - box.low[:, None], box.high[:, None] - frame.s_next[None])
    room = np.where(frame.known[None], (gap / box.sizes[:, None]).min(axis=2), -np.inf)  # [N, N] in ranges
    i, j = np.nonzero(room >= -NEAR)
    return i, j, np.abs(room[i, j]) < NEAR


def plain_errors(frame: Frame, s: Float64s, s_next: Float64s, sizes: Float64s, clip: bool) -> Float64s:
    """|f(s, I(s, s')) - s'| in ranges, [P, S]."""
    a = inverse(frame.models, s, s_next)
    a = np.minimum(np.maximum(a, frame.low), frame.high) if clip else a
    errors: Float64s = np.abs(forward(frame.models, s, a).mean(axis=0) - s_next) / sizes
    return errors


def norms(errors: Float64s) -> dict[str, Float64s]:
    """Appendix F's, and the authors' own."""
    squares = (errors * errors).sum(axis=1)
    return {"linf": errors.max(axis=1), "l1": errors.sum(axis=1), "l2": np.sqrt(squares), "l2-unrooted": squares}


def refined(frame: Frame, s: Float64s, s_next: Float64s, sizes: Float64s) -> Refined:
    """One step on the forward models from the clipped inverse action, if it lowers the greatest error in ranges."""

    def error(a: Float64s) -> Float64s:
        return np.asarray((forward(frame.models, s, a).mean(axis=0) - s_next) / sizes)

    guess = np.minimum(np.maximum(inverse(frame.models, s, s_next), frame.low), frame.high)
    slope = slopes(frame.models, s, guess) / sizes[:, :, None]
    moved = minimax(slope, error(guess), guess, frame.low, frame.high)
    better = np.abs(error(moved)).max(axis=1) < np.abs(error(guess)).max(axis=1)
    a = np.where(better[:, None], moved, guess)
    members = forward(frame.models, s, a)
    return Refined(members.mean(axis=0) - s_next, members.std(axis=0), a)


def minimax(slope: Float64s, error: Float64s, a: Float64s, low: Float64s, high: Float64s) -> Float64s:
    """Least squares four times, each dimension weighed by what the last round left in it, in half widths of actions."""
    half = (high - low) / 2
    slope, weight, moved = slope * half, np.ones_like(error), a
    for _ in range(4):
        normal = np.einsum("ps,psa,psb->pab", weight, slope, slope)
        ridge = 1e-3 * np.trace(normal, axis1=1, axis2=2) / a.shape[1] + 1e-30
        normal = normal + ridge[:, None, None] * np.eye(a.shape[1])
        wanted = np.einsum("ps,psa,ps->pa", weight, slope, error)
        moved = a - half * np.linalg.solve(normal, wanted[:, :, None])[:, :, 0]
        moved = np.minimum(np.maximum(moved, low), high)
        left = np.abs(error + np.einsum("psa,pa->ps", slope, (moved - a) / half))
        weight = weight * (left / np.maximum(left.max(axis=1, keepdims=True), 1e-30) + 0.02)
        weight = weight / weight.max(axis=1, keepdims=True)
    return moved


def scores(found: Refined, sizes: Float64s, trust: Float64s, epsilon: float) -> Float64s:
    """The greatest residual in units of epsilon ranges and one standard error, in quadrature, [P]."""
    tolerated = np.sqrt((epsilon * sizes) ** 2 + (trust * found.spread) ** 2)
    return np.asarray((np.abs(found.residual) / tolerated).max(axis=1))


def calibration(found: Refined, sizes: Float64s, epsilon: float, recall: float) -> Fitted:
    """Trust is error per spread; the threshold the least score that this share of known pairs keeps to, 1 or more."""
    trust = np.sqrt((found.residual**2).mean(axis=0) / (found.spread**2).mean(axis=0))
    ordered = np.sort(scores(found, sizes, trust, epsilon))
    return Fitted(trust, max(1.0, float(ordered[int(np.ceil(recall * len(ordered))) - 1])))


def differing(sets: Any, i: Ints, j: Ints, reached: Bools, undecided: Bools) -> list[tuple[int, int]]:
    """Pairs that the sets and these judgements disagree about, but for those too near to a bound to tell."""
    count = len(sets)
    ours = set((sets.anchors.astype(np.int64) * count + sets.indices).tolist())
    code = i.astype(np.int64) * count + j
    theirs, open_ones = set(code[reached].tolist()), set(code[undecided].tolist())
    return sorted(divmod(each, count) for each in (ours ^ theirs) - open_ones)
