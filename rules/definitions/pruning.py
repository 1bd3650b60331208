"""Weights of which masks keep some, as torch.nn.utils.prune makes them."""

import mindspore as ms
import numpy as np
from mindspore import ops


def pruned(cell, name, mask):
    """The cell with its weight times a mask at every use, and times the masks it had before."""
    kept = f"{name}_mask"
    if hasattr(cell, kept):
        before = getattr(cell, kept)
        before.assign_value(before * mask)
        return cell
    weight = getattr(cell, name)
    mask = ops.ones_like(weight) * mask
    delattr(cell, name)
    weight.name = f"{weight.name}_orig"
    setattr(cell, f"{name}_orig", weight)  # the very parameter: optimizers that have it go on to train it
    cell.register_buffer(kept, mask)

    def compute(self):
        return getattr(self, f"{name}_orig") * getattr(self, kept)

    return reparametrised(cell, name, compute)


def not_masked(cell, name):
    """Where a weight is not masked yet."""
    if hasattr(cell, f"{name}_mask"):
        return getattr(cell, f"{name}_mask").asnumpy() == 1
    return np.ones(getattr(cell, name).shape, bool)


def without_least(scores, kept, amount):
    """The mask without a number, or a share, of those kept that have the lowest scores."""
    count = int(round(amount * kept.sum())) if isinstance(amount, float) else amount
    order = np.argsort(np.where(kept, scores, np.inf), axis=None, kind="stable")
    mask = kept.copy()
    mask.reshape(-1)[order[:count]] = False
    return mask


def prune_unstructured(cell, name, amount, random=False, importance_scores=None):
    weight = (getattr(cell, name) if importance_scores is None else importance_scores).asnumpy()
    scores = np.random.rand(*weight.shape) if random else np.abs(weight)
    mask = without_least(scores, not_masked(cell, name), amount)
    return pruned(cell, name, ms.Tensor(mask.astype(np.float32)))


def prune_structured(cell, name, amount, n=2, dim=-1, random=False, importance_scores=None):
    """Whole channels at once, by their norms."""
    weight = (getattr(cell, name) if importance_scores is None else importance_scores).asnumpy()
    rows = np.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1)
    kept = np.moveaxis(not_masked(cell, name), dim, 0).reshape(len(rows), -1).any(1)
    scores = np.random.rand(len(rows)) if random else np.linalg.norm(rows, n, 1)
    shape = [1] * weight.ndim
    shape[dim] = -1
    mask = np.broadcast_to(without_least(scores, kept, amount).reshape(shape), weight.shape)
    return pruned(cell, name, ms.Tensor(mask.astype(np.float32)))


def prune_globally(parameters, amount, random=False):
    """The least of several weights together."""
    parameters = list(parameters)
    weights = [getattr(cell, name).asnumpy() for cell, name in parameters]
    scores = np.concatenate([np.abs(weight).reshape(-1) for weight in weights])
    kept = np.concatenate([not_masked(cell, name).reshape(-1) for cell, name in parameters])
    mask = without_least(np.random.rand(len(scores)) if random else scores, kept, amount)
    masks = np.split(mask, np.cumsum([weight.size for weight in weights])[:-1])
    for (cell, name), weight, part in zip(parameters, weights, masks):
        pruned(cell, name, ms.Tensor(part.reshape(weight.shape).astype(np.float32)))


def is_pruned(network):
    return any(hasattr(cell, f"{name}_mask") for _, cell in network.cells_and_names() for name in ("weight", "bias"))
