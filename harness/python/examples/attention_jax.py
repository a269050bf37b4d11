"""JAX's own attention, forward and backward, validated: python3 attention_jax.py"""

import jax

import shardproof


@shardproof.attention(autodiff="jax", blind_rows=False, limits=("same_dims",))
def jax_dot_product_attention(q, k, v, *, mask, scale):
    """jax.nn.dot_product_attention; it gives rows that see no key the mean of all values"""
    return jax.nn.dot_product_attention(q, k, v, mask=mask[:, None], scale=scale)


if __name__ == "__main__":
    print("holds" if shardproof.fuzz(jax_dot_product_attention, time="30s").ok else "is wrong")
