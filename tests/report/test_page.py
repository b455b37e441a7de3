"""The page: its structure, what it escapes and leaves out, its numbers, and its life in a real browser."""

import base64
import contextlib
import hashlib
import io
import json
import math
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import page_samples as samples
import pytest
from page_browser import Page, chromium, find_browser

from stacq.core.errors import InputError
from stacq.evaluation.records import EpisodeRecord
from stacq.report.page import MazePicture, RunSummary, aggregate, curve, page_text, read_run, write_page
from stacq.report.page_again import command_text
from stacq.report.page_charts import band, line_chart, size_bins
from stacq.report.page_data import arranged
from stacq.report.page_maze import MOST_STITCHES, player_data
from stacq.report.page_sections import shared_scores
from stacq.report.page_svg import decimals_for, el, nice_ticks, palette, percent, shown, span, tick_text
from stacq.report.statistics import describe, difference
from stacq.runs.directory import Run
from stacq.runs.summary import Curve

LIMIT = 3_000_000  # bytes
OWN = b"CONNECT www.google.com:443 "
VOID = {"meta", "input", "br"}
NASTY = "<script>alert('x')</script> & \"quotes\" </svg> $title {x} 数据"


class Outline(HTMLParser):
    """What a page is made of; complains where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def sections(self) -> list[str]:
        return [str(attributes["id"]) for tag, attributes in self.tags if tag == "section"]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def maze_text() -> str:
    runs = [samples.maze_run(label) for label in samples.LEVELS]
    return page_text(runs, title="A maze", maze=samples.maze_picture())


@pytest.fixture(scope="module")
def comparison_text() -> str:
    runs = [samples.locomotion_run(label, name) for name in ("one-v2", "two-v2") for label in samples.LEVELS]
    return page_text(runs, title="A comparison")


def test_sections_of_a_maze(maze_text: str) -> None:
    expected = ["data", "policies", "rollouts-section", "success", "curves", "results", "comparison", "models"]
    assert Outline(maze_text).sections == [*expected, "again", "next"]


def test_sections_of_a_comparison(comparison_text: str) -> None:
    assert Outline(comparison_text).sections == ["curves", "results", "comparison", "critic", "models", "again", "next"]


@pytest.mark.parametrize("name", ["maze_text", "comparison_text"])
def test_a_page_holds_everything_and_asks_for_nothing(name: str, request: pytest.FixtureRequest) -> None:
    text: str = request.getfixturevalue(name)
    page = Outline(text)
    assert len(text.encode()) < LIMIT
    assert not {"link", "img", "iframe", "object", "embed", "base", "audio", "video"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "style", "data", "action"} & set(attributes), tag
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("href", "xlink:href"):
            assert str(attributes.get(key, "#")).startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in str(page.all("meta")[1]["content"])


@pytest.mark.parametrize("name", ["maze_text", "comparison_text"])
def test_a_page_can_be_read_without_seeing_it(name: str, request: pytest.FixtureRequest) -> None:
    page = Outline(request.getfixturevalue(name))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for key in ("href", "aria-labelledby"):
            if key in attributes:
                assert str(attributes[key]).lstrip("#") in ids
    assert all(svg.get("aria-label") or svg.get("aria-hidden") for svg in page.all("svg"))
    assert all(th.get("scope") for th in page.all("th"))
    assert all(region["tabindex"] == "0" for region in page.all("div") if region.get("role") == "region")
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1


def test_the_browser_knows_our_style_and_script_by_their_hashes(maze_text: str) -> None:
    policy = str(Outline(maze_text).all("meta")[1]["content"])
    for tag in ("style", "script"):
        found = re.search(rf"<{tag}>(.*?)</{tag}>", maze_text, re.DOTALL)
        assert found
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_any_text_is_escaped() -> None:
    run = replace(samples.locomotion_run("StaCQ", "x"), label=NASTY, dataset=NASTY, config={NASTY: NASTY})
    run = replace(run, records=[replace(record, dataset=NASTY) for record in run.records])
    run = replace(run, environment={"command": ["stacq", NASTY], "device": NASTY, "versions": {NASTY: NASTY}})
    run = replace(run, dynamics={"dimensions": [NASTY], "normalised_error": [0.1]}, stopped=NASTY)
    run = replace(run, reach={**samples.REACH, "criterion": NASTY})
    maze = samples.maze_picture()
    maze = replace(maze, policies={NASTY: maze.policies["BC"]}, rollouts={NASTY: maze.rollouts["BC"]})
    maze = replace(maze, success={NASTY: maze.success["BC"]}, tabular={NASTY: 1.0}, name=NASTY)
    text = page_text([run, replace(run, dataset="other")], title=NASTY, maze=maze)
    page = Outline(text)
    assert len(page.all("script")) == 2
    assert "<script>alert" not in text
    assert page.text.count(NASTY) > 15
    data = re.search(r'id="rollouts">(.*?)</script>', text, re.DOTALL)
    assert data
    assert json.loads(data[1])["methods"][0]["label"] == NASTY


def test_missing_data_leaves_its_section_out() -> None:
    run = samples.locomotion_run("BC", "hopper-medium-v2")
    assert Outline(page_text([run], title="t")).sections == ["curves", "results", "again", "next"]
    bare = RunSummary("BC", "bc", "hopper-medium-v2")
    assert Outline(page_text([bare], title="t")).sections == ["next"]
    odd = replace(bare, reach={"set_sizes": {}}, dynamics={"normalised_error": [None, 0.0]})
    assert Outline(page_text([odd], title="t")).sections == ["next"]
    once = replace(run, records=[record for record in run.records if record.step == 1_000_000], metrics=())
    assert Outline(page_text([once], title="t")).sections == ["results", "again", "next"]


def test_a_maze_alone_shows_only_what_it_has() -> None:
    maze = MazePicture(rows=["..#", ".#*"], goal=(2, 1))
    text = page_text([], title="t", maze=maze)
    assert Outline(text).sections == ["data", "next"]
    assert "checkbox" not in text.partition("</style>")[2].partition("<script>")[0]
    shares = replace(maze, success={"StaCQ": [1.0]})
    page = Outline(page_text([], title="t", maze=shares))
    assert page.sections == ["data", "success", "next"]
    assert "StaCQ reaches the goal from 100.0% of the start cells (1 seed)." in page.text
    assert "nan" not in page.text.lower().split()


def test_no_runs_is_an_error() -> None:
    with pytest.raises(InputError, match="no runs"):
        page_text([], title="t")


def test_final_best_and_last_ten_are_three_numbers_for_each_seed() -> None:
    values = np.array([[float(step * (seed + 1)) for seed in range(3)] for step in range(12)])
    values[5] = 99.0
    run = RunSummary("A", "a", "d", seeds=(0, 1, 2), metrics=_lines(values))
    found = aggregate(run)
    assert found is not None
    assert (found.seeds, found.step) == ((0, 1, 2), 1100)
    np.testing.assert_allclose(found.final, values[-1])
    np.testing.assert_allclose(found.best, [99, 99, 99])
    np.testing.assert_allclose(found.last_ten, values[2:].mean(axis=0))
    assert aggregate(run, "return") is None
    words = Outline(page_text([run], title="t")).text
    for column in (found.final, found.best, found.last_ten):
        each = describe(column)
        assert f"{each.mean:.1f} {each.std:.1f} {span(each.low, each.high)}" in words


def _lines(values: Any, key: str = "eval/score") -> list[dict[str, Any]]:
    rows = enumerate(np.asarray(values, dtype=float))
    return [{"step": 100 * i, "seed": seed, key: float(v)} for i, row in rows for seed, v in enumerate(row)]


def test_only_steps_that_every_seed_reached_count() -> None:
    lines = _lines([[1, 2], [3, 4], [5, 6]])[:-1]
    found = curve(RunSummary("A", "a", "d", metrics=lines, wanted=300), "score")
    assert found is not None
    assert found.steps.tolist() == [0, 100]
    ended = curve(RunSummary("A", "a", "d", metrics=lines), "score")  # the other seed was lost on the way
    assert ended is not None and (ended.steps.tolist(), ended.seeds) == ([0, 100, 200], (0,))
    lines += [{"step": 7}, {"seed": 1, "eval/score": 1.0}, {"step": 300, "eval/score": 9.0}, {"eval/score": "high"}]
    again = curve(RunSummary("A", "a", "d", metrics=lines, wanted=300), "score")
    assert again is not None
    assert again.steps.tolist() == [0, 100]


def test_records_come_before_lines_of_metrics() -> None:
    records = [EpisodeRecord("a", "d", 0, 100, k, 10.0 * k, 5, None, k > 0) for k in range(3)]
    run = RunSummary("A", "a", "d", records=records, metrics=_lines([[7.0], [8.0]], "eval/return"))
    returns, success = curve(run, "return"), curve(run, "success")
    assert returns is not None
    assert success is not None
    assert returns.values.tolist() == [[7.0], [10.0]]
    np.testing.assert_allclose(success.values, [[2 / 3]])


def test_a_seed_without_a_number_is_not_quietly_left_out() -> None:
    run = RunSummary("A", "a", "d", metrics=_lines([[1, 2, 3], [4, math.nan, 6]]))
    page = Outline(page_text([run, replace(run, label="B", metrics=_lines([[1, 2], [3, 4]]))], title="t"))
    assert "A 3 100 – – – –" in page.text
    assert set(shared_scores([run])) == set()


def test_score_and_return_never_share_a_column() -> None:
    scored = RunSummary("A", "a", "d", metrics=[*_lines([[50.0]]), *_lines([[1500.0]], "eval/return")])
    plain = RunSummary("B", "b", "d", metrics=_lines([[1400.0]], "eval/return"))
    text = Outline(page_text([scored, plain], title="t")).text
    assert "normalised score" not in text
    assert "1,500" in text
    other = replace(plain, dataset="other")
    assert shared_scores([replace(scored, dataset="d"), replace(scored, dataset="e", metrics=plain.metrics)]) != {}
    assert shared_scores([plain, replace(other, label="A")]) == {}


def test_methods_are_compared_on_the_datasets_they_share() -> None:
    names = {"StaCQ": ("one", "two", "three"), "BC": ("two", "three")}
    runs = [samples.locomotion_run(label, name) for label, each in names.items() for name in each]
    scores = shared_scores(runs)
    assert {label: list(tasks) for label, tasks in scores.items()} == {label: ["two", "three"] for label in names}
    text = Outline(page_text(runs, title="t")).text
    assert "too narrow" in text
    assert "StaCQ over BC" in text


def test_leads_are_welchs() -> None:
    maze = samples.maze_picture()
    text = Outline(page_text([], title="t", maze=maze)).text
    lead = difference(maze.success["StaCQ"], maze.success["BC"])
    assert f"StaCQ over BC {100 * lead.value:.1f} {span(100 * lead.low, 100 * lead.high)} yes" in text


def test_two_seeds_are_shown_and_not_their_interval() -> None:
    """Student's of 59.1 and 76.0 is -39.6 to 174.6."""
    runs = [
        RunSummary(name, name, "d", seeds=(0, 1), metrics=_lines([[59.1, 76.0]] * 2, "eval/score")) for name in "ab"
    ]
    text = Outline(page_text(runs, title="t")).text
    assert "a ends at a normalised score of 67.5 (59.1 and 76.0)" in text
    assert "67.5 12.0 two seeds: 59.1 and 76.0" in text and "a over b 50% two seeds" in text
    assert "174.6" not in text and "95% interval 5" not in text
    maze = replace(samples.maze_picture(), success={"a": [0.8, 0.9], "b": [0.5, 0.9]})
    text = Outline(page_text([], title="t", maze=maze)).text
    assert "two seeds: 80.0 and 90.0%" in text and "a over b 15.0 two seeds" in text


def test_runs_of_one_label_are_pooled_or_told_apart() -> None:
    first, second = (samples.locomotion_run("StaCQ", "d", seeds=2, evaluations=2, base=base) for base in (0, 2))
    (pooled,) = arranged([first, second])
    assert pooled.seeds == (0, 1, 2, 3)
    found = aggregate(pooled)
    assert found is not None
    assert found.seeds == (0, 1, 2, 3)
    other = replace(second, config={**second.config, "batch": 1}, name="run-7")
    labels = [run.label for run in arranged([first, other, replace(other, config={}, name="")])]
    assert labels == ["StaCQ", "StaCQ (run-7)", "StaCQ (2)"]
    both = replace(first, records=[*first.records, *samples.locomotion_run("BC", "d", seeds=1).records])
    assert [run.label for run in arranged([both])] == ["stacq", "bc"]
    renamed = [replace(record, algorithm=first.label, step=record.step + 1) for record in first.records]
    assert len(arranged([replace(first, records=[*first.records, *renamed])])) == 1


def test_colours_stay_with_their_algorithm() -> None:
    alone = palette({"BC": "bc"})["BC"]
    among = palette({"mine": "", "StaCQ (robust)": "stacq", "BC": "bc", "StaCQ": "stacq"})
    assert among["BC"] == alone and len(set(among.values())) == 4
    assert len(palette({str(number): "" for number in range(30)})) == 30


def test_numbers() -> None:
    assert [shown(value) for value in (None, math.nan, math.inf, -0.01, -2.55, 12345.6)] == [
        "–",
        "–",
        "–",
        "0.0",
        "−2.5",
        "12,345.6",
    ]
    assert (percent(None), percent(math.nan), percent(0.5, 0)) == ("–", "–", "50%")
    assert (span(-1, 2), span(math.nan, 1)) == ("−1.0 to 2.0", "–")
    assert [decimals_for([size, math.nan]) for size in (0.5, 5, 50, 5000)] == [3, 2, 1, 0]
    assert nice_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert [tick_text([0.0, 5e5])(v) for v in (0.0, 5e5)] == ["0", "500k"]
    assert tick_text([0.0, -2e12])(-2e12) == "−2.0e+12"


def test_elements_escape_what_is_not_markup() -> None:
    assert el("p", "<b>", el("i", "&"), class_="a", data_x='"', hidden=True, title=None) == (
        '<p class="a" data-x="&quot;" hidden>&lt;b&gt;<i>&amp;</i></p>'
    )


def test_commands_are_as_one_would_type_them() -> None:
    assert command_text(["/a/b/stacq", "run", "my file"]) == "stacq run 'my file'"
    assert command_text(["/a/stacq/__main__.py", "run"]) == "python -m stacq run"
    assert (command_text("make run"), command_text(None), command_text([])) == ("make run", "", "")


def test_set_sizes_fall_into_bins() -> None:
    assert size_bins({"1": 5, "3": 2, "x": 9}) == [("1", 5), ("2", 0), ("3", 2)]
    large = size_bins({"1": 10, "2": 5, "4": 3, "300": 1})
    assert large[:3] == [("1", 10), ("2", 5), ("3–4", 3)]
    assert list(large[-1]) == ["257–512", 1]
    assert sum(count for _, count in large) == 19
    assert size_bins({}) == []


def test_a_large_maze_stays_small_on_the_page() -> None:
    rng = np.random.default_rng(0)
    maze = samples.maze_picture()
    long = [((0, 0), np.cumsum(rng.normal(0, 0.05, (500, 2)), axis=0) + 5, False) for _ in range(600)]
    logged = [rng.random((5000, 2)) * 10 for _ in range(40)]
    arrows = {label: rng.random((50, 80, 4)) * 10 for label in maze.policies}
    maze = replace(maze, stitches=rng.random((50_000, 4)) * 10, trajectories=logged, policies=arrows)
    maze = replace(maze, rollouts=dict.fromkeys(maze.rollouts, long))
    text = page_text([samples.maze_run("StaCQ")], title="t", maze=maze)
    assert len(text.encode()) < LIMIT
    assert f"{MOST_STITCHES} of 50,000 are drawn" in Outline(text).text


def test_the_player_gets_the_paths_as_they_were() -> None:
    maze = samples.maze_picture(centre=0.0)
    data = json.loads(player_data(maze, dict.fromkeys(maze.rollouts, 0)))
    for method in data["methods"]:
        for encoded, (_, positions, success), arrives in zip(
            method["paths"], maze.rollouts[method["label"]], method["arrives"], strict=True
        ):
            path = np.cumsum(np.reshape(encoded, (-1, 2)), axis=0) / data["precision"]
            np.testing.assert_allclose(path, positions + 0.5, atol=0.0051)
            assert bool(arrives) == success


def test_a_page_appears_whole(tmp_path: Path) -> None:
    path = write_page(tmp_path / "new" / "page.html", [samples.maze_run("BC")], title="t")
    assert path.read_text("utf-8").rstrip().endswith("</html>")
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_a_run_directory_is_read(tmp_path: Path) -> None:
    config = {"algorithm": "td3bc", "label": "TD3+BC", "dataset": "hopper-medium-v2", "seeds": [0, 1]}
    with Run(tmp_path / "run", config) as run:
        for seed in (0, 1):
            run.record(EpisodeRecord("td3bc", "hopper-medium-v2", seed, 100, 0, 1200.0, 400, 37.5, None))
            run.metrics(100, {"seed": seed, "eval/value": 80.0})
    (tmp_path / "run" / "reach.json").write_text(json.dumps(samples.REACH))
    summary = read_run(tmp_path / "run")
    assert (summary.label, summary.dataset, summary.seeds, summary.name) == (
        "TD3+BC",
        "hopper-medium-v2",
        (0, 1),
        "run",
    )
    assert len(summary.records) == len(summary.metrics) == 2
    assert summary.environment["versions"]["numpy"] == np.__version__
    assert (summary.reach, summary.dynamics, summary.stopped) == (samples.REACH, None, "")
    assert read_run(tmp_path / "run", "mine").label == "mine"
    assert "models" in Outline(page_text([summary], title="t")).sections


def test_an_unfinished_run_is_read_as_far_as_it_came(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Run(tmp_path / "run", {"algorithm": "bc", "label": "BC", "seeds": 3}) as run:
        run.record(EpisodeRecord("bc", "d", 0, 100, 0, 12.0, 4, None, None))
        raise KeyboardInterrupt
    with open(tmp_path / "run" / "records.csv", "a") as handle:
        handle.write("bc,d,1,1")
    summary = read_run(tmp_path / "run")
    assert (summary.dataset, len(summary.records), summary.stopped) == ("d", 1, "KeyboardInterrupt")
    text = Outline(page_text([summary], title="t")).text
    assert "BC 1 of 3 100*" in text
    assert "stopped by KeyboardInterrupt" in text
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text("{}")
    assert read_run(tmp_path / "bare").label == "bare"


def test_a_run_that_goes_on_is_not_called_finished(tmp_path: Path) -> None:
    config = {"algorithm": "bc", "label": "BC", "dataset": "d", "seeds": [0, 1], "total_steps": 300}
    with Run(tmp_path / "run", config) as run:
        for step in (100, 200):
            for seed in (0, 1):
                run.record(EpisodeRecord("bc", "d", seed, step, 0, 12.0 + seed, 4, None, None))
    text = Outline(page_text([read_run(tmp_path / "run")], title="t")).text
    assert "BC is at a return of 12.5" in text
    assert "Not finished: BC was evaluated up to step 200 of 300." in text
    assert "200 of 300" in text
    (tmp_path / "run" / "result.json").write_text("{}")
    text = Outline(page_text([read_run(tmp_path / "run")], title="t")).text
    assert "BC ends at a return of 12.5" in text and "Not finished" not in text


def test_without_an_environment_the_course_of_training_is_shown() -> None:
    lines = _lines([[1, 2], [3, 4]], "q") + _lines([[9, 8], [7, 6]], "actor_loss")
    run = RunSummary("StaCQ", "stacq", "mine", seeds=(0, 1), metrics=lines)
    page = Outline(page_text([run], title="t"))
    assert "training" in page.sections
    assert "Nothing was scored: no environment is known for mine." in page.text
    assert "Values of the critics" in page.text and "Loss of the critics" not in page.text
    assert page.text.count("both are shown as points") == 1
    stopped = Outline(page_text([replace(run, wanted=500, config={"env": "Mine-v0"})], title="t")).text
    assert "Nothing was scored yet." in stopped and "Not finished: StaCQ was trained up to step" in stopped
    scored = replace(run, metrics=lines + _lines([[1, 2], [3, 4]]))
    assert "training" not in Outline(page_text([scored], title="t")).sections


def test_a_band_stays_inside_its_chart() -> None:
    """Seeds of 0, 0 and 1 have an interval of -1.1 to 1.8."""
    lines = _lines([[0, 0, 1]] * 3, "eval/success")
    text = page_text([RunSummary("A", "a", "d", seeds=(0, 1, 2), metrics=lines)], title="t")
    (path,) = re.findall(r'class="band[^"]*" d="([^"]*)"', text)
    heights = [float(point.split()[1]) for point in re.split("[MLZ]", path) if point]
    assert min(heights) >= 0 and max(heights) <= 300


def test_two_seeds_are_points_of_a_curve_and_more_have_a_band() -> None:
    steps = np.arange(3)
    values = np.array([[0.0, 1.0], [10.0, 12.0], [20.0, 21.0]])
    two = band("a", 1, Curve(steps, (0, 1), values))
    assert np.isnan(two.low).all() and np.nanmin(two.extent) == 0 and np.nanmax(two.extent) == 21
    np.testing.assert_array_equal(two.points, values)
    drawn = line_chart([two], title="t", x_label="x", y_label="y")
    assert drawn.count('class="seed s1"') == 6 and 'class="band' not in drawn
    three = band("a", 1, Curve(steps, (0, 1, 2), np.array([[0.0, 1.0, 2.0], [10.0, 12.0, 11.0], [20.0, 21.0, 26.0]])))
    np.testing.assert_array_equal(three.extent, np.r_[three.y, three.low, three.high])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "not JSON"),
        ("config.json", "[]", "holds a list"),
        ("reach.json", "nope", "not JSON"),
        ("records.csv", "a,b\n1,2\n", "cannot be understood"),
        ("metrics.jsonl", "{]\n", "cannot be understood"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match="no config"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        read_run(tmp_path / "missing")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path)


@pytest.fixture(scope="module")
def proxy() -> Iterator[tuple[int, list[bytes]]]:
    """A port that remembers what the tab asked for; a socket opened without a word asks for nothing.

    Chromium greets its maker's search engine from every profile, an empty page's too: that is not the page.
    """
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    with contextlib.suppress(OSError):
                        request = connection.recv(200)
                        asked.extend([] if not request or request.startswith(OWN) else [request])

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield server.getsockname()[1], asked
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture(scope="module")
def browser(proxy: tuple[int, list[bytes]]) -> Iterator[Page]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium found: install one (Debian: apt-get install chromium) to test the page in a browser")
    with chromium(program, proxy[0]) as page:
        yield page


@pytest.fixture
def maze_file(tmp_path: Path, maze_text: str) -> Path:
    path = tmp_path / "a maze & more.html"
    path.write_text(maze_text, "utf-8")
    return path


SLIDER = "Number(document.querySelector('#player input[type=range]').value)"
BUTTON = "document.querySelector('#player .play')"


def pixels(png: bytes) -> Any:
    return matplotlib.image.imread(io.BytesIO(png))[..., :3]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_shows_in_a_browser(browser: Page, maze_file: Path, width: int, scheme: str) -> None:
    browser.events.clear()
    browser.open(maze_file, width, 900, scheme)
    picture = pixels(browser.screenshot())
    assert picture.shape == (900, width, 3)
    assert (picture.mean() > 0.5) == (scheme == "light")
    assert len(np.unique((picture * 255).astype(int).reshape(-1, 3), axis=0)) > 50
    assert browser.value("document.documentElement.scrollWidth") == width
    assert problems(browser) == []


@pytest.mark.parametrize("width", [375, 700])
def test_no_panel_stands_alone_in_a_row_and_what_is_wide_scrolls(browser: Page, maze_file: Path, width: int) -> None:
    browser.open(maze_file, width, 812, "dark")
    rows = browser.value(
        """[...document.querySelectorAll('div.grid, .stage')].map(grid => {
             const tops = [...grid.children].map(each => Math.round(each.getBoundingClientRect().top));
             return [...new Set(tops)].map(top => tops.filter(each => each == top).length);
           })"""
    )
    assert rows and all(len(set(found)) == 1 for found in rows)
    assert browser.value("document.documentElement.scrollWidth") == width
    scrolls = "e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX == 'auto'"
    assert browser.value(f"[...document.querySelectorAll('nav ul')].every({scrolls})") or width > 375
    assert browser.value(f"[...document.querySelectorAll('.scroll')].some({scrolls})")


def test_walls_are_darker_than_the_floor() -> None:
    style = (resources.files("stacq.report") / "page.css").read_text("utf-8")
    floors, walls = (re.findall(rf"--{name}: #([0-9a-f]{{6}})", style) for name in ("floor", "wall"))
    light = [[sum(bytes.fromhex(colour)) for colour in found] for found in (floors, walls)]
    assert len(floors) == 2 and all(wall < floor - 60 for floor, wall in zip(*light, strict=True))


def problems(browser: Page) -> list[Any]:
    """Errors and whatever was written to the console; not the advice that reading pixels, as `stage` does, is slow."""
    kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    return [event for event in browser.events if event["method"] in kinds and "getImageData" not in str(event)]


def test_no_request_leaves_the_page(browser: Page, maze_file: Path, proxy: tuple[int, list[bytes]]) -> None:
    browser.events.clear()
    browser.open(maze_file)
    browser.value(f"{BUTTON}.click()")
    browser.until(f"{SLIDER} > 3")
    sent = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert sent == [maze_file.as_uri()]
    assert proxy[1] == []


def test_a_request_would_be_seen_and_is_refused(browser: Page, maze_file: Path, proxy: tuple[int, list[bytes]]) -> None:
    browser.open(maze_file)
    assert browser.value("fetch('http://stacq.invalid/').then(() => 'answered', () => 'refused')") == "refused"
    assert proxy[1] == []
    browser.open(Path("/"))  # a page without our policy: the counting proxy is not deaf
    browser.value("fetch('http://stacq.invalid/', {mode: 'no-cors'}).catch(() => 0)")
    assert any(b"stacq.invalid" in each for each in proxy[1])
    proxy[1].clear()


def test_the_player_plays_by_keyboard(browser: Page, maze_file: Path) -> None:
    browser.events.clear()
    browser.open(maze_file)
    last = browser.value(SLIDER)
    assert last > 20
    before = stage(browser)
    browser.value(f"{BUTTON}.focus()")
    browser.key(" ", 32, " ")
    browser.until(f"{SLIDER} > 2 && {SLIDER} < {last}")
    assert browser.value(f"{BUTTON}.textContent") == "Pause"
    browser.key(" ", 32, " ")
    still = browser.value(SLIDER)
    assert browser.value(f"{BUTTON}.textContent") == "Play"
    assert 0 < still < last
    assert (stage(browser) != before).any()
    browser.key("Tab", 9)
    browser.key("ArrowRight", 39)
    assert browser.value(SLIDER) == still + 1
    assert browser.value("document.querySelector('#player input[type=range]').ariaValueText").startswith("step ")
    assert problems(browser) == []


def stage(browser: Page) -> Any:
    """How much is drawn on each canvas."""
    count = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 == 3 && v).length"
    return np.array(browser.value(f"[...document.querySelectorAll('#player canvas')].map(c => {count})"))


def test_methods_and_layers_are_chosen(browser: Page, maze_file: Path) -> None:
    browser.open(maze_file)
    shown_panels = "document.querySelectorAll('#player figure:not([hidden])').length"
    assert browser.value(shown_panels) == 3
    assert (stage(browser) > 100).all()
    counts = browser.value("[...document.querySelectorAll('#player output')].map(o => parseInt(o.textContent))")
    assert counts == [sum(r[2] for r in each) for each in samples.maze_picture().rollouts.values()]
    browser.value("document.querySelectorAll('#player input[type=checkbox]')[1].click()")
    assert browser.value(shown_panels) == 2
    visible = "getComputedStyle(document.querySelector('.stitches')).display"
    assert browser.value(visible) == "inline"
    browser.value("document.getElementById('show-stitches').click()")
    assert browser.value(visible) == "none"


def test_every_control_is_reached_by_tab(browser: Page, maze_file: Path) -> None:
    browser.open(maze_file)
    query = "a[href], button, input, select, summary, [tabindex]"
    wanted = browser.value(f"document.querySelectorAll('{query}').length")
    browser.value("window.reached = new Set(); addEventListener('focusin', (event) => reached.add(event.target))")
    for _ in range(wanted + 5):
        browser.key("Tab", 9)
    assert browser.value(f"[...document.querySelectorAll('{query}')].filter(e => !reached.has(e)).length") == 0
