"""Losses with the settings that MindSpore's lack."""

from mindspore import nn, ops


class BCEWithLogitsLoss(nn.Cell):
    """The mean is taken outside: the gradient of MindSpore's divides by the size of the first batch it ever saw."""

    def __init__(self, weight=None, reduction="mean", pos_weight=None):
        super().__init__()
        self.weight, self.reduction, self.pos_weight = weight, reduction, pos_weight

    def construct(self, logits, target):
        loss = ops.binary_cross_entropy_with_logits(logits, target, self.weight, self.pos_weight, reduction="none")
        return loss.mean() if self.reduction == "mean" else loss.sum() if self.reduction == "sum" else loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """With torch's arguments, whichever are given."""
    loss = ops.binary_cross_entropy(input, target, reduction="none")
    return reduced(loss if weight is None else loss * weight, reduction)


def loss_of_doubles(input, target, weight=None, reduction="mean"):
    """Binary cross entropy of probabilities in double precision; the logarithm ends near -100, as PyTorch's does."""
    least = 3.72e-44
    loss = -target * ops.log(ops.clamp(input, min=least)) - (1 - target) * ops.log(ops.clamp(1 - input, min=least))
    return reduced(loss if weight is None else loss * weight, reduction)


def loss_of_logits(logits, target, weight=None, reduction="mean", pos_weight=None):
    """Binary cross entropy, in double precision too; logits of zero have their slope."""
    scale, top = 1.0 if pos_weight is None else (pos_weight - 1) * target + 1, ops.stop_gradient(ops.relu(-logits))
    loss = (1 - target) * logits + scale * (top + ops.log(ops.exp(-top) + ops.exp(-logits - top)))
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input, target, reduction="mean", log_target=False):
    """Gradients reach the target too, which MindSpore's passes over."""
    logs = target if log_target else ops.log(ops.where(target > 0, target, ops.ones_like(target)))
    loss = (ops.exp(target) if log_target else target) * (logs - input)
    return loss.sum() / input.shape[0] if reduction == "batchmean" else reduced(loss, reduction)


def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """MindSpore's takes targets of 1 and -1 only, as numbers with a point, and has no gradient at the margin."""
    apart = ops.where(target != 1, ops.clamp(margin - input, min=0), ops.zeros_like(input))
    return reduced(apart + ops.where(target != -1, input, ops.zeros_like(input)), reduction)


def cosine_embedding_loss(x, y, target, margin=0.0, reduction="mean"):
    """Zeros have gradients, too; those of MindSpore's are NaN."""
    sizes = ((x * x).sum(-1) + 1e-12) * ((y * y).sum(-1) + 1e-12)
    cosine = (x * y).sum(-1) / ops.sqrt(sizes)
    alike = ops.where(target == 1, 1 - cosine, ops.zeros_like(cosine))
    return reduced(ops.where(target == -1, ops.clamp(cosine - margin, min=0), alike), reduction)


def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """Finite for scores beyond 88, where MindSpore's is infinite or NaN."""
    loss = target * ops.softplus(-input) + (1 - target) * ops.softplus(input)
    return reduced((loss if weight is None else weight * loss).mean(-1), reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-06, reduction="mean"):
    """Variances below eps count as eps and keep their gradient, as in PyTorch; MindSpore's have none."""
    bounded = var + ops.stop_gradient(ops.clamp(var, min=eps) - var)
    return ops.gaussian_nll_loss(input, target, bounded, full, eps / 2, reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, reduction="mean", distance=None
):
    if distance is None:
        def distance(x, y):
            return ops.norm(x - y + eps, ord=p, dim=-1)
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced(ops.relu(distance(anchor, positive) - far + margin), reduction)


def multilabel_margin_loss(x, target, reduction="mean"):
    single = x.ndim == 1
    x, target = (x.expand_dims(0), target.expand_dims(0)) if single else (x, target)
    listed = ops.cumsum((target < 0).astype(x.dtype), 1) == 0
    index = ops.where(listed, target, ops.zeros_like(target))
    is_target = (ops.one_hot(index, x.shape[1]) * listed.expand_dims(2).astype(x.dtype)).sum(1) > 0
    own = ops.gather_elements(x, 1, index)
    gaps = ops.relu(1 - own.expand_dims(2) + x.expand_dims(1))
    counted = ops.logical_and(listed.expand_dims(2), ops.logical_not(is_target).expand_dims(1))
    found = (gaps * counted.astype(x.dtype)).sum((1, 2)) / x.shape[1]
    return reduced(found.squeeze(0) if single else found, reduction)


def prelu(x, weight):
    """A slope for every channel, in double precision too."""
    weight = weight.reshape(()) if weight.size == 1 else weight.reshape((-1, *[1] * (x.ndim - 2)))
    return ops.where(x > 0, x, weight * x)


def margin_ranking_loss(input1, input2, target, margin=0, reduction="mean"):
    """For numbers of any type; whole ones become floating by the margin."""
    return reduced(ops.relu(target * (input2 - input1) + float(margin)), reduction)


def reduced(loss, reduction):
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


class Loss(nn.Cell):
    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            averaged = "mean" if size_average in (None, True) else "sum"
            reduction = averaged if reduce in (None, True) else "none"
        self.reduction = reduction


class WeightedLoss(Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.weight = weight


class CrossEntropyLoss(WeightedLoss):
    def __init__(
        self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def construct(self, input, target):
        settings = (self.weight, self.ignore_index, self.reduction, self.label_smoothing)
        return ops.cross_entropy(input, target, *settings)


class KLDivLoss(Loss):
    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def construct(self, input, target):
        return kl_div(input, target, self.reduction, self.log_target)


def smooth_log_softmax(scores, dim):
    """The logarithm of a softmax with a second derivative, which ops.log_softmax lacks."""
    return scores - ops.logsumexp(scores, dim, True)


def smooth_likelihood(scores, labels, reduction="mean"):
    return reduced(-(scores * ops.one_hot(labels, scores.shape[1])).sum(1), reduction)


def smooth_cross_entropy(scores, labels, reduction="mean"):
    """A cross entropy with a second derivative, which ops.cross_entropy lacks; the scores are (batch, classes)."""
    chosen = ops.one_hot(labels, scores.shape[1]) if labels.ndim < scores.ndim else labels
    return reduced(ops.logsumexp(scores, 1) * chosen.sum(1) - (scores * chosen).sum(1), reduction)


def smooth_logits_loss(scores, labels, reduction="mean"):
    """A binary cross entropy of logits with a second derivative."""
    return reduced(ops.softplus(scores) - scores * labels, reduction)
