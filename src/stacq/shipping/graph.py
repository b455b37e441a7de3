"""Policies as ONNX graphs, written node by node; neither PyTorch nor TensorFlow takes part.

Opset 13 with IR version 7 is read by runtimes from December 2020 on. From there on the operators used here have the
same inputs in all later opsets, and quantisation per channel begins with it: a newer one would add nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import spelt
from stacq.core.types import Array, Float32s
from stacq.policies import ChosenPolicy, GaussianPolicy, Layers, MLPPolicy, Policy, Space
from stacq.policies.networks import Activation

OPSET, IR_VERSION = 13, 7
OBSERVATION, NOISE, ACTION, BATCH = "observation", "noise", "action", "batch"


class Graph:
    """Nodes in the order of their evaluation, and constants."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any, dtype: type[np.generic] = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        array: Array = np.asarray(values, dtype, order="C")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, to: str = "", **attributes: int) -> str:
        """Add a node, and give the name of its output."""
        name = to or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name


def onnx_bytes(policy: Policy, name: str, facts: Mapping[str, Any], *, sample: bool) -> bytes:
    """The file: input `observation` [batch, S], output `action` [batch, A]; with `sample` also input `noise`."""
    onnx = _onnx()
    graph = Graph(onnx)
    seen = _seen(graph, policy.space)
    noise = _add_action(graph, policy, seen, sample=sample)
    shapes = {OBSERVATION: [policy.observation_size], **({NOISE: noise} if noise else {})}
    inputs = [_value(onnx, key, shape) for key, shape in shapes.items()]
    outputs = [_value(onnx, ACTION, [policy.action_size])]
    whole = onnx.helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    model = onnx.helper.make_model(
        whole,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="stacq",
        producer_version=str(facts["stacq_version"]),
    )
    onnx.helper.set_model_props(model, {key: _text(value) for key, value in facts.items()})
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise InputError(
            "an ONNX file was asked for, but the package onnx is not installed",
            fix="pip install 'stacq[onnx]', or export with --format c",
        ) from error
    return onnx


def _value(onnx: Any, name: str, shape: Sequence[int]) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [BATCH, *shape])


def _text(value: Any) -> str:
    return spelt(value) if isinstance(value, str) else json.dumps(value)


def _add_action(graph: Graph, policy: Policy, seen: str, *, sample: bool) -> list[int]:
    """Add the nodes of a kind, down to the output; the shape of its noise is returned, empty if it takes none."""
    if isinstance(policy, ChosenPolicy):
        action, noise = _chosen(graph, policy, seen, sample=sample)
    elif isinstance(policy, GaussianPolicy) and sample:
        action, noise = _sampled(graph, policy, seen), [policy.action_size]
    elif sample:
        raise InputError(
            "this policy does not sample: it has one action for each observation",
            where=f"a policy of the kind {policy.kind}",
            expected="a policy of the kind gaussian or chosen",
            fix="leave --sample out",
        )
    else:
        action, noise = _deterministic(graph, network_of(policy, "an ONNX graph"), seen), []
    graph.node("Add", action, _mark(graph, policy, seen), to=ACTION)
    return noise


def network_of(policy: Policy, what: str) -> MLPPolicy:
    """A policy that acts without chance and is one network; others are refused in words."""
    if isinstance(policy, MLPPolicy):
        return policy
    if isinstance(policy, GaussianPolicy):
        weights, biases = policy.layers
        size = policy.action_size
        means = Layers((*weights[:-1], weights[-1][:, :size]), (*biases[:-1], biases[-1][:size]))
        return MLPPolicy(policy.space, means)
    reasons = {
        "nearest": "it looks up stored states, which no plain layers do",
        "planner": "it makes a plan in many steps of denoising, and remembers it from one action to the next",
        "chosen": "it draws many actions and takes the one that its critic values most",
    }
    raise InputError(
        f"this policy cannot become {what}: {reasons.get(policy.kind, 'its kind is not known to the export')}",
        where=f"a policy of the kind {policy.kind}",
        expected="a policy that is a network: mlp or gaussian" + ("; for ONNX also chosen" * (policy.kind == "chosen")),
        fix="export it with --format onnx" if policy.kind == "chosen" else "train an algorithm whose policy is one",
    )


def _seen(graph: Graph, space: Space) -> str:
    """(s - mean) / scale, [B, S]."""
    mean, scale = space.normaliser.mean, space.normaliser.scale
    return graph.node("Div", graph.node("Sub", OBSERVATION, graph.constant(mean)), graph.constant(scale))


def _mark(graph: Graph, policy: Policy, seen: str) -> str:
    """NaN in rows whose observation is not finite, else 0, [B, A].

    Such an observation is refused in Python. A graph cannot refuse, and some runtimes make a plausible number of NaN.
    """
    ones = np.ones((policy.observation_size, policy.action_size), np.float32)
    return graph.node("MatMul", graph.node("Sub", seen, seen), graph.constant(ones))


def _network(graph: Graph, layers: Layers, hidden: str, activation: Activation = "relu") -> str:
    """Affine layers with a nonlinearity between them, none after the last."""
    between = {"relu": "Relu", "tanh": "Tanh"}[activation]
    for index, (weight, bias) in enumerate(zip(*layers, strict=True)):
        hidden = graph.node(between, hidden) if index else hidden
        hidden = graph.node("Gemm", hidden, graph.constant(weight), graph.constant(bias))
    return hidden


def _deterministic(graph: Graph, policy: MLPPolicy, seen: str) -> str:
    raw = _network(graph, policy.layers, seen, policy.activation)
    if policy.output == "tanh":
        return _onto_bounds(graph, graph.node("Tanh", raw), policy.space)
    low, high = (graph.constant(bound) for bound in policy.space[1:])
    return graph.node("Max", graph.node("Min", raw, high), low)


def _sampled(graph: Graph, policy: GaussianPolicy, seen: str) -> str:
    """tanh(mean + std noise), with the noise as an input: standard normal numbers, [B, A]."""
    output, size = _network(graph, policy.layers, seen), policy.action_size
    mean, log_std = (_columns(graph, output, start, start + size) for start in (0, size))
    clipped = graph.node("Clip", log_std, *map(graph.constant, policy.log_std_range))
    push = graph.node("Mul", graph.node("Exp", clipped), NOISE)
    return _onto_bounds(graph, graph.node("Tanh", graph.node("Add", mean, push)), policy.space)


def _columns(graph: Graph, matrix: str, start: int, stop: int) -> str:
    return graph.node("Slice", matrix, *(graph.constant([number], np.int64) for number in (start, stop, 1)))


def _onto_bounds(graph: Graph, share: str, space: Space) -> str:
    """From [-1, 1] linearly onto the bounds."""
    part = graph.node("Mul", graph.node("Add", share, graph.constant(1.0)), graph.constant(0.5))
    width: Float32s = space.action_high - space.action_low
    return graph.node("Add", graph.constant(space.action_low), graph.node("Mul", part, graph.constant(width)))


def _chosen(graph: Graph, policy: ChosenPolicy, seen: str, *, sample: bool) -> tuple[str, list[int]]:
    """Of K decoded and corrected actions the one of greatest value, and the shape of the noise, [K, Z].

    Without `sample` the noise is that of seed 0, as in Python for one observation; every row gets the same.
    """
    shape, size = [policy.samples, policy.latent_size], policy.observation_size
    fixed = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    noise = NOISE if sample else graph.constant(fixed[None])
    limits = [graph.constant(sign * policy.latent_clip) for sign in (-1, 1)]
    a = graph.node("Tanh", _of_each(graph, policy.decoder, seen, size, graph.node("Clip", noise, *limits)))
    correction = graph.node("Tanh", _of_each(graph, policy.correction, seen, size, a))
    moved = graph.node("Add", a, graph.node("Mul", correction, graph.constant(policy.reach)))
    a = graph.node("Clip", moved, graph.constant(-1.0), graph.constant(1.0))
    value = graph.node("Squeeze", _of_each(graph, policy.critic, seen, size, a), graph.constant([2], np.int64))
    best = graph.node("ArgMax", value, axis=1, keepdims=1)
    return _onto_bounds(graph, graph.node("GatherND", a, best, batch_dims=1), policy.space), shape if sample else []


def _of_each(graph: Graph, layers: Layers, s: str, size: int, many: str) -> str:
    """The outputs on [s, x] for every x of `many`, [B, K, X]; the first layer multiplies s, `size` numbers, once."""
    first = layers.weights[0]
    shared = graph.node("Gemm", s, graph.constant(first[:size]), graph.constant(layers.biases[0]))
    shared = graph.node("Unsqueeze", shared, graph.constant([1], np.int64))
    hidden = graph.node("Add", graph.node("MatMul", many, graph.constant(first[size:])), shared)
    for weight, bias in zip(layers.weights[1:], layers.biases[1:], strict=True):
        hidden = graph.node("MatMul", graph.node("Relu", hidden), graph.constant(weight))
        hidden = graph.node("Add", hidden, graph.constant(bias))
    return hidden
