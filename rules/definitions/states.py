"""States of what a program keeps under names: networks, optimizers, schedulers, scalers, objects of its own."""

import mindspore as ms
from mindspore import nn
from mindspore.experimental import optim


def state_of_any(kept):
    """The state of a network, an optimizer or a scheduler; objects of the program's own give theirs themselves."""
    if isinstance(kept, optim.Optimizer):
        return optimizer_state(kept)
    if isinstance(kept, nn.Cell):
        return kept.parameters_dict()
    if isinstance(kept, ms.amp.LossScaler):
        return scaler_state(kept)
    return kept.state_dict() if hasattr(kept, "state_dict") else scheduler_state(kept)


def load_state_of_any(kept, state):
    if isinstance(kept, optim.Optimizer):
        return load_optimizer_state(kept, state)
    if isinstance(kept, nn.Cell):
        return ms.load_param_into_net(kept, state)
    if isinstance(kept, ms.amp.LossScaler):
        return load_scaler_state(kept, state)
    return kept.load_state_dict(state) if hasattr(kept, "load_state_dict") else load_scheduler_state(kept, state)
