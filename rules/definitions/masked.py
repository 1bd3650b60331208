"""Statistics of what a mask shows."""

import mindspore as ms
import numpy as np
from mindspore import ops


def masked_mean(x, dim=None, keepdim=False, mask=None):
    shown = mask.broadcast_to(x.shape).astype(x.dtype)
    total = x.masked_fill(ops.logical_not(mask), 0).sum(dim, keepdims=keepdim)
    return total / shown.sum(dim, keepdims=keepdim)


def masked_var(x, dim=None, correction=1, keepdim=False, mask=None):
    mask = ops.stop_gradient(mask)  # its gradient, which is none, is added up otherwise
    shown = mask.broadcast_to(x.shape).astype(x.dtype)
    spread = (x - masked_mean(x, dim, True, mask)).masked_fill(ops.logical_not(mask), 0)
    return ops.square(spread).sum(dim, keepdims=keepdim) / (shown.sum(dim, keepdims=keepdim) - correction)


def masked_norm(x, order, dim=None, keepdim=False, mask=None):
    powers = ops.abs(x.masked_fill(ops.logical_not(mask), 0)) ** order
    return powers.sum(dim, keepdims=keepdim) ** (1 / order)


def masked_normalize(x, order, dim, eps=1e-12, mask=None):
    return x.masked_fill(ops.logical_not(mask), 0) / ops.clamp(masked_norm(x, order, dim, True, mask), eps)


def masked_median(x, dim, keepdim=False, mask=None):
    """The lower one of two in the middle; NaN where all is hidden."""
    shown = np.sort(np.where(mask.asnumpy(), x.asnumpy(), np.nan), dim)  # NaN goes to the end
    place = np.maximum((~np.isnan(shown)).sum(dim, keepdims=True) - 1, 0) // 2
    found = np.take_along_axis(shown, place, dim)
    return ms.Tensor((found if keepdim else found.squeeze(dim)).astype(x.asnumpy().dtype))
