"""Transforms of random variables, and the distributions that they make of others."""

import math

import mindspore as ms
from mindspore import ops


class InverseTransform:
    def __init__(self, transform):
        self.transform = transform
        self.domain_dims, self.codomain_dims = transform.codomain_dims, transform.domain_dims

    @property
    def inv(self):
        return self.transform

    def __call__(self, x):
        return self.transform.inverse(x)

    def inverse(self, y):
        return self.transform(y)

    def log_abs_det_jacobian(self, x, y):
        return -self.transform.log_abs_det_jacobian(y, x)


class Bijection:
    domain_dims = codomain_dims = 0

    @property
    def inv(self):
        return InverseTransform(self)


class OwnTransform(Bijection):
    """What transforms of a program are derived from: they write `_call` and `_inverse`."""

    def __init__(self, cache_size=0):
        super().__init__()

    @property
    def domain_dims(self):
        return self.domain.event_dim

    @property
    def codomain_dims(self):
        return self.codomain.event_dim

    def __call__(self, x):
        return self._call(x)

    def inverse(self, y):
        return self._inverse(y)


class ExpTransform(Bijection):
    def __call__(self, x):
        return ops.exp(x)

    def inverse(self, y):
        return ops.log(y)

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(Bijection):
    def __call__(self, x):
        return ops.clamp(ops.sigmoid(x), 1.1754943508222875e-38, 1 - 1.1920928955078125e-07)

    def inverse(self, y):
        y = ops.clamp(y, 1.1754943508222875e-38, 1 - 1.1920928955078125e-07)
        return ops.log(y) - ops.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -ops.softplus(-x) - ops.softplus(x)


class TanhTransform(Bijection):
    def __call__(self, x):
        return ops.sigmoid(2.0 * x) - ops.sigmoid(-2.0 * x)  # ops.tanh is one from 5 on, on a CPU

    def inverse(self, y):
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))


class AffineTransform(Bijection):
    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale

    def __call__(self, x):
        return self.loc + self.scale * x

    def inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        return ops.log(ops.abs(self.scale + ops.zeros_like(x)))


class PowerTransform(Bijection):
    def __init__(self, exponent):
        self.exponent = exponent

    def __call__(self, x):
        return x**self.exponent

    def inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return ops.log(ops.abs(self.exponent * y / x))


class AbsTransform(Bijection):
    def __call__(self, x):
        return ops.abs(x)

    def inverse(self, y):
        return y


class SoftmaxTransform(Bijection):
    domain_dims = codomain_dims = 1

    def __call__(self, x):
        return ops.softmax(x, -1)

    def inverse(self, y):
        return ops.log(y)


class TransformedDistribution(Distribution):
    def __init__(self, base_dist, steps):
        self.transforms = list(steps) if isinstance(steps, (list, tuple)) else [steps]
        needed = ComposeTransform(self.transforms).domain_dims - len(base_dist.event_shape)
        self.base_dist = Independent(base_dist, needed) if needed > 0 else base_dist

    @property
    def whole_shape(self):
        start = ops.full((*self.base_dist.batch_shape, *self.base_dist.event_shape), 0.5, dtype=ms.float32)
        return tuple(self.moved(start).shape)

    @property
    def event_dims(self):
        whole, start = ComposeTransform(self.transforms), len(self.base_dist.event_shape)
        return max(start + whole.codomain_dims - whole.domain_dims, whole.codomain_dims)

    def expand(self, batch_shape):
        inner = self.base_dist.batch_shape[len(self.batch_shape) :]  # what the transforms have made part of an event
        return TransformedDistribution(self.base_dist.expand((*batch_shape, *inner)), self.transforms)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def moved(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def rsample(self, sample_shape=()):
        return self.moved(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.moved(self.base_dist.sample(sample_shape)))

    def entropy(self):
        raise NotImplementedError

    def log_prob(self, value):
        dims, change = self.event_dims, 0.0
        for transform in reversed(self.transforms):
            x = transform.inverse(value)
            dims += transform.domain_dims - transform.codomain_dims
            slope = transform.log_abs_det_jacobian(x, value)
            change = change + sum_rightmost(slope, dims - transform.domain_dims)
            value = x
        return sum_rightmost(self.base_dist.log_prob(value), dims - len(self.base_dist.event_shape)) - change

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inverse(value)
        return self.base_dist.cdf(value)

    def icdf(self, value):
        return self.moved(self.base_dist.icdf(value))
