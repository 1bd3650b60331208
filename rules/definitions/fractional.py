"""Pooling over windows that are drawn at random."""

import itertools

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def window_starts(size, window, count, draw):
    """Where the windows of one dimension begin."""
    step = (size - window) / (count - 1) if count > 1 else 0.0
    return [int((i + draw) * step) - int(draw * step) for i in range(count - 1)] + [size - window]


def fractional_max_pool(
    x, kernel_size, output_size=None, output_ratio=None, return_indices=False, samples=None, dims=2
):
    sizes = x.shape[-dims:]
    kernel = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else output_ratio
        output_size = [int(size * ratio) for size, ratio in zip(sizes, ratios)]
    counts = (output_size,) * dims if isinstance(output_size, int) else tuple(output_size)
    flat = x.reshape(-1, *sizes)
    planes = ops.stop_gradient(flat).asnumpy()
    draws = (ops.rand(len(planes), dims) if samples is None else samples.reshape(-1, dims)).asnumpy()
    draws = draws[:, ::-1] if dims == 2 else draws
    places = np.zeros((len(planes), *counts), np.int64)
    for plane, values in enumerate(planes):
        starts = [window_starts(*one) for one in zip(sizes, kernel, counts, draws[plane].tolist())]
        for at in itertools.product(*map(range, counts)):
            corner = [begins[i] for begins, i in zip(starts, at)]
            window = values[tuple(slice(begin, begin + length) for begin, length in zip(corner, kernel))]
            inside = np.unravel_index(window.argmax(), window.shape)
            places[(plane, *at)] = np.ravel_multi_index([c + i for c, i in zip(corner, inside)], sizes)
    found = ms.Tensor(places.reshape(len(planes), -1))
    shape = (*x.shape[:-dims], *counts)
    values = ops.gather_elements(flat.reshape(len(planes), -1), 1, found).reshape(shape)
    return (values, found.reshape(shape)) if return_indices else values


class FractionalMaxPool(nn.Cell):
    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, samples=None, dims=2):
        super().__init__()
        self.options = (kernel_size, output_size, output_ratio, return_indices, samples, dims)

    def construct(self, x):
        return fractional_max_pool(x, *self.options)
