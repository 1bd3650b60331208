"""Layers whose weight is computed from other parameters."""

import mindspore as ms
from mindspore import nn, ops


def reparametrised(cell, name, compute):
    """The cell with `name` computed at every use: its class gets a property of that name."""
    cell.__class__ = type(type(cell).__name__, (type(cell),), {name: property(compute)})
    return cell


def plain_weight(cell, name="weight"):
    """The cell with `name` as it is now, a parameter again."""
    if name not in vars(type(cell)):
        raise ValueError(f"{name} is not computed")
    training = cell.training
    weight = ms.Parameter(getattr(cell.set_train(False), name))
    if hasattr(cell, f"{name}_mask"):  # pruned: the parameter behind it goes on
        orig = getattr(cell, f"{name}_orig")
        ops.assign(orig, weight)
        orig.name, weight = orig.name.removesuffix("_orig"), orig
    cell.__class__ = type(cell).__base__
    for part in ("g", "v", "orig", "u", "mask"):
        if hasattr(cell, f"{name}_{part}"):
            delattr(cell, f"{name}_{part}")
    setattr(cell, name, weight)
    return cell.set_train(training)


def weight_norm(cell, name="weight", dim=0):
    def norm(weight):
        kept = None if dim is None else dim % weight.ndim
        axes = tuple(axis for axis in range(weight.ndim) if axis != kept)
        return ops.sqrt((weight * weight).sum(axes, keepdims=kept is not None))

    direction = f"{name}_v"
    weight = getattr(cell, name).value()
    delattr(cell, name)
    setattr(cell, f"{name}_g", ms.Parameter(norm(weight)))
    setattr(cell, direction, ms.Parameter(weight))

    def compute(self):
        v = getattr(self, direction)
        return v * (getattr(self, f"{name}_g") / norm(v))

    return reparametrised(cell, name, compute)


def spectral_norm(cell, name="weight", iterations=1, eps=1e-12, dim=None, warm_up=0):
    if dim is None:
        dim = 1 if isinstance(cell, (nn.Conv1dTranspose, nn.Conv2dTranspose, nn.Conv3dTranspose)) else 0

    def matrix(weight):
        return weight.swapaxes(0, dim).reshape(weight.shape[dim], -1)

    def unit(x):
        return x / ops.maximum(ops.sqrt((x * x).sum()), ms.Tensor(eps, x.dtype))

    def iterate(weight, u, v, times):
        for _ in range(times):
            if warm_up:  # parametrizations begin with the other vector
                u = unit(ops.mv(weight, v))
            v = unit(ops.mv(weight.swapaxes(0, 1), u))
            if not warm_up:
                u = unit(ops.mv(weight, v))
        return u, v

    own = name if hasattr(cell, name) else "embedding_table"  # what an Embedding calls its weight
    weight = getattr(cell, own).value()
    delattr(cell, own)
    rows, columns = matrix(weight).shape
    u, v = unit(ops.randn(rows)), unit(ops.randn(columns))
    u, v = iterate(matrix(weight), u, v, warm_up and warm_up + iterations)
    setattr(cell, f"{name}_orig", ms.Parameter(weight))
    setattr(cell, f"{name}_u", ms.Parameter(u, requires_grad=False))
    setattr(cell, f"{name}_v", ms.Parameter(v, requires_grad=False))

    def compute(self):
        weight = getattr(self, f"{name}_orig")
        left, right = getattr(self, f"{name}_u"), getattr(self, f"{name}_v")
        if self.training:
            u, v = iterate(ops.stop_gradient(matrix(weight)), left.value(), right.value(), iterations)
            ops.assign(left, u)
            ops.assign(right, v)
        u, v = ops.stop_gradient(left.value()), ops.stop_gradient(right.value())
        return weight / (u * ops.mv(matrix(weight), v)).sum()

    return reparametrised(cell, own, compute).set_train()  # as layers of PyTorch begin
