#!/usr/bin/python3
"""The mlp and all its gradients in NumPy, written from the formulas alone. Reads files of named
tensors (one line each: name, values) and exits 1 when an output differs.

usage: independent_mlp.py FILE...
"""
import sys

import numpy as np
from scipy.special import erf


def read(path):
    tensors = {}
    with open(path) as lines:
        for line in lines:
            name, *values = line.split()
            tensors[name] = np.array([float(value) for value in values])
    return tensors


def activation(name, z):
    """act(z) and act'(z)"""
    if name == "relu":
        return np.maximum(z, 0), np.where(z > 0, 1.0, 0.0)
    if name == "gelu":
        cumulative = 0.5 * (1 + erf(z / np.sqrt(2)))
        return z * cumulative, cumulative + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    if name == "gelu_tanh":
        t = np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))
        inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z * z)
        return 0.5 * z * (1 + t), 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * inner
    s = 1 / (1 + np.exp(-z))
    return z * s, s + z * s * (1 - s)


def mlp(t, name, gated):
    z = t["x"] @ t["w1"] + t["b1"]
    act, slope = activation(name, z)
    up = t["x"] @ t["wg"] + t["bg"] if gated else np.ones_like(z)
    a = act * up
    da = t["dy"] @ t["w2"].T
    dz = da * up * slope
    out = {"y": a @ t["w2"] + t["b2"], "dw2": a.T @ t["dy"], "db2": t["dy"].sum(0),
           "dw1": t["x"].T @ dz, "db1": dz.sum(0), "dx": dz @ t["w1"].T}
    if gated:
        dup = da * act
        out["dwg"], out["dbg"] = t["x"].T @ dup, dup.sum(0)
        out["dx"] = out["dx"] + dup @ t["wg"].T
    return out


def shaped(t, tokens, features, hidden, outputs):
    shapes = {"x": (tokens, features), "w1": (features, hidden), "wg": (features, hidden),
              "w2": (hidden, outputs), "dy": (tokens, outputs)}
    return {name: value.reshape(shapes.get(name, value.shape)) for name, value in t.items()}


def differs(path):
    tensors = read(path)
    tokens, features, hidden, outputs, kind, gated = tensors.pop("problem").astype(int)
    name = ("relu", "gelu", "gelu_tanh", "silu")[kind]
    given = shaped(tensors, tokens, features, hidden, outputs)
    worst = 0.0
    for key, value in mlp(given, name, gated).items():
        scale = np.abs(value).max(initial=0) + 1e-300
        worst = max(worst, np.abs(value.ravel() - tensors[key]).max(initial=0) / scale)
    if worst < 1e-12:
        return False
    print(f"{name} gated={gated}: differs by {worst} of the largest element")
    return True


if __name__ == "__main__":
    sys.exit(any([differs(path) for path in sys.argv[1:]]))
