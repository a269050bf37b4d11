"""Python functions as subjects: honest ones hold, others are found, whatever they do."""

import ctypes
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER / "examples")]

import attention as example  # noqa: E402
import mlp as mlp_example  # noqa: E402
import shardproof  # noqa: E402

CASE = ("attention batch=1 heads=2/1 q=5 kv=5 dim=4 mask=causal dtype=f32 data=normal seed=1 | "
        "{} world=sim device=cpu mesh=cp:1")


def setUpModule():
    folder = tempfile.TemporaryDirectory()  # where campaigns leave goldens
    unittest.addModuleCleanup(folder.cleanup)
    unittest.addModuleCleanup(os.chdir, os.getcwd())
    os.chdir(folder.name)


def found(function, **flags):
    """What a campaign prints that falsifies the function."""
    flags = {"cases": 8, "jobs": 1, "echo": False, "goldens_out": "found", **flags}
    try:
        shardproof.fuzz(shardproof.attention(precision="f32")(function), **flags)
    except shardproof.Failed as failed:
        assert failed.code == 1, failed.output
        return failed.output
    raise AssertionError("it held")


class Honest(unittest.TestCase):
    def test_holds_forward_and_backward(self):
        output = shardproof.fuzz(example.numpy_attention, cases=300, jobs=2, echo=False)
        self.assertIn("HOLDS", output)
        self.assertIn("3 subjects", output)

    def test_an_mlp_holds(self):
        self.assertIn("HOLDS", shardproof.fuzz(mlp_example.numpy_mlp, cases=300, echo=False))

    def test_holds_without_an_lse_and_a_backward_pass(self):
        @shardproof.attention(precision="f32", places=("alone",))
        def out_alone(q, k, v, *, mask, scale):
            return example.numpy_attention(q, k, v, mask=mask, scale=scale)[0]

        self.assertIn("1 subjects", shardproof.fuzz(out_alone, cases=150, echo=False))

    def test_judges_one_case(self):
        output = shardproof.check(example.numpy_attention, CASE.format("numpy_attention@ring"),
                                  echo=False)
        self.assertIn("matches_reference", output)


class Dishonest(unittest.TestCase):
    def test_zeros_are_found(self):
        def zeros(q, k, v, *, mask, scale):
            return numpy.zeros((*q.shape[:3], v.shape[3]), q.dtype)

        self.assertIn("matches_reference", found(zeros))

    def test_a_mask_that_is_not_looked_at_is_found(self):
        def blind(q, k, v, *, mask, scale):
            return example.numpy_attention(q, k, v, mask=mask | True, scale=scale)

        self.assertIn("matches_reference", found(blind, mask="causal", cases=30))

    def test_another_shape_is_named(self):
        def transposed(q, k, v, *, mask, scale):
            return numpy.zeros((1, 2, 3)), numpy.zeros((1, 1, 1))

        self.assertIn("out has shape [1, 2, 3]", found(transposed))

    def test_an_exception_is_named(self):
        def raises(q, k, v, *, mask, scale):
            raise KeyError("no such head")

        self.assertIn("KeyError: 'no such head' (raises, line", found(raises))

    def test_a_crash_and_an_exit_are_verdicts(self):
        def segfaults(q, k, v, *, mask, scale):
            ctypes.string_at(0)

        def leaves(q, k, v, *, mask, scale):
            os._exit(0)

        self.assertIn("the Python process ended", found(segfaults))
        self.assertIn("the Python process ended", found(leaves))

    def test_a_hang_is_a_verdict_and_nothing_is_left(self):
        def hangs(q, k, v, *, mask, scale):
            while True:
                pass

        self.assertIn("timed_out", found(hangs, cases=1, case_timeout="300ms"))
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


class Wrong(unittest.TestCase):
    def test_promises_list_the_choices(self):
        for promise in ({"precision": "bf16"}, {"places": ("column_row",)}, {"score": "f8"}):
            with self.assertRaisesRegex(ValueError, "choices"):
                shardproof.attention(**promise)(lambda q: q)


if __name__ == "__main__":
    unittest.main()
