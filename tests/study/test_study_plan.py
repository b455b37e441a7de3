"""A study's file: what it may say, and what is answered to what it may not."""

import pytest
from study_cases import SMALL, cells, study

from stacq.core.errors import InputError
from stacq.pipeline.options import Options
from stacq.study.cells import only
from stacq.study.jobs import jobs_of
from stacq.study.plan import read_study, shipped
from stacq.study.sweep import swept


def refused(content: str) -> str:
    with pytest.raises(InputError) as caught:
        cells(content)
    return str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("title", "tilte", "did you mean title?"),
        ("steps = 40", "step = 40", "did you mean steps?"),
        ("steps = 40", "steps = 0", "a whole number from 1"),
        ("steps = 40", "steps = 3_000_000_000", "a whole number from 1 to 2,147,483,647"),
        ("learning_rate = [1e-3, 1e-2]", f"learning_rate = {[1e-3] * 400}, batch = {[8] * 400}", "160,000 cells"),
        ("steps = 40", "steps = true", "a whole number from 1"),
        ('algorithm = "bc"', 'algorithm = "bcc"', "did you mean bc?"),
        ('algorithm = "bc"', 'algorithm = "bc"\nvariant = "papr"', "did you mean paper?"),
        ('algorithm = "bc"', 'algorithm = "bc"\ndynamics = "smal"', "did you mean small?"),
        ('algorithm = "bc"', 'algorithm = "bc"\ndatasets = ["hopper"]', "stacq/maze-stitching-v0"),
        ('algorithm = "bc"', 'algorithm = "bc"\nown_only = 1', "true or false"),
        ("learning_rate", "learning_rat", "did you mean learning_rate=0.001?"),
        ("1e-2", '"fast"', "a finite number from 0"),
        ("maze-stitching", "maze-stiching", "did you mean stacq/maze-stitching-v0"),
        ("[protocol]", "scale = 'tiny'\n[protocol]", "one of small, full"),
        ("[protocol]", "[table]\nshows = 'finl'\n[protocol]", "did you mean final?"),
        ("[protocol]", "[table]\npublished = ['papers']\n[protocol]", "did you mean paper?"),
        ('algorithm = "bc"', 'algorithm = "stacq"\nreach = { norm = "l2", epsilo = 1 }', "did you mean epsilon?"),
        ("seeds = 2", "seeds = 2 2", "not TOML"),
        ('["stacq/maze-stitching-v0"]', "[]", "no datasets"),
    ],
)
def test_mistakes_are_told_with_the_place_and_the_nearest_name(before: str, after: str, message: str) -> None:
    assert before in SMALL
    said = refused(SMALL.replace(before, after, 1))
    assert message in said and "small" in said


def test_every_list_is_a_side_of_a_grid() -> None:
    found = cells(SMALL.replace('"8,8"', '["8,8", "16,16"]'))
    assert [cell.options.settings for cell in found] == [
        (f"learning_rate={rate}", f"hidden={sizes}") for rate in ("0.001", "0.01") for sizes in ("8,8", "16,16")
    ]
    assert found[0].label == "BC, learning_rate=0.001, hidden=8,8"
    assert len({cell.key for cell in found}) == 4


def test_a_cell_has_the_options_of_the_same_training() -> None:
    first = cells()[0].options
    assert first == Options(
        "bc", small=True, seeds=2, steps=40, eval_every=20, episodes=2, settings=("learning_rate=0.001", "hidden=8,8")
    )


def test_a_scale_has_sizes_of_its_own() -> None:
    content = SMALL + "\n[small]\nsteps = 30\n[full]\nsteps = 50\nrows = 100\n"
    assert study(content).protocol.steps == 30
    full = study(content.replace("[protocol]", 'scale = "full"\n[protocol]'))
    assert full.protocol.steps == 50 and not full.small


def test_rows_belong_to_regenerated_data_alone() -> None:
    content = SMALL.replace('["stacq/maze-stitching-v0"]', '["hopper-medium", "hopper-medium-v2", "x.hdf5"]')
    found = study(content.replace("[protocol]", "[protocol]\nrows = 5000"))
    assert [each.name for each in found.sources] == ["stacq/hopper-medium-v0@5000", "hopper-medium-v2", "x.hdf5"]


def test_seeds_may_be_spread_over_runs() -> None:
    parts = cells(SMALL.replace("seeds = 2", "seeds = 5\nfirst_seed = 3\nseeds_per_run = 2"))
    assert [cell.seeds for cell in parts[:3]] == [(3, 4), (5, 6), (7,)]
    assert len({cell.key for cell in parts}) == 6 and len({cell.label for cell in parts}) == 2


def test_stages_are_made_once_and_come_first() -> None:
    method = 'algorithm = "stacq"\nvariant = "robust"\nreach = { epsilon = [0.1, 0.5] }'
    content = SMALL.replace('algorithm = "bc"', method).replace("learning_rate = [1e-3, 1e-2]", "alpha = [0.0, 1.0]")
    found = jobs_of(cells(content))
    kinds = [job.kind for job in found]
    wanted = {"data": 1, "dynamics": 1, "sets": 2, "actions": 2, "cell": 4}  # without alpha, no action is pulled to
    assert {kind: kinds.count(kind) for kind in kinds} == wanted
    assert kinds == sorted(kinds, key=lambda kind: kind == "cell")
    known = {job.key: job for job in found}
    for job in found:
        if job.kind == "cell":
            before = known[str(job.needs)]
            pulled = "alpha=1" in job.cell.options.settings
            assert before.kind == ("actions" if pulled else "sets") and before.cell.stages == job.cell.stages


def test_only_takes_cells_whose_names_hold_every_word() -> None:
    content = SMALL.replace("[protocol]", 'algorithms = ["td3bc"]\n[protocol]')
    found = cells(content)
    assert [cell.options.algorithm for cell in only(found, ["bc"])] == ["td3bc", "bc", "bc"]
    assert len(only(found, ["rate=0.01"])) == 1
    assert len(only(found, ["maze", "td3bc,rate=0.01"])) == 2
    with pytest.raises(InputError, match="td3bc"):
        only(found, ["td3cb"])


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("scale", ["small", "full"])
def test_shipped_studies_are_whole(name: str, scale: str) -> None:
    found = read_study(name, scale)  # type: ignore[arg-type]
    assert found.title and found.about
    from stacq.study.cells import cells_of

    every = cells_of(found)
    assert len({(cell.source.label, cell.label, cell.seeds) for cell in every}) == len(every)


def test_an_unknown_study_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean smoke"):
        read_study("smok")
    with pytest.raises(InputError, match=r"cannot be read"):
        read_study("none.toml")


def test_a_setting_with_several_values_is_a_sweep_and_a_size_is_not() -> None:
    found = swept(Options("td3bc", settings=("alpha=1,5", "hidden=8,8", "tau=0.1,0.2")))
    assert [each.settings for each in found] == [
        (f"alpha={alpha}", "hidden=8,8", f"tau={tau}") for alpha in (1, 5) for tau in ("0.1", "0.2")
    ]
    assert swept(Options("bc")) == [Options("bc")]
