"""Policies as one C header: weights as constant arrays, and one function that acts. C99 and its math library suffice.

Sums are made in float, of eight products at a time: one after the other, as many as a wide layer has lose several
bits. NumPy has blocks of its own, so the last bits may differ.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from stacq.core.errors import InputError
from stacq.core.types import Float32s
from stacq.policies import MLPPolicy, Policy
from stacq.shipping.graph import network_of

MOST_NUMBERS = 4_000_000  # a compiler needs some hundred bytes for each
PER_LINE, LINE = 8, 200
NOT_IN_COMMENTS = re.compile(r"[^A-Za-z0-9 _.,:;+()\[\]{}<>=\"'#@&/-]")  # nothing that ends a comment or starts one

LAYER = """\
/* y = x weights + bias; the weights lie row by row, one row for each input. Eight products at a time are more exact
   than one after the other, and faster. */
static inline void {name}_layer(const float *x, int inputs, const float *weights, const float *bias, int outputs,
    float *y)
{{
    int i, j, n = outputs;
    for (j = 0; j < n; ++j) y[j] = 0.0f;
    for (i = 0; i + 8 <= inputs; i += 8, x += 8, weights += 8 * n)
        for (j = 0; j < n; ++j)
            y[j] += ((x[0] * weights[j] + x[1] * weights[n + j])
                  +  (x[2] * weights[2 * n + j] + x[3] * weights[3 * n + j]))
                  + ((x[4] * weights[4 * n + j] + x[5] * weights[5 * n + j])
                  +  (x[6] * weights[6 * n + j] + x[7] * weights[7 * n + j]));
    for (; i < inputs; ++i, ++x, weights += n)
        for (j = 0; j < n; ++j) y[j] += *x * weights[j];
    for (j = 0; j < n; ++j) y[j] += bias[j];
}}
"""
ACT = """\
/* Writes {name}_action_size numbers to `action` and returns 0. If the observation is not finite, or so large that the
   action would not be a number, it returns 1 and writes nothing. -ffast-math would remove this test: do not use it. */
static inline int {name}_act(const float *observation, float *action)
{{
    float x[{widest}], y[{widest}];
    int j;
    for (j = 0; j < {name}_observation_size; ++j) {{
        x[j] = (observation[j] - {name}_mean[j]) / {name}_scale[j];
        if (!isfinite(x[j])) return 1;
    }}
{layers}
    for (j = 0; j < {name}_action_size; ++j) {{
        if (!isfinite({result}[j])) return 1;
    }}
    for (j = 0; j < {name}_action_size; ++j) {{
{output}
    }}
    return 0;
}}
"""
BETWEEN = {
    "relu": "if ({y}[j] < 0.0f) {y}[j] = 0.0f;",
    "tanh": "{y}[j] = tanhf({y}[j]);",
}
OUTPUT = {
    "tanh": """\
        float part = (tanhf({result}[j]) + 1.0f) * 0.5f;
        action[j] = {name}_low[j] + part * ({name}_high[j] - {name}_low[j]);""",
    "clip": """\
        action[j] = {result}[j] > {name}_high[j] ? {name}_high[j] : {result}[j];
        if (action[j] < {name}_low[j]) action[j] = {name}_low[j];""",
}


def header_text(policy: Policy, name: str, facts: Mapping[str, Any]) -> str:
    """The header; `name` is the first part of everything that it defines."""
    network = network_of(policy, "a C header")
    _check_size(network)
    return "\n".join(
        [
            _comment(name, facts),
            f"#ifndef {name}_STACQ_H\n#define {name}_STACQ_H\n\n#include <math.h>\n",
            f"enum {{ {name}_observation_size = {policy.observation_size} }};",
            f"enum {{ {name}_action_size = {policy.action_size} }};\n",
            *(_array(f"{name}_{key}", values) for key, values in _arrays(network)),
            LAYER.format(name=name),
            _act(network, name),
            "#endif\n",
        ]
    )


def _check_size(network: MLPPolicy) -> None:
    count = sum(array.size for array in network.arrays().values())
    if count > MOST_NUMBERS:
        raise InputError(
            f"the network has {count:,} numbers",
            where="export --format c",
            expected=f"at most {MOST_NUMBERS:,}: compilers do not take more of them as text",
            fix="export it with --format onnx",
        )


def _arrays(network: MLPPolicy) -> Iterator[tuple[str, Float32s]]:
    normaliser, low, high = network.space
    yield from {"mean": normaliser.mean, "scale": normaliser.scale, "low": low, "high": high}.items()
    for index, (weight, bias) in enumerate(zip(*network.layers, strict=True)):
        yield f"weights_{index}", weight
        yield f"bias_{index}", bias


def _array(name: str, values: Float32s) -> str:
    numbers = [literal(value) for value in values.ravel().tolist()]
    lines = (", ".join(numbers[start : start + PER_LINE]) for start in range(0, len(numbers), PER_LINE))
    body = ",\n    ".join(lines)
    return f"static const float {name}[{len(numbers)}] = {{\n    {body}\n}};\n"


def literal(value: float) -> str:
    """A float constant of C; nine digits give back every bit of a float32."""
    digits = f"{value:.9g}"
    return f"{digits}f" if set(digits) & {".", "e"} else f"{digits}.0f"


def _act(network: MLPPolicy, name: str) -> str:
    """Layers read one buffer and write the other, in turns."""
    weights, last = network.weights, len(network.weights) - 1
    lines, widest = [], max(weights[0].shape[0], *(weight.shape[1] for weight in weights))
    for index, weight in enumerate(weights):
        x, y = ("x", "y") if index % 2 == 0 else ("y", "x")
        inputs, outputs = weight.shape
        lines.append(f"    {name}_layer({x}, {inputs}, {name}_weights_{index}, {name}_bias_{index}, {outputs}, {y});")
        if index < last:
            lines.append(f"    for (j = 0; j < {outputs}; ++j) {BETWEEN[network.activation].format(y=y)}")
    result = "y" if last % 2 == 0 else "x"
    output = OUTPUT[network.output].format(name=name, result=result)
    return ACT.format(name=name, widest=widest, layers="\n".join(lines), result=result, output=output)


def _comment(name: str, facts: Mapping[str, Any]) -> str:
    """What is known about the policy. Text from outside loses every character that a comment could end with."""
    told = [f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in facts.items()]
    lines = [f" * {NOT_IN_COMMENTS.sub('_', line)[:LINE]}" for line in told]
    use = f" * {name}_act(observation, action) acts. Include this file in one C file, and link with -lm."
    return "\n".join(["/* A policy that stacq exported.", " *", use, " *", *lines, " */"])
