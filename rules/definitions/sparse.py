"""Sparse tensors as dense ones: made from their parts, and asked for them."""

import mindspore as ms
import numpy as np
from mindspore import ops


def dense_matrix(indices, values, size=None, dtype=None):
    """The dense form of a sparse matrix; what has the same place is added up."""
    indices, values = (part if isinstance(part, ms.Tensor) else ms.tensor(part) for part in (indices, values))
    values = values if dtype is None else values.astype(dtype)
    if size is None:
        size = (*(int(most) + 1 for most in indices.asnumpy().max(1)), *values.shape[1:])
    if not values.shape[0]:
        return ops.zeros(tuple(size), dtype=values.dtype)
    return ops.scatter_nd(indices.t(), values, tuple(size))


def dense_rows(row_ends, columns, values, size=None, dtype=None):
    """The dense form of a matrix whose rows are stored one behind the other."""
    parts = (part.asnumpy() if isinstance(part, ms.Tensor) else part for part in (row_ends, columns))
    ends, columns = map(np.asarray, parts)
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    size = (len(ends) - 1, int(columns.max()) + 1) if size is None else size
    return dense_matrix(ms.Tensor(np.stack([rows, columns])), values, size, dtype)


def row_ends(x):
    """Where the rows of a matrix end among what is stored of it."""
    return ops.cat([ops.zeros((1,), dtype=ms.int64), (x != 0).astype(ms.int64).sum(1).cumsum(0)])


def sparse_softmax(x, dim, dtype=None, log=False):
    """The softmax of what is stored, which is what is not zero."""
    x = x if dtype is None else x.astype(dtype)
    stored = x != 0
    part = ops.where(stored, x, -1e30)
    part = ops.log_softmax(part, dim) if log else ops.softmax(part, dim)
    return ops.where(stored, part, 0.0)
