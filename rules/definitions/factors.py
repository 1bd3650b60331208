"""Factors of matrices as SciPy has them, of one matrix or a batch."""

import mindspore as ms
import numpy as np
from mindspore import ops
from scipy import linalg


def each_matrix(function, *arrays):
    """The results of a function of matrices, over all the dimensions in front of the last ones."""
    batch = arrays[0].shape[:-2]
    rows = [a.asnumpy().reshape(-1, *a.shape[len(batch) :]) for a in arrays]
    results = [function(*parts) for parts in zip(*rows)]
    return tuple(ms.Tensor(np.stack(part).reshape(*batch, *part[0].shape)) for part in zip(*results))


def cholesky_inverse(factor, upper=False):
    factor = ops.triu(factor).swapaxes(-1, -2) if upper else ops.tril(factor)
    return ops.inverse(ops.matmul(factor, factor.swapaxes(-1, -2)))


def lu_factor(a):
    def factor(matrix):
        lu, pivots = linalg.lu_factor(matrix)
        return lu, (pivots + 1).astype(np.int32)

    return each_matrix(factor, a)


def lu_factor_ex(a):
    lu, pivots = lu_factor(a)
    return lu, pivots, ops.zeros(a.shape[:-2], dtype=ms.int32)


def lu_unpack(lu, pivots):
    size = min(lu.shape[-2:])

    def permutation(matrix, places):
        order = np.arange(matrix.shape[0])
        for row, place in enumerate(places - 1):
            order[[row, place]] = order[[place, row]]
        return (np.eye(matrix.shape[0], dtype=matrix.dtype)[:, order],)

    (p,) = each_matrix(permutation, lu, pivots)
    lower = ops.tril(lu[..., :size], -1) + ops.eye(lu.shape[-2], size, lu.dtype)
    return p, lower, ops.triu(lu[..., :size, :])


def lu_solve(lu, pivots, b, left=True, adjoint=False):
    if not left:
        return lu_solve(lu, pivots, b.swapaxes(-1, -2), True, not adjoint).swapaxes(-1, -2)

    def solution(matrix, places, right):
        return (linalg.lu_solve((matrix, places - 1), right, trans=2 * adjoint),)

    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu, b = (x.broadcast_to((*batch, *x.shape[-2:])) for x in (lu, b))
    return each_matrix(solution, lu, pivots.broadcast_to((*batch, pivots.shape[-1])), b)[0]


def ldl_factor(a):
    def factor(matrix):
        packed, pivots, _ = linalg.get_lapack_funcs("sytrf", (matrix,))(matrix, lower=1)
        return np.tril(packed), pivots.astype(np.int32)

    return each_matrix(factor, a)


def ldl_factor_ex(a):
    return *ldl_factor(a), ops.zeros(a.shape[:-2], dtype=ms.int32)


def ldl_solve(packed, pivots, b):
    def solution(matrix, places, right):
        return (linalg.get_lapack_funcs("sytrs", (matrix,))(matrix, places, right, lower=1)[0],)

    batch = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    packed, b = (ops.broadcast_to(a, batch + a.shape[-2:]) for a in (packed, b))
    return each_matrix(solution, packed, ops.broadcast_to(pivots, batch + pivots.shape[-1:]), b)[0]


def leading_svd(x, count=None, centred=False):
    """The directions of the largest singular values, six where nobody says how many."""
    count = min(6 if count is None else count, *x.shape[-2:])
    x = x - x.mean(-2, keep_dims=True) if centred else x
    left, values, right = np.linalg.svd(x.asnumpy(), full_matrices=False)
    found = left[..., :count], values[..., :count], right.swapaxes(-1, -2)[..., :count]
    return tuple(ms.Tensor(np.ascontiguousarray(part)) for part in found)


def with_success(result):
    """Beside the result of each matrix that nothing went wrong."""
    return result, ops.zeros(result.shape[:-2], dtype=ms.int32)
