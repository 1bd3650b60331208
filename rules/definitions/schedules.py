"""Schedules of learning rates that MindSpore lacks."""

import math

import mindspore as ms
from mindspore.experimental.optim import lr_scheduler


def give_momentum(optimizer, momentum):
    momentum = ms.mutable(momentum)  # a plain float is compiled in
    for group in optimizer.param_groups:
        if "betas" in group:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicMomentumLR(lr_scheduler.CyclicLR):
    """The momentum falls where the rate rises."""

    def __init__(self, optimizer, base_lr, max_lr, *options, base_momentum=0.8, max_momentum=0.9, **named):
        self.momenta = base_momentum, max_momentum
        super().__init__(optimizer, base_lr, max_lr, *options, **named)

    def get_lr(self):
        base, top = self.momenta
        now = float(self.last_epoch)
        turn = math.floor(1 + now / self.total_step_size)
        x = 1 + now / self.total_step_size - turn
        share = x / self.step_up_ratio if x <= self.step_up_ratio else (x - 1) / (self.step_up_ratio - 1)
        height = (top - base) * share * float(self.scale_fn(turn if self.scale_mode == "cycle" else now))
        give_momentum(self.optimizer, top - height)
        return super().get_lr()


class OneCycleLR(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False):
        self.total_steps = total_steps or epochs * steps_per_epoch
        count = len(optimizer.param_groups)
        self.max_lrs = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * count
        self.linear = anneal_strategy == "linear"
        self.div_factor = div_factor
        self.final_div_factor = final_div_factor
        self.momenta = (base_momentum, max_momentum) if cycle_momentum else None
        peak = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        self.phases = [(peak, 0, 1), (2 * peak, 1, 0), (last, 0, 2)] if three_phase else [(peak, 0, 1), (last, 1, 2)]
        super().__init__(optimizer)

    def between(self, start, end, share):
        if self.linear:
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def get_lr(self):
        now, start = float(self.last_epoch), 0.0
        for place, (end, low, high) in enumerate(self.phases):
            if now <= end or place == len(self.phases) - 1:
                share = (now - start) / (end - start)
                break
            start = end
        if self.momenta is not None:
            base, top = self.momenta
            ends = {0: top, 1: base, 2: top}
            give_momentum(self.optimizer, self.between(ends[low], ends[high], share))
        rates = []
        for peak in self.max_lrs:
            first = peak / self.div_factor
            stops = {0: first, 1: peak, 2: first / self.final_div_factor}
            rates.append(self.between(stops[low], stops[high], share))
        return rates


class ChainedScheduler:
    def __init__(self, schedulers):
        self.schedulers = schedulers
        self.optimizer = schedulers[0].optimizer

    def step(self):
        for scheduler in self.schedulers:
            scheduler.step()

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]


class CosineAnnealingWarmRestarts(lr_scheduler.CosineAnnealingWarmRestarts):
    """MindSpore's own fails where it is told the epoch and the turns grow: its logarithm takes no base."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        super().__init__(optimizer, T_0, T_mult, eta_min, last_epoch)
        self.log = math.log


def scheduler_state(scheduler):
    """What a scheduler goes on from: its counters, the learning rates that it began with, and those that it has set."""
    state = {name: value.item() for name, value in vars(scheduler).items() if isinstance(value, ms.Parameter)}
    state |= {name: int(state[name]) for name in ("last_epoch", "_step_count") if name in state}
    state |= {name: value for name, value in vars(scheduler).items() if isinstance(value, (int, float))}
    state["_last_lr"] = [float(lr) for lr in scheduler.get_last_lr()]
    if hasattr(scheduler, "base_lrs"):
        state["base_lrs"] = [float(lr) for lr in scheduler.base_lrs]
    if hasattr(scheduler, "_schedulers"):
        state["_schedulers"] = [scheduler_state(inner) for inner in scheduler._schedulers]
    return state


def load_scheduler_state(scheduler, state):
    """The learning rates are the optimizer's, which a scheduler changes at its next step."""
    for name, value in state.items():
        if name == "_schedulers":
            for inner, kept in zip(scheduler._schedulers, value):
                load_scheduler_state(inner, kept)
        elif name == "base_lrs":
            scheduler.base_lrs = [ms.Tensor(lr, ms.float32) for lr in value]
        elif name == "_last_lr":
            continue
        elif isinstance(getattr(scheduler, name), ms.Parameter):
            ops.assign(getattr(scheduler, name), ms.Tensor(value, getattr(scheduler, name).dtype))
        else:
            setattr(scheduler, name, value)
