"""Statistics of what a mask shows."""

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
