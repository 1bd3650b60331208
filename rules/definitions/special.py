"""Functions of which MindSpore's own lose digits or signs, and draws of complex numbers."""

import math

import mindspore as ms
from mindspore import ops


def erfinv(x):
    """Steps of Newton's method in float64, from Winitzki's formula."""
    wide = x.astype(ms.float64)
    at = ops.stop_gradient(wide)
    logs = ops.log(1 - at * at)
    half = 2 / (math.pi * 0.147) + logs / 2
    first = found = ops.sign(at) * ops.sqrt(ops.sqrt(half * half - logs / 0.147) - half)
    for _ in range(3):
        near = ops.stop_gradient(found)
        found = near - (ops.erf(near) - wide) * math.sqrt(math.pi) / 2 * ops.exp(near * near)
    return ops.where(ops.abs(at) < 1, found, first).astype(x.dtype)


def atan2(y, x):
    """Its gradient is zero where both are; that of MindSpore's is NaN."""
    nowhere = ops.logical_and(x == 0, y == 0)
    return ops.where(nowhere, ops.stop_gradient(ops.atan2(y, x)), ops.atan2(y, ops.where(nowhere, 1.0, x)))


def logsumexp(x, axis, keep_dims=False):
    """Infinite where the largest number is; MindSpore makes NaN of infinite numbers alone."""
    top = ops.stop_gradient(ops.amax(x, axis, keep_dims))
    return ops.where(ops.isinf(top), top, ops.logsumexp(x, axis, keep_dims))


def logaddexp(x, other):
    """Two numbers that are infinite alike give that one; MindSpore makes NaN of them."""
    return ops.where(ops.logical_and(ops.isinf(x), x == other), x, ops.logaddexp(x, other))


def logaddexp2(x, other):
    """Two numbers that are infinite alike give that one; MindSpore makes NaN of them."""
    return ops.where(ops.logical_and(ops.isinf(x), x == other), x, ops.logaddexp2(x, other))


def copysign(x, other):
    """The sizes of the one with the signs of the other, -0.0 among them."""
    negative = ops.logical_or(other < 0, ops.logical_and(other == 0, 1 / other < 0))
    size = ops.abs(x) * ops.ones_like(other)
    return ops.where(negative, -size, size)


def zeta(x, other):
    """MindSpore's takes two tensors of one shape and of one type of floats."""
    floats = [one.dtype for one in (x, other) if isinstance(one, ms.Tensor) and one.is_floating_point()]
    dtype = floats[0] if floats else ms.float32
    x, other = (one.astype(dtype) if isinstance(one, ms.Tensor) else ms.tensor(one, dtype) for one in (x, other))
    return ops.zeta(*broadcast_tensors(x, other))


def complex_randn(size, dtype):
    """A variance of 1, half of it in each part."""
    size = size if isinstance(size, (list, tuple)) else (size,)
    real, imag = ops.randn(2, *size) * math.sqrt(0.5)
    return ops.Complex()(real, imag).astype(dtype)


def complex_rand(size, dtype):
    size = size if isinstance(size, (list, tuple)) else (size,)
    real, imag = ops.rand(2, *size)
    return ops.Complex()(real, imag).astype(dtype)
