"""Activations that MindSpore has as functions only, or not at all."""

from mindspore import nn, ops


def watched_relu(x):
    """MindSpore's makes zero of NaN on a CPU, and who looks for NaN does not find it."""
    return ops.where(ops.isnan(x), x, ops.relu(x))


class WatchedReLU(nn.ReLU):
    """One that keeps NaN, for those who look for it."""

    def construct(self, x):
        return watched_relu(x)


def watched_clamp(x, min=None, max=None):
    """MindSpore's makes a bound of NaN on a CPU, and who looks for NaN does not find it."""
    made = x if min is None else ops.clamp(x, min=min)
    made = made if max is None else ops.clamp(made, max=max)
    return ops.where(ops.isnan(x), x, made) if x.is_floating_point() else made


def leaky_relu(x, alpha=0.01):
    """The gradient at 0 is the slope, as in PyTorch; that of MindSpore's lies halfway between the slope and 1."""
    return ops.where(x > 0, x, alpha * x)


class LeakyReLU(nn.LeakyReLU):
    """The gradient at 0 is the slope, as in PyTorch; that of MindSpore's lies halfway between the slope and 1."""

    def __init__(self, negative_slope=0.01):
        super().__init__(negative_slope)

    def construct(self, x):
        return ops.where(x > 0, x, self.alpha * x)


def mish(x):
    """x tanh(softplus(x)); MindSpore's is NaN above 44 on a CPU, and its gradient less exact."""
    e = ops.exp(ops.clamp(x, max=20.0))
    return x * (1 - 2 / (e * (e + 2) + 2))


class Mish(nn.Mish):
    """Finite above 44, where MindSpore's is NaN on a CPU."""

    def construct(self, x):
        return mish(x)


class LogSigmoid(nn.LogSigmoid):
    """Finite below -88, where MindSpore's is not, and has a gradient of NaN."""

    def construct(self, x):
        return -ops.softplus(-x)


def hardtanh(x, min_val=-1.0, max_val=1.0):
    """The gradient at the bounds is 0, as in PyTorch; that of MindSpore's is a half."""
    return ops.where(x <= min_val, min_val, ops.where(x >= max_val, max_val, x))


class Hardtanh(nn.Hardtanh):
    """The gradient at the bounds is 0, as in PyTorch; that of MindSpore's is a half."""

    def construct(self, x):
        return ops.where(x <= self.min_val, self.min_val, ops.where(x >= self.max_val, self.max_val, x))


def relu6(x):
    """The gradient at 6 is 0, as in PyTorch; that of MindSpore's is 1."""
    return ops.where(x <= 0, 0.0, ops.where(x >= 6, 6.0, x))


class ReLU6(nn.ReLU6):
    """The gradient at 6 is 0, as in PyTorch; that of MindSpore's is 1."""

    def construct(self, x):
        return ops.where(x <= 0, 0.0, ops.where(x >= 6, 6.0, x))


def hardswish(x):
    """The gradients at -3 and 3 are 0 and 1, as in PyTorch; those of MindSpore's are -0.5 and 1.5."""
    return x * relu6(x + 3) / 6


class HSwish(nn.HSwish):
    """The gradients at -3 and 3 are 0 and 1, as in PyTorch; those of MindSpore's are -0.5 and 1.5."""

    def construct(self, x):
        return x * relu6(x + 3) / 6


def watched_maximum(x, y):
    """MindSpore's gives the other number for NaN on a CPU."""
    return ops.where(ops.logical_or(ops.isnan(x), ops.isnan(y)), x + y, ops.maximum(x, y))


def watched_minimum(x, y):
    """MindSpore's gives the other number for NaN on a CPU."""
    return ops.where(ops.logical_or(ops.isnan(x), ops.isnan(y)), x + y, ops.minimum(x, y))


def watched_softplus(x, beta=1, threshold=20):
    """MindSpore's makes infinity of NaN on a CPU."""
    return ops.where(ops.isnan(x), x, ops.softplus(x, beta, threshold))


class SELU(nn.Cell):
    def construct(self, x):
        return 1.0507009873554805 * (ops.relu(x) + 1.6732632423543772 * (ops.exp(ops.clamp(x, max=0.0)) - 1))


class ELU(nn.Cell):
    def __init__(self, alpha=1.0):
        super().__init__()
        self.alpha = alpha

    def construct(self, x):
        return ops.relu(x) + self.alpha * (ops.exp(ops.clamp(x, max=0.0)) - 1)


class Softplus(nn.Cell):
    def __init__(self, beta=1, threshold=20):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def construct(self, x):
        return ops.softplus(x, self.beta, self.threshold)


class RReLU(nn.Cell):
    def __init__(self, lower=1 / 8, upper=1 / 3):
        super().__init__()
        self.lower = lower
        self.upper = upper

    def construct(self, x):
        return rrelu(x, self.lower, self.upper, self.training)


def rrelu(x, lower=1 / 8, upper=1 / 3, training=False):
    slope = ops.rand_like(x) * (upper - lower) + lower if training else (lower + upper) / 2
    return ops.where(x > 0, x, slope * x)


class AlphaDropout(nn.Cell):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def construct(self, x):
        return alpha_dropout(x, self.p, self.training)


class FeatureAlphaDropout(nn.Cell):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def construct(self, x):
        return alpha_dropout(x, self.p, self.training, x.shape[:2] + (1,) * (x.ndim - 2))


def alpha_dropout(x, p=0.5, training=False, shape=None):
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    alpha = 1.7580993408473766
    scale = ((alpha**2 * p + 1) * (1 - p)) ** -0.5
    keep = (ops.rand(shape or x.shape) >= p).astype(x.dtype)
    return (x * keep - alpha * (1 - keep)) * scale + scale * alpha * p


class PairwiseDistance(nn.Cell):
    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def construct(self, x, y):
        return vector_norm(x - y + self.eps, self.p, -1, self.keepdim)


class CosineSimilarity(nn.Cell):
    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim = dim
        self.eps = eps

    def construct(self, x, y):
        return cosine_similarity(x, y, self.dim, self.eps)


class SoftmaxByRank(nn.Cell):
    def construct(self, x):
        return ops.softmax(x, 0 if x.ndim in (0, 1, 3) else 1)


class LogSoftmaxByRank(nn.Cell):
    def construct(self, x):
        return ops.log_softmax(x, 0 if x.ndim in (0, 1, 3) else 1)


class SoftminByRank(nn.Cell):
    def construct(self, x):
        return ops.softmax(-x, 0 if x.ndim in (0, 1, 3) else 1)


def fake_quantize(x, scale, zero_point, low, high):
    """Values as integers between the bounds would hold them; gradients flow where nothing is clipped."""
    whole = ops.round(x / scale) + zero_point
    inside = x * ops.logical_and(whole >= low, whole <= high).astype(x.dtype)
    value = (ops.clamp(whole, low, high) - zero_point) * scale
    return inside + ops.stop_gradient(value - inside)


def gumbel_softmax(logits, tau=1, hard=False, dim=-1):
    """Draws that are soft, or of ones and zeros with the gradient of the soft ones."""
    flat = logits.reshape(1) if logits.ndim == 0 else logits
    noise = -ops.log(-ops.log(ops.rand(*flat.shape).astype(flat.dtype)))
    soft = ops.softmax((flat + noise) / tau, dim)
    if hard:
        ones = (soft == ops.amax(soft, dim, True)).astype(soft.dtype)
        soft = ops.stop_gradient(ones - soft) + soft
    return soft.reshape(logits.shape)
