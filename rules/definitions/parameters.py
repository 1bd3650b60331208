"""What distributions do to their parameters."""

import mindspore as ms
import numpy as np
from mindspore import ops


def broadcast_all(*values):
    """Numbers become tensors of the type of the tensors; all get one shape."""
    types = [v.dtype for v in values if isinstance(v, ms.Tensor)]
    tensors = [v if isinstance(v, ms.Tensor) else ms.Tensor(v, types[0] if types else ms.float32) for v in values]
    shape = np.broadcast_shapes(*(v.shape for v in tensors))
    return tuple(v if v.shape == shape else v.broadcast_to(shape) for v in tensors)


def clamp_probs(probs):
    eps = float(np.finfo(probs.asnumpy().dtype).eps)
    return ops.clamp(probs, eps, 1 - eps)


def probs_to_logits(probs, is_binary=False):
    probs = clamp_probs(probs)
    return ops.log(probs) - ops.log1p(-probs) if is_binary else ops.log(probs)


def logits_to_probs(logits, is_binary=False):
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


class lazy_property:
    """Computed when it is first read, and kept."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
