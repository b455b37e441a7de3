"""Options resolved against a dataset: checked once, before anything long begins."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from stacq import algos
from stacq.algos.algorithm import Algorithm
from stacq.algos.pairs import own_only, pair_slots
from stacq.algos.settings import Preset, changed, preset, recommended
from stacq.core.errors import InputError, check_name, check_whole
from stacq.core.files import fitting
from stacq.core.normaliser import Normaliser
from stacq.data.dataset import Dataset
from stacq.data.match import check_match
from stacq.data.select import best_episodes
from stacq.dynamics.models import Dynamics
from stacq.envs.gym import facts_of, make_env
from stacq.evaluation.rollouts import Counting, check_numbers, reference_task
from stacq.pipeline.options import RECOMMENDED, Options, check_kinds, check_settings
from stacq.reach.sets import ReachableSets
from stacq.runs.directory import RUNS
from stacq.training.evaluations import Scoring
from stacq.training.task import Schedule, check_schedule, total_steps

MOST_SEEDS = 1_000
LEAST_EVERY = 100  # steps between two evaluations, unless fewer are asked for


@dataclass(frozen=True, eq=False)
class Plan:
    """Nothing is left to decide. Dynamics and sets come in when they are made."""

    options: Options
    algorithm: Algorithm
    preset: Preset
    dataset: Dataset  # the part that is learned from
    env: str | None
    dynamics: Dynamics | None = None
    sets: ReachableSets | None = None
    source: Dataset | None = None  # what `dataset` was made from, where the algorithm makes data of its own

    @property
    def recorded(self) -> Dataset:
        """What the run is about, whatever the algorithm made of it."""
        return self.dataset if self.source is None else self.source

    @property
    def config(self) -> Any:
        return self.preset.config

    @property
    def label(self) -> str:
        return label(self.algorithm, self.options)

    @property
    def schedule(self) -> Schedule:
        return schedule_of(self.algorithm, self.options, self.preset)

    @property
    def steps(self) -> int:
        return total_steps(self.algorithm.phases(self.config))

    @property
    def scoring(self) -> Scoring | None:
        """How the policies are scored; None where no environment is known."""
        if self.env is None:
            return None
        shift, scale = self.preset.shown.reward_shift, self.reward_scale
        counting = Counting(self.algorithm.discount(self.config), shift, scale)
        return Scoring(self.env, self.preset.episodes, counting, self.label, self.dataset.name)

    @cached_property
    def normaliser(self) -> Normaliser:
        """With dynamics, states are shown as these were fitted."""
        if self.dynamics is not None:
            return self.dynamics.normaliser
        if self.preset.shown.normalise:
            return Normaliser.fit(self.dataset.observations)
        return Normaliser.identity(self.dataset.observation_size)

    @cached_property
    def reward_scale(self) -> float:
        return self.preset.shown.scale(self.recorded)

    def with_models(self, dynamics: Dynamics, sets: ReachableSets) -> "Plan":
        """With dynamics and sets; refused if they were made from something else."""
        sets.check(self.dataset)
        _check_made_for(sets, self.dataset, dynamics)
        sets = own_only(sets) if self.options.own_only else sets
        chosen = self.preset
        named = any(setting.startswith("slots=") for setting in self.options.settings)
        if self.algorithm.needs.pairs and not named:
            slots = pair_slots(sets, self.config.batch)
            chosen = replace(chosen, config=replace(self.config, slots=slots))
        return replace(self, preset=chosen, dynamics=dynamics, sets=sets)

    def manifest(self) -> dict[str, Any]:
        """What config.json says: enough to tell whether two runs are the same, and to do one again."""
        return {
            "algorithm": self.algorithm.name,
            "variant": self.options.variant,
            "label": self.label,
            "dataset": self.dataset.name,
            "dataset_hash": self.recorded.fingerprint,
            "dynamics_hash": None if self.dynamics is None else self.dynamics.fingerprint,
            "reach": None if self.sets is None else dict(self.sets.config),
            "env": self.env,
            "seeds": list(self.schedule.seeds),
            "total_steps": self.steps,
            "eval_every": self.schedule.eval_every,
            "episodes": self.preset.episodes,
            "top": self.options.top,
            "own_only": self.options.own_only,
            "precision": self.options.precision,
            "normalise": not self.normaliser.is_identity,
            "reward_scale": self.reward_scale,
            "reward_shift": self.preset.shown.reward_shift,
            "config": asdict(self.config),
            **_names_of(self.dataset),
        }


def _names_of(dataset: Dataset) -> dict[str, list[str]]:
    """Of the dimensions, where the data has names: an exported policy tells them."""
    names = {"observation_names": dataset.observation_names, "action_names": dataset.action_names}
    return {key: list(values) for key, values in names.items() if values}


def make_plan(dataset: Dataset, options: Options) -> Plan:
    """Refuse what cannot be trained before hours go into its dynamics. The environment is made once, to look at it."""
    if not isinstance(dataset, Dataset):
        raise InputError(f"dataset is {dataset!r:.80}", expected="a Dataset, or what `stacq.load` takes")
    check_kinds(options)
    options = named(options, dataset.name)
    algorithm = algos.find(options.algorithm)
    chosen = preset_of(options, dataset.name)
    expected = f"at least one, and at most {MOST_SEEDS:,}: they train side by side"
    check_whole(f"{options.seeds} seeds", options.seeds, 1, MOST_SEEDS, expected=expected, fix="use --seeds 5")
    check_numbers(chosen.episodes, 0)
    if options.own_only and not algorithm.needs.reachable:
        raise InputError(
            f"{algorithm.name} has no reachable sets to reduce", where="own_only", expected="StaCQ", fix="leave it out"
        )
    if options.precision == "bfloat16" and not algorithm.needs.rounds:
        raise InputError(
            f"{algorithm.name} has no frozen models to round to bfloat16",
            where="precision",
            expected="auto or float32",
            fix="leave it out",
        )
    check_schedule(algorithm, chosen.config, schedule_of(algorithm, options, chosen))
    env = _environment(dataset, options)
    part = dataset if options.top == 1 else best_episodes(dataset, options.top)
    return Plan(options, algorithm, chosen, part, env)


def named(options: Options, dataset: str) -> Options:
    """With the names of algorithm and variant: which one is recommended depends on the data."""
    algorithm = algos.find(options.algorithm)
    variant = recommended(algorithm, dataset) if options.variant == RECOMMENDED else options.variant
    return replace(options, algorithm=algorithm.name, variant=variant)


def label(algorithm: Algorithm, options: Options) -> str:
    """A name for tables and pictures, with the variant's own name."""
    name = f"{100 * options.top:g} % {algorithm.title}" if options.top < 1 else algorithm.title
    parts = [] if options.variant == "paper" else [options.variant]
    parts += ["own successors"] * options.own_only
    return f"{name} ({', '.join(parts)})" if parts else name


def preset_of(options: Options, dataset: str) -> Preset:
    """The preset for data of that name, with the options on top of it; the number of slots is the preset's still."""
    options = named(options, dataset)
    algorithm = algos.find(options.algorithm)
    found = preset(algorithm, dataset, variant=options.variant, small=options.small)
    config = found.config
    check_settings(options, {field.name for field in fields(config)})
    if options.steps is not None:
        config = replace(config, **dict.fromkeys(algorithm.counts, options.steps))
    episodes = found.episodes if options.episodes is None else options.episodes
    return replace(found, config=changed(config, tuple(options.settings)), episodes=episodes)


def schedule_of(algorithm: Algorithm, options: Options, chosen: Preset) -> Schedule:
    """Seeds, and how often they are evaluated."""
    phases = algorithm.phases(chosen.config)
    turn = max(len(phase.updates) for phase in phases)
    usual = max(phases[-1].steps // chosen.evaluations, LEAST_EVERY) // turn * turn
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


def _check_made_for(sets: ReachableSets, dataset: Dataset, dynamics: Dynamics) -> None:
    """Sets of other models would train without a warning, and in the same run directory."""
    for name, found in (("dataset", dataset.fingerprint), ("dynamics", dynamics.fingerprint)):
        made_from = sets.parents.get(name, found)
        if made_from != found:
            raise InputError(
                f"these reachable sets were made from another {name} (hash {made_from[:12]})",
                where=dataset.name or "dataset",
                expected=f"sets made from this {name}, hash {found[:12]}",
                fix="make them again with `stacq.reachable_sets(dataset, dynamics)`",
            )


def run_directory(plan: Plan, root: Path = RUNS) -> Path:
    """The same options on the same data have the same directory, so that the same command goes on with its run."""
    text = json.dumps(plan.manifest(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return root / f"{short_name(plan.dataset)}-{plan.algorithm.name}-{plan.options.variant}-{digest}"


def short_name(dataset: Dataset) -> str:
    """What files about a dataset are called."""
    name = (dataset.name or "dataset").removeprefix("stacq/").replace("/", "-")
    fix = "name a place with `stacq train --out`, or load it with Conventions(name=...)"
    return fitting(check_name(name, what="the dataset's name", fix=fix))
