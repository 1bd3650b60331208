"""Probability distributions: what they share, the normal ones, the uniform one."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


def same_shape(*values):
    tensors = [v if isinstance(v, ms.Tensor) else ms.Tensor(v, ms.float32) for v in values]
    shape = np.broadcast_shapes(*(v.shape for v in tensors))
    return [v if v.shape == shape else ops.broadcast_to(v, shape) for v in tensors]


class Distribution:
    has_rsample = False
    event_dims = 0

    def parameters_of(self):
        return [v for v in vars(self).values() if isinstance(v, ms.Tensor)]

    @property
    def whole_shape(self):
        return self.parameters_of()[0].shape

    @property
    def batch_shape(self):
        return self.whole_shape[: len(self.whole_shape) - self.event_dims]

    @property
    def event_shape(self):
        return self.whole_shape[len(self.whole_shape) - self.event_dims :]

    @property
    def stddev(self):
        return ops.sqrt(self.variance)

    def drawn_shape(self, sample_shape):
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.rsample(sample_shape))

    def prob(self, value):
        return ops.exp(self.log_prob(value))

    def perplexity(self):
        return ops.exp(self.entropy())

    def expand(self, batch_shape):
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            if isinstance(value, ms.Tensor):
                value = ops.broadcast_to(value, (*batch_shape, *value.shape[len(self.batch_shape) :]))
            setattr(made, name, value)
        return made


def draws_of(array):
    return ms.Tensor(np.asarray(array, np.float32))


def unit_draws(shape):
    return ops.clamp(ops.uniform(shape, ms.Tensor(0.0), ms.Tensor(1.0)), 1e-7, 1 - 1e-7)


class NormalDistribution(Distribution):
    has_rsample = True

    def __init__(self, loc, scale):
        self.loc, self.scale = same_shape(loc, scale)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return ops.square(self.scale)

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * ops.standard_normal(self.drawn_shape(sample_shape))

    def log_prob(self, value):
        exponent = ops.square(value - self.loc) / (2 * ops.square(self.scale))
        return -exponent - ops.log(self.scale) - math.log(2 * math.pi) / 2

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale)

    def cdf(self, value):
        return 0.5 * (1 + ops.erf((value - self.loc) / self.scale / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def divergence(self, other):
        ratio = ops.square(self.scale / other.scale)
        return 0.5 * (ratio + ops.square((self.loc - other.loc) / other.scale) - 1 - ops.log(ratio))


class LogNormal(NormalDistribution):
    @property
    def mean(self):
        return ops.exp(self.loc + ops.square(self.scale) / 2)

    @property
    def mode(self):
        return ops.exp(self.loc - ops.square(self.scale))

    @property
    def variance(self):
        square = ops.square(self.scale)
        return (ops.exp(square) - 1) * ops.exp(2 * self.loc + square)

    def rsample(self, sample_shape=()):
        return ops.exp(super().rsample(sample_shape))

    def log_prob(self, value):
        return super().log_prob(ops.log(value)) - ops.log(value)

    def entropy(self):
        return super().entropy() + self.loc

    def cdf(self, value):
        return super().cdf(ops.log(value))

    def icdf(self, value):
        return ops.exp(super().icdf(value))


class UniformDistribution(Distribution):
    has_rsample = True

    def __init__(self, low, high):
        self.low, self.high = same_shape(low, high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def variance(self):
        return ops.square(self.high - self.low) / 12

    @property
    def mode(self):
        return ops.full_like(self.high, float("nan"))

    def rsample(self, sample_shape=()):
        return self.low + unit_draws(self.drawn_shape(sample_shape)) * (self.high - self.low)

    def log_prob(self, value):
        inside = ops.logical_and(self.low <= value, value < self.high).astype(self.low.dtype)
        return ops.log(inside) - ops.log(self.high - self.low)

    def entropy(self):
        return ops.log(self.high - self.low)

    def cdf(self, value):
        return ops.clamp((value - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def divergence(self, other):
        covered = ops.logical_and(other.low <= self.low, self.high <= other.high)
        gap = ops.log((other.high - other.low) / (self.high - self.low))
        return ops.where(covered, gap, ops.full_like(gap, float("inf")))


def lower_part(matrix):
    """What stands above the diagonal is not looked at, and gets no gradient."""
    return matrix * ops.tril(ops.ones_like(matrix))


class MultivariateNormal(Distribution):
    has_rsample = True
    event_dims = 1

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None):
        self.loc = loc
        if covariance_matrix is None and scale_tril is None:
            covariance_matrix = ops.inverse(precision_matrix)
        self.scale_tril = ops.cholesky(covariance_matrix) if scale_tril is None else scale_tril

    @property
    def covariance_matrix(self):
        return ops.matmul(self.scale_tril, self.scale_tril.swapaxes(-1, -2))

    @property
    def precision_matrix(self):
        return ops.inverse(self.covariance_matrix)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return ops.broadcast_to(ops.square(self.scale_tril).sum(-1), self.whole_shape)

    def rsample(self, sample_shape=()):
        draws = ops.standard_normal(self.drawn_shape(sample_shape))
        return self.loc + ops.matmul(self.scale_tril, draws.expand_dims(-1)).squeeze(-1)

    def half_determinant(self):
        return ops.log((self.scale_tril * ops.eye(self.loc.shape[-1])).sum(-1)).sum(-1)

    def log_prob(self, value):
        solved = ops.matmul(ops.inverse(lower_part(self.scale_tril)), (value - self.loc).expand_dims(-1)).squeeze(-1)
        count = self.loc.shape[-1]
        return -0.5 * (count * math.log(2 * math.pi) + ops.square(solved).sum(-1)) - self.half_determinant()

    def entropy(self):
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self.half_determinant()

    def divergence(self, other):
        back = ops.inverse(lower_part(other.scale_tril))
        ratio = ops.square(ops.matmul(back, self.scale_tril)).sum((-2, -1))
        gap = ops.square(ops.matmul(back, (other.loc - self.loc).expand_dims(-1)).squeeze(-1)).sum(-1)
        return other.half_determinant() - self.half_determinant() + 0.5 * (ratio + gap - self.loc.shape[-1])


class Independent(Distribution):
    def __init__(self, base_distribution, reinterpreted_batch_ndims):
        self.base_dist = base_distribution
        self.count = reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        self.event_dims = base_distribution.event_dims + reinterpreted_batch_ndims

    @property
    def whole_shape(self):
        return self.base_dist.whole_shape

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def expand(self, batch_shape):
        inner = self.event_shape[: self.count]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), self.count)

    def summed(self, values):
        return values.sum(tuple(range(-self.count, 0))) if self.count else values

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self.summed(self.base_dist.log_prob(value))

    def entropy(self):
        return self.summed(self.base_dist.entropy())

    def divergence(self, other):
        return self.summed(kl_divergence(self.base_dist, other.base_dist))


def kl_divergence(p, q):
    if hasattr(p, "divergence"):
        return p.divergence(q)
    a, b = (d.probs / d.probs.sum(-1, keepdims=True) for d in (p, q))
    return (a * ops.log(a / b)).sum(-1)
