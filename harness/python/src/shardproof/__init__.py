"""shardproof: proves, or refutes, that attention and MLP code computes what it should.

    import numpy, shardproof

    @shardproof.attention(precision="f32")
    def mine(q, k, v, *, mask, scale):
        ...
        return out

    shardproof.fuzz(mine, time="30s")

Random shapes, masks and data go through the function; its outputs and gradients are compared with a
float64 reference within bounds that are derived from the precision that it promises.
"""

from ._golden import load
from ._run import Failure, Report, Unavailable, assert_holds, check, fuzz, replay
from ._subjects import attention, mlp

__all__ = ["Failure", "Report", "Unavailable", "assert_holds", "attention", "check", "fuzz", "load",
           "mlp", "replay"]
