"""Arrays and gradients of JAX and PyTorch."""

import numpy as np


def array(value):
    """A NumPy array of what a function returned."""
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    return np.asarray(value)


def _torch(value):
    import torch
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def convert(subject, arrays):
    """The arrays as the function's library has them; of the same memory where it can."""
    if subject.autodiff == "torch":
        return [_torch(np.ascontiguousarray(each)) for each in arrays]
    if subject.autodiff == "jax":
        import jax.numpy as jnp
        return [jnp.asarray(each) for each in arrays]
    return list(arrays)


def gradients(subject, function, arrays, upstream):
    """The gradients of a function that returns a list, for as many upstream gradients as it returns
    results, and that number."""
    inputs = convert(subject, arrays)
    if subject.autodiff == "jax":
        import jax
        results, pull_back = jax.vjp(function, *inputs)
        given = [g.astype(r.dtype) for g, r in zip(convert(subject, upstream), results)]
        return [array(g) for g in pull_back(given)], len(results)
    import torch
    inputs = [each.detach().requires_grad_(True) for each in inputs]
    results = function(*inputs)
    given = [g.to(r.dtype) for g, r in zip(convert(subject, upstream), results)]
    with_gradient = [(r, g) for r, g in zip(results, given) if r.requires_grad]
    found = torch.autograd.grad([r for r, _ in with_gradient], inputs,
                                [g for _, g in with_gradient], allow_unused=True)
    found = [np.zeros(a.shape) if g is None else array(g) for a, g in zip(arrays, found)]
    return found, len(results)
