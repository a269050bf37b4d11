#!/usr/bin/python3
"""Attention and its gradients in NumPy, written from the definition and from nothing else.

usage: independent_attention.py PROBLEMS RESULTS

PROBLEMS holds one problem after another: a line "problem key=value ...", then for each tensor a
line "tensor NAME" and a line with its values in row-major order. RESULTS gets "problem" and the
tensors out, lse, dq, dk, dv (and dbias, dsink) of each, in the same form. The gradients go through
the Jacobian matrix of the softmax, one query at a time.
"""
import sys

import numpy as np

MASK = (1 << 64) - 1


def mix(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def documents(length, tokens):
    """The document of every token: packed documents of length, length+1, length+2, length, ..."""
    result = []
    document = 0
    while len(result) < tokens:
        result += [document] * (length + document % 3)
        document += 1
    return np.array(result[:tokens], dtype=int)


def visible_keys(problem, batch, query):
    """A boolean for every key."""
    queries, keys = problem["q"], problem["kv"]
    a, b = problem["a"], problem["b"]
    key = np.arange(keys)
    kind = problem["mask"]
    if kind == "none":
        return np.ones(keys, bool)
    if kind == "causal":
        return key <= query
    if kind == "causal_bottom_right":
        return key <= query + keys - queries
    if kind == "window":
        return (query - a <= key) & (key <= query + b)
    if kind == "prefix":
        return (key < a) | (key <= query)
    if kind == "documents":
        of = documents(a, max(queries, keys))
        same = of[:keys] == of[query]
        return same & (key <= query) if b else same
    if kind == "padding":
        return key < a - batch
    if kind == "random":
        first = (batch * queries + query) * keys
        base = mix(problem["seed"])
        draws = [mix((base + first + int(k)) & MASK) % 100 for k in key]
        return np.array(draws, dtype=int) < a
    if kind == "blind":
        return np.full(keys, not a <= query < a + b)
    raise ValueError("unknown mask " + kind)


def kept_keys(problem, batch, head, query, keys):
    """0 or 1 / (1 - dropout) for every key."""
    dropout = problem["dropout"]
    bits = mix((problem["seed"] + 1) & MASK)
    for coordinate in (batch, head, query):
        bits = mix((bits + coordinate + 1) & MASK)
    draws = np.array([(mix((bits + int(key) + 1) & MASK) >> 11) * 2.0**-53 for key in keys])
    return (draws >= dropout) / (1 - dropout)


def turned(problem, tensor, offset):
    """Rotary positions: complex numbers [batch, token, head, pair], each turned by its angle."""
    tokens, dim = tensor.shape[1], tensor.shape[3]
    position = np.arange(tokens)
    if problem["positions"] in ("offset", "cached"):
        position = position + offset
    if problem["positions"] == "documents":
        of = documents(problem["a"], tokens)
        position = position - np.searchsorted(of, of)
    if problem["positions"] == "permuted":
        position = position // 8 * 8 + np.array([5, 4, 7, 6, 1, 0, 3, 2])[position % 8]
    frequency = problem["rotary"] ** (-np.arange(0, dim, 2) / dim)
    angle = np.outer(position, frequency)[None, :, None, :]
    pairs = (tensor[..., 0::2] + 1j * tensor[..., 1::2]) * np.exp(1j * angle)
    result = np.empty(tensor.shape)
    result[..., 0::2], result[..., 1::2] = pairs.real, pairs.imag
    return result


def turn_gradient(problem, gradient, offset):
    """The gradient of the input of turned(), a linear map: its transpose, column by column."""
    dim = gradient.shape[3]
    result = np.empty(gradient.shape)
    for d in range(dim):
        unit = np.zeros(gradient.shape)
        unit[..., d] = 1
        result[..., d] = (gradient * turned(problem, unit, offset)).sum(axis=-1)
    return result


def rotary_attention(problem, t):
    if not problem["rotary"]:
        return attention(problem, t)
    query_offset = problem["offset"]
    key_offset = query_offset if problem["positions"] == "offset" else 0
    inner = dict(t)
    inner["q"] = turned(problem, t["q"], query_offset)
    inner["k"] = turned(problem, t["k"], key_offset)
    results = attention(problem, inner)
    results["dq"] = turn_gradient(problem, results["dq"], query_offset)
    results["dk"] = turn_gradient(problem, results["dk"], key_offset)
    return results


def to_bf16(value):
    bits = int(np.float32(value).view(np.uint32))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def attention(problem, t):
    heads, kv_heads = problem["heads"], problem["kv_heads"]
    scale = problem["scale"] or 1 / np.sqrt(problem["dim"])
    cap = problem["softcap"]
    out = np.zeros(t["dout"].shape)
    lse = np.full(t["dlse"].shape, -np.inf)
    dq, dk, dv = np.zeros(t["q"].shape), np.zeros(t["k"].shape), np.zeros(t["v"].shape)
    dbias = np.zeros((heads, problem["q"], problem["kv"]))
    dsink = np.zeros(heads)
    for batch in range(problem["batch"]):
        for head in range(heads):
            group = head // (heads // kv_heads)
            for query in range(problem["q"]):
                seen = np.flatnonzero(visible_keys(problem, batch, query))
                if len(seen) == 0:
                    if problem["sink"]:
                        lse[batch, head, query] = t["sink"][head]
                        dsink[head] += t["dlse"][batch, head, query]
                    continue
                q = t["q"][batch, query, head]
                k = t["k"][batch, seen, group]
                v = t["v"][batch, seen, group]
                dout = t["dout"][batch, query, head]
                x = scale * (k @ q)
                y = cap * np.tanh(x / cap) if cap else x
                slope = 1 / np.cosh(x / cap) ** 2 if cap else np.ones(len(seen))
                if problem["bias"] == "alibi":
                    exponent = -8 * (head + 1) / heads
                    y = y - to_bf16(2.0 ** exponent) * np.abs(query - seen)
                if problem["bias"] == "dense":
                    y = y + t["bias"][head, query, seen]
                if problem["sink"]:  # one more key, with the value 0
                    y = np.append(y, t["sink"][head])
                    v = np.vstack([v, np.zeros(v.shape[1])])
                lse[batch, head, query] = np.logaddexp.reduce(y)
                p = np.exp(y - lse[batch, head, query])
                m = kept_keys(problem, batch, head, query, seen)
                if problem["sink"]:
                    m = np.append(m, 0)
                out[batch, query, head] = (m * p) @ v
                jacobian = np.diag(p) - np.outer(p, p)
                dy = jacobian @ (m * (v @ dout)) + p * t["dlse"][batch, head, query]
                if problem["sink"]:
                    dsink[head] += dy[-1]
                    p, dy, m = p[:-1], dy[:-1], m[:-1]
                dx = dy * slope
                dq[batch, query, head] = scale * (dx @ k)
                dk[batch, seen, group] += scale * np.outer(dx, q)
                dv[batch, seen, group] += np.outer(m * p, dout)
                dbias[head, query, seen] += dy
    results = {"out": out, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
    if problem["bias"] == "dense":
        results["dbias"] = dbias
    if problem["sink"]:
        results["dsink"] = dsink
    return results


def shapes(p):
    return {
        "q": (p["batch"], p["q"], p["heads"], p["dim"]),
        "k": (p["batch"], p["kv"], p["kv_heads"], p["dim"]),
        "v": (p["batch"], p["kv"], p["kv_heads"], p["dim_v"]),
        "bias": (p["heads"], p["q"], p["kv"]),
        "sink": (p["heads"],),
        "dout": (p["batch"], p["q"], p["heads"], p["dim_v"]),
        "dlse": (p["batch"], p["heads"], p["q"]),
    }


def parse_problem(line):
    problem = {}
    for entry in line.split()[1:]:
        key, value = entry.split("=")
        if key in ("mask", "bias", "positions"):
            problem[key] = value
        elif key in ("scale", "softcap", "dropout", "rotary"):
            problem[key] = float(value)
        else:
            problem[key] = int(value)
    return problem


def read_problems(path):
    with open(path) as lines:
        problem, tensors = None, {}
        for line in lines:
            if line.startswith("problem"):
                if problem:
                    yield problem, tensors
                problem, tensors = parse_problem(line), {}
            elif line.startswith("tensor"):
                name = line.split()[1]
                values = np.array([float(x) for x in next(lines).split()])
                tensors[name] = values.reshape(shapes(problem)[name])
        if problem:
            yield problem, tensors


def main():
    with open(sys.argv[2], "w") as results:
        for problem, tensors in read_problems(sys.argv[1]):
            results.write("problem\n")
            for name, values in rotary_attention(problem, tensors).items():
                text = " ".join("%.17g" % value for value in values.ravel())
                results.write("tensor %s\n%s\n" % (name, text))


if __name__ == "__main__":
    main()
