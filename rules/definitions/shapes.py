"""Padding, windows and resizing that MindSpore has no cell for."""

import math

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class CircularPad(nn.Cell):
    def __init__(self, padding, dims):
        super().__init__()
        self.padding = (padding,) * (2 * dims) if isinstance(padding, int) else tuple(padding)

    def construct(self, x):
        return circular_pad(x, self.padding)


class CroppedPad(nn.Cell):
    """Padding by a constant where negative numbers take rows away."""

    def __init__(self, padding, value=0):
        super().__init__()
        self.padding, self.value = tuple(padding), value

    def construct(self, x):
        return cropped_pad(x, self.padding, self.value)


def circular_pad(x, padding):
    for place in range(len(padding) // 2):
        axis, (before, after) = x.ndim - 1 - place, padding[2 * place : 2 * place + 2]
        length = x.shape[axis]
        index = ops.arange(-before, length + after) % length
        x = ops.gather(x, index, axis)
    return x


def strided(x, dim, start, stop, step):
    """`x[start:stop:step]` of one dimension, with a gradient."""
    return ops.gather(x, ops.arange(*slice(start, stop, step).indices(x.shape[dim])), dim)


class Unfold(nn.Cell):
    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def construct(self, x):
        return ops.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(nn.Cell):
    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def construct(self, x):
        return fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


def fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    size, kernel, dilation, padding, stride = (
        (v, v) if isinstance(v, int) else tuple(v) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, padding, dilation, kernel, stride)
    )
    single = x.ndim == 2
    x = x.reshape((1 if single else x.shape[0], -1, *kernel, rows, columns))
    height, width = size[0] + 2 * padding[0], size[1] + 2 * padding[1]
    out = ops.zeros((*x.shape[:2], height, width), dtype=x.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            bottom, right = top + stride[0] * (rows - 1) + 1, left + stride[1] * (columns - 1) + 1
            part = x[:, :, i, j]
            spread = ops.zeros((*x.shape[:2], bottom - top, right - left), dtype=x.dtype)
            spread[:, :, :: stride[0], :: stride[1]] = part
            out = out + ops.pad(spread, (left, width - right, top, height - bottom))
    out = out[:, :, padding[0] : height - padding[0], padding[1] : width - padding[1]]
    return out[0] if single else out


def channel_shuffle(x, groups):
    shape = x.shape
    x = x.reshape((shape[0], groups, shape[1] // groups, *shape[2:]))
    return x.swapaxes(1, 2).reshape(shape)


class Upsample(nn.Cell):
    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None):
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def construct(self, x):
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None):
    dims = x.ndim - 2
    sizes = (size,) * dims if size is None or isinstance(size, int) else tuple(size)
    scales = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * dims
    for axis, (out, scale) in enumerate(zip(sizes, scales), 2):
        weights = resizing_weights(x.shape[axis], out, scale, mode, align_corners)
        x = ops.matmul(x.swapaxes(axis, -1), ms.Tensor(weights.T).astype(x.dtype)).swapaxes(axis, -1)
    return x


def resizing_weights(length, out, scale, mode, align_corners):
    """What every new place takes of every old one along an axis."""
    out = math.floor(length * scale) if out is None else out
    step = length / out if scale is None else 1 / scale
    weights = np.zeros((out, length), np.float32)
    for i in range(out):
        if mode == "area":
            start, end = i * length // out, -(-(i + 1) * length // out)
            weights[i, start:end] = 1 / (end - start)
        elif mode.startswith("nearest"):
            weights[i, min(int((i + 0.5 * (mode == "nearest-exact")) * step), length - 1)] = 1
        else:
            place = i * (length - 1) / max(out - 1, 1) if align_corners else (i + 0.5) * step - 0.5
            place = place if mode == "bicubic" else max(place, 0)
            low = math.floor(place)
            for offset in (-1, 0, 1, 2) if mode == "bicubic" else (0, 1):
                share = cubic(abs(place - low - offset)) if mode == "bicubic" else 1 - abs(place - low - offset)
                weights[i, min(max(low + offset, 0), length - 1)] += share
    return weights


def cubic(distance, a=-0.75):
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance**2 + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.matmul(query, key.swapaxes(-1, -2)) * scale
    if is_causal:
        scores = scores + ops.triu(ops.full(scores.shape[-2:], float("-inf"), dtype=ms.float32), diagonal=1)
    elif attn_mask is not None and attn_mask.dtype == ms.bool_:
        scores = scores.masked_fill(ops.logical_not(attn_mask), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = ops.softmax(scores, axis=-1)
    return ops.matmul(ops.dropout(weights, p=dropout_p) if dropout_p else weights, value)


def diag(x, diagonal=0):
    if x.ndim == 2:
        return x.diagonal(diagonal).copy()  # no view
    above, below = max(diagonal, 0), max(-diagonal, 0)
    return ops.pad(ops.diag(x), (above, below, below, above)) if diagonal else ops.diag(x)


def closed_range(start, end, step=1, dtype=ms.float32):
    """Numbers from the start to the end, this included."""
    return ms.Tensor(start + step * np.arange(math.floor((end - start) / step) + 1), dtype)


def repeated(x, count):
    """A size for every dimension."""
    return tuple(x) if hasattr(x, "__iter__") else (x,) * count


def whole_linspace(start, end, steps, dtype):
    """Whole numbers, counted from both ends, as their ends are made whole first."""
    start, end = int(start), int(end)
    step = (end - start) / (steps - 1) if steps > 1 else 0
    values = [start + step * i if i < steps // 2 or steps == 1 else end - step * (steps - 1 - i) for i in range(steps)]
    return ms.Tensor([int(value) for value in values], dtype)


def shifted(x, count, left):
    """By as many bits as a number has, nothing is left of it but its sign."""
    bits = x.itemsize * 8
    fits = ops.logical_and(count >= 0, count < bits)
    if left:
        found = ops.bitwise_left_shift(x, ops.where(fits, count, ops.zeros_like(count)))
        return ops.where(fits, found, ops.zeros_like(found))
    return ops.bitwise_right_shift(x, ops.where(fits, count, ops.full_like(count, bits - 1)))


def shape_of_rows(parameter):
    """The shape that PyTorch has for a parameter: weights of one-dimensional convolutions have an axis more here."""
    shape = parameter.shape
    return (*shape[:2], shape[3]) if len(shape) == 4 and shape[2] == 1 else shape


def unflattened(x, dim, sizes):
    """The dimension as several of these sizes."""
    dim = range(x.ndim)[dim]
    return x.reshape((*x.shape[:dim], *sizes, *x.shape[dim + 1:]))
