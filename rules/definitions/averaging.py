"""Weights averaged over training: the model, its learning rate, and the statistics of its normalisation layers."""

import copy
import math

import mindspore as ms
from mindspore import nn, ops
from mindspore.experimental.optim import lr_scheduler


class AveragedModel(nn.Cell):
    """A model with averages of the weights of another."""

    def __init__(self, model, avg_fn=None, use_buffers=False):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.avg_fn = avg_fn or (lambda averaged, new, n: averaged + (new - averaged) / (n + 1))
        self.use_buffers = use_buffers
        self.n_averaged = ms.Parameter(ms.Tensor(0), requires_grad=False)
        self.add_flags(training=True)  # the model in it keeps its mode

    def construct(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        n = int(self.n_averaged)
        for (name, averaged), new in zip(self.module.parameters_and_names(), model.get_parameters()):
            copied = n == 0 or name.endswith(("moving_mean", "moving_variance")) and not self.use_buffers
            ops.assign(averaged, new if copied else self.avg_fn(averaged, new, n))
        for averaged, new in zip(self.module.buffers(), model.buffers()):
            averaged.copy_(self.avg_fn(averaged, new, n) if n and self.use_buffers else new)
        ops.assign(self.n_averaged, n + 1)


def ema_avg_fn(decay=0.999):
    return lambda averaged, new, n: decay * averaged + (1 - decay) * new


def swa_avg_fn(averaged, new, n):
    return averaged + (new - averaged) / (n + 1)


class SWALR(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos"):
        count = len(optimizer.param_groups)
        self.swa_lrs = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * count
        self.anneal_epochs = anneal_epochs
        self.linear = anneal_strategy == "linear"
        super().__init__(optimizer)

    def share(self, step):
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self.linear else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self):
        step = float(self.last_epoch)
        step = step if self.anneal_epochs else max(1.0, step)
        before, now = self.share(step - 1), self.share(step)
        rates = []
        for group, swa_lr in zip(self.optimizer.param_groups, self.swa_lrs):
            first = swa_lr if before == 1 else (float(group["lr"]) - before * swa_lr) / (1 - before)
            rates.append(swa_lr * now + first * (1 - now))
        return rates


def update_bn(loader, model):
    """The statistics of the normalisation layers are the means over what the loader gives."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)  # in three dimensions a layer is made of the one in two
    layers = [cell for _, cell in model.cells_and_names() if isinstance(cell, kinds)]
    if not layers:
        return
    training = model.training
    model.set_train()
    statistics = [(p, cell.momentum) for cell in layers for p in (cell.moving_mean, cell.moving_variance)]
    sums = [0.0] * len(statistics)
    batches = 0
    for batch in loader:
        for p, _ in statistics:
            ops.assign(p, ops.zeros_like(p))
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
        sums = [total + p / share for total, (p, share) in zip(sums, statistics)]
        batches += 1
    for total, (p, _) in zip(sums, statistics):
        ops.assign(p, total / batches)
    model.set_train(training)
