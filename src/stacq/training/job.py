"""From a dataset to trained policies: the options put together, the run directory around it, and what came out."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

import jax
import numpy as np

from stacq.algos import ALGORITHMS
from stacq.algos.common import Sizes, pulls_actions
from stacq.algos.presets import RECOMMENDED, Preset, changed, preset, recommended
from stacq.algos.world import make_world, own_only, pair_slots
from stacq.data.dataset import Dataset
from stacq.data.normaliser import Normaliser
from stacq.data.select import best_episodes
from stacq.dynamics.models import Dynamics
from stacq.envs.gym import check_match, facts_of, make_env
from stacq.errors import InputError, check_name, check_whole
from stacq.evaluation import Counting, check_numbers, reference_task
from stacq.files import home, write_json
from stacq.policy import Policy
from stacq.reach.sets import ReachableSets
from stacq.reach.ways import leading_actions
from stacq.runs import RUNS, Run
from stacq.training.evaluations import Protocol
from stacq.training.finished import NAMES, RESULT, final_policies, read_finished, read_result
from stacq.training.train import Listener, Schedule, Task, check_schedule, train
from stacq.types import Float32s

MOST_SEEDS = 1_000
LEAST_EVERY = 100  # steps between two evaluations, unless fewer are asked for
TOLD_EVERY = 30.0  # seconds between two words about a preparation


@dataclass(frozen=True)
class Options:
    """Everything one may choose about a training run; what is None comes from the preset or the dataset."""

    algorithm: str = "stacq"
    variant: str = RECOMMENDED
    small: bool = False  # the preset for a laptop
    seeds: int = 5
    first_seed: int = 0
    steps: int | None = None
    eval_every: int | None = None
    episodes: int | None = None
    env: str | None = None
    evaluate: bool = True
    top: float = 1.0  # share of the episodes that are kept, by return
    own_only: bool = False  # reachable sets reduced to the own successor
    settings: tuple[str, ...] = ()  # name=value, on top of the preset
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training run leaves: a policy per seed that was not lost, and everything else on disk."""

    policies: Mapping[int, Policy]
    directory: Path
    result: Mapping[str, Any]
    sets: ReachableSets | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """Options resolved against a dataset: nothing is left to decide."""

    options: Options
    preset: Preset
    dataset: Dataset
    dynamics: Dynamics | None
    sets: ReachableSets | None
    env: str | None

    @property
    def schedule(self) -> Schedule:
        return _schedule(self.options, self.preset)

    @cached_property
    def normaliser(self) -> Normaliser:
        """With dynamics, states are shown as these were fitted."""
        if self.dynamics is not None:
            return self.dynamics.normaliser
        if self.preset.normalise:
            return Normaliser.fit(self.dataset.observations)
        return Normaliser.identity(self.dataset.observation_size)

    def manifest(self) -> dict[str, Any]:
        """What config.json says: enough to tell whether two runs are the same, and to do one again."""
        schedule = self.schedule
        return {
            "algorithm": self.options.algorithm,
            "variant": self.options.variant,
            "label": label(self.options),
            "dataset": self.dataset.name,
            "dataset_hash": self.dataset.fingerprint,
            "dynamics_hash": None if self.dynamics is None else self.dynamics.fingerprint,
            "reach": None if self.sets is None else dict(self.sets.config),
            "env": self.env,
            "seeds": list(schedule.seeds),
            "eval_every": schedule.eval_every,
            "episodes": self.preset.episodes,
            "top": self.options.top,
            "own_only": self.options.own_only,
            "normalise": not self.normaliser.is_identity,
            "reward_shift": self.preset.reward_shift,
            "config": asdict(self.preset.config),
        }


def named(options: Options, dataset: Dataset) -> Options:
    """The same with a variant's own name: which one is recommended depends on the data."""
    if options.variant != RECOMMENDED:
        return options
    return replace(options, variant=recommended(options.algorithm, dataset.name))


def label(options: Options) -> str:
    """A name for tables and pictures, of `named` options."""
    name = NAMES[options.algorithm]
    if options.top < 1:
        name = f"{100 * options.top:g} % {name}"
    parts = [] if options.variant == "paper" else [options.variant]
    parts += ["own successors"] * options.own_only
    return f"{name} ({', '.join(parts)})" if parts else name


def make_plan(
    dataset: Dataset, options: Options, dynamics: Dynamics | None = None, sets: ReachableSets | None = None
) -> Plan:
    """Check that everything fits before anything long begins. The dataset is one that `selected` gave."""
    env = check_options(dataset, options)
    options = named(options, dataset)
    chosen = _chosen(dataset, options)
    if ALGORITHMS[options.algorithm].NEEDS_REACHABILITY:
        if dynamics is None or sets is None:
            raise InputError(
                f"{options.algorithm} needs dynamics and reachable sets",
                where=dataset.name or "dataset",
                expected="both, made from this dataset",
                fix="`stacq train` makes them; in Python, pass dynamics= and sets=",
            )
        sets.check(dataset)
        _check_made_for(sets, dataset, dynamics)
        sets = own_only(sets) if options.own_only else sets
        if not any(setting.startswith("slots=") for setting in options.settings):
            slots = pair_slots(sets, chosen.config.batch)
            chosen = replace(chosen, config=replace(chosen.config, slots=slots))
    else:
        dynamics = sets = None
    return Plan(options, chosen, dataset, dynamics, sets, env)


def _check_made_for(sets: ReachableSets, dataset: Dataset, dynamics: Dynamics) -> None:
    """Sets of other models would train without a word, and in the same run directory."""
    for name, found in (("dataset", dataset.fingerprint), ("dynamics", dynamics.fingerprint)):
        made_from = sets.parents.get(name, found)
        if made_from != found:
            raise InputError(
                f"these reachable sets were made from another {name} (hash {made_from[:12]})",
                where=dataset.name or "dataset",
                expected=f"sets made from this {name}, hash {found[:12]}",
                fix="make them again with `stacq.reachable_sets(dataset, dynamics)`",
            )


def check_options(dataset: Dataset, options: Options) -> str | None:
    """Refuse what cannot be trained before hours go into its dynamics; the environment that will be used."""
    _check_kinds(dataset, options)
    chosen = _chosen(dataset, options)
    expected = f"at least one, and at most {MOST_SEEDS:,}: they train side by side"
    check_whole(f"{options.seeds} seeds", options.seeds, 1, MOST_SEEDS, expected=expected, fix="use --seeds 5")
    check_numbers(chosen.episodes, 0)
    if options.own_only and not ALGORITHMS[options.algorithm].NEEDS_REACHABILITY:
        raise InputError(
            f"{options.algorithm} has no reachable sets to reduce",
            where="own_only",
            expected="StaCQ",
            fix="leave it out",
        )
    check_schedule(options.algorithm, chosen.config, _schedule(options, chosen))
    return _environment(dataset, options)


def _check_kinds(dataset: Dataset, options: Options) -> None:
    """What is easily mistaken in Python, where nothing else looks at types."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"dataset is {dataset!r}", expected="a Dataset: what `stacq.load(...)` returns")
    if not isinstance(options, Options):
        raise InputError(f"options is {options!r}", expected='stacq.Options("stacq", ...)')
    number = "a plain whole number, such as 10"
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "seeds": ((int,), "how many, such as 5; `first_seed` says where from"),
        "first_seed": ((int,), number),
        **dict.fromkeys(("steps", "eval_every", "episodes"), ((int, NoneType), number)),
        "top": ((int, float), "a share, such as 0.1"),
        "settings": ((tuple, list), 'a sequence of texts, such as ("batch=64",)'),
    }
    for name, (wanted, expected) in kinds.items():
        if not isinstance(value := getattr(options, name), wanted):
            raise InputError(f"{name} is {value!r}", where="options of the training", expected=expected)


def selected(dataset: Dataset, options: Options) -> Dataset:
    """The part of the data that is learned from: dynamics and reachable sets must be made from the same part."""
    return dataset if options.top == 1 else best_episodes(dataset, options.top)


def _chosen(dataset: Dataset, options: Options) -> Preset:
    """The preset with the options on top of it; the number of slots is the preset's still."""
    found = preset(options.algorithm, dataset.name, variant=named(options, dataset).variant, small=options.small)
    config = found.config
    if options.steps is not None:
        counts = [name for name in ("steps", "critic_steps") if hasattr(config, name)]
        config = replace(config, **dict.fromkeys(counts, options.steps))
    episodes = found.episodes if options.episodes is None else options.episodes
    return replace(found, config=changed(config, options.settings), episodes=episodes)


def _schedule(options: Options, chosen: Preset) -> Schedule:
    turn = max(len(phase.updates) for phase in ALGORITHMS[options.algorithm].phases(chosen.config))
    usual = max(chosen.config.steps // chosen.evaluations, LEAST_EVERY) // turn * turn
    every = usual if options.eval_every is None else options.eval_every
    seeds = tuple(range(options.first_seed, options.first_seed + options.seeds))
    return Schedule(seeds, every, options.checkpoint_seconds)


def _environment(dataset: Dataset, options: Options) -> str | None:
    """Where policies are scored: as asked, else where the data says it was recorded."""
    name = options.env or dataset.env_id
    if not options.evaluate or name is None:
        return None
    check_match(dataset, facts_of(make_env(name), name))
    reference_task(dataset.name, name)
    return name


def run_directory(plan: Plan, root: Path = RUNS) -> Path:
    """The same options on the same data have the same directory, so that the same command goes on with its run."""
    text = json.dumps(plan.manifest(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return root / f"{short_name(plan.dataset)}-{plan.options.algorithm}-{plan.options.variant}-{digest}"


def short_name(dataset: Dataset) -> str:
    """What files about a dataset are called."""
    name = (dataset.name or "dataset").removeprefix("stacq/").replace("/", "-")
    return check_name(
        name,
        what="the dataset's name",
        fix="name a place with `stacq train --out`, or load it with Conventions(name=...)",
    )


def make_task(plan: Plan, say: Callable[[str], None] | None = None) -> Task:
    """Everything on the device."""
    dataset, chosen, normaliser = plan.dataset, plan.preset, plan.normaliser
    name = plan.options.algorithm
    world = make_world(
        dataset,
        normaliser,
        plan.dynamics,
        plan.sets,
        ways=_ways(plan, say),
        reward_shift=chosen.reward_shift,
        every_row=not ALGORITHMS[name].NEEDS_SUCCESSORS,
    )
    bounds = dataset.action_low.astype(np.float32), dataset.action_high.astype(np.float32)
    sizes = Sizes(dataset.observation_size, dataset.action_size)
    return Task(name, ALGORITHMS[name], chosen.config, world, sizes, normaliser, bounds)


def run_job(
    plan: Plan,
    *,
    out: Path | None = None,
    workers: int | None = None,
    tensorboard: bool = False,
    listener: Listener | None = None,
    say: Callable[[str], None] = print,
) -> Trained:
    """Train, or go on with a run that was stopped, or read one that is finished."""
    directory = out or run_directory(plan)
    keep_compiled()
    with Run(directory, plan.manifest(), tensorboard=tensorboard, resume=True) as run:
        if (directory / RESULT).exists():
            say(f"trained before: {directory}")
        else:
            protocol = protocol_of(plan)
            task = make_task(plan, say)
            train(task, plan.schedule, run, protocol=protocol, workers=workers, listener=listener, say=say)
            write_json(directory / RESULT, result_of(directory))
    return replace(read_trained(directory), sets=plan.sets)


def _ways(plan: Plan, say: Callable[[str], None] | None) -> Float32s | None:
    """The actions that lead to reachable states, where they are pulled to: on a CPU they take minutes to find."""
    if plan.dynamics is None or plan.sets is None or not pulls_actions(plan.preset.config):
        return None
    told = time.monotonic()

    def found(count: int, wanted: int) -> None:
        nonlocal told
        if say is not None and count < wanted and time.monotonic() - told >= TOLD_EVERY:
            told = time.monotonic()
            say(f"found {count:,} of {wanted:,} actions")

    return leading_actions(plan.dataset, plan.dynamics, plan.sets, progress=found, log=say)


def protocol_of(plan: Plan) -> Protocol | None:
    """How the plan's policies are scored; None where no environment is known."""
    if plan.env is None:
        return None
    discount = float(np.max(getattr(plan.preset.config, "discount", 0.99)))
    counting = Counting(discount, plan.preset.reward_shift)
    return Protocol(plan.env, plan.preset.episodes, counting, label(plan.options), plan.dataset.name)


def read_trained(directory: Path) -> Trained:
    """Policies and result of a finished run."""
    return Trained(read_finished(directory).policies, directory, read_result(directory))


def result_of(directory: Path) -> dict[str, Any]:
    """Of a run that has come to its end: final, best and mean of the last ten, each by seed and never mixed.

    They are of the seeds that were trained to the end, and None where nothing was scored. The others are named, since
    leaving them out flatters.
    """
    from stacq.report.page_data import aggregate, measure_of, read_run

    summary = replace(read_run(directory), wanted=0)
    lost = sorted({*summary.seeds} - {*final_policies(directory)})
    measure = measure_of([summary])
    found = aggregate(summary, measure)
    if found is None:
        seeds = sorted(final_policies(directory))
        return {"measure": None, "seeds": seeds, "lost": lost, "final": None, "best": None, "last_ten": None}
    return {
        "measure": measure,
        "step": found.step,
        "seeds": list(found.seeds),
        "lost": lost,
        "final": found.final.tolist(),
        "best": found.best.tolist(),
        "last_ten": found.last_ten.tolist(),
    }


def keep_compiled() -> None:
    """Compiled programs are kept in the cache directory, so that a second start does not compile again."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        settings = {
            "jax_compilation_cache_dir": str(home() / "compiled"),
            "jax_persistent_cache_min_compile_time_secs": 1.0,
        }
        for name, value in settings.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
