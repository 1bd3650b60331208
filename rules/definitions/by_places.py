"""Convolutions of numbers that MindSpore's kernels do not take: double precision, whole and complex ones."""

import mindspore as ms
import numpy as np
from mindspore import ops


def with_zeros(x, axis, before, after):
    """Zeros in front and behind; negative numbers take rows away."""
    size = x.shape[axis]
    x = x[(slice(None),) * axis + (slice(max(-before, 0), size - max(-after, 0)),)]
    rows = [ops.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), dtype=x.dtype) for n in (before, after) if n > 0]
    if not rows:
        return x
    return ops.cat([rows[0], x, *rows[1:]] if before > 0 else [x, *rows], axis)


def plain_conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """A convolution as a sum over the places of its kernel, in the type of its numbers."""
    count, single = weight.ndim - 2, x.ndim == weight.ndim - 1
    x = x.expand_dims(0) if single else x
    stride, dilation = repeated(stride, count), repeated(dilation, count)
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    sides = [(n // 2, n - n // 2) for n in reach]
    if padding != "same":
        sides = [(n, n) for n in repeated(0 if padding == "valid" else padding, count)]
    for axis, (before, after) in enumerate(sides, 2):
        x = with_zeros(x, axis, before, after)
    sizes = [(n - r - 1) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride)]
    total = 0
    for place in np.ndindex(*weight.shape[2:]):
        window = x
        for axis, (p, d, s, n) in enumerate(zip(place, dilation, stride, sizes), 2):
            window = ops.gather(window, ms.Tensor(p * d + s * np.arange(n)), axis)
        window = window.reshape((x.shape[0], groups, 1, -1, *sizes))
        part = weight[(slice(None), slice(None), *place)].reshape((1, groups, -1, weight.shape[1], *[1] * count))
        total = total + (window * part).sum(3)
    total = total.reshape((x.shape[0], -1, *sizes))
    total = total if bias is None else total + bias.reshape((1, -1, *[1] * count))
    return total.squeeze(0) if single else total


def plain_conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """A transposed convolution: that of the numbers with zeros between them and around them."""
    count, single = weight.ndim - 2, x.ndim == weight.ndim - 1
    x = x.expand_dims(0) if single else x
    each = zip(*(repeated(v, count) for v in (stride, padding, output_padding, dilation)), weight.shape[2:])
    for axis, (step, pad, extra, spread, size) in enumerate(each, 2):
        if step > 1:
            rows = x.expand_dims(axis + 1)
            rows = with_zeros(rows, axis + 1, 0, step - 1)
            x = with_zeros(rows.reshape((*x.shape[:axis], -1, *x.shape[axis + 1 :])), axis, 0, 1 - step)
        x = with_zeros(x, axis, spread * (size - 1) - pad, spread * (size - 1) - pad + extra)
    weight = ops.flip(weight, tuple(range(2, weight.ndim))).reshape((groups, -1, *weight.shape[1:])).swapaxes(1, 2)
    out = plain_conv(x, weight.reshape((-1, *weight.shape[2:])), bias, dilation=dilation, groups=groups)
    return out.squeeze(0) if single else out
