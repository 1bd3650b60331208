"""Layers made with PyTorch's arguments, where a class that is held in a variable is called with more than it needs; and
layers that keep their mode."""

from functools import partial

import mindspore as ms
from mindspore import nn
from mindspore.common.initializer import Normal


def conv_cell(
    cls, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, *,
    device=None, dtype=None,
):  # fmt: skip
    sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
    for name, size in sizes.items():  # a list of one number stands for several
        sizes[name] = size if isinstance(size, int) else size[0] if len(size) == 1 else tuple(size)
    if isinstance(padding, str):
        sizes["pad_mode"] = padding
    else:  # both sides of each axis
        sizes["pad_mode"], sizes["padding"] = "pad", padding if isinstance(padding, int) else sides(padding)
    return cls(in_channels, out_channels, group=groups, has_bias=bias, dtype=dtype or ms.float32, **sizes)


def sides(padding):
    return tuple(size for size in padding for _ in range(2))


def layer_type(made):
    """The class of which something makes layers: itself, or the one in a partial."""
    while isinstance(made, partial):
        made = made.args[0] if made.args and isinstance(made.args[0], type) else made.func
    return made


def pool_cell(cls, kernel_size, stride=None, padding=0, *more, **options):
    sizes = [kernel_size, kernel_size if stride is None else stride, padding]
    kernel, step, rows = [tuple(size) if isinstance(size, list) else size for size in sizes]
    padded = ("pad", rows, *more) if rows != 0 or more or options else ()
    return cls(kernel, step, *padded, **options)


def recurrent_cell(
    cls, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, *,
    device=None, dtype=None,
):  # fmt: skip
    sizes = input_size, hidden_size, num_layers, bias, batch_first, float(dropout), bidirectional
    return cls(*sizes, dtype=dtype or ms.float32)


def step_cell(cls, input_size, hidden_size, bias=True, device=None, dtype=None):
    return cls(input_size, hidden_size, bias, dtype=dtype or ms.float32)


def instance_norm_cell(num_features, eps=1e-05, momentum=0.1, affine=False, *, device=None, dtype=None):
    return nn.GroupNorm(num_features, num_features, eps=eps, affine=affine, dtype=dtype or ms.float32)


def dense_cell(cls, in_features, out_features, bias=True, device=None, dtype=None):
    return cls(in_features, out_features, has_bias=bias, dtype=dtype or ms.float32)


def group_norm_cell(cls, num_groups, num_channels, eps=1e-05, affine=True, device=None, dtype=None):
    return cls(num_groups, num_channels, eps, affine, dtype=dtype or ms.float32)


def embedding_cell(cls, num_embeddings, embedding_dim, *, device=None, dtype=None):
    return cls(num_embeddings, embedding_dim, embedding_table=Normal(1.0), dtype=dtype or ms.float32)


def keep_mode(cell):
    """Neither set_train of the cell nor that of what holds it changes its mode, or that of its parts, from now on."""

    def add_flags_recursive(**flags):
        flags.pop("training", None)
        if flags:
            type(cell).add_flags_recursive(cell, **flags)
        return cell

    cell.add_flags_recursive = add_flags_recursive


class CopiedDropout2d(nn.Dropout2d):
    """Drops channels, in a copy of the network, too: MindSpore's layer cannot be copied."""

    def __deepcopy__(self, memo):
        return type(self)(1 - self.keep_prob).set_train(self.training)


class CopiedDropout3d(nn.Dropout3d):
    """Drops channels, in a copy of the network, too: MindSpore's layer cannot be copied."""

    def __deepcopy__(self, memo):
        return type(self)(1 - self.keep_prob).set_train(self.training)
