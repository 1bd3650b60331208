"""Distributions of counts and choices. They build on distributions.py."""

import numpy as np
from mindspore import ops


class Poisson(Distribution):
    def __init__(self, rate):
        (self.rate,) = same_shape(rate)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return ops.floor(self.rate)

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=()):
        return draws_of(np.random.poisson(self.rate.asnumpy(), self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        return value * ops.log(self.rate) - self.rate - ops.lgamma(value + 1.0)

    def divergence(self, other):
        return self.rate * ops.log(self.rate / other.rate) - (self.rate - other.rate)


def logarithms(probs, logits):
    """Those of a success and of a failure: where the logits are known, without the rounding of a probability."""
    if logits is None:
        return ops.log(probs), ops.log1p(-probs)
    return -ops.softplus(-logits), -ops.softplus(logits)


class Geometric(Distribution):
    def __init__(self, probs=None, logits=None):
        self.given = None if logits is None else same_shape(logits)[0]
        (self.probs,) = same_shape(probs if logits is None else ops.sigmoid(self.given))

    @property
    def logits(self):
        return ops.log(self.probs) - ops.log1p(-self.probs) if self.given is None else self.given

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def mode(self):
        return ops.zeros_like(self.probs)

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=()):
        draws = unit_draws(self.drawn_shape(sample_shape))
        return ops.stop_gradient(ops.floor(ops.log(draws) / ops.log1p(-self.probs)))

    def log_prob(self, value):
        return value * ops.log1p(-self.probs) + ops.log(self.probs)  # as torch's, which loses large logits

    def entropy(self):
        rest = 1 - self.probs
        return -(rest * ops.log(rest) + self.probs * ops.log(self.probs)) / self.probs

    def divergence(self, other):
        return -self.entropy() - ops.log1p(-other.probs) / self.probs - other.logits


class Binomial(Distribution):
    def __init__(self, total_count=1, probs=None, logits=None):
        self.total_count, shared = same_shape(total_count, probs if logits is None else logits)
        self.given = None if logits is None else shared
        self.probs = shared if logits is None else ops.sigmoid(shared)

    @property
    def logits(self):
        return ops.log(self.probs) - ops.log1p(-self.probs) if self.given is None else self.given

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ops.minimum(ops.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        count, share = self.total_count.asnumpy().astype(np.int64), self.probs.asnumpy()
        return draws_of(np.random.binomial(count, share, self.drawn_shape(sample_shape)))

    def enumerate_support(self, expand=True):
        count, shape = int(self.total_count.max()) + 1, self.probs.shape
        counts = ops.arange(float(count)).reshape(count, *[1] * len(shape))
        return counts.broadcast_to((count, *shape)) if expand else counts

    def log_prob(self, value):
        n = self.total_count
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1.0) - ops.lgamma(n - value + 1)
        success, failure = logarithms(self.probs, self.given)
        return ways + value * success + (n - value) * failure

    def entropy(self):
        count = int(self.total_count.asnumpy().max())
        if (self.total_count != count).any():
            raise NotImplementedError("the counts differ")
        values = ops.arange(count + 1).astype(self.probs.dtype).reshape((-1,) + (1,) * self.probs.ndim)
        found = self.log_prob(values)
        return -(ops.exp(found) * found).sum(0)


class NegativeBinomial(Distribution):
    def __init__(self, total_count, probs=None, logits=None):
        self.total_count, shared = same_shape(total_count, probs if logits is None else logits)
        self.given = None if logits is None else shared
        self.probs = shared if logits is None else ops.sigmoid(shared)

    @property
    def logits(self):
        return ops.log(self.probs) - ops.log1p(-self.probs) if self.given is None else self.given

    @property
    def mean(self):
        return self.total_count * self.probs / (1 - self.probs)

    @property
    def mode(self):
        return ops.floor(ops.relu(self.total_count - 1) * self.probs / (1 - self.probs))

    @property
    def variance(self):
        return self.mean / (1 - self.probs)

    def sample(self, sample_shape=()):
        count, share = self.total_count.asnumpy(), 1 - self.probs.asnumpy()
        return draws_of(np.random.negative_binomial(count, share, self.drawn_shape(sample_shape)))

    def log_prob(self, value):
        n = self.total_count
        ways = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        success, failure = logarithms(self.probs, self.given)
        return ways + n * failure + value * success


class OneHotCategorical(Distribution):
    event_dims = 1

    def __init__(self, probs=None, logits=None):
        self.probs = probs / probs.sum(-1, keepdims=True) if logits is None else ops.softmax(logits, -1)

    @property
    def logits(self):
        return ops.log(self.probs)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return ops.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).astype(self.probs.dtype)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        noise = -np.log(-np.log(np.random.uniform(1e-7, 1 - 1e-7, shape))) + np.log(self.probs.asnumpy())
        return draws_of(np.eye(shape[-1])[noise.argmax(-1)])

    def log_prob(self, value):
        return (value * ops.log(self.probs)).sum(-1)

    def entropy(self):
        return -(ops.xlogy(self.probs, self.probs)).sum(-1)

    def enumerate_support(self, expand=True):
        count = self.probs.shape[-1]
        choices = ops.eye(count).reshape(count, *[1] * (self.probs.ndim - 1), count)
        return choices.broadcast_to((count, *self.probs.shape)) if expand else choices


class Multinomial(OneHotCategorical):
    def __init__(self, total_count=1, probs=None, logits=None):
        super().__init__(probs, logits)
        self.total_count = total_count

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        return sum(super(Multinomial, self).sample(sample_shape) for _ in range(self.total_count))

    def log_prob(self, value):
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1.0).sum(-1)
        return ways + ops.xlogy(value, self.probs).sum(-1)
