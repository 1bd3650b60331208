"""Changes of one image that is a tensor of channels and rows: smoothing, and sizes that shrink with it."""

import mindspore as ms
import numpy as np
from mindspore import ops


def shrinking_weights(before, after):
    """How much each old pixel of a row counts for each new one: triangles as wide as the step between new ones."""
    step = before / after
    width = max(step, 1.0)
    centers = (np.arange(after)[:, None] + 0.5) * step
    first = np.maximum((centers - width + 0.5).astype(np.int64), 0)
    last = np.minimum((centers + width + 0.5).astype(np.int64), before)
    places = np.arange(before)[None]
    weights = np.maximum(1 - np.abs((places + 0.5 - centers) / width), 0) * (places >= first) * (places < last)
    return weights / weights.sum(1, keepdims=True)


def new_size(image, size):
    """Height and width, where one number is that of the shorter side."""
    size = [size] if isinstance(size, int) else list(size)
    height, width = image.shape[-2:]
    if len(size) > 1:
        return tuple(size)
    short, long = sorted((width, height))
    other = int(size[0] * long / short)
    return (other, size[0]) if width <= height else (size[0], other)


def plainly_resized(image, size, mode):
    """A tensor with another height and width, from the nearest pixels of each new one."""
    made = ops.interpolate(image.reshape(-1, *image.shape[-3:]), new_size(image, size), mode=mode)
    return made.reshape(*image.shape[:-2], *made.shape[-2:])


def smoothly_resized(image, size):
    """A tensor with another height and width, or with another shorter side; what shrinks is smoothed."""
    size = new_size(image, size)
    height, width = image.shape[-2:]
    rows = ms.Tensor(shrinking_weights(height, size[0]), image.dtype)
    columns = ms.Tensor(shrinking_weights(width, size[1]), image.dtype)
    return ops.matmul(ops.matmul(rows, image), columns.T)


def each_channel_convolved(image, kernel):
    """Each channel by itself, without its border."""
    channels = image.shape[-3]
    weight = ops.tile(kernel.astype(image.dtype), (channels, 1, 1, 1))
    made = ops.conv2d(image.reshape(-1, *image.shape[-3:]), weight, groups=channels)
    return made.reshape(*image.shape[:-2], *made.shape[-2:])


def gaussian_weights(size, sigma):
    places = np.linspace(-(size - 1) * 0.5, (size - 1) * 0.5, size)
    weights = np.exp(-0.5 * (places / sigma) ** 2)
    return weights / weights.sum()


def gaussian_blurred(image, kernel_size, sigma=None):
    """A tensor of floats, smoothed by a bell over columns and rows; the borders reflect."""
    size = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    sigma = [each * 0.15 + 0.35 for each in size] if sigma is None else sigma
    sigma = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else list(sigma) * (2 // len(sigma))
    columns, rows = (gaussian_weights(each, spread) for each, spread in zip(size, sigma))
    kernel = ms.Tensor(np.outer(rows, columns).astype(np.float32))[None, None]
    whole = image.reshape(-1, *image.shape[-3:])
    padded = ops.pad(whole, (size[0] // 2, size[0] // 2, size[1] // 2, size[1] // 2), mode="reflect")
    return each_channel_convolved(padded, kernel).reshape(image.shape)


def sharpened(image, factor):
    """A tensor of floats between itself and its smoothed form, or beyond itself; the border stays."""
    if min(image.shape[-2:]) <= 2:
        return image
    kernel = ms.Tensor(np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13)[None, None]
    smooth = image.copy()
    smooth[..., 1:-1, 1:-1] = each_channel_convolved(image, kernel)
    return (factor * image + (1 - factor) * smooth).clamp(0, 1)


def stretched(image):
    """A tensor whose channels reach from black to white."""
    bound = 1.0 if image.is_floating_point() else 255.0
    values = image if image.is_floating_point() else image.astype(ms.float32)
    low, high = ops.amin(values, (-2, -1), True), ops.amax(values, (-2, -1), True)
    flat = low == high
    low, high = ops.where(flat, ops.zeros_like(low), low), ops.where(flat, ops.full_like(high, bound), high)
    made = ((values - low) * (bound / (high - low))).clamp(0, bound)
    return made.astype(image.dtype)


def hues_turned(image, share):
    """A tensor of floats whose hues are turned by a share of the circle."""
    red, green, blue = ops.unbind(image, -3)
    most, least = ops.amax(image, -3), ops.amin(image, -3)
    grey = most == least
    span = ops.where(grey, ops.ones_like(most), most - least)
    colour = (most - least) / ops.where(grey, ops.ones_like(most), most)
    far_red, far_green, far_blue = (most - red) / span, (most - green) / span, (most - blue) / span
    hue = ops.where(most == green, 2 + far_red - far_blue, 4 + far_green - far_red)
    hue = ops.where(most == red, far_blue - far_green, hue) / 6 + 1 + share
    hue = (hue - ops.floor(hue)) * 6
    sector = ops.floor(hue)
    part, sector = hue - sector, sector % 6
    low, down, up = most * (1 - colour), most * (1 - colour * part), most * (1 - colour * (1 - part))
    turns = [(most, up, low), (down, most, low), (low, most, up), (low, down, most), (up, low, most), (most, low, down)]
    made = [ops.zeros_like(most)] * 3
    for place, turn in enumerate(turns):
        made = [ops.where(sector == place, new, old) for new, old in zip(turn, made)]
    return ops.stack(made, -3).clamp(0, 1)
