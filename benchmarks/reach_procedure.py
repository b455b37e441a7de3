"""Reachable sets as the paper's authors make them, beside ours: same rows, same models, two cores, one run.

    python benchmarks/reach_procedure.py --dataset stacq/walker2d-medium-v0 --dynamics MODELS

Without these options it regenerates walker2d-medium at the asked size and fits models for a few epochs.

The baseline is the plain way to write it: next states inserted into an R-tree one by one, one query per state, then
one state at a time through three inverse and seven forward networks, eagerly, in PyTorch (NumPy if asked, or where
that is missing). Both sides work in turn, several rounds. Compared are the pairs that pass the test; what becomes of a
state's own successor is decided after it.

Both sides take the same boxes for all states. Boxes from 1,000 random actions are made for a sample of states, by each
side for itself: our rate is compared with that of a bare matrix product, and the sets that follow with each other.

Ends with 1 if the sets differ in a pair that is not within 1e-4 ranges of the threshold or, where each side has its own
boxes, of a face.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stacq import generate, load
from stacq.core.types import Bools, Float32s, Ints
from stacq.dynamics.fit import fit
from stacq.dynamics.models import PRECISION, Dynamics
from stacq.dynamics.recipes import FitConfig
from stacq.nn.mlp import MLP
from stacq.reach.chunks import BLOCKS, STATES
from stacq.reach.config import Estimator
from stacq.reach.criterion import Candidates, Criterion, Device, device_of, plain_errors
from stacq.reach.join import BoxIndex, typical_widths
from stacq.reach.options import ACTIONS as USUAL
from stacq.reach.ranges import PAIRS_AT_ONCE, range_actions, ranges, widened

CORES = 2
EPSILON, NEAR = 0.1, 1e-4  # threshold, and how close to it or to a face rounding may decide; in ranges
ACTIONS, SEED = 1000, 42
EPOCHS = 20  # of models made here: their quality changes the sets, hardly the work
LARGE = 4096  # side of the large matrix product
JOIN_BAR, SETS_BAR, RATE_BAR = 5, 20, 0.7

Ensemble = Callable[[Float32s], Float32s]  # inputs [B, inputs] to the members' mean [B, outputs]
Result = TypeVar("Result")


class Case(NamedTuple):
    """Rows in normalised units, the anchors whose sets are asked for, and their boxes."""

    s: Float32s  # [N, S]
    s_next: Float32s  # [N, S]
    known: Bools  # [N]
    anchors: Ints  # [B]
    low: Float32s  # [B, S]
    high: Float32s  # [B, S]

    def sizes(self) -> Float32s:
        return self.high - self.low


class Baseline(NamedTuple):
    """The ten networks as functions, and what turns a forward member's output into a state."""

    forward: Ensemble
    inverse: Ensemble
    step_mean: Float32s
    step_scale: Float32s

    def predict(self, s: Float32s, actions: Float32s) -> Float32s:
        steps = self.forward(np.concatenate([s, actions], axis=1))
        return s + self.step_mean + self.step_scale * steps


def torch_ensemble(ensemble: MLP) -> Ensemble:
    """One thread: for a state's few candidates two are slower, and much slower on a busy machine."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)

    def member(k: int) -> Any:
        layers = []
        for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
            linear = torch.nn.Linear(*weight.shape[1:])
            linear.weight.data = torch.tensor(np.asarray(weight[k]).T.copy())
            linear.bias.data = torch.tensor(np.asarray(bias[k]))
            layers += [linear, torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    members = [member(k) for k in range(ensemble.members)]

    def mean(x: Float32s) -> Float32s:
        with torch.inference_mode():
            inputs = torch.from_numpy(x)
            found: Float32s = torch.stack([network(inputs) for network in members]).mean(dim=0).numpy()
        return found

    return mean


def numpy_ensemble(ensemble: MLP) -> Ensemble:
    layers = [(np.asarray(w), np.asarray(b)) for w, b in zip(ensemble.weights, ensemble.biases, strict=True)]

    def member(k: int, x: Float32s) -> Float32s:
        for weight, bias in layers[:-1]:
            x = np.maximum(x @ weight[k] + bias[k], 0)
        found: Float32s = x @ layers[-1][0][k] + layers[-1][1][k]
        return found

    return lambda x: np.mean([member(k, x) for k in range(ensemble.members)], axis=0)


def baseline_of(dynamics: Dynamics, library: str) -> Baseline:
    models, eager = dynamics.models, {"torch": torch_ensemble, "numpy": numpy_ensemble}[library]
    scales = np.asarray(models.step_mean), np.asarray(models.step_scale)
    return Baseline(eager(models.forward), eager(models.inverse), *scales)


def their_boxes(baseline: Baseline, s: Float32s, actions: Float32s) -> tuple[Float32s, Float32s]:
    """Every action from one state after the other."""
    low, high = np.empty_like(s), np.empty_like(s)
    for i, state in enumerate(s):
        reached = baseline.predict(np.repeat(state[None], len(actions), axis=0), actions)
        low[i], high[i] = reached.min(axis=0), reached.max(axis=0)
    return low, high


def their_tree(case: Case) -> Any:
    from rtree import index

    tree = index.Index(properties=index.Property(dimension=case.s_next.shape[1]))
    for j in np.flatnonzero(case.known):
        tree.insert(int(j), (*case.s_next[j], *case.s_next[j]))
    return tree


def their_queries(tree: Any, case: Case) -> list[list[int]]:
    return [list(tree.intersection((*low, *high))) for low, high in zip(case.low, case.high, strict=True)]


def their_agreement(baseline: Baseline, case: Case, inside: Sequence[list[int]]) -> Ints:
    """Pairs that pass, as keys."""
    sets = []
    for i, rows, size in zip(case.anchors, inside, case.sizes(), strict=True):
        if not rows:
            continue
        goals = case.s_next[rows]
        s = np.repeat(case.s[i : i + 1], len(rows), axis=0)
        actions = baseline.inverse(np.concatenate([s, goals], axis=1))
        error = np.abs(baseline.predict(s, actions) - goals) / size
        sets.append(i * len(case.s) + np.array(rows)[error.max(axis=1) <= EPSILON])
    return np.sort(np.concatenate(sets))


def our_boxes(dynamics: Dynamics, s: Float32s, actions: Float32s) -> tuple[Float32s, Float32s]:
    tried, count = jnp.asarray(actions), min(STATES["cpu"], len(s))
    whole = np.concatenate([s, np.repeat(s[:1], -len(s) % count, axis=0)])
    parts = [ranges(dynamics.models, jnp.asarray(block), tried) for block in np.split(whole, len(whole) // count)]
    low, high = (np.concatenate([np.asarray(part[side]) for part in parts])[: len(s)] for side in (0, 1))
    return low, high


def our_join(case: Case) -> Candidates:
    candidates = np.flatnonzero(case.known)
    index = BoxIndex(case.s_next[candidates], widths=typical_widths(case.low, case.high))
    indptr, hits = index.query(case.low, case.high)
    place = np.repeat(np.arange(len(case.anchors)), np.diff(indptr))
    return Candidates(case.s, case.s_next, case.anchors, case.sizes(), place, candidates[hits])


def our_agreement(device: Device, pairs: Candidates) -> Ints:
    """Pairs that pass, as keys."""
    return keys(pairs.only(Criterion("linf", EPSILON).accepts(device, pairs)))


def keys(pairs: Candidates) -> Ints:
    """One number per pair of rows."""
    return pairs.anchors[pairs.place] * len(pairs.s) + pairs.rows


def timed(function: Callable[..., Result], *arguments: Any) -> tuple[float, Result]:
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def actions_of(dynamics: Dynamics, count: int, estimator: Estimator) -> Float32s:
    return range_actions(dynamics.action_low, dynamics.action_high, count, estimator, SEED)


def rows_of(dataset: Any, dynamics: Dynamics, states: int, actions: Float32s) -> Case:
    """The first rows as a case with our boxes."""
    known = dataset.successor_known[:states]
    s, s_next = (
        dynamics.normaliser.apply(x[:states]).astype(np.float32)
        for x in (dataset.observations, dataset.next_observations)
    )
    low, high = widened(*our_boxes(dynamics, s, actions), s_next, known)
    return Case(s, s_next, known, np.arange(len(s)), low, high)


def sample_of(case: Case, rows: Ints, boxes: tuple[Float32s, Float32s]) -> Case:
    low, high = widened(*boxes, case.s_next[rows], case.known[rows])
    return case._replace(anchors=rows, low=low, high=high)


def gigaflops(rows: int, width: int, products: int) -> float:
    """Rate of [rows, width] times [width, width], in a chain within one program: nothing but products is measured."""
    x, weight = jnp.ones((rows, width)), jnp.full((width, width), 1 / width)
    seconds, _ = timed(lambda: _chain(x, weight, products).block_until_ready())
    return 2 * products * rows * width * width / seconds / 1e9


@jax.jit
def _chain(x: jax.Array, weight: jax.Array, products: int) -> jax.Array:
    found: jax.Array = jax.lax.fori_loop(0, products, lambda _, x: jnp.dot(x, weight, precision=PRECISION), x)
    return found


def bare_rates(width: int) -> tuple[float, float]:
    """A hidden layer's product as the ranges have it, and a large product."""
    return gigaflops(PAIRS_AT_ONCE["cpu"], width, 200), gigaflops(LARGE, LARGE, 2)


def flops_of(network: MLP) -> int:
    """Per state and action, without the first layer: most of that is done once per state or once per action."""
    return sum(2 * weight.size for weight in network.weights[1:])


def compare_ranges(dynamics: Dynamics, baseline: Baseline, case: Case, rows: Ints, rounds: int) -> tuple[Case, Case]:
    """Rates of the ranges beside those of bare products; the sample with our boxes and with theirs."""
    s, actions = case.s[rows], actions_of(dynamics, ACTIONS, "random")
    work = flops_of(dynamics.models.forward) * len(rows) * len(actions) / 1e9
    width = dynamics.models.forward.weights[1].shape[1]
    ours, _ = our_boxes(dynamics, s, actions), bare_rates(width)  # both compile
    print(f"\nranges: {len(rows)} states, {len(actions)} random actions; rates in GFLOP/s")
    print(f"{'ranges':>8} {'layer':>8} {'share':>6} {f'{LARGE} x {LARGE}':>12} {'share':>6}")
    shares = []
    for _ in range(rounds):
        before = bare_rates(width)
        rate = work / timed(our_boxes, dynamics, s, actions)[0]
        after = bare_rates(width)
        layer, large = (statistics.mean(pair) for pair in zip(before, after, strict=True))
        shares.append((rate / layer, rate / large))
        print(f"{rate:>8.1f} {layer:>8.1f} {rate / layer:>6.0%} {large:>12.1f} {rate / large:>6.0%}", flush=True)
    for name, share in zip(("the layer's own product", "a large product"), zip(*shares, strict=True), strict=True):
        verdict("ranges in the rate of " + name, statistics.median(share), RATE_BAR, "{:.0%}")
    theirs = their_boxes(baseline, s, actions)
    gap = max(float((np.abs(a - b) / (ours[1] - ours[0])).max()) for a, b in zip(ours, theirs, strict=True))
    print(f"largest difference of the two sides' boxes: {gap:.1e} of a range")
    return sample_of(case, rows, ours), sample_of(case, rows, theirs)


def verdict(what: str, value: float, bar: float, form: str) -> None:
    print(f"{what}: {form.format(value)} (median), bar {form.format(bar)}: {'met' if value >= bar else 'MISSED'}")


def our_seconds(device: Device, case: Case) -> tuple[float, float]:
    """Of the join and of the agreement; taken before and after the baseline, because machines are busy."""
    join, pairs = timed(our_join, case)
    return join, timed(our_agreement, device, pairs)[0]


def compare_sets(device: Device, baseline: Baseline, case: Case, rounds: int) -> tuple[Any, bool]:
    """Seconds of join and agreement on both sides; the R-tree, and whether all differences are explained."""
    pairs = our_join(case)
    ours = our_agreement(device, pairs)  # also compiles
    print(f"\njoin and agreement: {len(case.anchors):,} states, seconds (tree and queries; agreement)")
    print(
        f"{'ours: join':>11} {'agree':>7} {'sum':>7} {'theirs: tree':>13} {'queries':>8} {'agree':>7} {'sum':>7}",
        end="",
    )
    print(f" {'join':>8} {'sets':>8}")
    ratios = []
    for _ in range(rounds):
        before = our_seconds(device, case)
        build, tree = timed(their_tree, case)
        query, inside = timed(their_queries, tree, case)
        their_agree, theirs = timed(their_agreement, baseline, case, inside)
        join, agree = np.mean([before, our_seconds(device, case)], axis=0)
        sums = join + agree, build + query + their_agree
        ratios.append(((build + query) / join, sums[1] / sums[0]))
        print(
            f"{join:>11.3f} {agree:>7.2f} {sums[0]:>7.2f} {build:>13.1f} {query:>8.1f} {their_agree:>7.1f}"
            f" {sums[1]:>7.1f} {ratios[-1][0]:>7.0f}x {ratios[-1][1]:>7.1f}x",
            flush=True,
        )
    join_ratios, sets_ratios = zip(*ratios, strict=True)
    verdict("join", statistics.median(join_ratios), JOIN_BAR, "{:.1f} times faster")
    verdict("join and agreement", statistics.median(sets_ratios), SETS_BAR, "{:.1f} times faster")
    print("\nequality")
    counts = np.repeat(np.arange(len(inside)), list(map(len, inside)))
    their_candidates = case.anchors[counts] * len(case.s) + np.array([j for rows in inside for j in rows])
    same = equal("candidates, all states, same boxes", keys(pairs), their_candidates, nothing_excused)
    same &= equal("sets, all states, same boxes", ours, theirs, lambda found: near_threshold(device, case, found))
    return tree, same


def equal(what: str, ours: Ints, theirs: Ints, excused: Callable[[Ints], Bools]) -> bool:
    """Print how many pairs only one side has, and how many of them rounding does not explain."""
    differing = np.setxor1d(ours, theirs)
    left = int((~excused(differing)).sum()) if len(differing) else 0
    print(f"{what}: {len(ours):,} pairs, {len(theirs):,} by the baseline, {len(differing)} differ, {left} unexplained")
    return left == 0


def nothing_excused(found: Ints) -> Bools:
    return np.zeros(len(found), dtype=np.bool_)


def located(case: Case, found: Ints) -> tuple[Ints, Ints]:
    """Places among the anchors, and rows, of these keys."""
    anchors, rows = np.divmod(found, len(case.s))
    return np.searchsorted(case.anchors, anchors), rows


def near_threshold(device: Device, case: Case, found: Ints) -> Bools:
    pairs = Candidates(case.s, case.s_next, case.anchors, case.sizes(), *located(case, found))
    close: Bools = np.abs(plain_errors(device, pairs).max(axis=1) - EPSILON) <= NEAR
    return close


def near_face(case: Case, found: Ints) -> Bools:
    """This excuses nothing where both sides have the very same boxes."""
    place, rows = located(case, found)
    goals, low, high = case.s_next[rows], case.low[place], case.high[place]
    close: Bools = (np.minimum(np.abs(goals - low), np.abs(goals - high)) / (high - low)).min(axis=1) <= NEAR
    return close


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The authors' procedure for reachable sets beside ours.")
    parser.add_argument("--dataset", help="name or file; regenerated if absent")
    parser.add_argument("--dynamics", type=Path, help="directory of fitted models; fitted here if absent")
    parser.add_argument("--states", type=int, default=50_000)
    parser.add_argument("--sample", type=int, default=256, help="states whose ranges are made from 1,000 actions")
    parser.add_argument("--paper-boxes", action="store_true", help="1,000 random actions for all states (slow)")
    parser.add_argument("--rounds", type=int, default=3)
    here = "torch" if find_spec("torch") else "numpy"
    parser.add_argument("--baseline", choices=["torch", "numpy"], default=here, help="library of its networks")
    return parser.parse_args()


def keep_to_two_cores() -> None:
    """Before any library starts its threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if jax.default_backend() != "cpu":
        sys.exit("this compares CPUs: set JAX_PLATFORMS=cpu")


def inputs(chosen: argparse.Namespace) -> tuple[Dynamics, Case]:
    dataset = load(chosen.dataset or generate("walker2d-medium", size=chosen.states))
    dynamics = (
        Dynamics.load(chosen.dynamics) if chosen.dynamics else fit(dataset, FitConfig(max_epochs=EPOCHS)).dynamics
    )
    estimator: Estimator = "random" if chosen.paper_boxes else "corners"
    actions = actions_of(dynamics, USUAL[estimator], estimator)
    seconds, case = timed(rows_of, dataset, dynamics, chosen.states, actions)
    print(f"{dataset.name}: boxes of {len(case.s):,} states from {len(actions)} actions in {seconds:.0f} s", flush=True)
    return dynamics, case


def main() -> None:
    chosen = options()
    keep_to_two_cores()
    version = import_module(chosen.baseline).__version__
    print(
        f"python {platform.python_version()}, jax {jax.__version__}, baseline in {chosen.baseline} {version}", end=", "
    )
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    dynamics, case = inputs(chosen)
    device, baseline = device_of(dynamics, False, BLOCKS["cpu"]), baseline_of(dynamics, chosen.baseline)
    rows = np.sort(np.random.default_rng(0).choice(len(case.s), min(chosen.sample, len(case.s)), replace=False))
    sample, their_sample = compare_ranges(dynamics, baseline, case, rows, chosen.rounds)
    tree, same = compare_sets(device, baseline, case, chosen.rounds)
    theirs = their_agreement(baseline, their_sample, their_queries(tree, their_sample))
    ours = our_agreement(device, our_join(sample))
    own = "sets of the sample, each side with its own boxes"
    same &= equal(own, ours, theirs, lambda found: near_threshold(device, sample, found) | near_face(sample, found))
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
