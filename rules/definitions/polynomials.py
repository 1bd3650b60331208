"""Orthogonal polynomials by their recurrences."""

import mindspore as ms
from mindspore import ops


def orthogonal_polynomial(x, n, first, following):
    """The polynomial of degree n at x: 1, `first(x)`, then what `following` makes of the last two."""
    n = n.astype(ms.int64) if isinstance(n, ms.Tensor) else ms.Tensor(int(n))
    x = x if isinstance(x, ms.Tensor) else ms.Tensor(x, ms.float32)
    x = x.astype(ms.float32) if not x.is_floating_point() else x
    x = x + ops.zeros(n.shape, dtype=x.dtype)
    previous, current = ops.ones_like(x), first(x)
    result = ops.where(n == 0, previous, ops.zeros_like(x))
    for k in range(1, int(n.max()) + 1):
        result = ops.where(n == k, current, result)
        previous, current = current, following(k, x, current, previous)
    return result


def doubled(k, x, current, previous):
    return 2 * x * current - previous


def chebyshev_polynomial_t(x, n):
    return orthogonal_polynomial(x, n, lambda x: x, doubled)


def chebyshev_polynomial_u(x, n):
    return orthogonal_polynomial(x, n, lambda x: 2 * x, doubled)


def chebyshev_polynomial_v(x, n):
    return orthogonal_polynomial(x, n, lambda x: 2 * x - 1, doubled)


def chebyshev_polynomial_w(x, n):
    return orthogonal_polynomial(x, n, lambda x: 2 * x + 1, doubled)


def hermite_polynomial_h(x, n):
    return orthogonal_polynomial(x, n, lambda x: 2 * x, lambda k, x, now, last: 2 * x * now - 2 * k * last)


def hermite_polynomial_he(x, n):
    return orthogonal_polynomial(x, n, lambda x: x, lambda k, x, now, last: x * now - k * last)


def laguerre_polynomial_l(x, n):
    return orthogonal_polynomial(
        x, n, lambda x: 1 - x, lambda k, x, now, last: ((2 * k + 1 - x) * now - k * last) / (k + 1)
    )


def legendre_polynomial_p(x, n):
    return orthogonal_polynomial(
        x, n, lambda x: x, lambda k, x, now, last: ((2 * k + 1) * x * now - k * last) / (k + 1)
    )


def shifted_chebyshev_polynomial_t(x, n):
    return chebyshev_polynomial_t(2 * x - 1, n)


def shifted_chebyshev_polynomial_u(x, n):
    return chebyshev_polynomial_u(2 * x - 1, n)


def shifted_chebyshev_polynomial_v(x, n):
    return chebyshev_polynomial_v(2 * x - 1, n)


def shifted_chebyshev_polynomial_w(x, n):
    return chebyshev_polynomial_w(2 * x - 1, n)


def xlogy(x, y):
    """Nothing times the logarithm of anything is nothing."""
    y = y if isinstance(y, ms.Tensor) else ms.Tensor(y, ms.float32)
    return ops.where(ops.logical_and(x == 0, ops.logical_not(ops.isnan(y))), 0.0, ops.xlogy(x, y))
