"""Masks of attention."""

import mindspore as ms
from mindspore import ops


def additive_mask(mask=None):
    """A boolean mask as what is added to the scores; MindSpore adds ones where it meets a mask of numbers."""
    if mask is None or mask.dtype != ms.bool_:
        return mask
    return ops.zeros(mask.shape, ms.float32).masked_fill(mask, float("-inf"))
