"""Subjects for the tests: right ones, wrong ones and ones that do not come to an end."""

import ctypes
import importlib.util
import os
import time

import numpy as np

import shardproof


def softmax_attention(q, k, v, mask, scale):
    group = np.arange(q.shape[2]) * k.shape[2] // max(q.shape[2], 1)
    scores = scale * np.einsum("bihd,bjhd->bhij", q, k[:, :, group])
    scores = np.where(mask[:, None], scores, -np.inf)
    top = scores.max(axis=3, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    sums = weights.sum(axis=3, keepdims=True)
    out = np.einsum("bhij,bjhd->bihd", weights / np.where(sums > 0, sums, 1), v[:, :, group])
    return out, (np.log(sums) + top)[..., 0]


@shardproof.attention(dtypes=("f32", "f64"))
def right(q, k, v, *, mask, scale):
    return softmax_attention(q, k, v, mask, scale)


@shardproof.attention
def first_key_lost(q, k, v, *, mask, scale):
    seen = mask.copy()
    if mask.shape[2] > 3:
        seen[:, :, 0] = False
    return softmax_attention(q, k, v, seen, scale)


@shardproof.attention
def wrong_backward(q, k, v, *, mask, scale):
    return softmax_attention(q, k, v, mask, scale)


@wrong_backward.backward
def wrong_backward_gradients(q, k, v, out, lse, dout, dlse, *, mask, scale):
    return np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)


@shardproof.attention
def blind_rows_are_nan(q, k, v, *, mask, scale):
    out, lse = softmax_attention(q, k, v, mask, scale)
    out[~mask.any(axis=2)] = np.nan
    return out, lse


@shardproof.attention(blind_rows=False)
def blind_rows_are_kept_away(q, k, v, *, mask, scale):
    assert mask.shape[2] == 0 or mask.any(axis=2).all()
    return softmax_attention(q, k, v, mask, scale)


@shardproof.attention(repeat_kv=True)
def equal_heads(q, k, v, *, mask, scale):
    assert q.shape[2] == k.shape[2] == v.shape[2]
    return softmax_attention(q, k, v, mask, scale)


@shardproof.attention
def raises(q, k, v, *, mask, scale):
    raise KeyError("no such head")


@shardproof.attention
def exits(q, k, v, *, mask, scale):
    os._exit(3)


@shardproof.attention
def crashes(q, k, v, *, mask, scale):
    ctypes.string_at(0)


@shardproof.attention
def hangs(q, k, v, *, mask, scale):
    time.sleep(1000)


@shardproof.attention
def writes_to_its_inputs(q, k, v, *, mask, scale):
    result = softmax_attention(q, k, v, mask, scale)
    k[...] = 7
    return result


@shardproof.attention(limits=("same_dims", "same_heads", "same_lengths", "dims_of_8"))
def only_the_plainest(q, k, v, *, mask, scale):
    assert q.shape == k.shape == v.shape and q.shape[3] % 8 == 0
    return softmax_attention(q, k, v, mask, scale)


HAS_BF16 = importlib.util.find_spec("ml_dtypes") is not None


@shardproof.mlp(gated=True, dtypes=("f32", "f64", *(["bf16"] if HAS_BF16 else [])))
def mlp_in_float64(x, w1, b1, w2, b2, *, activation, wg, bg):
    from shardproof._mlp import _activation
    x, w1, b1, w2, b2 = (np.asarray(a, np.float64) for a in (x, w1, b1, w2, b2))
    with np.errstate(all="ignore"):
        a, _ = _activation(activation, x @ w1 + b1)
    if wg is not None:
        a = a * (x @ np.asarray(wg, np.float64) + np.asarray(bg, np.float64))
    return a @ w2 + b2


@shardproof.mlp
def mlp_without_bias(x, w1, b1, w2, b2, *, activation):
    from shardproof._mlp import _activation
    return (_activation(activation, x @ w1)[0] @ w2 + b2).astype(x.dtype)
