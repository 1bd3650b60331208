"""Distributions of matrices, and of excesses over a threshold. They build on distributions.py."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


class GeneralizedPareto(Distribution):
    has_rsample = True

    def __init__(self, loc, scale, concentration):
        self.loc, self.scale, self.concentration = same_shape(loc, scale, concentration)

    def safe_concentration(self):
        """The concentration, 1 where it is zero, and whether it is."""
        zero = ops.abs(self.concentration) <= 1e-8
        return ops.where(zero, ops.ones_like(self.concentration), self.concentration), zero

    @property
    def mean(self):
        found = self.loc + self.scale / (1 - ops.where(self.concentration < 1, self.concentration, 0.5))
        return ops.where(self.concentration < 1, found, ops.full_like(found, float("nan")))

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        inside = self.concentration < 0.5
        part = ops.where(inside, self.concentration, 0.25)
        found = ops.square(self.scale) / (ops.square(1 - part) * (1 - 2 * part))
        return ops.where(inside, found, ops.full_like(found, float("nan")))

    def rsample(self, sample_shape=()):
        return self.icdf(unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        shape, zero = self.safe_concentration()
        z = (value - self.loc) / self.scale
        return -ops.log(self.scale) - ops.where(zero, z, (1 / shape + 1) * ops.log1p(shape * z))

    def entropy(self):
        return ops.log(self.scale) + self.concentration + 1

    def cdf(self, value):
        shape, zero = self.safe_concentration()
        z = (value - self.loc) / self.scale
        return 1 - ops.exp(ops.where(zero, -z, -ops.log1p(shape * z) / shape))

    def icdf(self, value):
        shape, zero = self.safe_concentration()
        left = ops.log1p(-value)
        return self.loc + self.scale * ops.where(zero, -left, ops.expm1(-shape * left) / shape)


class Wishart(Distribution):
    has_rsample = True
    event_dims = 2

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None):
        if covariance_matrix is None and scale_tril is None:
            covariance_matrix = ops.inverse(precision_matrix)
        lower = ops.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        batch = np.broadcast_shapes(np.shape(df), lower.shape[:-2])
        self.scale_tril = lower.broadcast_to((*batch, *lower.shape[-2:]))
        self.df = same_shape(df)[0].astype(lower.dtype).broadcast_to(batch)

    @property
    def whole_shape(self):
        return self.scale_tril.shape

    @property
    def covariance_matrix(self):
        return ops.matmul(self.scale_tril, self.scale_tril.swapaxes(-1, -2))

    @property
    def precision_matrix(self):
        return ops.inverse(self.covariance_matrix)

    @property
    def mean(self):
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self.scale_tril.shape[-1] - 1
        factor = ops.where(factor <= 0, ops.full_like(factor, float("nan")), factor)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        whole = self.covariance_matrix
        diagonal = ops.diagonal(whole, 0, -2, -1)
        return self.df[..., None, None] * (ops.square(whole) + diagonal[..., :, None] * diagonal[..., None, :])

    def sample(self, sample_shape=()):
        size, shape = self.scale_tril.shape[-1], (*sample_shape, *self.scale_tril.shape)
        noise = np.tril(np.random.standard_normal(shape), -1)
        free = self.df.asnumpy()[..., None] - np.arange(size)
        noise[..., range(size), range(size)] = np.sqrt(np.random.chisquare(free, shape[:-1]))
        drawn = ops.matmul(self.scale_tril, ms.Tensor(noise.astype(np.float32)))
        return ops.stop_gradient(ops.matmul(drawn, drawn.swapaxes(-1, -2)))

    def log_gamma(self):
        """The multivariate gamma function of half the degrees of freedom."""
        size = self.scale_tril.shape[-1]
        terms = ops.lgamma(self.df[..., None] / 2 - ops.arange(size).astype(self.df.dtype) / 2)
        return size * (size - 1) / 4 * math.log(math.pi) + terms.sum(-1)

    def half_determinant(self):
        return ops.log(ops.diagonal(self.scale_tril, 0, -2, -1)).sum(-1)

    def log_prob(self, value):
        size, nu = self.scale_tril.shape[-1], self.df
        determinant = ops.log(ops.diagonal(ops.cholesky(value), 0, -2, -1)).sum(-1) * 2
        trace = ops.diagonal(ops.matmul(self.precision_matrix, value), 0, -2, -1).sum(-1)
        scale = nu * (size / 2 * math.log(2) + self.half_determinant()) + self.log_gamma()
        return (nu - size - 1) / 2 * determinant - trace / 2 - scale

    def entropy(self):
        size, nu = self.scale_tril.shape[-1], self.df
        terms = ops.digamma(nu[..., None] / 2 - ops.arange(size).astype(nu.dtype) / 2).sum(-1)
        scale = (size + 1) * (size / 2 * math.log(2) + self.half_determinant())
        return scale + self.log_gamma() - (nu - size - 1) / 2 * terms + nu * size / 2


class LKJCholesky(Distribution):
    event_dims = 2

    def __init__(self, dim, concentration=1.0):
        self.dim = dim
        (self.concentration,) = same_shape(concentration)

    @property
    def whole_shape(self):
        return (*self.concentration.shape, self.dim, self.dim)

    def sample(self, sample_shape=()):
        shape, size = (*sample_shape, *self.concentration.shape), self.dim
        marginal = self.concentration.asnumpy()[..., None] + (size - 2) / 2
        offset = np.concatenate([[0], np.arange(size - 1)])
        y = np.random.beta(offset + 0.5, marginal - offset / 2, (*shape, size))[..., None]
        rows = np.tril(np.random.standard_normal((*shape, size, size)), -1)
        rows /= np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)
        rows[..., 0, :] = 0
        drawn = np.sqrt(y) * rows
        drawn[..., range(size), range(size)] = np.sqrt(np.clip(1 - (drawn**2).sum(-1), 1e-38, None))
        return ms.Tensor(drawn.astype(np.float32))

    def log_prob(self, value):
        size, a = self.dim, self.concentration
        order = 2 * (a - 1)[..., None] + (size - ops.arange(2, size + 1)).astype(value.dtype)
        powers = (order * ops.log(ops.diagonal(value, 0, -2, -1)[..., 1:])).sum(-1)
        count = size - 1
        alpha = a + 0.5 * count
        steps = ops.arange(count).astype(value.dtype) / 2
        gammas = count * (count - 1) / 4 * math.log(math.pi) + ops.lgamma((alpha - 0.5)[..., None] - steps).sum(-1)
        return powers - (0.5 * count * math.log(math.pi) + gammas - ops.lgamma(alpha) * count)


class CorrCholeskyTransform(Bijection):
    domain_dims, codomain_dims = 1, 2

    def __call__(self, x):
        x = ops.tanh(x)
        eps = float(np.finfo(np.float32).eps)
        x = ops.clamp(x, -1 + eps, 1 - eps)
        size = round((0.25 + 2 * x.shape[-1]) ** 0.5 + 0.5)
        rows = [ops.zeros((*x.shape[:-1], size), x.dtype)]
        for i in range(1, size):
            part = x[..., i * (i - 1) // 2 : i * (i + 1) // 2]
            rows.append(ops.cat([part, ops.zeros((*x.shape[:-1], size - i), x.dtype)], -1))
        r = ops.stack(rows, -2)
        left = ops.sqrt(ops.cumprod(1 - ops.square(r), -1))
        r = r + ops.eye(size, size, x.dtype)
        return r * ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)

    def inverse(self, y):
        size = y.shape[-1]
        left = ops.sqrt(1 - ops.cumsum(ops.square(y), -1))
        shifted = ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)
        parts = [(y / shifted)[..., i, :i] for i in range(1, size)]
        t = ops.cat(parts, -1)
        return (ops.log1p(t) - ops.log1p(-t)) / 2

    def log_abs_det_jacobian(self, x, y):
        left = 1 - ops.cumsum(ops.square(y), -1)
        parts = [ops.log(left[..., i, : i - 1]).sum(-1) for i in range(2, y.shape[-1])]
        broken = sum(parts) / 2 if parts else ops.zeros(x.shape[:-1], x.dtype)
        return broken - 2 * (x + ops.softplus(-2 * x) - math.log(2.0)).sum(-1)
