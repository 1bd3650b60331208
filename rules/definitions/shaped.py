"""Tensors joined, norms of matrices, products with reflections, and tensors that get another size."""

import math

import mindspore as ms
from mindspore import ops


def joined(tensors, axis=0):
    """Tensors one behind the other; those of one dimension without elements only count for the type."""
    parts = [part for part in tensors if part.shape != (0,)] or list(tensors)
    floating = [part.dtype for part in tensors if part.is_floating_point()]
    if floating and len({part.dtype for part in tensors}) > 1:
        parts = [part.astype(max(floating, key=str)) for part in parts]
    return ops.cat(parts, axis)


def any_norm(x, ord=None, dim=None, keepdim=False):
    """Of vectors or of matrices, by what is handed in."""
    if ord is None:
        return vector_norm(x, dim=dim, keepdim=keepdim)
    if dim is None and x.ndim == 2:
        return matrix_norm(x, ord, keepdim=keepdim)
    if isinstance(dim, (tuple, list)) and len(dim) == 2:
        return matrix_norm(x, ord, dim, keepdim)
    return vector_norm(x, ord, dim, keepdim)


def matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False):
    """The norm of the matrices that stand in two dimensions."""
    x = ops.movedim(x, tuple(dim), (-2, -1))
    if ord == "fro":
        found = euclidean_norm(x, (-2, -1))
    elif ord in (1, -1, math.inf, -math.inf):
        sums = ops.abs(x).sum(-2 if abs(ord) == 1 else -1)
        found = ops.amax(sums, -1) if ord > 0 else ops.amin(sums, -1)
    else:
        values = ops.svd(x, compute_uv=False)
        found = values.sum(-1) if ord == "nuc" else ops.amax(values, -1) if ord > 0 else ops.amin(values, -1)
    if keepdim:
        for axis in sorted(axis % x.ndim for axis in dim):
            found = found.unsqueeze(axis)
    return found


def ormqr(a, tau, other, left=True, transpose=False):
    """A matrix times the product of the reflections that `geqrf` gives."""
    size = other.shape[-2 if left else -1]
    q = ops.eye(size, size, a.dtype)
    for i in range(tau.shape[-1]):
        column = a[..., i]
        ahead = ops.zeros_like(column[..., :i])
        v = ops.cat((ahead, ops.ones_like(column[..., :1]), column[..., i + 1 :]), -1).unsqueeze(-1)
        scaled = ops.matmul(q, v) * tau[..., i : i + 1].unsqueeze(-1)
        q = q - ops.matmul(scaled, v.swapaxes(-1, -2))
    q = q.swapaxes(-1, -2) if transpose else q
    return ops.matmul(q, other) if left else ops.matmul(other, q)


def resized(x, size):
    """As many of the elements as the new size has, and zeros behind them."""
    count, flat = math.prod(size), x.reshape(-1)
    if count > flat.shape[0]:
        flat = ops.cat((flat, ops.zeros((count - flat.shape[0],), x.dtype)))
    return flat[:count].reshape(tuple(size))


def as_strided_scatter(x, src, size, stride, storage_offset=0):
    """A copy with `src` at the places that the strides reach."""
    order = ops.arange(math.prod(x.shape)).reshape(x.shape)
    places = as_strided(order, size, stride, storage_offset).reshape(-1, 1)
    return ops.tensor_scatter_update(x.reshape(-1), places, src.reshape(-1).astype(x.dtype)).reshape(x.shape)


def nonzero_static(x, size, fill_value=-1):
    """The first `size` places that are not zero; what is missing is filled."""
    if not x.ndim:
        return ops.zeros((size, 0), ms.int64)
    found = ops.nonzero(x)[:size]
    left = size - found.shape[0]
    return ops.cat((found, ops.full((left, x.ndim), fill_value, dtype=ms.int64))) if left else found


def without_rows(x, dim):
    """What is left of a tensor along a dimension of which nothing is taken."""
    return ops.zeros([0 if axis == dim % x.ndim else size for axis, size in enumerate(x.shape)], dtype=x.dtype)


def cropped_pad(x, pad, value=0):
    """Padding by a constant where negative numbers take rows away."""
    kept = [slice(None)] * x.ndim
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2])):
        axis = x.ndim - 1 - i
        kept[axis] = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
    return ops.pad(x[tuple(kept)], [max(p, 0) for p in pad], value=value)
