"""`stacq export` as a person types it."""

from pathlib import Path

import pytest

from ship_cases import mlp
from stacq.cli import main


def test_a_policy_file_becomes_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    mlp(4).save("policy.safetensors")
    names = ["--action-names", "a", "b", "c", "--observation-names", "p", "q", "r", "s", "t"]
    main(["export", "policy.safetensors", "--format", "c", "--name", "arm", *names])
    assert capsys.readouterr().out == "written: arm.h\n"
    text = Path("arm.h").read_text()
    assert "arm_act(const float *observation, float *action)" in text and ' * action_names: ["a", "b", "c"]' in text
    main(["export", "policy.safetensors", "--out", "arm.h", "--force"])
    assert "policy_act" in Path("arm.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.safetensors", "--format", "c"], "no such file"),
        (["policy.safetensors"], "--format onnx or --format c"),
        (["policy.safetensors", "--format", "c", "--seed", "3"], "seed 3 was asked for"),
        (["policy.safetensors", "--format", "onnx", "--sample"], "does not sample"),
        ([".", "--format", "c"], "not the directory of a training run"),
    ],
)
def test_wrong_input_ends_with_code_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    mlp(4).save("policy.safetensors")
    with pytest.raises(SystemExit) as caught:
        main(["export", *arguments])
    error = capsys.readouterr().err
    assert caught.value.code == 2 and message in error and error.startswith("error: ")
    assert [path.name for path in Path().iterdir()] == ["policy.safetensors"]
