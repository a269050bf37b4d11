#!/usr/bin/python3
"""A norm, two linear layers and all gradients in NumPy, written from the formulas alone; that of
the norm by its Jacobian, row by row. Reads files of named tensors (one line each: name, values) and
exits 1 when an output differs.

usage: independent_norm_mlp.py FILE...
"""
import sys

import numpy as np


def read(path):
    tensors = {}
    with open(path) as lines:
        for line in lines:
            name, *values = line.split()
            tensors[name] = np.array([float(value) for value in values])
    return tensors


def jacobian(x, is_layer, epsilon):
    """of the normalised x with respect to x"""
    count = len(x)
    centring = np.eye(count) - (1 / count if is_layer else 0)
    distance = centring @ x
    variance = distance @ distance / count + epsilon
    return (np.eye(count) / np.sqrt(variance)
            - np.outer(distance, distance) / count / variance**1.5) @ centring


def norm_mlp(t, is_layer, epsilon):
    x = t["x"]
    mean = x.mean(1, keepdims=True) if is_layer else 0
    spread = np.mean((x - mean)**2, axis=1, keepdims=True)
    unit = (x - mean) / np.sqrt(spread + epsilon)
    z = unit * t["gamma"] + (t["beta"] if is_layer else 0)
    h = z @ t["w1"]
    dh = t["dy"] @ t["w2"].T
    dz = dh @ t["w1"].T
    rows = [jacobian(row, is_layer, epsilon).T @ (dz[i] * t["gamma"]) for i, row in enumerate(x)]
    out = {"y": h @ t["w2"], "dx": np.array(rows), "dgamma": (dz * unit).sum(0),
           "dw1": z.T @ dh, "dw2": h.T @ t["dy"]}
    if is_layer:
        out["dbeta"] = dz.sum(0)
    return out


def shaped(t, tokens, features, hidden, outputs):
    shapes = {"x": (tokens, features), "w1": (features, hidden), "w2": (hidden, outputs),
              "dy": (tokens, outputs)}
    return {name: value.reshape(shapes.get(name, value.shape)) for name, value in t.items()}


def differs(path):
    tensors = read(path)
    *extents, is_layer, epsilon = tensors.pop("problem")
    given = shaped(tensors, *[int(extent) for extent in extents])
    worst = 0.0
    for key, value in norm_mlp(given, is_layer == 1, epsilon).items():
        scale = np.abs(value).max(initial=0) + 1e-300
        worst = max(worst, np.abs(value.ravel() - tensors[key]).max(initial=0) / scale)
    if worst < 1e-12:
        return False
    print(f"{path}: differs by {worst} of the largest element")
    return True


if __name__ == "__main__":
    sys.exit(any([differs(path) for path in sys.argv[1:]]))
