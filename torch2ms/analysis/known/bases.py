"""What classes of the program inherit from torch, by the qualified name of the base."""

from __future__ import annotations

BASES = {
    "torch.nn.Module": "module",
    "torch.nn.modules.module.Module": "module",
    "mindspore.nn.Cell": "module",
    "torch.autograd.Function": "autograd",
    "torch.autograd.function.Function": "autograd",
    "torch.utils.data.Dataset": "dataset",
    "torch.utils.data.dataset.Dataset": "dataset",
    "torch.utils.data.IterableDataset": "dataset",
    "torch.optim.Optimizer": "optimizer",
    "torch.optim.optimizer.Optimizer": "optimizer",
} | {
    f"torch.optim.{name}": "optimizer"
    for name in ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD")
}
