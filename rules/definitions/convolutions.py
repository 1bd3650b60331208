"""Transposed convolutions whose output shape follows from their arguments, pooling, folding."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.common.initializer import Uniform, initializer


def conv_transpose1d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    stride, padding, output_padding, dilation = (
        (1, v if isinstance(v, int) else v[0]) for v in (stride, padding, output_padding, dilation)
    )
    padding, output_padding = (0, padding[1]), (0, output_padding[1])
    x, weight = x.expand_dims(-2), weight.expand_dims(-2)
    return conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation).squeeze(-2)


def conv_transpose2d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    stride, padding, output_padding, dilation = (
        (v, v) if isinstance(v, int) else v for v in (stride, padding, output_padding, dilation)
    )
    kernel = weight.shape[-2:]
    full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(x.shape[-2:], stride, dilation, kernel)]
    cells = ops.Conv2DTranspose(
        x.shape[1], kernel, pad_mode="pad", pad=0, stride=stride, dilation=dilation, group=groups
    )
    out = cells(x, weight, (x.shape[0], weight.shape[1] * groups, *full))
    extra = [max(e - p, 0) for p, e in zip(padding, output_padding)]
    if any(extra):
        out = ops.pad(out, (0, extra[1], 0, extra[0]))
    top, left = padding
    bottom, right = (p - e + m for p, e, m in zip(padding, output_padding, extra))
    out = out[:, :, top : out.shape[2] - bottom, left : out.shape[3] - right]
    return out if bias is None else out + bias.reshape((1, -1, 1, 1))


def conv_transpose3d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    stride, padding, output_padding, dilation = (
        (v, v, v) if isinstance(v, int) else v for v in (stride, padding, output_padding, dilation)
    )
    kernel = weight.shape[-3:]
    spread = ops.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[-3:], stride))), dtype=x.dtype)
    spread[:, :, :: stride[0], :: stride[1], :: stride[2]] = x
    sides = [(d * (k - 1) - p, d * (k - 1) - p + e) for d, k, p, e in zip(dilation, kernel, padding, output_padding)]
    spread = cropped_pad(spread, [n for side in reversed(sides) for n in side])
    weight = ops.flip(weight, (-3, -2, -1)).reshape((groups, -1, *weight.shape[1:])).swapaxes(1, 2)
    weight = weight.reshape((-1, *weight.shape[2:]))
    out = ops.conv3d(spread, weight, dilation=dilation, groups=groups)
    return out if bias is None else out + bias.reshape((1, -1, 1, 1, 1))




class ConvTranspose1d(nn.Conv1dTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, *, device=None, dtype=None):
        nn.Cell.__init__(self)  # it has the name of the layer, and computes for itself
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = (kernel_size,) * 1 if isinstance(kernel_size, int) else tuple(kernel_size)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.settings = {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}
        self.output_padding = output_padding
        bound = (out_channels // groups * int(np.prod(self.kernel_size))) ** -0.5
        self.weight = ms.Parameter(initializer(Uniform(bound), shape, dtype or ms.float32))
        self.bias = ms.Parameter(initializer(Uniform(bound), (out_channels,), dtype or ms.float32)) if bias else None

    def extend_repr(self):
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"

    def construct(self, x):
        return conv_transpose1d(x, self.weight, self.bias, output_padding=self.output_padding, **self.settings)


class ConvTranspose2d(nn.Conv2dTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, *, device=None, dtype=None):
        nn.Cell.__init__(self)  # it has the name of the layer, and computes for itself
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.settings = {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}
        self.output_padding = output_padding
        bound = (out_channels // groups * int(np.prod(self.kernel_size))) ** -0.5
        self.weight = ms.Parameter(initializer(Uniform(bound), shape, dtype or ms.float32))
        self.bias = ms.Parameter(initializer(Uniform(bound), (out_channels,), dtype or ms.float32)) if bias else None

    def extend_repr(self):
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"

    def construct(self, x):
        return conv_transpose2d(x, self.weight, self.bias, output_padding=self.output_padding, **self.settings)


class ConvTranspose3d(nn.Conv3dTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 bias=True, dilation=1, *, device=None, dtype=None):
        nn.Cell.__init__(self)  # it has the name of the layer, and computes for itself
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = (kernel_size,) * 3 if isinstance(kernel_size, int) else tuple(kernel_size)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.settings = {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}
        self.output_padding = output_padding
        bound = (out_channels // groups * int(np.prod(self.kernel_size))) ** -0.5
        self.weight = ms.Parameter(initializer(Uniform(bound), shape, dtype or ms.float32))
        self.bias = ms.Parameter(initializer(Uniform(bound), (out_channels,), dtype or ms.float32)) if bias else None

    def extend_repr(self):
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"

    def construct(self, x):
        return conv_transpose3d(x, self.weight, self.bias, output_padding=self.output_padding, **self.settings)


def transposed_to(layer, x, size):
    """What a transposed convolution gives of a size that is asked for: the rows that its stride leaves open differ."""
    one = isinstance(layer, nn.Conv1dTranspose)  # two-dimensional inside
    settings = getattr(layer, "settings", None)
    if settings is None:
        stride, dilation = (sizes[1:] if one else sizes for sizes in (layer.stride, layer.dilation))
        settings = {"stride": stride, "padding": padding_of(layer), "groups": layer.group, "dilation": dilation}
    weight = layer.weight.squeeze(2) if one and layer.weight.ndim == 4 else layer.weight
    kernel = weight.shape[2:]
    names = "stride", "padding", "dilation"
    each = [(v,) * len(kernel) if isinstance(v, int) else v for v in (settings[name] for name in names)]
    least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in zip(x.shape[2:], kernel, *each)]
    extra = tuple(asked - low for asked, low in zip(size[-len(kernel) :], least))
    function = (conv_transpose1d, conv_transpose2d, conv_transpose3d)[len(kernel) - 1]
    return function(x, weight, layer.bias, output_padding=extra, **settings)


class PaddedConv1d(nn.Conv1d):
    def __init__(self, in_channels, out_channels, kernel_size, padding, mode, **options):
        size = kernel_size[0] if isinstance(kernel_size, tuple) else kernel_size
        super().__init__(in_channels, out_channels, size, pad_mode="valid", **options)
        self.sides = padding
        self.border = mode

    def construct(self, x):
        return super().construct(padded(x, self.sides, self.border))


class PaddedConv2d(nn.Conv2d):
    def __init__(self, in_channels, out_channels, kernel_size, padding, mode, **options):
        super().__init__(in_channels, out_channels, kernel_size, pad_mode="valid", **options)
        self.sides = padding
        self.border = mode

    def construct(self, x):
        return super().construct(padded(x, self.sides, self.border))


class PaddedConv3d(nn.Conv3d):
    def __init__(self, in_channels, out_channels, kernel_size, padding, mode, **options):
        super().__init__(in_channels, out_channels, kernel_size, pad_mode="valid", **options)
        self.sides = padding
        self.border = mode

    def construct(self, x):
        return super().construct(padded(x, self.sides, self.border))


def conv_of_borders(
    plain, bordered, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
    padding_mode="zeros",
):  # fmt: skip
    """A convolution that sees zeros beyond its borders, or what the mode says."""
    if padding_mode == "zeros":
        return conv_cell(plain, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
    options = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
    options = {name: tuple(size) if isinstance(size, list) else size for name, size in options.items()}
    dims = int(plain.__name__[-2])
    sizes = (padding,) * dims if isinstance(padding, int) else padding
    around = tuple(size for size in reversed(sizes) for _ in range(2))
    options |= {"padding": around, "mode": padding_mode, "group": groups, "has_bias": bias}
    return bordered(in_channels, out_channels, **options)


def padding_of(layer):
    """The padding of a convolution as torch has it: a number for each dimension, or 'same'."""
    if layer.pad_mode == "same":
        return "same"
    if hasattr(layer, "sides"):  # of the layers above, from the last dimension to the first
        return layer.sides[-2::-2]
    if isinstance(layer.padding, int):
        return (layer.padding,) * len(layer.kernel_size)
    one = isinstance(layer, (nn.Conv1d, nn.Conv1dTranspose))  # two-dimensional inside
    return layer.padding[2 if one else 0 :: 2]


def padded(x, sides, mode):
    if mode == "circular":
        return circular_pad(x, sides)
    return ops.pad(x, sides, mode)
