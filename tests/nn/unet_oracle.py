"""The networks of plans once more: float64, one number at a time, from the definitions of their layers."""

from typing import Any

import numpy as np

from stacq.core.types import Float64s

GROUPS = {2: 1, 4: 1, 8: 2, 16: 4, 32: 8, 64: 8, 128: 8, 256: 8}  # of so many channels


def f64(values: Any) -> Float64s:
    return np.asarray(values, np.float64)


def mish(x: Any) -> Float64s:
    return f64(x * np.tanh(np.log1p(np.exp(x))))


def conv(layer: Any, x: Float64s, stride: int = 1) -> Float64s:
    """y[o] = b + sum over k of x[stride o + k - width // 2] W[k], steps outside being 0."""
    kernel = f64(layer.kernel)
    width, _, outputs = kernel.shape
    found = np.zeros((-(-len(x) // stride), outputs))
    for place in range(len(found)):
        for k in range(width):
            step = stride * place + k - width // 2
            if 0 <= step < len(x):
                found[place] += x[step] @ kernel[k]
    return found if layer.bias is None else found + f64(layer.bias)


def transposed(layer: Any, x: Float64s) -> Float64s:
    """Every step is spread over four: y[2 i + k - 1] gets x[i] W[k]."""
    found = np.zeros((2 * len(x), layer.kernel.shape[2]))
    for i in range(len(x)):
        for k in range(4):
            if 0 <= 2 * i + k - 1 < len(found):
                found[2 * i + k - 1] += x[i] @ f64(layer.kernel)[k]
    return found + f64(layer.bias)


def norm(part: Any, x: Float64s, groups: int) -> Float64s:
    found, width = np.empty_like(x), x.shape[1] // groups
    for group in range(groups):
        columns = slice(group * width, (group + 1) * width)
        values = x[:, columns]
        found[:, columns] = (values - values.mean()) / np.sqrt(values.var() + 1e-5)
    return f64(found * f64(part.gain) + f64(part.bias))


def block(part: Any, x: Float64s) -> Float64s:
    y = conv(part.affine, x)
    return mish(norm(part.norm, y, GROUPS[y.shape[1]]))


def residual(part: Any, x: Float64s, time: Float64s) -> Float64s:
    y = block(part.first, x) + conv(part.time, mish(time)[None])
    return block(part.second, y) + (x if part.around is None else conv(part.around, x))


def attention(part: Any, x: Float64s) -> Float64s:
    """Four heads of 32: keys are a distribution over steps, which sums values up once for every query."""
    if part is None:
        return x
    y = np.stack([(row - row.mean()) / np.sqrt(row.var() + 1e-5) for row in x])
    inner = conv(part.inner, y * f64(part.norm.gain) + f64(part.norm.bias))
    heads = []
    for head in range(4):
        q, k, v = (inner[:, 128 * which + 32 * head : 128 * which + 32 * (head + 1)] for which in range(3))
        share = np.exp(k) / np.exp(k).sum(axis=0)
        heads.append(q / np.sqrt(32) @ (share.T @ v))
    return x + conv(part.outer, np.concatenate(heads, axis=1))


def embedding(layers: Any, t: float) -> Float64s:
    half = layers[0].kernel.shape[1] // 2
    rates = [10_000 ** (-k / (half - 1)) for k in range(half)]
    waves = [np.sin(t * rate) for rate in rates] + [np.cos(t * rate) for rate in rates]
    return f64(conv(layers[1], mish(conv(layers[0], f64(waves)[None])))[0])


def level(part: Any, x: Float64s, time: Float64s) -> Float64s:
    return f64(attention(part.attention, residual(part.second, residual(part.first, x, time), time)))


def denoised(net: Any, x: Any, t: float) -> Float64s:
    time, y, seen = embedding(net.time, t), f64(x), []
    for each in net.down:
        y = level(each, y, time)
        seen.append(y)
        y = y if each.resample is None else conv(each.resample, y, 2)
    y = residual(net.middle.second, attention(net.middle.attention, residual(net.middle.first, y, time)), time)
    for place, each in enumerate(net.up):
        y = transposed(each.resample, level(each, np.concatenate([y, seen[-1 - place]], axis=1), time))
    return conv(net.out, block(net.head, y))


def judged(net: Any, x: Any, t: float) -> float:
    time, y = embedding(net.time, t), f64(x)
    for each in net.down:
        y = conv(each.resample, level(each, y, time), 2)
    for part in net.narrow:
        y = conv(part.resample, residual(part.residual, y, time), 2)
    flat = np.concatenate([y.T.ravel(), time])
    return float(conv(net.head[1], mish(conv(net.head[0], flat[None])))[0, 0])
