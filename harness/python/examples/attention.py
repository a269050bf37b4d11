"""Attention in NumPy, forward and backward: python attention.py"""

import numpy
import shardproof


@shardproof.attention(precision=("f32", "f64"), hidden_may_be_nan=0)
def numpy_attention(q, k, v, *, mask, scale):
    """softmax(scale q k^T) v in NumPy"""
    k, v = (numpy.repeat(each, q.shape[2] // k.shape[2], axis=2) for each in (k, v))
    z = numpy.einsum("bihd,bjhd->bhij", q, k) * q.dtype.type(scale)
    z = numpy.where(mask, z, -numpy.inf)
    top = z.max(axis=-1, keepdims=True)
    p = numpy.exp(z - numpy.where(top == -numpy.inf, 0, top))
    total = p.sum(axis=-1)
    lse = numpy.where(total == 0, -numpy.inf, top[..., 0] + numpy.log(total))
    out = numpy.einsum("bhij,bjhd->bihd", p / numpy.where(total == 0, 1, total)[..., None], v)
    return out, lse


@numpy_attention.backward
def gradients(q, k, v, out, lse, dout, delta, *, mask, scale):
    group = q.shape[2] // k.shape[2]
    all_k, all_v = (numpy.repeat(each, group, axis=2) for each in (k, v))
    z = numpy.einsum("bihd,bjhd->bhij", q, all_k) * q.dtype.type(scale)
    p = numpy.where(mask, numpy.exp(z - lse[..., None]), 0)
    ds = p * (numpy.einsum("bihd,bjhd->bhij", dout, all_v) - delta[..., None])
    ds = numpy.where(mask, ds, 0)  # P is 0 there, whatever the rest is
    dq = numpy.einsum("bhij,bjhd->bihd", ds, all_k) * q.dtype.type(scale)
    dk = numpy.einsum("bhij,bihd->bjhd", ds, q) * q.dtype.type(scale)
    dv = numpy.einsum("bhij,bihd->bjhd", p, dout)
    per_kv_head = (*k.shape[:3], group, -1)
    return dq, dk.reshape(per_kv_head).sum(axis=3), dv.reshape(per_kv_head).sum(axis=3)


if __name__ == "__main__":
    shardproof.fuzz(numpy_attention, time="30s")
