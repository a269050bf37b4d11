#!/usr/bin/python3
"""Compares the reference's attention bounds with those of an independent prototype.

usage: compare_with_prototype.py --prototype numerics_proto.py --tests reference_tests

Runs the tests' dump (environment variable ATTENTION_DUMP), feeds the same inputs and contracts to
the prototype's attn_ref and attn_bounds, and prints, per tensor, how ours / theirs is distributed.

Where the two differ deliberately:
 * lse: the worst case is log(1 + sum P (e^D - 1)), not its first order sum P D; likewise for T2.
 * terms of underflow and truncation are bounded by sum * largest instead of an exact product:
   larger for data=tiny and for truncating accumulators.
 * coherent operand roundings (tf32) also reach dk and dv through lse and delta of other keys.
 * the softmax part of out never exceeds the range of the visible values.
 * errors of dq, dk, dv grow with the factor by which P may be off when recomputed from lse:
   visible only where lse is stored in 16 bits.
 * underflow of dS when it is stored counts once; the prototype adds it twice.
 * softcap: the largest slope within the score's error; the last underflow comes after it.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np

import independent_attention


def load(path):
    spec = importlib.util.spec_from_file_location("prototype", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_cases(path):
    case = None
    with open(path) as lines:
        for line in lines:
            words = line.split()
            if words[0] == "problem":
                if case:
                    yield case
                data = words.pop().split("=")[1]
                case = {"problem": independent_attention.parse_problem(" ".join(words)),
                        "data": data, "queries": [], "keys": [], "tensor": {}, "worst": {},
                        "likely": {}}
            elif words[0] == "contract":
                case["contract"] = dict(word.split("=") for word in words[1:])
            elif words[0] in ("queries", "keys"):
                case[words[0]].append(np.array([int(word) for word in words[1:]]))
            else:
                case[words[0]][words[1]] = np.array([float(x) for x in next(lines).split()])
        if case:
            yield case


def prototype_contract(proto, fields):
    fmt = {name: proto.FMT[fields[name]]
           for name in ("io", "score", "p", "ds", "osave", "lse", "blk", "gq", "gkv")}
    operand = proto.FMT[fields["operand"]]
    if fields["io"] == "f32" and operand.p < fmt["io"].p:
        fmt["mma"] = operand
    return proto.C(ring=fields["ring"], rz=fields["rz"] == "1", ntile=int(fields["ntile"]), **fmt)


def prototype_bounds(proto, case):
    p = case["problem"]
    heads, queries, keys = p["heads"], p["q"], p["kv"]
    t = case["tensor"]
    # Query heads stacked on top of each other.
    stack = lambda x, width: x.reshape(queries, heads, width).transpose(1, 0, 2).reshape(-1, width)
    mask = np.array([independent_attention.visible_keys(p, 0, i) for i in range(queries)])
    mask = np.tile(mask, (heads, 1))
    bias = None
    if p["bias"] == "dense":
        bias = t["bias"].reshape(heads * queries, keys)
    elif p["bias"] == "alibi":
        exponents = [-8 * (h + 1) / heads for h in range(heads)]
        slopes = [independent_attention.to_bf16(2.0 ** exponent) for exponent in exponents]
        distance = np.abs(np.arange(queries)[:, None] - np.arange(keys)[None])
        bias = np.concatenate([-slope * distance for slope in slopes])
    # Keys that nobody sees must not count as duplicates: zero rows do not.
    seen = mask.any(0)[:, None]
    r = proto.attn_ref(stack(t["q"], p["dim"]), t["k"].reshape(keys, -1) * seen,
                       t["v"].reshape(keys, -1) * seen, stack(t["dout"], p["dim_v"]), p["scale"],
                       mask, bias, p["softcap"])
    # Per ring block the rows of all heads.
    blocks = [np.concatenate([h * queries + block for h in range(heads)])
              for block in case["queries"]]
    # One ring block has no travelling gradient whose type could differ from the output's.
    single = len(blocks) == 1
    bounds = proto.attn_bounds(r, prototype_contract(proto, case["contract"]), 6.0, heads,
                               case["keys"], None if single else blocks)
    back = lambda x, width: x.reshape(heads, queries, width).transpose(1, 0, 2).ravel()
    result = {}
    for kind, field in (("worst", "T1"), ("likely", "T2")):
        get = lambda name: np.asarray(getattr(bounds[name], field))
        result[kind] = {"O": back(get("O"), p["dim_v"]), "lse": np.where(r["dead"], 0, get("lse")),
                        "dQ": back(get("dQ"), p["dim"]), "dK": get("dK").ravel(),
                        "dV": get("dV").ravel()}
    return result


def special(case):
    """Why a case's bounds may differ from the prototype's by more than rounding, or ''."""
    contract = case["contract"]
    if case["data"] == "tiny":
        return "tiny"
    if contract["rz"] == "1":
        return "truncating"
    if contract["lse"] in ("bf16", "f16"):
        return "16-bit lse"
    if contract["operand"] == "tf32" and contract["io"] in ("f32", "tf32"):
        return "tf32 operands"
    if case["data"] in ("ramped", "huge") or contract["score"] in ("bf16", "f16"):
        return "large score errors"
    if contract["io"] == "f16":
        return "f16 underflow"
    return ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--prototype", required=True)
    arguments.add_argument("--tests", required=True)
    options = arguments.parse_args()
    proto = load(options.prototype)
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "cases")
        subprocess.run([options.tests, "--gtest_filter=AttentionDump.*"], check=True,
                       env=dict(os.environ, ATTENTION_DUMP=dump), stdout=subprocess.DEVNULL)
        for case in read_cases(dump):
            theirs = prototype_bounds(proto, case)
            for kind in ("worst", "likely"):
                for name, values in case[kind].items():
                    other = theirs[kind][name]
                    known = np.isfinite(values) & (values > 0) & (other > 0)
                    key = (special(case) or "plain", kind, name)
                    ratios.setdefault(key, []).append(values[known] / other[known])
    print("ours / prototype           elements      min      1 %   median     99 %      max"
          "  within 5 %")
    for key in sorted(ratios):
        x = np.concatenate(ratios[key])
        if not x.size:
            continue
        print("%-18s %-6s %-4s %8d %8.3f %8.3f %8.3f %8.3f %8.3f %8.1f %%" % (
            key + (x.size, x.min(), *np.percentile(x, [1, 50, 99]), x.max(),
                   100 * np.mean(np.abs(x - 1) < 0.05))))


if __name__ == "__main__":
    sys.exit(main())
