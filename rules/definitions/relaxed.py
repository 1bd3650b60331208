"""Relaxed, mixed and bounded distributions. They build on distributions.py and discrete.py."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


def inner_probs(probs):
    return ops.clamp(probs, 1.1920928955078125e-07, 1 - 1.1920928955078125e-07)


class RelaxedBernoulli(Distribution):
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None):
        probs, logits = (None if v is None else same_shape(v)[0] for v in (probs, logits))
        self.logits = ops.log(inner_probs(probs)) - ops.log1p(-inner_probs(probs)) if logits is None else logits
        (self.temperature,) = same_shape(temperature)

    @property
    def probs(self):
        return ops.sigmoid(self.logits)

    def rsample(self, sample_shape=()):
        draws = unit_draws(self.drawn_shape(sample_shape))
        noise = ops.log(draws) - ops.log1p(-draws)
        return inner_probs(ops.sigmoid((noise + self.logits) / self.temperature))

    def log_prob(self, value):
        x = ops.log(inner_probs(value)) - ops.log1p(-inner_probs(value))
        gap = self.logits - x * self.temperature
        density = ops.log(self.temperature) + gap - 2 * ops.softplus(gap)
        return density + ops.softplus(-x) + ops.softplus(x)


class RelaxedOneHotCategorical(Distribution):
    has_rsample = True
    event_dims = 1

    def __init__(self, temperature, probs=None, logits=None):
        found = ops.log(inner_probs(probs / probs.sum(-1, keepdims=True))) if logits is None else logits
        self.logits = ops.log_softmax(found, -1)
        self.temperature = temperature

    @property
    def probs(self):
        return ops.softmax(self.logits, -1)

    def rsample(self, sample_shape=()):
        noise = -ops.log(-ops.log(unit_draws(self.drawn_shape(sample_shape))))
        return ops.softmax((self.logits + noise) / self.temperature, -1)

    def log_prob(self, value):
        x = ops.log(value)
        count = self.logits.shape[-1]
        score = ops.log_softmax(self.logits - x * self.temperature, -1).sum(-1)
        return score + math.lgamma(count) + (count - 1) * ops.log(self.temperature) - x.sum(-1)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - ops.stop_gradient(self.probs))


class MixtureSameFamily(Distribution):
    def __init__(self, mixture_distribution, component_distribution):
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        self.event_dims = getattr(component_distribution, "event_dims", 0)

    @property
    def shares(self):
        probs = self.mixture_distribution.probs
        return probs / probs.sum(-1, keepdims=True)

    @property
    def whole_shape(self):
        shape = tuple(self.component_distribution.mean.shape)
        place = len(shape) - self.event_dims - 1
        return shape[:place] + shape[place + 1 :]

    def expand(self, batch_shape):
        count = self.shares.shape[-1]
        mixture, component = self.mixture_distribution, self.component_distribution
        return MixtureSameFamily(mixture.expand(batch_shape), component.expand((*batch_shape, count)))

    def mixed(self, values):
        shares = self.shares.reshape(self.shares.shape + (1,) * self.event_dims)
        return (shares * values).sum(-1 - self.event_dims)

    @property
    def mean(self):
        return self.mixed(self.component_distribution.mean)

    @property
    def variance(self):
        means = self.component_distribution.mean
        spread = ops.square(means - self.mean.expand_dims(-1 - self.event_dims))
        return self.mixed(self.component_distribution.variance) + self.mixed(spread)

    def log_prob(self, value):
        found = self.component_distribution.log_prob(value.expand_dims(-1 - self.event_dims))
        return ops.logsumexp(found + ops.log(self.shares), -1)

    def cdf(self, value):
        return self.mixed(self.component_distribution.cdf(value.expand_dims(-1 - self.event_dims)))

    def sample(self, sample_shape=()):
        noise = -np.log(-np.log(np.random.uniform(1e-7, 1 - 1e-7, (*sample_shape, *self.shares.shape))))
        chosen = np.eye(self.shares.shape[-1])[(noise + np.log(self.shares.asnumpy())).argmax(-1)]
        chosen = draws_of(chosen.reshape(chosen.shape + (1,) * self.event_dims))
        return (chosen * self.component_distribution.sample(sample_shape)).sum(-1 - self.event_dims)


class LowRankMultivariateNormal(MultivariateNormal):
    def __init__(self, loc, cov_factor, cov_diag):
        self.cov_factor, self.cov_diag = cov_factor, cov_diag
        spread = cov_diag.expand_dims(-1) * ops.eye(loc.shape[-1])
        super().__init__(loc, ops.matmul(cov_factor, cov_factor.swapaxes(-1, -2)) + spread)

    @property
    def whole_shape(self):
        return self.loc.shape

    @property
    def precision_matrix(self):
        return ops.inverse(self.covariance_matrix)


class LogisticNormal(Distribution):
    has_rsample = True

    def __init__(self, loc, scale):
        self.loc, self.scale = same_shape(loc, scale)
        self.event_dims = 1

    @property
    def whole_shape(self):
        return (*self.loc.shape[:-1], self.loc.shape[-1] + 1)

    def offsets(self):
        count = self.loc.shape[-1]
        return ops.log(ops.arange(count, 0, -1).astype(self.loc.dtype))

    def rsample(self, sample_shape=()):
        x = self.loc + self.scale * ops.standard_normal((*sample_shape, *self.loc.shape))
        part = inner_probs(ops.sigmoid(x - self.offsets()))
        one = ops.ones_like(part[..., :1])
        return ops.cat((part, one), -1) * ops.cat((one, ops.cumprod(1 - part, -1)), -1)

    def log_prob(self, value):
        head = value[..., :-1]
        rest = ops.clamp(1 - ops.cumsum(head, -1), min=1.1754943508222875e-38)
        x = ops.log(head) - ops.log(rest) + self.offsets()
        normal = -ops.square((x - self.loc) / self.scale) / 2 - ops.log(self.scale) - math.log(2 * math.pi) / 2
        moved = x - self.offsets()
        slope = -moved - ops.softplus(-moved) + ops.log(head)
        return (normal - slope).sum(-1)


class ContinuousBernoulli(Distribution):
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501)):
        (self.probs,) = same_shape(ops.sigmoid(same_shape(logits)[0]) if probs is None else probs)
        self.lims = lims

    @property
    def logits(self):
        return ops.log(inner_probs(self.probs)) - ops.log1p(-inner_probs(self.probs))

    @property
    def outside(self):
        return ops.logical_or(self.probs <= self.lims[0], self.probs > self.lims[1])

    @property
    def cut(self):
        return ops.where(self.outside, inner_probs(self.probs), ops.full_like(self.probs, self.lims[0]))

    def log_normaliser(self):
        cut = self.cut
        below = ops.where(cut <= 0.5, cut, ops.zeros_like(cut))
        above = ops.where(cut >= 0.5, cut, ops.ones_like(cut))
        base = ops.log(ops.abs(ops.log1p(-cut) - ops.log(cut)))
        found = base - ops.where(cut <= 0.5, ops.log1p(-2 * below), ops.log(2 * above - 1))
        x = ops.square(self.probs - 0.5)
        return ops.where(self.outside, found, math.log(2.0) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self):
        cut, x = self.cut, self.probs - 0.5
        found = cut / (2 * cut - 1) + 1 / (ops.log1p(-cut) - ops.log(cut))
        return ops.where(self.outside, found, 0.5 + (1 / 3 + 16 / 45 * ops.square(x)) * x)

    @property
    def variance(self):
        cut, x = self.cut, ops.square(self.probs - 0.5)
        found = cut * (cut - 1) / ops.square(1 - 2 * cut) + 1 / ops.square(ops.log1p(-cut) - ops.log(cut))
        return ops.where(self.outside, found, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape=()):
        return self.icdf(unit_draws(self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        logits = self.logits
        return value * logits - ops.softplus(logits) + self.log_normaliser()

    def entropy(self):
        zero, one = ops.log1p(-inner_probs(self.probs)), ops.log(inner_probs(self.probs))
        return self.mean * (zero - one) - self.log_normaliser() - zero

    def cdf(self, value):
        cut = self.cut
        inside = (cut**value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        return ops.clamp(ops.where(self.outside, inside, value + ops.zeros_like(inside)), 0.0, 1.0)

    def icdf(self, value):
        cut = self.cut
        found = ops.log1p(-cut + value * (2 * cut - 1)) - ops.log1p(-cut)
        return ops.where(self.outside, found / (ops.log(cut) - ops.log1p(-cut)), value + ops.zeros_like(found))


class VonMises(Distribution):
    def __init__(self, loc, concentration):
        self.loc, self.concentration = same_shape(loc, concentration)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return 1 - ops.bessel_i1e(self.concentration) / ops.bessel_i0e(self.concentration)

    def sample(self, sample_shape=()):
        found = np.random.vonmises(self.loc.asnumpy(), self.concentration.asnumpy(), self.drawn_shape(sample_shape))
        return ms.Tensor(found, ms.float32)

    def log_prob(self, value):
        normaliser = math.log(2 * math.pi) + ops.log(ops.bessel_i0e(self.concentration)) + self.concentration
        return self.concentration * ops.cos(value - self.loc) - normaliser
