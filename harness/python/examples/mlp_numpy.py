"""An mlp in NumPy, the forward pass alone, validated: python3 mlp_numpy.py"""

import math

import numpy
import shardproof

erfc = numpy.vectorize(math.erfc, otypes=["f8"])


def activate(activation, z):
    if activation == "relu":
        return numpy.where(z <= 0, 0, z).astype(z.dtype)
    if activation == "gelu":
        return z * (erfc(-z / math.sqrt(2)) / 2).astype(z.dtype)
    if activation == "silu":
        return z / (1 + numpy.exp(-z))
    c = z.dtype.type(0.7978845608028654)
    return z * (1 + numpy.tanh(c * (z + z.dtype.type(0.044715) * z * z * z))) / 2


@shardproof.mlp(dtypes=("f32", "f64"), gated=True)
def numpy_mlp(x, w1, b1, w2, b2, *, activation, wg, bg):
    """act(x w1 + b1) w2 + b2 in NumPy"""
    a = activate(activation, x @ w1 + b1)
    return (a if wg is None else a * (x @ wg + bg)) @ w2 + b2


if __name__ == "__main__":
    print("holds" if shardproof.fuzz(numpy_mlp, time="10s").ok else "is wrong")
