"""Subjects: Python functions together with what they promise."""

import inspect

DTYPES = ("f64", "f32", "tf32", "bf16", "f16")  # in the order of shardproof_dtype
SOFTCAP, BIAS, GATED = 1, 2, 4
PLACES = {"attention": {"alone": 1, "ring": 2, "heads": 4},
          "mlp": {"alone": 1, "column_row": 8}}
ROUNDINGS = ("accumulator", "elementwise", "score", "probability", "score_gradient", "block_out",
             "middle")


class Subject:
    """A function under test, which can still be called; `backward` registers its gradients."""

    def __init__(self, function, op, dtypes, places, promises):
        self.function, self.op = function, op
        self.dtypes, self.places, self.promises = dtypes, places, promises
        self.backward_function = None
        self.accepted = set(inspect.signature(function).parameters)
        self.__doc__ = function.__doc__
        self.name = function.__name__

    def __call__(self, *arguments, **options):
        return self.function(*arguments, **options)

    def backward(self, function):
        self.backward_function = function
        return function

    def description(self):
        """The lines that bridge.cpp reads."""
        features = {"softcap": SOFTCAP, "bias": BIAS, "wg": GATED}
        known = {
            "name": self.name,
            "op": self.op,
            "summary": (self.__doc__ or "a Python function").strip().split("\n")[0],
            "dtypes": sum(1 << DTYPES.index(each) for each in self.dtypes),
            "features": sum(bit for key, bit in features.items() if key in self.accepted),
            "places": sum(PLACES[self.op][each] for each in self.places),
            "backward": int(self.backward_function is not None),
            **self.promises,
        }
        return "".join(f"{key}={value}\n" for key, value in known.items())


def _decorator(op, precision, places, promises):
    dtypes = (precision,) if isinstance(precision, str) else tuple(precision)
    for each in dtypes:
        if each not in ("f64", "f32", "f16"):
            raise ValueError(f"precision: {each!r} is none of NumPy's; choices: f64, f32, f16")
    for each in places:
        if each not in PLACES[op]:
            raise ValueError(f"places: {each!r}; choices: {', '.join(PLACES[op])}")
    for key, value in promises.items():
        if key in ROUNDINGS and value in DTYPES:
            continue
        if key == "rescales" and (value == "keys" or isinstance(value, int)):
            continue
        if key in ("hidden_may_be_nan", "repeatable") and value in (0, 1):
            promises[key] = int(value)
            continue
        raise ValueError(f"promise {key}={value!r}; choices: {', '.join(ROUNDINGS)} with one of "
                         f"{', '.join(DTYPES)}; rescales with a number or 'keys'; "
                         "hidden_may_be_nan, repeatable with 0 or 1")
    return lambda function: Subject(function, op, dtypes, places, promises)


def attention(precision="f32", places=(), **promises):
    """function(q, k, v, *, mask, scale) -> out or (out, lse), and softcap= and bias= where it has
    such parameters. q [batch, queries, heads, dim], k and v [batch, keys, kv heads, ...], mask
    [batch, 1, queries, keys] of bool, bias [heads, queries, keys] or None; out [batch, queries,
    heads, dim_v], lse [batch, heads, queries]. Without an lse NumPy computes it. Rows that see
    nothing: out 0, lse -inf.

    backward(q, k, v, out, lse, dout, delta, *, mask, scale) -> dq, dk, dv (and dbias where there
    is a bias), where dS = P * (dout v^T - delta)."""
    return _decorator("attention", precision, places, promises)


def mlp(precision="f32", places=(), **promises):
    """function(x, w1, b1, w2, b2, *, activation) -> y, and wg= and bg= where it can be gated.
    activation: "relu", "gelu", "gelu_tanh" or "silu"; b2 is None inside column_row, where the sum
    over ranks comes first. backward(x, w1, b1, w2, dy, *, activation) -> dict of dx, dw1, db1, dw2,
    db2, dwg, dbg."""
    return _decorator("mlp", precision, places, promises)
