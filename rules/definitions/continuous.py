"""Continuous distributions that are drawn by their inverse. They build on distributions.py."""

import math

from mindspore import ops


class Exponential(Distribution):
    has_rsample = True

    def __init__(self, rate):
        (self.rate,) = same_shape(rate)

    @property
    def mean(self):
        return 1 / self.rate

    @property
    def mode(self):
        return ops.zeros_like(self.rate)

    @property
    def variance(self):
        return 1 / ops.square(self.rate)

    def rsample(self, sample_shape=()):
        return -ops.log(unit_draws(self.drawn_shape(sample_shape))) / self.rate

    def log_prob(self, value):
        return ops.log(self.rate) - self.rate * value

    def entropy(self):
        return 1.0 - ops.log(self.rate)

    def cdf(self, value):
        return 1 - ops.exp(-self.rate * value)

    def icdf(self, value):
        return -ops.log1p(-value) / self.rate

    def divergence(self, other):
        ratio = other.rate / self.rate
        return ratio - 1 - ops.log(ratio)


class Laplace(Distribution):
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
        return 2 * ops.square(self.scale)

    def rsample(self, sample_shape=()):
        return self.icdf(unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def entropy(self):
        return 1 + ops.log(2 * self.scale)

    def cdf(self, value):
        gap = value - self.loc
        return 0.5 - 0.5 * ops.sign(gap) * (ops.exp(-ops.abs(gap) / self.scale) - 1)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * ops.sign(term) * ops.log1p(-2 * ops.abs(term))

    def divergence(self, other):
        ratio = self.scale / other.scale
        gap = ops.abs(self.loc - other.loc)
        return -ops.log(ratio) + gap / other.scale + ratio * ops.exp(-gap / self.scale) - 1


class Cauchy(Distribution):
    has_rsample = True

    def __init__(self, loc, scale):
        self.loc, self.scale = same_shape(loc, scale)

    @property
    def mean(self):
        return ops.full_like(self.loc, float("nan"))

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return ops.full_like(self.loc, float("inf"))

    def rsample(self, sample_shape=()):
        return self.icdf(unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        return -math.log(math.pi) - ops.log(self.scale) - ops.log1p(ops.square((value - self.loc) / self.scale))

    def entropy(self):
        return math.log(4 * math.pi) + ops.log(self.scale)

    def cdf(self, value):
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc


class Gumbel(Distribution):
    has_rsample = True

    def __init__(self, loc, scale):
        self.loc, self.scale = same_shape(loc, scale)

    @property
    def mean(self):
        return self.loc + self.scale * 0.5772156649015329

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return ops.square(self.scale) * math.pi**2 / 6

    def rsample(self, sample_shape=()):
        return self.icdf(unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        y = (self.loc - value) / self.scale
        return y - ops.exp(y) - ops.log(self.scale)

    def entropy(self):
        return ops.log(self.scale) + 1.5772156649015329

    def cdf(self, value):
        return ops.exp(-ops.exp((self.loc - value) / self.scale))

    def icdf(self, value):
        return self.loc - self.scale * ops.log(-ops.log(value))


class HalfNormal(Distribution):
    has_rsample = True

    def __init__(self, scale):
        (self.scale,) = same_shape(scale)

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self):
        return ops.zeros_like(self.scale)

    @property
    def variance(self):
        return ops.square(self.scale) * (1 - 2 / math.pi)

    def rsample(self, sample_shape=()):
        return self.scale * ops.abs(ops.standard_normal(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        found = -ops.square(value / self.scale) / 2 - ops.log(self.scale) + math.log(2 / math.pi) / 2
        return ops.where(ops.broadcast_to(value >= 0, found.shape), found, ops.full_like(found, -float("inf")))

    def entropy(self):
        return 0.5 + 0.5 * math.log(math.pi / 2) + ops.log(self.scale)

    def cdf(self, value):
        return ops.erf(value / self.scale / math.sqrt(2))

    def icdf(self, value):
        return self.scale * ops.erfinv(value) * math.sqrt(2)


class HalfCauchy(Distribution):
    has_rsample = True

    def __init__(self, scale):
        (self.scale,) = same_shape(scale)

    @property
    def mean(self):
        return ops.full_like(self.scale, float("inf"))

    @property
    def mode(self):
        return ops.zeros_like(self.scale)

    @property
    def variance(self):
        return ops.full_like(self.scale, float("inf"))

    def rsample(self, sample_shape=()):
        return self.scale * ops.tan(math.pi / 2 * unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        found = math.log(2 / math.pi) - ops.log(self.scale) - ops.log1p(ops.square(value / self.scale))
        return ops.where(ops.broadcast_to(value >= 0, found.shape), found, ops.full_like(found, -float("inf")))

    def entropy(self):
        return math.log(2 * math.pi) + ops.log(self.scale)

    def cdf(self, value):
        return 2 / math.pi * ops.atan(value / self.scale)

    def icdf(self, value):
        return ops.tan(math.pi / 2 * value) * self.scale


class Pareto(Distribution):
    has_rsample = True

    def __init__(self, scale, alpha):
        self.scale, self.alpha = same_shape(scale, alpha)

    @property
    def mean(self):
        found = self.alpha * self.scale / (self.alpha - 1)
        return ops.where(self.alpha > 1, found, ops.full_like(found, float("inf")))

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        found = ops.square(self.scale) * self.alpha / (ops.square(self.alpha - 1) * (self.alpha - 2))
        return ops.where(self.alpha > 2, found, ops.full_like(found, float("inf")))

    def rsample(self, sample_shape=()):
        return self.scale * ops.exp(-ops.log(unit_draws(self.drawn_shape(sample_shape))) / self.alpha)

    def log_prob(self, value):
        return ops.log(self.alpha) + self.alpha * ops.log(self.scale) - (self.alpha + 1) * ops.log(value)

    def entropy(self):
        return ops.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    def cdf(self, value):
        return 1 - ops.pow(self.scale / value, self.alpha)

    def icdf(self, value):
        return self.scale * ops.pow(1 - value, -1 / self.alpha)


class Weibull(Distribution):
    has_rsample = True

    def __init__(self, scale, concentration):
        self.scale, self.concentration = same_shape(scale, concentration)

    @property
    def mean(self):
        return self.scale * ops.exp(ops.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self):
        return self.scale * ops.pow((self.concentration - 1) / self.concentration, 1 / self.concentration)

    @property
    def variance(self):
        first, second = (ops.exp(ops.lgamma(1 + n / self.concentration)) for n in (1, 2))
        return ops.square(self.scale) * (second - ops.square(first))

    def rsample(self, sample_shape=()):
        draws = -ops.log(unit_draws(self.drawn_shape(sample_shape)))
        return self.scale * ops.pow(draws, 1 / self.concentration)

    def log_prob(self, value):
        a, ratio = self.concentration, value / self.scale
        return ops.log(a / self.scale) + (a - 1) * ops.log(ratio) - ops.pow(ratio, a)

    def entropy(self):
        return 0.5772156649015329 * (1 - 1 / self.concentration) + ops.log(self.scale / self.concentration) + 1

    def cdf(self, value):
        return 1 - ops.exp(-ops.pow(value / self.scale, self.concentration))

    def icdf(self, value):
        return self.scale * ops.pow(-ops.log1p(-value), 1 / self.concentration)


class Kumaraswamy(Distribution):
    has_rsample = True

    def __init__(self, concentration1, concentration0):
        self.concentration1, self.concentration0 = same_shape(concentration1, concentration0)

    def moment(self, n):
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * ops.exp(ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b))

    @property
    def mean(self):
        return self.moment(1)

    @property
    def variance(self):
        return self.moment(2) - ops.square(self.moment(1))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        found = ops.exp(ops.log1p(-b) / b - ops.log1p(-b * a))  # no number but for b = 1, as in torch
        return ops.where(ops.logical_or(a < 1, b < 1), ops.full_like(found, float("nan")), found)

    def rsample(self, sample_shape=()):
        draws = unit_draws(self.drawn_shape(sample_shape))
        return ops.pow(1 - ops.pow(draws, 1 / self.concentration0), 1 / self.concentration1)

    def log_prob(self, value):
        a, b = self.concentration1, self.concentration0
        return ops.log(a * b) + (a - 1) * ops.log(value) + (b - 1) * ops.log1p(-ops.pow(value, a))

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * (ops.digamma(b + 1) + 0.5772156649015329) - ops.log(a) - ops.log(b)

    def cdf(self, value):
        return 1 - ops.pow(1 - ops.pow(value, self.concentration1), self.concentration0)

    def icdf(self, value):
        return ops.pow(1 - ops.pow(1 - value, 1 / self.concentration0), 1 / self.concentration1)
