"""How an mlp function is called, and the gradients of one that gives none."""

import math

import numpy as np

from . import _autodiff

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


def _names(problem):
    return ["x", "w1", "b1", "w2", "b2"] + (["wg", "bg"] if problem["gated"] else [])


def _options(problem):
    return {"activation": ACTIVATIONS[problem["activation"]]}


def _call(subject, problem, arrays):
    named = _options(problem)
    if "gated" in subject.features:
        named["wg"], named["bg"] = arrays[5:] or (None, None)
    return subject.function(*arrays[:5], **named)


def forward(subject, problem, tensors):
    arrays = _autodiff.convert(subject, [tensors[name] for name in _names(problem)])
    tensors["y"][...] = _autodiff.array(_call(subject, problem, arrays))


def backward(subject, problem, tensors):
    names = _names(problem)
    arrays = [tensors[name] for name in names]
    if subject.backward_function is not None:
        named = _options(problem)
        if "gated" in subject.features:
            named["wg"], named["bg"] = arrays[5:] or (None, None)
        gradients = subject.backward_function(*arrays[:5], tensors["dy"], **named)
    elif subject.autodiff is not None:
        gradients, _ = _autodiff.gradients(
            subject, lambda *inputs: [_call(subject, problem, inputs)], arrays, (tensors["dy"],))
    else:
        gradients = exact_gradients(problem, dict(zip(names, arrays)), tensors["dy"])
    for name, gradient in zip(names, gradients):
        tensors["d" + name][...] = _autodiff.array(gradient)


def _activation(which, z):
    """(act(z), act'(z)) in float64."""
    if which == "relu":
        return np.maximum(z, 0), (z > 0).astype(np.float64)
    if which == "silu":
        s = 1 / (1 + np.exp(-z))
        return z * s, s * (1 + z * (1 - s))
    if which == "gelu":
        cdf = 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-z / math.sqrt(2))
        return z * cdf, cdf + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (z + 0.044715 * z ** 3))
    return 0.5 * z * (1 + t), (0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c *
                               (1 + 3 * 0.044715 * z * z))


def exact_gradients(problem, tensors, dy):
    """In float64, in the order of the inputs."""
    t = {name: np.asarray(array, np.float64) for name, array in tensors.items()}
    dy = np.asarray(dy, np.float64)
    with np.errstate(over="ignore"):
        act, slope = _activation(ACTIVATIONS[problem["activation"]], t["x"] @ t["w1"] + t["b1"])
    gate = t["x"] @ t["wg"] + t["bg"] if problem["gated"] else 1
    da = dy @ t["w2"].T
    dz = da * gate * slope
    dx = dz @ t["w1"].T
    gradients = [dx, t["x"].T @ dz, dz.sum(axis=0), (act * gate).T @ dy, dy.sum(axis=0)]
    if problem["gated"]:
        dgate = da * act
        gradients[0] = dx + dgate @ t["wg"].T
        gradients += [t["x"].T @ dgate, dgate.sum(axis=0)]
    return gradients
