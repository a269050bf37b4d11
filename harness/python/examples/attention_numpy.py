"""Attention in NumPy, validated: python3 attention_numpy.py"""

import numpy as np

import shardproof


@shardproof.attention(precision="f32", dtypes=("f32", "f64"))
def attention_in_numpy(q, k, v, *, mask, scale):
    """softmax(scale q k^T) v with grouped heads; forward pass only"""
    group = np.arange(q.shape[2]) * k.shape[2] // max(q.shape[2], 1)
    scores = scale * np.einsum("bihd,bjhd->bhij", q, k[:, :, group])
    scores = np.where(mask[:, None], scores, -np.inf)
    top = scores.max(axis=3, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    sums = weights.sum(axis=3, keepdims=True)
    weights = weights / np.where(sums > 0, sums, 1)
    return np.einsum("bhij,bjhd->bihd", weights, v[:, :, group])


if __name__ == "__main__":
    print("holds" if shardproof.fuzz(attention_in_numpy, time="10s").ok else "is wrong")
