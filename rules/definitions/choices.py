"""Distributions over choices, kept as logits: certain choices and choices that are ruled out have their gradients.

They build on distributions.py.
"""

import mindspore as ms
import numpy as np
from mindspore import ops


def neither_zero_nor_one(probs):
    tiny = float(np.finfo(np.float32).eps)
    return ops.clamp(probs, tiny, 1 - tiny)


class Categorical(Distribution):
    def __init__(self, probs=None, logits=None):
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdims=True)
            self.logits = ops.log(neither_zero_nor_one(self.probs))
        else:
            self.logits = logits - ops.logsumexp(logits, -1, True)
            self.probs = ops.softmax(self.logits, -1)

    @property
    def whole_shape(self):
        return self.probs.shape[:-1]

    @property
    def mode(self):
        return self.probs.argmax(-1)

    def sample(self, sample_shape=()):
        rows = self.probs.reshape(-1, self.probs.shape[-1])
        drawn = ops.multinomial(rows, int(np.prod(sample_shape)), replacement=True)
        return ops.stop_gradient(drawn.T.reshape(self.drawn_shape(sample_shape)).astype(ms.int64))

    def log_prob(self, value):
        shape = np.broadcast_shapes(value.shape, self.probs.shape[:-1])
        logits = self.logits.broadcast_to((*shape, self.logits.shape[-1]))
        chosen = value.astype(ms.int64).broadcast_to(shape).expand_dims(-1)
        return ops.gather_elements(logits, -1, chosen).squeeze(-1)

    def entropy(self):
        return -(self.probs * ops.clamp(self.logits, min=float(np.finfo(np.float32).min))).sum(-1)

    def enumerate_support(self, expand=True):
        count, dims = self.probs.shape[-1], self.probs.ndim - 1
        choices = ops.arange(count).reshape(count, *[1] * dims)
        return choices.broadcast_to((count, *self.probs.shape[:-1])) if expand else choices

    def divergence(self, other):
        terms = self.probs * (self.logits - other.logits)
        terms = ops.select(self.probs == 0, ops.zeros_like(terms), terms)
        return ops.select((other.probs == 0) & (self.probs > 0), ops.full_like(terms, np.inf), terms).sum(-1)


class Bernoulli(Distribution):
    def __init__(self, probs=None, logits=None):
        if logits is None:
            (self.probs,) = same_shape(probs)
            inside = neither_zero_nor_one(self.probs)
            self.logits = ops.log(inside) - ops.log1p(-inside)
        else:
            (self.logits,) = same_shape(logits)
            self.probs = ops.sigmoid(self.logits)

    @property
    def mean(self):
        return self.probs

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    @property
    def mode(self):
        likelier = (self.probs >= 0.5).astype(self.probs.dtype)
        return ops.select(self.probs == 0.5, ops.full_like(likelier, np.nan), likelier)

    def sample(self, sample_shape=()):
        shape = self.drawn_shape(sample_shape)
        return ops.stop_gradient((ops.rand(shape) < self.probs).astype(self.probs.dtype))

    def log_prob(self, value):
        return value * self.logits - ops.softplus(self.logits)

    def entropy(self):
        return ops.softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand=True):
        values = ops.arange(2.0).reshape(2, *[1] * self.probs.ndim)
        return values.broadcast_to((2, *self.probs.shape)) if expand else values

    def divergence(self, other):
        one = self.probs * (ops.softplus(-other.logits) - ops.softplus(-self.logits))
        zero = (1 - self.probs) * (ops.softplus(other.logits) - ops.softplus(self.logits))
        return one + zero
