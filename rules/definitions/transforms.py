"""Transforms made of others, and those that change the shape of what they move."""

import mindspore as ms
import numpy as np
from mindspore import ops


def sum_rightmost(values, dims):
    return values.sum(tuple(range(-dims, 0))) if dims > 0 else values


class ComposeTransform(Bijection):
    def __init__(self, parts):
        self.parts = list(parts)
        ends = 0
        for part in self.parts:
            ends = max(ends + part.codomain_dims - part.domain_dims, part.codomain_dims)
        self.codomain_dims = ends
        starts = 0
        for part in reversed(self.parts):
            starts = max(starts + part.domain_dims - part.codomain_dims, part.domain_dims)
        self.domain_dims = starts

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def inverse(self, y):
        for part in reversed(self.parts):
            y = part.inverse(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        total, dims = ops.zeros_like(sum_rightmost(x, self.domain_dims)), self.domain_dims
        for part in self.parts:
            moved = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, moved), dims - part.domain_dims)
            dims += part.codomain_dims - part.domain_dims
            x = moved
        return total


class IndependentTransform(Bijection):
    def __init__(self, base_transform, reinterpreted_batch_ndims):
        self.base_transform, self.count = base_transform, reinterpreted_batch_ndims
        self.domain_dims = base_transform.domain_dims + reinterpreted_batch_ndims
        self.codomain_dims = base_transform.codomain_dims + reinterpreted_batch_ndims

    def __call__(self, x):
        return self.base_transform(x)

    def inverse(self, y):
        return self.base_transform.inverse(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.count)


class ReshapeTransform(Bijection):
    def __init__(self, in_shape, out_shape):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        self.domain_dims, self.codomain_dims = len(self.in_shape), len(self.out_shape)

    def __call__(self, x):
        return x.reshape((*x.shape[: x.ndim - self.domain_dims], *self.out_shape))

    def inverse(self, y):
        return y.reshape((*y.shape[: y.ndim - self.codomain_dims], *self.in_shape))

    def log_abs_det_jacobian(self, x, y):
        return ops.zeros(x.shape[: x.ndim - self.domain_dims], x.dtype)


class StackTransform(Bijection):
    def __init__(self, tseq, dim=0):
        self.parts, self.dim = list(tseq), dim

    def each(self, x):
        return ops.unbind(x, self.dim)

    def __call__(self, x):
        return ops.stack([part(v) for part, v in zip(self.parts, self.each(x))], self.dim)

    def inverse(self, y):
        return ops.stack([part.inverse(v) for part, v in zip(self.parts, self.each(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        pairs = zip(self.parts, self.each(x), self.each(y))
        return ops.stack([part.log_abs_det_jacobian(v, w) for part, v, w in pairs], self.dim)


class CatTransform(Bijection):
    def __init__(self, tseq, dim=0, lengths=None):
        self.parts, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.parts) if lengths is None else list(lengths)

    def each(self, x):
        return ops.split(x, self.lengths, self.dim)

    def __call__(self, x):
        return ops.cat([part(v) for part, v in zip(self.parts, self.each(x))], self.dim)

    def inverse(self, y):
        return ops.cat([part.inverse(v) for part, v in zip(self.parts, self.each(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        pairs = zip(self.parts, self.each(x), self.each(y))
        return ops.cat([part.log_abs_det_jacobian(v, w) for part, v, w in pairs], self.dim)


class SoftplusTransform(Bijection):
    def __call__(self, x):
        return ops.softplus(x)

    def inverse(self, y):
        return ops.log(-ops.expm1(-y)) + y

    def log_abs_det_jacobian(self, x, y):
        return -ops.softplus(-x)


class CumulativeDistributionTransform(Bijection):
    def __init__(self, distribution):
        self.distribution = distribution

    def __call__(self, x):
        return self.distribution.cdf(x)

    def inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


class StickBreakingTransform(Bijection):
    domain_dims = codomain_dims = 1

    def __call__(self, x):
        left = ops.arange(x.shape[-1], 0, -1).astype(x.dtype)
        z = ops.clamp(ops.sigmoid(x - ops.log(left)), 1.1754943508222875e-38, 1 - 1.1920928955078125e-07)
        rest = ops.cumprod(1 - z, -1)
        ones = ops.ones_like(x[..., :1])
        return ops.cat((z, ones), -1) * ops.cat((ones, rest), -1)

    def inverse(self, y):
        part = y[..., :-1]
        left = ops.arange(part.shape[-1], 0, -1).astype(y.dtype)
        rest = ops.clamp(1 - ops.cumsum(part, -1), 1.1754943508222875e-38)
        return ops.log(part) - ops.log(rest) + ops.log(left)

    def log_abs_det_jacobian(self, x, y):
        x = x - ops.log(ops.arange(x.shape[-1], 0, -1).astype(x.dtype))
        return (-x - ops.softplus(-x) + ops.log(y[..., :-1])).sum(-1)


class LowerCholeskyTransform(Bijection):
    domain_dims = codomain_dims = 2

    def moved(self, x, change):
        eye = ops.eye(x.shape[-1], x.shape[-1], x.dtype)
        return ops.tril(x, -1) + ops.expand_dims(change(ops.diagonal(x, 0, -2, -1)), -2) * eye

    def __call__(self, x):
        return self.moved(x, ops.exp)

    def inverse(self, y):
        return self.moved(y, ops.log)


class PositiveDefiniteTransform(LowerCholeskyTransform):
    def __call__(self, x):
        lower = self.moved(x, ops.exp)
        return ops.matmul(lower, lower.swapaxes(-1, -2))

    def inverse(self, y):
        return self.moved(ms.Tensor(np.linalg.cholesky(y.asnumpy())), ops.log)


def bounded_transform(constraint):
    """The transform from all numbers to those within the bounds."""
    lower, upper = getattr(constraint, "lower_bound", None), getattr(constraint, "upper_bound", None)
    if lower is None:
        return ComposeTransform([ExpTransform(), AffineTransform(upper, -1)])
    if upper is None:
        return ComposeTransform([ExpTransform(), AffineTransform(lower, 1)])
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower, upper - lower)])
