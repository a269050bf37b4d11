"""shardproof judges Python functions: random shapes, masks and data, every output and gradient
against bounds that follow from what the function promises.

    import shardproof

    @shardproof.attention(precision="f32")
    def mine(q, k, v, *, mask, scale):
        ...
        return out, lse

    shardproof.fuzz(mine, time="30s")
"""

from .run import Failed, check, fuzz, replay
from .subject import Subject, attention, mlp

__all__ = ["Failed", "Subject", "attention", "check", "fuzz", "mlp", "replay"]
