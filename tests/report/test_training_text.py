"""What is told about a training run."""

import pytest

from stacq.algos import ALGORITHMS
from stacq.algos.presets import changed, preset
from stacq.report.training_text import duration, settings_text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dataset", ["", "hopper-medium-v2", "antmaze-large-play-v2", "stacq/maze-stitching-v0"])
def test_settings_as_told_can_be_set(algorithm: str, dataset: str) -> None:
    config = preset(algorithm, dataset).config
    assert changed(ALGORITHMS[algorithm].Config(), tuple(settings_text(config).split())) == config


@pytest.mark.parametrize(
    ("seconds", "text"), [(12, "12 seconds"), (150, "2.5 minutes"), (9_000, "2.5 hours"), (216_000, "2.5 days")]
)
def test_durations_are_told_roughly(seconds: float, text: str) -> None:
    assert duration(seconds) == text
