"""How an attention function is called, and what stands in for the parts that it leaves out."""

import numpy as np

from . import _autodiff


def _options(subject, problem, mask):
    named = {"mask": mask, "scale": problem["scale"]}
    if "softcap" in subject.features:
        named["softcap"] = problem["softcap"]
    return named


def _repeated(subject, problem, array):
    times = problem["heads"] // max(problem["kv_heads"], 1)
    return np.repeat(array, times, axis=2) if subject.repeat_kv and times != 1 else array


def _summed(subject, problem, gradient):
    """Of repeated heads: the gradients of the copies, added up."""
    times = problem["heads"] // max(problem["kv_heads"], 1)
    if not subject.repeat_kv or times == 1:
        return gradient
    shape = gradient.shape[:2] + (problem["kv_heads"], times) + gradient.shape[3:]
    return np.asarray(gradient, np.float64).reshape(shape).sum(axis=3)


def _arguments(subject, problem, tensors):
    """The arrays of a call; rows that see no key see all where they are kept from the function."""
    mask = tensors["mask"]
    blind = ~mask.any(axis=2)
    if not subject.blind_rows:
        mask = mask | blind[:, :, None]
    k = _repeated(subject, problem, tensors["k"])
    v = _repeated(subject, problem, tensors["v"])
    return (tensors["q"], k, v), mask, blind


def _call(subject, problem, arrays, mask):
    """(out, lse or None) of the function."""
    result = subject.function(*arrays, **_options(subject, problem, mask))
    return result if isinstance(result, tuple) else (result, None)


class Exact:
    """Attention in float64 for what a function does not return: its lse, and gradients."""

    def __init__(self, problem, q, k, v, mask):
        self.problem, self.mask = problem, mask[:, None]
        self.group = np.arange(problem["heads"]) * problem["kv_heads"] // max(problem["heads"], 1)
        self.q, self.k, self.v = (np.asarray(a, np.float64) for a in (q, k, v))
        scores = problem["scale"] * np.einsum("bihd,bjhd->bhij", self.q, self.k[:, :, self.group])
        self.cap = problem["softcap"]
        self.capped = np.tanh(scores / self.cap) if self.cap else None
        z = np.where(self.mask, self.cap * self.capped if self.cap else scores, -np.inf)
        top = z.max(axis=3, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        weights = np.exp(z - top[..., None])
        sums = weights.sum(axis=3)
        with np.errstate(divide="ignore"):
            self.lse = np.log(sums) + top
        # Not exp(z - lse): the rounding of a large lse would be in every p of its row.
        self.p = weights / np.where(sums > 0, sums, 1)[..., None]

    def gradients(self, dout, dlse):
        """(dq, dk, dv) for the upstream gradients of out (None: 0) and lse."""
        dz = self.p * np.asarray(dlse, np.float64)[..., None]
        dv = np.zeros(self.v.shape)
        if dout is not None:
            dout = np.asarray(dout, np.float64)
            dp = np.einsum("bihd,bjhd->bhij", dout, self.v[:, :, self.group])
            dz = dz + self.p * (dp - (self.p * dp).sum(axis=3, keepdims=True))
            dv = self._of_groups(np.einsum("bhij,bihd->bjhd", self.p, dout))
        if self.cap:
            dz = dz * (1 - self.capped ** 2)
        dz = dz * self.problem["scale"]
        dq = np.einsum("bhij,bjhd->bihd", dz, self.k[:, :, self.group])
        return dq, self._of_groups(np.einsum("bhij,bihd->bjhd", dz, self.q)), dv

    def _of_groups(self, gradient):
        summed = np.zeros(gradient.shape[:2] + (self.problem["kv_heads"],) + gradient.shape[3:])
        np.add.at(summed, (slice(None), slice(None), self.group), gradient)
        return summed


def _exact(problem, tensors):
    return Exact(problem, tensors["q"], tensors["k"], tensors["v"], tensors["mask"])


def forward(subject, problem, tensors):
    arrays, mask, blind = _arguments(subject, problem, tensors)
    converted = _autodiff.convert(subject, (*arrays, mask))
    out, lse = _call(subject, problem, converted[:3], converted[3])
    out = _autodiff.array(out)
    lse = _exact(problem, tensors).lse if lse is None else _autodiff.array(lse)
    if not subject.blind_rows:
        out = np.where(blind[:, :, None, None], 0, out)
        lse = np.where(blind[:, None, :], -np.inf, lse)
    tensors["out"][...] = out
    tensors["lse"][...] = lse


def backward(subject, problem, tensors):
    arrays, mask, blind = _arguments(subject, problem, tensors)
    dout, dlse = tensors["dout"], tensors["dlse"]
    if not subject.blind_rows:
        dout = np.where(blind[:, :, None, None], 0, dout).astype(dout.dtype)
        dlse = np.where(blind[:, None, :], 0, dlse).astype(dlse.dtype)
    if subject.backward_function is not None:
        gradients = subject.backward_function(
            *arrays, tensors["out"], tensors["lse"], dout, dlse,
            **_options(subject, problem, mask))
    elif subject.autodiff is not None:
        gradients = _by_autodiff(subject, problem, tensors, arrays, mask, dout, dlse)
    else:
        gradients = _exact(problem, tensors).gradients(dout, dlse)
        for name, gradient in zip(("dq", "dk", "dv"), gradients):
            tensors[name][...] = gradient
        return
    dq, dk, dv = map(_autodiff.array, gradients)
    tensors["dq"][...] = dq
    tensors["dk"][...] = _summed(subject, problem, dk)
    tensors["dv"][...] = _summed(subject, problem, dv)


def _by_autodiff(subject, problem, tensors, arrays, mask, dout, dlse):
    """Gradients of what the function returns; of an lse that it does not return, in float64."""
    converted_mask, = _autodiff.convert(subject, (mask,))

    def function(*inputs):
        return [r for r in _call(subject, problem, inputs, converted_mask) if r is not None]

    gradients, returned = _autodiff.gradients(subject, function, arrays, (dout, dlse))
    if returned == 2:
        return gradients
    mine = Exact({**problem, "kv_heads": arrays[1].shape[2]}, *arrays, tensors["mask"])
    rest = mine.gradients(None, dlse)
    return [np.asarray(g, np.float64) + r for g, r in zip(gradients, rest)]
