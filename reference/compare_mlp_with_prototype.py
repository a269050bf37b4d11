#!/usr/bin/python3
"""Compares the reference's mlp bounds with those of an independent prototype.

usage: compare_mlp_with_prototype.py --prototype numerics_proto.py --tests reference_tests

Runs the tests' dump (environment variable MLP_DUMP), feeds the same inputs and contracts to the
prototype's mlp_ref and mlp_bounds, and prints, per tensor, how ours / theirs is distributed, for
the whole thresholds and, with the final rounding taken off, for what is inside them.

Where the two differ deliberately:
 * products of 16-bit and tf32 operands are exact in f32: no rounding of products there; and sums
   that are exact in any order have no error at all.
 * roundings to `middle` count half a unit of the rounded value, not u times its magnitude; relu of
   a stored z is not rounded again, nor is its gradient.
 * the curvature of the activation is its supremum within the error of z, not everywhere.
 * the two branches of a gated layer are one sum over twice as many hidden units in dx.
 * a product has one family, propagated errors and accumulation together.
 * relu within its kink counts linearly; library errors also cover the overflow of exp.
"""
import argparse
import importlib.util
import os
import subprocess
import tempfile

import numpy as np

import independent_mlp

TYPES = ("f64", "f32", "tf32", "bf16", "f16")
NAMES = {"y": "Y", "dx": "dX", "dw1": "dW1", "db1": "db1", "dwg": "dWu", "dbg": "dbu",
         "dw2": "dW2", "db2": "db2"}


def load(path):
    spec = importlib.util.spec_from_file_location("prototype", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prototype_bounds(proto, tensors):
    tokens, features, hidden, outputs, kind, gated = tensors["problem"].astype(int)
    io, middle, reduction, operand, _ = (TYPES[int(i)] if n < 4 else i
                                         for n, i in enumerate(tensors["contract"]))
    fields = {"io": proto.FMT[io], "mid": proto.FMT[middle], "comm": proto.FMT[reduction]}
    if proto.FMT[operand].p < proto.FMT[io].p:
        fields["mma"] = proto.FMT[operand]
    count = int(tensors["part_count"][0])
    parts = [np.flatnonzero(tensors["parts"] == part) for part in range(count)]
    contract = proto.C(t=count, **fields)
    given = independent_mlp.shaped(tensors, tokens, features, hidden, outputs)
    name = ("relu", "gelu", "gelu_tanh", "swiglu")[kind]
    gate = {"Wu": given["wg"], "bu": given["bg"]} if gated else {}
    reference = proto.mlp_ref(given["x"], given["w1"], given["b1"], given["w2"], given["b2"],
                              given["dy"], name, **gate)
    return contract, proto.mlp_bounds(reference, contract, proto.LAM, parts)


def compare(proto, path, ratios):
    tensors = independent_mlp.read(path)
    contract, bounds = prototype_bounds(proto, tensors)
    for ours, theirs in NAMES.items():
        if ours not in tensors:
            continue
        bound = bounds[theirs]
        want = np.abs(tensors[ours])
        narrow = contract.io.p < contract.acc.p
        for kind, total in (("worst", bound.T1), ("likely", bound.T2)):
            total, mine = total.ravel(), tensors[f"{ours}.{kind}"]
            usable = np.isfinite(mine) & (total > 0) & (mine > 0)
            rounding = proto.half_ulp(want, contract.io) if narrow else 0 * want
            inside = usable & (total > 1.05 * rounding)
            ratios.setdefault((ours, kind, "whole"), []).append((mine / total)[usable])
            ratios.setdefault((ours, kind, "inside"), []).append(
                ((mine - rounding) / np.where(inside, total - rounding, 1))[inside])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prototype", required=True)
    parser.add_argument("--tests", required=True)
    arguments = parser.parse_args()
    proto = load(arguments.prototype)
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.tests, "--gtest_filter=MlpDump.*"], check=True,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, MLP_DUMP=folder))
        for name in os.listdir(folder):
            compare(proto, os.path.join(folder, name), ratios)
    print("ours / theirs          smallest   10 %  median   90 %  largest")
    for key, lists in ratios.items():
        values = np.concatenate(lists)
        marks = np.quantile(values, (0, 0.1, 0.5, 0.9, 1)) if len(values) else [np.nan] * 5
        print(f"{key[0]:4} {key[1]:6} {key[2]:6} " + " ".join(f"{mark:9.3g}" for mark in marks))


if __name__ == "__main__":
    main()
