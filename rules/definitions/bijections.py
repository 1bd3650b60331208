"""Transforms of random variables, and the distributions that they make of others."""

import math

from mindspore import ops


class InverseTransform:
    def __init__(self, transform):
        self.transform = transform

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
    @property
    def inv(self):
        return InverseTransform(self)


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
        return ops.tanh(x)

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
    def __call__(self, x):
        return ops.softmax(x, -1)

    def inverse(self, y):
        return ops.log(y)


class TransformedDistribution(Distribution):
    def __init__(self, base_dist, steps):
        self.base_dist = base_dist
        self.steps = list(steps) if isinstance(steps, (list, tuple)) else [steps]

    @property
    def whole_shape(self):
        return (*self.base_dist.batch_shape, *self.base_dist.event_shape)

    @property
    def event_dims(self):
        return len(self.base_dist.event_shape)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    def moved(self, x):
        for transform in self.steps:
            x = transform(x)
        return x

    def rsample(self, sample_shape=()):
        return self.moved(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape=()):
        return ops.stop_gradient(self.moved(self.base_dist.sample(sample_shape)))

    def log_prob(self, value):
        change = 0.0
        for transform in reversed(self.steps):
            x = transform.inverse(value)
            slope = transform.log_abs_det_jacobian(x, value)
            change = change + (slope.sum(tuple(range(-self.event_dims, 0))) if self.event_dims else slope)
            value = x
        return self.base_dist.log_prob(value) - change
