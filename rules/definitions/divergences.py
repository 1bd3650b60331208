"""Divergences between distributions of two kinds, and of kinds whose classes do not have them."""

import math

from mindspore import ops


def no_divergence(p, q):
    """The first has values that the second never has."""
    return ops.full_like(p.mean + 0 * q.mean, float("inf"))


def times_log(x):
    return ops.where(x == 0, ops.zeros_like(x), x * ops.log(ops.where(x == 0, ops.ones_like(x), x)))


def from_normal(mean, variance, q):
    """What a normal distribution loses against one of this mean and variance, without its entropy."""
    spread = (variance + ops.square(mean - q.loc)) / (2 * ops.square(q.scale))
    return 0.5 * math.log(2 * math.pi) + ops.log(q.scale) + spread


def divergence_normal(p, q):
    return from_normal(p.mean, p.variance, q) - p.entropy()


def divergence_exponential(p, q):
    return q.rate * p.mean - ops.log(q.rate) - p.entropy()


def from_gamma(mean, mean_log, q):
    a = q.concentration
    return ops.lgamma(a) - a * ops.log(q.rate) - (a - 1) * mean_log + q.rate * mean


def divergence_beta_gamma(p, q):
    mean_log = ops.digamma(p.concentration1) - ops.digamma(p.concentration1 + p.concentration0)
    return from_gamma(p.mean, mean_log, q) - p.entropy()


def divergence_exponential_gamma(p, q):
    return from_gamma(p.mean, -0.5772156649015329 - ops.log(p.rate), q) - p.entropy()


def divergence_pareto_gamma(p, q):
    return from_gamma(p.mean, ops.log(p.scale) + 1 / p.alpha, q) - p.entropy()


def mean_log_uniform(p):
    return (times_log(p.high) - times_log(p.low)) / (p.high - p.low) - 1


def divergence_uniform_gamma(p, q):
    found = from_gamma(p.mean, mean_log_uniform(p), q) - p.entropy()
    return ops.where(p.low < 0, ops.full_like(found, float("inf")), found)


def divergence_uniform_exponential(p, q):
    found = divergence_exponential(p, q)
    return ops.where(p.low < 0, ops.full_like(found, float("inf")), found)


def divergence_uniform_beta(p, q):
    width = p.high - p.low
    other_log = (times_log(1 - p.low) - times_log(1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    found = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b) - ops.log(width)
    found = found - (a - 1) * mean_log_uniform(p) - (b - 1) * other_log
    return ops.where(ops.logical_or(p.high > 1, p.low < 0), ops.full_like(found, float("inf")), found)


def divergence_uniform_pareto(p, q):
    found = (q.alpha + 1) * mean_log_uniform(p) - ops.log(q.alpha) - q.alpha * ops.log(q.scale) - p.entropy()
    return ops.where(p.low < q.scale, ops.full_like(found, float("inf")), found)


def divergence_beta_uniform(p, q):
    found = ops.log(q.high - q.low) - p.entropy()
    return ops.where(ops.logical_or(q.low > 0, q.high < 1), ops.full_like(found, float("inf")), found)


def divergence_exponential_gumbel(p, q):
    product, ratio = p.rate * q.scale, q.loc / q.scale
    return ops.log(product) - 1 - ratio + ops.exp(ratio) * product / (product + 1) + 1 / product


def divergence_gamma_gumbel(p, q):
    product, ratio, a = p.rate * q.scale, q.loc / q.scale, p.concentration
    own = (a - 1) * ops.digamma(a) - ops.lgamma(a) - a
    return own + ops.log(product) + a / product + ops.exp(ratio) * (1 + 1 / product) ** (-a) - ratio


def divergence_normal_gumbel(p, q):
    spread, gap = ops.square(p.scale / q.scale), (p.loc - q.loc) / q.scale
    return gap + ops.exp(0.5 * spread - gap) - ops.log(spread) * 0.5 - 0.5 * (1 + math.log(2 * math.pi))


def divergence_uniform_gumbel(p, q):
    width, high, low = (p.high - p.low) / q.scale, (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return 0.5 * (high + low) - ops.log(width) - (ops.exp(-high) - ops.exp(-low)) / width


def divergence_gumbel(p, q):
    ratio, gap = p.scale / q.scale, (p.loc - q.loc) / q.scale
    raised = ops.exp(ops.lgamma(1 + ratio) - gap)
    return raised - (1 + 0.5772156649015329) - ops.log(ratio) + gap + ratio * 0.5772156649015329


def divergence_normal_laplace(p, q):
    gap, ratio = p.loc - q.loc, p.scale / q.scale
    near = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * ops.square(gap / p.scale))
    far = gap * ops.erf(math.sqrt(0.5) * gap / p.scale)
    return (near + far) / q.scale - ops.log(ratio) - 0.5 * (1 + math.log(0.5 * math.pi))


def divergence_bernoulli_poisson(p, q):
    return q.rate - p.probs * ops.log(q.rate) - p.entropy()


def divergence_cauchy(p, q):
    return ops.log(ops.square(p.scale + q.scale) + ops.square(p.loc - q.loc)) - ops.log(4 * p.scale * q.scale)


def divergence_half_normal(p, q):
    ratio = ops.square(p.scale / q.scale)
    return 0.5 * (ratio - 1 - ops.log(ratio))


def divergence_pareto(p, q):
    ratio, scale = q.alpha / p.alpha, p.scale / q.scale
    found = q.alpha * ops.log(scale) - ops.log(ratio) + ratio - 1
    return ops.where(p.scale < q.scale, ops.full_like(found, float("inf")), found)
