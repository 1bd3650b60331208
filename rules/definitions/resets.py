"""Parameters of layers made anew, as PyTorch's `reset_parameters` does it."""

import math

from mindspore import nn, ops
from mindspore.common.initializer import Normal, Uniform, initializer


def initial_values(cell):
    """The parameters of a layer with what they begin as; None for what has no parameters of its own."""
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)
    convolutions = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Conv1dTranspose, nn.Conv2dTranspose, nn.Conv3dTranspose)
    if isinstance(cell, (nn.Dense, *convolutions)):
        bound = Uniform(1 / math.sqrt(cell.weight.size / cell.weight.shape[0]))
        return [(parameter, bound) for parameter in (cell.weight, cell.bias) if parameter is not None]
    if isinstance(cell, (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell)):
        bound = Uniform(1 / math.sqrt(cell.hidden_size))
        return [(parameter, bound) for parameter in cell.get_parameters()]
    if isinstance(cell, nn.Embedding):
        return [(cell.embedding_table, Normal(1.0))]
    if isinstance(cell, nn.BatchNorm3d):
        return initial_values(cell.bn2d)
    if isinstance(cell, nn.PReLU):
        return [(cell.w, 0.25)]
    if isinstance(cell, norms):
        ones = ("gamma", "moving_variance")
        return [(p, "ones" if p.name.endswith(ones) else "zeros") for p in cell.get_parameters(expand=False)]
    return None


def has_reset_parameters(cell):
    return hasattr(cell, "reset_parameters") or initial_values(cell) is not None


def reset_layer(cell):
    for parameter, init in initial_values(cell):
        ops.assign(parameter, initializer(init, parameter.shape, parameter.dtype).init_data())


def reset_parameters(cell):
    if hasattr(cell, "reset_parameters"):
        cell.reset_parameters()
    else:
        reset_layer(cell)


def weight_names(rnn):
    """The names of the parameters of each layer, and of each direction behind it."""
    found = {}
    for name, _ in rnn.parameters_and_names():
        kind, _, layer = name.rpartition("_l")
        found.setdefault(layer, {})[kind] = name
    order = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [[kinds[kind] for kind in order if kind in kinds] for _, kinds in sorted(found.items())]
