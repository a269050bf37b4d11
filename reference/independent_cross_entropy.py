#!/usr/bin/python3
"""The next-word loss and its gradient in NumPy, written from the formulas alone. Reads files of
named tensors (one line each: name, values) and exits 1 when an output differs.

usage: independent_cross_entropy.py FILE...
"""
import sys

import numpy as np
from scipy.special import log_softmax, logsumexp


def read(path):
    tensors = {}
    with open(path) as lines:
        for line in lines:
            name, *values = line.split()
            tensors[name] = np.array([float(value) for value in values])
    return tensors


def cross_entropy(t, batch, tokens, vocab, padding, smoothing):
    logits = t["logits"].reshape(batch, tokens, vocab + padding)[:, :, :vocab]
    labels = np.full((batch, tokens), -1)
    labels[:, :-1] = t["ids"].reshape(batch, tokens)[:, 1:]
    valid = labels >= 0
    q = (1 - smoothing) * (labels[:, :, None] == np.arange(vocab)) + smoothing / vocab
    log_p = log_softmax(logits, axis=2)
    loss = np.where(valid, -(q * log_p).sum(2), 0)
    count = valid.sum()
    upstream = t["dloss"].reshape(batch, tokens) + (t["dmean"][0] / count if count else 0)
    gradient = np.zeros((batch, tokens, vocab + padding))
    gradient[:, :, :vocab] = (np.exp(log_p) - q) * (upstream * valid)[:, :, None]
    return {"loss": loss, "lse": logsumexp(logits, axis=2), "dlogits": gradient,
            "mean": np.array([loss.sum() / count if count else 0])}


def differs(path):
    tensors = read(path)
    *extents, smoothing = tensors.pop("problem")
    extents = [int(extent) for extent in extents]
    worst = 0.0
    for key, value in cross_entropy(tensors, *extents, smoothing).items():
        scale = np.abs(value).max(initial=0) + 1e-300
        worst = max(worst, np.abs(value.ravel() - tensors[key]).max(initial=0) / scale)
    if worst < 1e-12:
        return False
    print(f"{path}: differs by {worst} of the largest element")
    return True


if __name__ == "__main__":
    sys.exit(any([differs(path) for path in sys.argv[1:]]))
