"""Published hyperparameters, variants, and settings given by name."""

from dataclasses import replace
from typing import Any

import pytest

from stacq import algos
from stacq.algos import bc, onestep, settings, stacq, td3bc
from stacq.algos.algorithm import Shown
from stacq.algos.settings import Preset, changed
from stacq.core.errors import InputError

ALGORITHMS = ("stacq", "onestep-stacq", "td3bc", "bc")


def preset(algorithm: str, dataset: str = "", **choices: Any) -> Preset:
    return settings.preset(algos.find(algorithm), dataset, **choices)


def recommended(algorithm: str, dataset: str) -> str:
    return settings.recommended(algos.find(algorithm), dataset)


KINDS = ("random", "medium", "medium-replay", "medium-expert")
# Appendix C, then appendix D.
LOCOMOTION = {"hopper": (1.0, 0.1), "walker2d": (5.0, 1.0), "halfcheetah": (10.0, 5.0)}
ANTMAZE = {
    "antmaze-umaze": (2.0, 10.0),
    "antmaze-umaze-diverse": (2.0, 10.0),
    "antmaze-medium-play": (10.0, 40.0),
    "antmaze-medium-diverse": (10.0, 40.0),
    "antmaze-large-play": (19.0, 100.0),
    "antmaze-large-diverse": (19.0, 100.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", LOCOMOTION)
@pytest.mark.parametrize("spelling", ["{}-v2", "{}", "stacq/{}-v0", "file of {}-v2"])
def test_locomotion(body: str, kind: str, spelling: str) -> None:
    name = spelling.format(f"{body}-{kind}")
    if spelling.startswith("file"):  # as D4RL calls it
        name = f"{body}_{kind.replace('-', '_')}-v2"
    ours, onesteps = LOCOMOTION[body]
    if f"{body}-{kind}" == "halfcheetah-medium-expert":
        ours = 0.5
    found = preset("stacq", name)
    assert found.config == stacq.Config(alpha=ours)
    assert (found.shown.normalise, found.shown.reward_shift, found.episodes) == (True, 0.0, 10)
    assert preset("onestep-stacq", name).config == onestep.Config(alpha=onesteps)
    assert preset("td3bc", name).config == td3bc.Config()
    assert preset("bc", name).config == bc.Config()


@pytest.mark.parametrize("name", ANTMAZE)
def test_antmaze(name: str) -> None:
    ours, onesteps = ANTMAZE[name]
    found = preset("stacq", f"{name}-v2")
    config: stacq.Config = found.config
    assert (config.alpha, config.targets, config.actor_q, config.reward) == (ours, "independent", "min", "row")
    authors = preset("stacq", f"{name}-v2", variant="authors").config
    assert authors == replace(config, pairs="dataset", margin=1e-4, actor_q="first")
    assert preset("onestep-stacq", f"{name}-v2").config == onestep.Config(alpha=onesteps, reward="row")
    for algorithm in ALGORITHMS:
        data = preset(algorithm, f"{name}-v2")
        assert (data.shown.normalise, data.shown.reward_shift, data.episodes) == (algorithm == "bc", -1.0, 100)


def test_antmaze_of_the_others() -> None:
    """Rewards of rows less 1 and states as they are, but ReBRAC: 100 times the reward, and rates of its own."""
    for name in ANTMAZE:
        iql, td3, bcq, rebrac = (preset(each, f"{name}-v2") for each in ("iql", "td3bc", "bcq", "rebrac"))
        assert (iql.config.expectile, iql.config.beta, iql.config.discount) == (0.9, 10.0, 0.99)
        assert td3.config == td3bc.Config(alpha=2.5)
        assert [each.shown for each in (iql, td3, bcq)] == [Shown(normalise=False, reward_shift=-1.0)] * 3
        assert rebrac.shown == Shown(normalise=False, reward_scale=100.0)
        assert (rebrac.config.discount, rebrac.config.batch) == (0.999, 256)
        assert (rebrac.config.actor_learning_rate, rebrac.config.critic_learning_rate) == (3e-4, 5e-5)
        assert {each.episodes for each in (iql, td3, bcq, rebrac)} == {100}
    medium, diverse = (preset("rebrac", f"antmaze-{kind}-v2").config for kind in ("medium-play", "umaze-diverse"))
    assert (medium.beta_actor, medium.beta_critic) == (0.001, 0.0005)
    assert (diverse.beta_actor, diverse.beta_critic) == (0.003, 0.001)


def test_small_presets_may_be_of_a_family() -> None:
    algorithm = replace(algos.find("td3bc"), small={"steps": 7, "batch": 8}, small_in={"pointmaze": {"steps": 9}})
    for name, steps in (("stacq/pointmaze-umaze-v0", 9), ("antmaze-umaze-v2", 7), ("", 7)):
        config = settings.preset(algorithm, name, small=True).config
        assert (config.steps, config.batch) == (steps, 8)
    assert settings.preset(algorithm, "stacq/pointmaze-umaze-v0").config.steps == 10**6
    with pytest.raises(InputError, match="stepps"):
        replace(algorithm, small_in={"pointmaze": {"stepps": 9}})


def test_walks_of_our_own_have_the_settings_of_their_maze() -> None:
    assert preset("stacq", "stacq/antmaze-medium-stitch-v0") == preset("stacq", "antmaze-medium-play-v2")
    assert preset("onestep-stacq", "stacq/antmaze-umaze-v0@5000") == preset("onestep-stacq", "antmaze-umaze-v2")
    for algorithm in ALGORITHMS:
        for name in ("stacq/pointmaze-umaze-v0", "stacq/pointmaze-large-stitch-v0"):
            found = preset(algorithm, name)
            assert (found.shown.normalise, found.shown.reward_shift, found.episodes) == (True, -1.0, 100)
    assert preset("stacq", "stacq/pointmaze-umaze-v0").config.reward == "row"
    small = [
        preset("stacq", name, small=True).episodes for name in ("antmaze-umaze-v2", "stacq/pointmaze-umaze-v0", "")
    ]
    assert small == [20, 20, 10]


def test_minaris_names_mean_the_same_tasks() -> None:
    assert preset("stacq", "mujoco/walker2d/medium-v0") == preset("stacq", "walker2d-medium-v2")
    assert preset("stacq", "walker2d-medium") == preset("stacq", "walker2d-medium-v2")
    assert preset("stacq", "D4RL/antmaze/large-play-v1") == preset("stacq", "antmaze-large-play-v2")


def test_a_file_of_d4rl_has_the_settings_of_what_it_holds() -> None:
    file = "Ant_maze_big-maze_noisy_multistart_True_multigoal_False_sparse_fixed"
    assert preset("stacq", file) == preset("stacq", "antmaze-medium-play-v2")
    assert preset("stacq", "halfcheetah_medium_expert-v2").config.alpha == 0.5


def test_what_the_papers_say_of_every_dataset() -> None:
    ours, onesteps, td3 = stacq.Config(), onestep.Config(), td3bc.Config()
    for config in (ours, onesteps, td3, bc.Config()):
        assert (config.steps, config.batch, config.hidden, config.learning_rate) == (10**6, 256, (256, 256), 3e-4)
    for each in (ours, onesteps, td3):
        assert (each.discount, each.tau, each.noise_clip) == (0.99, 0.005, 0.5)
    assert (ours.critics, ours.pairs, ours.targets, ours.actor_q, ours.action_pull) == (4, "cross", "shared", "min", 0)
    assert (ours.target_noise, ours.actor_noise, ours.margin) == (0.2, 0.1, 0.0)
    assert (onesteps.critics, onesteps.critic_steps, onesteps.actor_noise) == (1, 10**6, 0.1)
    assert (td3.critics, td3.alpha, td3.actor_every, td3.target_noise) == (2, 2.5, 2, 0.2)


def test_variants() -> None:
    paper = preset("stacq", "hopper-medium-v2").config
    authors = preset("stacq", "hopper-medium-v2", variant="authors").config
    assert authors == replace(paper, pairs="dataset", margin=1e-4)
    assert preset("stacq", "hopper-medium-v2", variant="layer-norm").config == replace(paper, layer_norm=True)
    for name in ("hopper-medium-v2", "walker2d-medium-v2", "mine"):
        published = preset("stacq", name).config
        robust = replace(published, layer_norm=True, action_pull=0.01)
        assert preset("stacq", name, variant="robust").config == robust
        small = preset("stacq", name, small=True).config
        held = replace(small, layer_norm=True, action_pull=0.028)
        assert preset("stacq", name, variant="robust", small=True).config == held
    held_too = onestep.Config(alpha=0.1, action_pull=0.1)
    assert preset("onestep-stacq", "hopper-medium-v2", variant="robust").config == held_too
    assert preset("td3bc", variant="four-critics").config == td3bc.Config(critics=4)
    for algorithm in algos.BUILT_IN:
        for variant in algos.find(algorithm).variants:
            for small in (False, True):
                preset(algorithm, "antmaze-large-play-v2", variant=variant, small=small)


@pytest.mark.parametrize(
    ("dataset", "variant"),
    [
        ("hopper-medium-v2", "robust"),
        ("stacq/walker2d-medium-v0", "robust"),
        ("mine", "robust"),
        ("maze-of-mine", "robust"),
        ("mujoco/hopper/medium-v0", "robust"),
        ("", "robust"),
        ("stacq/maze-stitching-v0", "maze"),
        ("antmaze-umaze-v2", "paper"),
        ("antmaze-large-play", "paper"),
        ("D4RL/antmaze/umaze-v1", "paper"),
    ],
)
def test_what_is_recommended_depends_on_the_data(dataset: str, variant: str) -> None:
    assert recommended("stacq", dataset) == variant
    for algorithm in ("td3bc", "bc", "onestep-stacq"):
        assert recommended(algorithm, dataset) == "paper"


def test_in_mazes_the_published_variant_keeps_the_published_equations() -> None:
    """Sizes and rates are the mazes' own; what the equations are made of has a name of its own."""
    name = "stacq/maze-stitching-v0"
    equations = ("critics", "layer_norm", "pairs", "targets", "actor_q", "reward", "alpha", "action_pull")
    paper, tuned = (preset("stacq", name, variant=variant).config for variant in ("paper", "maze"))
    assert [getattr(paper, each) for each in equations] == [getattr(stacq.Config(), each) for each in equations]
    assert (tuned.critics, tuned.layer_norm, tuned.reward, tuned.alpha) == (2, True, "row", 0.0)
    assert (paper.steps, paper.tau) == (tuned.steps, tuned.tau) == (5_000, 0.05)


def test_small_ones_are_evaluated_now_and_then() -> None:
    """Those whose policies take long to act less often, and small ones of mazes whose episodes are long."""
    for algorithm in algos.BUILT_IN:
        often = 5 if algorithm == "diffuser" else 200
        for name in ("mine", "hopper-medium-v2", "antmaze-umaze-v2", "stacq/pointmaze-umaze-v0"):
            found = preset(algorithm, name).evaluations, preset(algorithm, name, small=True).evaluations
            assert found == (often, min(often, 5 if "maze" in name else 20))


def test_small_ones_are_smaller_and_keep_what_belongs_to_the_dataset() -> None:
    for algorithm in ALGORITHMS:
        usual, small = (preset(algorithm, "halfcheetah-medium-v2", small=each).config for each in (False, True))
        assert small.steps < usual.steps and small.hidden < usual.hidden and small.batch < usual.batch
        assert getattr(small, "alpha", None) == getattr(usual, "alpha", None)


@pytest.mark.parametrize(
    "name", ["", "mine", "pendulum-expert-v1", "hopperish-v2", "walker2d-mine", "antmaze-medium-mine"]
)
def test_data_of_ones_own_gets_the_defaults(name: str) -> None:
    for algorithm in ALGORITHMS:
        found = preset(algorithm, name)
        assert found.config == algos.find(algorithm).Config() and found.shown == Shown()


@pytest.mark.parametrize(
    ("algorithm", "variant", "known"),
    [
        ("sac", "paper", {"bc", "onestep-stacq", "stacq", "td3bc"}),
        ("stacq", "fast", {"authors", "layer-norm", "maze", "paper", "robust"}),
        ("onestep-stacq", "authors", {"paper", "robust"}),
        ("td3bc", "robust", {"four-critics", "paper"}),
        ("bc", "authors", {"paper"}),
    ],
)
def test_unknown_names_are_told_the_known_ones(algorithm: str, variant: str, known: set[str]) -> None:
    with pytest.raises(InputError) as caught:
        preset(algorithm, "hopper-medium-v2", variant=variant)
    named = caught.value.expected.split(" or ")
    assert (set(named) == known or algorithm == "sac") and known <= set(named) and len(named) == len(set(named))
    assert repr(variant if algorithm in ALGORITHMS else algorithm) in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("alpha=2.5", "alpha", 2.5),
        ("alpha=3", "alpha", 3.0),
        ("alpha=1e-3", "alpha", 1e-3),
        ("steps=500", "steps", 500),
        ("hidden=64,32,16", "hidden", (64, 32, 16)),
        ("hidden=64", "hidden", (64,)),
        ("layer_norm=true", "layer_norm", True),
        ("layer_norm=False", "layer_norm", False),
        ("pairs=dataset", "pairs", "dataset"),
        ("action_pull=0.1", "action_pull", 0.1),
    ],
)
def test_settings(setting: str, name: str, value: Any) -> None:
    found = changed(stacq.Config(), (setting,))
    assert getattr(found, name) == value and type(getattr(found, name)) is type(value)
    assert replace(found, **{name: getattr(stacq.Config(), name)}) == stacq.Config()


def test_later_settings_win_and_none_changes_nothing() -> None:
    assert changed(stacq.Config(), ("alpha=1", "alpha=2", "tau=0.1")) == stacq.Config(alpha=2.0, tau=0.1)
    assert changed(td3bc.Config(), ()) == td3bc.Config()


@pytest.mark.parametrize(
    "setting",
    [
        *("", "alpha", "=3", "Alpha=3", "speed=3", "alpha =3", "alpha=", "alpha=much", "steps=1e6", "steps=2.5"),
        *("hidden=", "hidden=64,,32", "hidden=wide", "hidden=64;32"),
        *("layer_norm=yes", "layer_norm=1", "pairs=both", "action_pull="),
        *("alpha=-1", "alpha=inf", "discount=1.5", "discount=-0.1", "tau=0", "tau=5", "learning_rate=-1"),
    ],
)
def test_wrong_settings_say_what_was_expected(setting: str) -> None:
    with pytest.raises(InputError) as caught:
        changed(stacq.Config(), (setting,))
    assert caught.value.expected and caught.value.fix
    name = setting.partition("=")[0]
    if name == "pairs":
        assert "dataset" in caught.value.expected


def test_a_misspelt_setting_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean alpha"):
        changed(stacq.Config(), ("alhpa=1",))


def test_a_setting_must_be_one_of_the_algorithms_own() -> None:
    with pytest.raises(InputError, match="cannot set"):
        changed(bc.Config(), ("alpha=1",))


def test_small_presets_of_locomotion_normalise_states_which_published_ones_leave_as_they_are() -> None:
    for name, scale in (("iql", "return-range"), ("rebrac", "none"), ("bcq", "none")):
        shown = [preset(name, "stacq/hopper-medium-v0", small=small).shown for small in (False, True)]
        assert [(each.normalise, each.reward_scale) for each in shown] == [(False, scale), (True, scale)]
        assert not preset(name, "antmaze-umaze-v2", small=True).shown.normalise
