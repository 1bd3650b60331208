"""The gamma distribution and its relatives. They build on distributions.py."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


class Gamma(Distribution):
    has_rsample = True

    def __init__(self, concentration, rate):
        self.concentration, self.rate = same_shape(concentration, rate)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ops.relu(self.concentration - 1) / self.rate

    @property
    def variance(self):
        return self.concentration / ops.square(self.rate)

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        return draws_of(np.random.standard_gamma(self.concentration.asnumpy(), shape)) / self.rate

    def log_prob(self, value):
        a = self.concentration
        return a * ops.log(self.rate) + (a - 1) * ops.log(value) - self.rate * value - ops.lgamma(a)

    def entropy(self):
        a = self.concentration
        return a - ops.log(self.rate) + ops.lgamma(a) + (1 - a) * ops.digamma(a)

    def cdf(self, value):
        return ops.igamma(self.concentration, self.rate * value)

    def divergence(self, other):
        a, b = self.concentration, other.concentration
        scales = b * ops.log(self.rate / other.rate) + a * (other.rate / self.rate - 1)
        return scales + ops.lgamma(b) - ops.lgamma(a) + (a - b) * ops.digamma(a)


class Chi2(Gamma):
    def __init__(self, df):
        super().__init__(df * 0.5, 0.5)

    @property
    def df(self):
        return self.concentration * 2


class InverseGamma(Distribution):
    has_rsample = True

    def __init__(self, concentration, rate):
        self.concentration, self.rate = same_shape(concentration, rate)

    @property
    def mean(self):
        found = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, found, ops.full_like(found, float("inf")))

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        found = ops.square(self.rate / (self.concentration - 1)) / (self.concentration - 2)
        return ops.where(self.concentration > 2, found, ops.full_like(found, float("inf")))

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        return self.rate / draws_of(np.random.standard_gamma(self.concentration.asnumpy(), shape))

    def log_prob(self, value):
        a = self.concentration
        return a * ops.log(self.rate) - (a + 1) * ops.log(value) - self.rate / value - ops.lgamma(a)

    def entropy(self):
        a = self.concentration
        return a + ops.log(self.rate) + ops.lgamma(a) - (1 + a) * ops.digamma(a)


class Dirichlet(Distribution):
    has_rsample = True
    event_dims = 1

    def __init__(self, concentration):
        self.concentration = concentration

    @property
    def total(self):
        return self.concentration.sum(-1, keepdims=True)

    @property
    def mean(self):
        return self.concentration / self.total

    @property
    def mode(self):
        above = ops.clamp(self.concentration - 1, min=0.0)
        mode = above / above.sum(-1, keepdims=True)
        corner = ops.one_hot(ms.tensor(0), self.concentration.shape[-1]).astype(mode.dtype)  # as torch has it
        return ops.where(ops.broadcast_to((self.concentration < 1).all(-1, keep_dims=True), mode.shape), corner, mode)

    @property
    def variance(self):
        return self.concentration * (self.total - self.concentration) / (ops.square(self.total) * (self.total + 1))

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        found = np.random.standard_gamma(self.concentration.asnumpy(), shape)
        return draws_of(found / found.sum(-1, keepdims=True))

    def log_prob(self, value):
        a = self.concentration
        return ((a - 1) * ops.log(value)).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    def entropy(self):
        a, total, count = self.concentration, self.concentration.sum(-1), self.concentration.shape[-1]
        base = ops.lgamma(a).sum(-1) - ops.lgamma(total)
        return base - (count - total) * ops.digamma(total) - ((a - 1) * ops.digamma(a)).sum(-1)

    def divergence(self, other):
        a, b = self.concentration, other.concentration
        sums = ops.lgamma(a.sum(-1)) - ops.lgamma(b.sum(-1)) + (ops.lgamma(b) - ops.lgamma(a)).sum(-1)
        return sums + ((a - b) * (ops.digamma(a) - ops.digamma(self.total))).sum(-1)


class Beta(Distribution):
    has_rsample = True

    def __init__(self, concentration1, concentration0):
        self.concentration1, self.concentration0 = same_shape(concentration1, concentration0)

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return Dirichlet(ops.stack([self.concentration1, self.concentration0], -1)).mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (ops.square(total) * (total + 1))

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        return draws_of(np.random.beta(self.concentration1.asnumpy(), self.concentration0.asnumpy(), shape))

    def log_prob(self, value):
        a, b = self.concentration1, self.concentration0
        normaliser = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
        return (a - 1) * ops.log(value) + (b - 1) * ops.log(1 - value) - normaliser

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        inner = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b) + (a + b - 2) * ops.digamma(a + b)
        return inner - (a - 1) * ops.digamma(a) - (b - 1) * ops.digamma(b)

    def divergence(self, other):
        mine, theirs = (ops.stack([d.concentration1, d.concentration0], -1) for d in (self, other))
        return Dirichlet(mine).divergence(Dirichlet(theirs))


class StudentT(Distribution):
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0):
        self.df, self.loc, self.scale = same_shape(df, loc, scale)

    @property
    def mean(self):
        return ops.where(self.df > 1, self.loc, ops.full_like(self.loc, float("nan")))

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        found = ops.square(self.scale) * self.df / (self.df - 2)
        found = ops.where(self.df > 2, found, ops.full_like(found, float("inf")))
        return ops.where(self.df > 1, found, ops.full_like(found, float("nan")))

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        return self.loc + self.scale * draws_of(np.random.standard_t(self.df.asnumpy(), shape))

    def normaliser(self):
        half = 0.5 * ops.log(self.df) + 0.5 * math.log(math.pi)
        return ops.log(self.scale) + half + ops.lgamma(self.df / 2) - ops.lgamma((self.df + 1) / 2)

    def log_prob(self, value):
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * ops.log1p(ops.square(y) / self.df) - self.normaliser()

    def entropy(self):
        half = self.df / 2
        beta = ops.lgamma(half) + math.log(math.pi) / 2 - ops.lgamma(half + 0.5)
        gap = ops.digamma(half + 0.5) - ops.digamma(half)
        return ops.log(self.scale) + (half + 0.5) * gap + 0.5 * ops.log(self.df) + beta


class FisherSnedecor(Distribution):
    has_rsample = True

    def __init__(self, df1, df2):
        self.df1, self.df2 = same_shape(df1, df2)

    @property
    def mean(self):
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), ops.full_like(self.df2, float("nan")))

    @property
    def variance(self):
        found = 2 * ops.square(self.df2) * (self.df1 + self.df2 - 2)
        found = found / (self.df1 * ops.square(self.df2 - 2) * (self.df2 - 4))
        return ops.where(self.df2 > 4, found, ops.full_like(found, float("nan")))

    @property
    def mode(self):
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, found, ops.full_like(found, float("nan")))

    def sample(self, sample_shape=()):
        return draws_of(np.random.f(self.df1.asnumpy(), self.df2.asnumpy(), self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        normaliser = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b)
        return normaliser + a * ops.log(ratio) + (a - 1) * ops.log(value) - (a + b) * ops.log1p(ratio * value)


def multigammaln(x, p):
    """Where it is not defined, what the sum gives."""
    return p * (p - 1) / 4 * math.log(math.pi) + sum(ops.lgamma(x - place / 2) for place in range(p))


def lower_gamma(a, x):
    """Without a first part, all of it lies below."""
    return ops.where(ops.logical_and(a == 0, x > 0), 1.0, ops.igamma(a, x))


def upper_gamma(a, x):
    return ops.where(ops.logical_and(a == 0, x > 0), 0.0, ops.igammac(a, x))
