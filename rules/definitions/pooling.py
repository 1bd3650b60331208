"""Pooling in the forms that MindSpore lacks."""

import mindspore as ms
from mindspore import nn, ops


def adaptive_avg_pool1d(x, output_size):
    size = output_size if isinstance(output_size, int) else output_size[0]
    length = x.shape[-1]
    bounds = [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]
    return ops.stack([x[..., start:end].mean(-1) for start, end in bounds], axis=-1)


class AdaptiveAvgPool1d(nn.Cell):
    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def construct(self, x):
        return adaptive_avg_pool1d(x, self.output_size)


def adaptive_max_pool1d(x, output_size, return_indices=False):
    size = output_size if isinstance(output_size, int) else output_size[0]
    length = x.shape[-1]
    bounds = [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]
    values = ops.stack([ops.max(x[..., start:end], -1)[0] for start, end in bounds], axis=-1)
    if not return_indices:
        return values
    indices = [x[..., start:end].argmax(-1) + start for start, end in bounds]
    return values, ops.stack(indices, axis=-1).astype(ms.int64)


class AdaptiveMaxPool1d(nn.Cell):
    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def construct(self, x):
        return adaptive_max_pool1d(x, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(nn.Cell):
    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def construct(self, x):
        sizes = self.output_size
        if isinstance(sizes, tuple):
            sizes = tuple(given or own for given, own in zip(sizes, x.shape[-3:]))
        found = ops.adaptive_max_pool3d(x, sizes, self.return_indices)
        return long_places(found) if self.return_indices else found


def max_pool1d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    kernel, stride, padding, dilation = (
        v if v is None or isinstance(v, int) else v[0] for v in (kernel_size, stride, padding, dilation)
    )
    out = ops.max_pool2d(
        x.expand_dims(-2), (1, kernel), (1, kernel if stride is None else stride), (0, padding), (1, dilation),
        ceil_mode=ceil_mode, return_indices=return_indices,
    )
    return (out[0].squeeze(-2), out[1].squeeze(-2)) if return_indices else out.squeeze(-2)


def average_pool(x, kernel_size, stride=None, padding=0):
    """Means over windows as a convolution, whose gradient can be differentiated."""
    kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
    stride = kernel if stride is None else stride if isinstance(stride, int) else tuple(stride)
    rows, columns = (padding,) * 2 if isinstance(padding, int) else padding
    weight = ops.full((x.shape[1], 1, *kernel), 1.0 / (kernel[0] * kernel[1]), dtype=x.dtype)
    return ops.conv2d(x, weight, None, stride, "pad", (rows, columns), 1, x.shape[1])


def lp_pool(x, norm_type, kernel_size, stride=None, ceil_mode=False, dims=2):
    kernel = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
    stride = kernel if stride is None else (stride,) * dims if isinstance(stride, int) else tuple(stride)
    powers = ops.pow(x, norm_type)
    if dims == 1:
        powers, kernel, stride = powers.expand_dims(-2), (1, *kernel), (1, *stride)
    single = dims == 3 and x.ndim == 4  # without a batch
    powers = powers.expand_dims(0) if single else powers
    pool = ops.avg_pool3d if dims == 3 else ops.avg_pool2d
    means = pool(powers, kernel, stride, ceil_mode=ceil_mode)
    means = means.squeeze(0) if single else means
    count = 1
    for n in kernel:
        count *= n
    means = means.squeeze(-2) if dims == 1 else means
    return ops.pow(ops.sign(means) * ops.relu(ops.abs(means)) * count, 1.0 / norm_type)


class LPPool3d(nn.Cell):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def construct(self, x):
        return lp_pool(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode, 3)


def max_unpool(x, indices, kernel_size, stride=None, padding=0, output_size=None, dims=2):
    kernel, stride, padding = (
        (v,) * dims if isinstance(v, int) else v for v in (kernel_size, stride or kernel_size, padding)
    )
    if output_size is None:
        sizes = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-dims:], stride, padding, kernel)]
    else:
        sizes = list(output_size)[-dims:]
    lead = x.shape[:-dims]
    rows, total = 1, 1
    for n in lead:
        rows *= n
    for n in sizes:
        total *= n
    flat = ops.zeros((rows, total), dtype=x.dtype)
    flat = ops.tensor_scatter_elements(flat, indices.reshape((rows, -1)), x.reshape((rows, -1)), axis=1)
    return flat.reshape((*lead, *sizes))


class MaxUnpool(nn.Cell):
    def __init__(self, kernel_size, stride=None, padding=0, dims=2):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dims = dims

    def construct(self, x, indices, output_size=None):
        return max_unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size, self.dims)
