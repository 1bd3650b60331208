"""Decompositions and products of matrices; a gradient that MindSpore's CPU lacks is that of the first-order change."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


def det(x):
    return x[..., 0, 0] if x.shape[-1] == 1 else ops.det(x)


def slogdet(x):
    if x.shape[-1] == 1:
        return ops.sign(x[..., 0, 0]), ops.log(ops.abs(x[..., 0, 0]))
    return ops.slogdet(x)


def logdet(x):
    return ops.log(det(x))


def inverse(x):
    return 1 / x if x.shape[-1] == 1 else ops.inverse(x)


def transposed(x):
    return x.swapaxes(-1, -2)


def cross(x, y, dim):
    shape = np.broadcast_shapes(x.shape, y.shape)
    return ops.cross(ops.broadcast_to(x, shape), ops.broadcast_to(y, shape), dim)


def vjp(func, inputs, v=None):
    """What a function gives at the inputs, and the product of v with its Jacobian."""
    output, pull = ms.vjp(func, *inputs) if isinstance(inputs, (tuple, list)) else ms.vjp(func, inputs)
    gradients = pull(*(v if isinstance(v, (tuple, list)) else [ops.ones_like(output) if v is None else v]))
    single = isinstance(gradients, (tuple, list)) and not isinstance(inputs, (tuple, list))
    return output, gradients[0] if single else gradients


def multi_dot(matrices):
    result, *rest = matrices
    for matrix in rest:
        result = ops.matmul(result, matrix)
    return result


def matrix_exp(x):
    size = float(ops.abs(x).sum(-1).max())
    squarings = max(0, math.ceil(math.log2(size)) + 2) if size > 0 else 0
    step = x / 2**squarings
    term = result = ops.eye(x.shape[-1], x.shape[-1], x.dtype) + ops.zeros_like(x)
    for place in range(1, 13):
        term = ops.matmul(term, step) / place
        result = result + term
    for _ in range(squarings):
        result = ops.matmul(result, result)
    return result


def solve_triangular(a, b, upper, left=True, unitriangular=False):
    a = ops.triu(a) if upper else ops.tril(a)
    if unitriangular:
        eye = ops.eye(a.shape[-1], a.shape[-1], a.dtype)
        a = a * (1 - eye) + eye
    return ops.matmul(inverse(a), b) if left else ops.matmul(b, inverse(a))


def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    solution = solve_triangular(transposed(a) if transpose else a, b, upper != transpose, True, unitriangular)
    return solution, a.broadcast_to((*solution.shape[:-2], *a.shape[-2:]))


def solve(a, b, left=True):
    if b.ndim == 1 or b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]:
        return ops.matmul(inverse(a), b.unsqueeze(-1)).squeeze(-1)
    return ops.matmul(inverse(a), b) if left else ops.matmul(b, inverse(a))


def tensorinv(a, ind=2):
    rows = math.prod(a.shape[:ind])
    return inverse(a.reshape(rows, rows)).reshape(a.shape[ind:] + a.shape[:ind])


def tensorsolve(a, b, dims=None):
    if dims is not None:
        dims = [dim % a.ndim for dim in dims]
        a = ops.movedim(a, tuple(dims), tuple(range(a.ndim - len(dims), a.ndim)))
    size = math.prod(b.shape)
    return ops.matmul(inverse(a.reshape(size, size)), b.reshape(-1, 1)).reshape(a.shape[b.ndim :])


def cholesky(a, upper=False):
    change = a - ops.stop_gradient(a)
    factor = ops.stop_gradient(ops.cholesky(ops.stop_gradient(a)))
    back = inverse(factor)
    change = ops.matmul(ops.matmul(back, (change + transposed(change)) / 2), transposed(back))
    half = ops.tril(ops.ones(a.shape[-2:], dtype=a.dtype)) - ops.eye(a.shape[-1], a.shape[-1], a.dtype) / 2
    factor = factor + ops.matmul(factor, change * half)
    return transposed(factor) if upper else factor


def settled(result):
    """Waits for it: what its kernel raises is raised here."""
    result.asnumpy()
    return result


def cholesky_ex(a, upper=False):
    """The factor and 0, or NaN and 1 where there is none."""
    if a.ndim > 2:
        factors, places = zip(*(cholesky_ex(one, upper) for one in a))
        return ops.stack(factors), ops.stack(places)
    try:
        return settled(cholesky(a, upper)), ms.tensor(0, dtype=ms.int32)
    except RuntimeError:
        return ops.full_like(a, float("nan")), ms.tensor(1, dtype=ms.int32)


def eigh(a, uplo="L"):
    values, vectors = (ms.Tensor(part) for part in np.linalg.eigh(a.asnumpy(), uplo))
    change = a - ops.stop_gradient(a)
    change = ops.matmul(ops.matmul(transposed(vectors), (change + transposed(change)) / 2), vectors)
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    slopes = ops.where(gaps == 0, ops.zeros_like(gaps), 1 / ops.where(gaps == 0, ops.ones_like(gaps), gaps))
    return values + ops.diagonal(change, 0, -2, -1), vectors + ops.matmul(vectors, slopes * change)


def qr(a, mode="reduced"):
    rows, columns = a.shape[-2:]
    if columns > rows:  # what is beyond a square has no part in the first factor
        q, r = qr(a[..., :rows])
        return q, ops.cat([r, ops.matmul(transposed(q), a[..., rows:])], -1)
    q, r = (ops.stop_gradient(part) for part in ops.qr(ops.stop_gradient(a), mode))
    change = ops.matmul(a - ops.stop_gradient(a), inverse(r))
    turned = ops.matmul(transposed(q), change)
    below = ops.tril(turned, -1)
    turn = below - transposed(below)
    return q + change - ops.matmul(q, turned - turn), r + ops.matmul(turned - turn, r)


def svd(a, full_matrices=True):
    a = a.asnumpy()
    rows, columns = more, wide = a.shape[-2:]
    while 1 < rows and np.isrealobj(a) and wide >= more * 11 // 6:  # NumPy would triangulate it first: other signs
        more, wide = more + 1, max(columns, more + 2)
    padded = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, more - rows), (0, wide - columns)])
    u, values, vh = np.linalg.svd(padded, full_matrices)
    least = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (least, least)
    parts = u[..., :rows, :left], values[..., :least], vh[..., :right, :columns]
    return tuple(ms.Tensor(np.ascontiguousarray(part)) for part in parts)


def differentiable_svd(a, full_matrices=True):
    """What they change by is added, as zeros that have a gradient; torch has none of further vectors."""
    u, values, vh = svd(ops.stop_gradient(a), full_matrices)
    moved, size = a - ops.stop_gradient(a), values.shape[-1]
    left, right = u[..., :size], transposed(vh)[..., :size]
    within = transposed(left) @ moved @ right
    row, column = values.expand_dims(-2), values.expand_dims(-1)
    gaps = row * row - column * column
    near = ops.where(gaps == 0, ops.zeros_like(gaps), 1 / ops.where(gaps == 0, ops.ones_like(gaps), gaps))
    above = ops.where(row == 0, ops.ones_like(row), row)
    values = values + (within * ops.eye(size, dtype=a.dtype)).sum(-1)
    if u.shape[-1] == vh.shape[-1] == size or not full_matrices:
        u = left + left @ (near * (within * row + column * transposed(within)))
        u = u + (moved @ right - left @ within) / above
        v = right + right @ (near * (column * within + transposed(within) * row))
        vh = transposed(v + (transposed(moved) @ left - right @ transposed(within)) / above)
    return u, values, vh


def differentiable_svd_with_v(a, full_matrices=False):
    u, values, vh = differentiable_svd(a, full_matrices)
    return u, values, transposed(vh)


def svd_with_v(a, full_matrices=False):
    u, values, vh = svd(a, full_matrices)
    return u, values, transposed(vh)


def svd_values(a):
    """The values, between matrices of zeros."""
    sides = (ops.zeros((*a.shape[:-2], size, size), dtype=a.dtype) for size in a.shape[-2:])
    left, right = sides
    return left, svd(a, False)[1], right


def eigvals(a):
    a = a.asnumpy()
    return ms.Tensor(np.linalg.eigvals(a).astype(np.result_type(a, np.complex64)))


def matrix_rank(a, atol=None, rtol=None, hermitian=False):
    a = a.asnumpy()
    sizes = np.abs(np.linalg.eigvalsh(a)) if hermitian else np.linalg.svd(a, compute_uv=False)
    atol, rtol = (t.asnumpy()[..., None] if isinstance(t, ms.Tensor) else t for t in (atol, rtol))
    if rtol is None:
        least = max(a.shape[-2:]) * np.finfo(a.dtype).eps
        rtol = least if atol is None else np.where(atol > 0, 0.0, least)
    limit = np.maximum(0.0 if atol is None else atol, rtol * sizes.max(-1, keepdims=True))
    return ms.Tensor(np.asarray((sizes > limit).sum(-1)))


def lstsq(a, b, driver="gelsy"):
    """The solution of least squares, and what the driver gives beside it: rests, ranks and singular values."""
    vector = b.ndim == a.ndim - 1
    b = b.unsqueeze(-1) if vector else b
    solution = ops.matmul(ops.pinv(a), b)
    rests, sizes = ops.zeros((0,), dtype=a.dtype), ops.zeros((0,), dtype=a.dtype)
    ranks = ops.zeros((0,), dtype=ms.int64)
    if driver != "gels":
        ranks = ms.Tensor(np.asarray(np.linalg.matrix_rank(a.asnumpy())))
    if driver != "gelsy" and a.shape[-2] > a.shape[-1] and bool((ranks == a.shape[-1]).all()):
        rests = ops.square(ops.matmul(a, solution) - b).sum(-2)
    if driver in ("gelsd", "gelss"):
        sizes = ops.svd(a, compute_uv=False)
    return solution.squeeze(-1) if vector else solution, rests, ranks, sizes


def condition_number(x):
    """The ratio of the largest to the smallest singular value."""
    values = ops.svd(x, compute_uv=False)
    return values[..., 0] / values[..., -1]
