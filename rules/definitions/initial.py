"""What draws new values into a parameter, where a call hides its arguments."""

import math

import mindspore as ms
from mindspore import ops


def uniform_(weight, a=0.0, b=1.0):
    ops.assign(weight, ops.uniform(weight.shape, ms.Tensor(a, weight.dtype), ms.Tensor(b, weight.dtype)))


def fans(weight):
    """The numbers of values that go into, and out of, one unit."""
    if len(weight.shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = 1
    for size in weight.shape[2:]:
        window *= size
    return weight.shape[1] * window, weight.shape[0] * window


def calculate_gain(nonlinearity, param=None):
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}.get(nonlinearity, 1)
