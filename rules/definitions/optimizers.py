"""Optimizers of PyTorch, and what they remember of their steps."""

import mindspore as ms
from mindspore import ops
from mindspore.experimental import optim


class AdamL2(optim.AdamW):
    """Adam that adds the weight decay to the gradients."""

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *,
                 maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    def implementation(self, lr, weight_decay, beta1, beta2, amsgrad, eps, grads, start_id, end_id):
        params = self.parameters[start_id:end_id]
        decayed = tuple(grad + weight_decay * param for grad, param in zip(grads, params))
        return optim.AdamW.implementation(self, lr, 0.0, beta1, beta2, amsgrad, eps, decayed, start_id, end_id)


class DecoupledNAdam(optim.NAdam):
    """NAdam whose weights shrink by themselves, as those of AdamW."""

    def implementation(self, lr, beta1, beta2, weight_decay, momentum_decay, eps, start_id, end_id, gradients):
        for param in self.parameters[start_id:end_id]:
            ops.assign(param, param * (1 - lr * weight_decay))
        settings = (lr, beta1, beta2, 0.0, momentum_decay, eps)
        return optim.NAdam.implementation(self, *settings, start_id, end_id, gradients)


class DecoupledRAdam(optim.RAdam):
    """RAdam whose weights shrink by themselves, as those of AdamW."""

    def implementation(self, lr, beta1, beta2, weight_decay, eps, start_id, end_id, gradients):
        for param in self.parameters[start_id:end_id]:
            ops.assign(param, param * (1 - lr * weight_decay))
        return optim.RAdam.implementation(self, lr, beta1, beta2, 0.0, eps, start_id, end_id, gradients)


class Optimizers:
    """The optimizers under torch's names."""

    SGD, Adam, AdamW, Adagrad, RMSprop = optim.SGD, AdamL2, optim.AdamW, optim.Adagrad, optim.RMSprop
    Adadelta, Adamax, NAdam, RAdam = optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam
    ASGD, Rprop = optim.ASGD, optim.Rprop


def moments(optimizer):
    """What an optimizer keeps of its steps: the parameters that it moves are the network's."""
    others = {id(param) for param in (*optimizer.parameters, *optimizer.lrs)}
    return {name: value for name, value in optimizer.parameters_dict().items() if id(value) not in others}


def optimizer_state(optimizer):
    """The moments themselves, which go on, and the groups with their learning rates as they are now."""
    groups = []
    for group in optimizer.param_groups:
        places = list(range(len(group["params"])))
        groups.append({**group, "lr": float(group["lr"]), "params": places})
    return {"state": moments(optimizer), "param_groups": groups}


def load_optimizer_state(optimizer, state):
    """What is loaded goes along with the steps from then on, as torch's optimizers go on with these very moments."""
    for group, kept in zip(optimizer.param_groups, state["param_groups"]):
        ops.assign(group["lr"], kept["lr"])
        group.update({name: setting for name, setting in kept.items() if name not in ("params", "lr")})
    held = state["state"]
    for name, value in moments(optimizer).items():
        if name in held:
            ops.assign(value, held[name])
            if (value != 0).any():
                held[name] = value


def state_of(optimizer, param):
    """What an optimizer remembers of a parameter, under PyTorch's names: nothing before its first step."""
    at = next(n for n, p in enumerate(optimizer.parameters) if p is param)
    group = next(g for g in optimizer.param_groups if any(p is param for p in g["params"]))
    if hasattr(optimizer, "accum"):
        begun = group["momentum"] and not optimizer.stat[at].any()
        return {"momentum_buffer": optimizer.accum[at]} if begun else {}
    if not optimizer.state_step:
        return {}
    moments = {"exp_avg": optimizer.exp_avg[at], "exp_avg_sq": optimizer.exp_avg_sq[at]}
    if group["amsgrad"]:
        moments["max_exp_avg_sq"] = optimizer.max_exp_avg_sq[at]
    return {"step": ms.tensor(float(optimizer.state_step)), **moments}
