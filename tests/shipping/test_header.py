"""C headers, compiled as strictly as gcc can, do what the policies do in NumPy."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ship_cases import ACTIONS, SCALES, SIZE, chosen, exact, gaussian, layers, mlp, observations
from stacq import InputError, Policy, export
from stacq.core.types import Float32s
from stacq.data.behaviour import load_behaviour
from stacq.policies.gaussian import gaussian_policy
from stacq.shipping.graph import network_of
from stacq.shipping.header import MOST_NUMBERS, literal

CLOSE = 1e-6
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
SOURCE = """
#include "policy.h"
int act(const float *observation, float *action);
int act(const float *observation, float *action) { return policy_act(observation, action); }
"""


def compiled(policy: Policy, **facts: Any) -> Callable[[Float32s], Float32s]:
    """The header's function over rows; NaN where it refuses."""
    export(policy, "policy.h", force=True, **facts)
    Path("act.c").write_text(SOURCE)
    number = len(list(Path().glob("act-*.so")))  # a library that is loaded may not be written over
    library = Path(f"act-{number}.so").resolve()
    subprocess.run(["gcc", *STRICT, "-shared", "-fPIC", "act.c", "-o", str(library), "-lm"], check=True, timeout=60)
    act, floats = ctypes.CDLL(str(library)).act, ctypes.POINTER(ctypes.c_float)

    def run(rows: Float32s) -> Float32s:
        actions = np.full((len(rows), policy.action_size), np.nan, np.float32)
        for row, action in zip(np.ascontiguousarray(rows), actions, strict=True):
            refused = act(row.ctypes.data_as(floats), action.ctypes.data_as(floats))
            assert refused == np.isnan(action).any() == np.isnan(action).all()
        return actions

    return run


@pytest.mark.parametrize(
    "policy",
    [mlp(), mlp(16), mlp(256, 256), mlp(16, 8, activation="tanh"), mlp(16, output="clip"), gaussian()],
    ids=repr,
)
def test_the_function_acts_as_in_numpy(policy: Policy) -> None:
    rows = observations()
    np.testing.assert_allclose(compiled(policy)(rows), policy(rows), rtol=0, atol=CLOSE)


def test_trained_networks_are_as_exact_as_in_numpy() -> None:
    """Their weights are large, so float32 itself leaves errors above 1e-6; the header makes none that are greater."""
    actor = load_behaviour("hopper", "medium")
    policy = gaussian_policy(actor.weights, actor.biases)
    act = compiled(policy)
    for scale in (*SCALES, 100.0, 1e3, 1e4):
        rows = (scale * np.random.default_rng(0).standard_normal((300, policy.observation_size))).astype(np.float32)
        true = exact(network_of(policy, ""), rows)
        ours, theirs = np.abs(policy(rows) - true).max(), np.abs(act(rows) - true).max()
        assert theirs <= CLOSE + 2 * ours, scale


def test_an_observation_that_is_no_number_is_refused() -> None:
    rows = np.zeros((4, SIZE), np.float32)
    rows[1, 2], rows[2, 0], rows[3, 4] = np.nan, np.inf, -np.inf
    actions = compiled(mlp(8, output="clip"))(rows)
    assert np.isnan(actions[1:]).all() and np.isfinite(actions[0]).all()


def test_a_hidden_number_that_overflows_is_refused() -> None:
    """Two hidden units of 3e38 each, one added and one taken away: infinity minus infinity."""
    policy = Policy.from_mlp([np.full((1, 2), 100.0), np.array([[100.0], [-100.0]])], [np.zeros(2), np.zeros(1)])
    actions = compiled(policy)(np.array([[3e36], [1.0]], np.float32))
    assert np.isnan(actions[0]).all() and actions[1].tolist() == [0.0]


def test_text_from_outside_stays_inside_the_comment() -> None:
    names = ["*/ #error out /*", "a\n#error", "\\\n??/\n", "\u2028é\x00", "*" + "/" * 300]
    rows = observations(2)
    found = compiled(mlp(4), observation_names=names)(rows)
    np.testing.assert_allclose(found, mlp(4)(rows), rtol=0, atol=CLOSE)
    assert "observation_names: " in Path("policy.h").read_text(encoding="ascii")


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -3.0, 0.1, 1e-45, 1e-38, 3.4028235e38, 123456789.0, 1e10, np.pi])
def test_numbers_come_back_bit_by_bit(value: float) -> None:
    number = np.float32(value)
    text = literal(float(number))
    assert text.endswith("f") and set(text) & {".", "e"}
    assert np.float32(text[:-1]).tobytes() == number.tobytes()


def test_several_policies_share_a_program() -> None:
    export(mlp(4), "one.h", name="one")
    export(mlp(4), "two.h", name="Two_b")
    Path("main.c").write_text(
        '#include "one.h"\n#include "two.h"\n#include "one.h"\n'
        "int main(void) { float s[one_observation_size] = {0}, a[one_action_size], b[Two_b_action_size];\n"
        "return one_act(s, a) || Two_b_act(s, b) || a[0] != b[0] || one_action_size != 3; }\n"
    )
    subprocess.run(["gcc", *STRICT, "main.c", "-o", "main", "-lm"], check=True, timeout=60)
    assert subprocess.run(["./main"], check=False, timeout=60).returncode == 0


def test_what_is_no_single_network_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"draws many actions[\s\S]*--format onnx"):
        export(chosen(), "policy.h")
    with pytest.raises(InputError, match="has no chance"):
        export(gaussian(), "policy.h", sample=True)


def test_a_network_too_large_for_text_is_refused() -> None:
    wide = MOST_NUMBERS // (SIZE + ACTIONS)
    large = Policy.from_mlp(*layers(SIZE, wide, ACTIONS))
    with pytest.raises(InputError, match=r"4,\d+,\d+ numbers"):
        export(large, "policy.h")
