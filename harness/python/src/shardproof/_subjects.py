"""Subjects: Python functions with what they promise. Decorators make and register them."""

import inspect

from . import _attention, _mlp

DTYPES = ("f64", "f32", "tf32", "bf16", "f16")
PRECISION = ("accumulator", "elementwise", "score", "probability", "score_gradient", "saved_out",
             "lse", "operand", "middle", "ulp_exp", "ulp_log", "ulp_tanh", "ulp_erf", "truncating",
             "rescales", "repeatable", "hidden_may_be_nan")
AUTODIFF = (None, "jax", "torch")
LIMITS = ("same_dims", "same_heads", "same_lengths", "dims_of_8")

registry = {}


def _choose(what, value, choices):
    if value not in choices:
        raise ValueError(f"{what} is {value!r}; allowed: {', '.join(map(repr, choices))}")
    return value


class Subject:
    """A function under test. Called, it is the function."""

    def __init__(self, function, op, *, precision, dtypes, features, autodiff, summary, limits=()):
        self.function = function
        self.name = function.__name__
        self.op = op
        self.backward_function = None
        self.autodiff = _choose("autodiff", autodiff, AUTODIFF)
        self.dtypes = [_choose("a dtype", dtype, DTYPES) for dtype in dtypes]
        self.features = list(features)
        self.limits = [_choose("a limit", limit, LIMITS) for limit in limits]
        self.summary = summary or (inspect.getdoc(function) or self.name).splitlines()[0]
        self.precision = {"accumulator": precision} if isinstance(precision, str) else precision
        for field, value in self.precision.items():
            _choose("a field of precision", field, PRECISION)
            if isinstance(value, str):
                _choose(f"precision of {field}", value, DTYPES)
        self.where = _where(function)
        if registry.get(self.name, self).where != self.where:
            raise ValueError(f"there are two subjects named {self.name}")
        registry[self.name] = self

    def __call__(self, *arguments, **named):
        return self.function(*arguments, **named)

    def backward(self, function):
        """Decorates the function's own backward pass."""
        self.backward_function = function
        return function

    def manifest(self):
        """What the bridge needs to know."""
        # One promise for problems of every dtype: those of f64 are computed in f64 or not taken.
        precision = dict(self.precision)
        if precision.get("accumulator") == "f32":
            del precision["accumulator"]  # the default of all dtypes but f64
        return {"name": self.name, "op": self.op, "summary": self.summary, "dtypes": self.dtypes,
                "features": self.features, "limits": self.limits, "precision": precision,
                "where": self.where}

    def run(self, phase, problem, tensors):
        """Computes a phase from arrays by name; writes results into those that wait for them."""
        implementation = {"attention": _attention, "mlp": _mlp}[self.op]
        getattr(implementation, phase)(self, problem, tensors)


def _where(function):
    """How a new process finds the function: [module, file]."""
    if "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        raise ValueError(f"{function.__qualname__} lies inside another function; tested functions "
                         "run in processes of their own, so define it at the top of a file")
    file = inspect.getsourcefile(function)
    if file is None or file.startswith("<"):
        raise ValueError(f"{function.__name__} has no file; tested functions run in processes of "
                         "their own, so define it in a file")
    return [function.__module__, file]


def attention(function=None, *, precision="f32", dtypes=("f32",), softcap=False, autodiff=None,
              blind_rows=True, repeat_kv=False, limits=(), summary=None):
    """Makes attention(q, k, v, *, mask, scale) -> out or (out, lse) a subject.

    q [batch, queries, heads, dim], k [batch, keys, kv_heads, dim], v [batch, keys, kv_heads,
    dim_v], mask [batch, queries, keys] bool, True: visible; out [batch, queries, heads, dim_v], lse
    [batch, heads, queries]. Head h reads key/value head h * kv_heads // heads.

    precision: the dtype in which products accumulate ("f32"; f64 problems: f64), or a dict of the
        fields of a contract, {"probability": "bf16", "ulp_exp": 4}.
    dtypes: of the problems that it is given.
    softcap: whether it takes the keyword softcap (0: none).
    autodiff: "jax" or "torch": it is called with arrays of that library, and its gradients are
        theirs. Otherwise `@name.backward` gives them, as (q, k, v, out, lse, dout, dlse, *, mask,
        scale) -> (dq, dk, dv); without one only the forward pass is the function's.
    blind_rows: False where it does not do rows that see no key: they are then kept from it.
    repeat_kv: it wants as many key/value heads as query heads.
    limits: of the problems that it does, any of "same_dims" (dim_v = dim), "same_heads" (kv_heads =
        heads), "same_lengths" (keys = queries) and "dims_of_8".
    """
    def decorate(f):
        subject = Subject(f, "attention", precision=precision, dtypes=dtypes,
                          features=["softcap"] if softcap else [], autodiff=autodiff,
                          summary=summary, limits=limits)
        subject.blind_rows, subject.repeat_kv = blind_rows, repeat_kv
        return subject
    return decorate if function is None else decorate(function)


def mlp(function=None, *, precision="f32", dtypes=("f32",), gated=False, autodiff=None,
        summary=None):
    """Makes mlp(x, w1, b1, w2, b2, *, activation) -> y a subject; with gated=True it also takes
    wg and bg, which are None where there is no gate.

    x [tokens, features], w1 and wg [features, hidden], w2 [hidden, outputs], y [tokens, outputs]:
    y = (act(x w1 + b1) * (x wg + bg)) w2 + b2. activation: "relu", "gelu", "gelu_tanh" or "silu".
    `@name.backward`: (x, w1, b1, w2, b2, dy, *, activation) -> gradients of the first five (seven
    where gated), in their order. The rest is as in attention().
    """
    def decorate(f):
        return Subject(f, "mlp", precision=precision, dtypes=dtypes,
                       features=["gated"] if gated else [], autodiff=autodiff, summary=summary)
    return decorate if function is None else decorate(function)
