"""What draws new values into a parameter, where a call hides its arguments."""

import mindspore as ms
from mindspore import ops


def uniform_(weight, a=0.0, b=1.0):
    weight.set_data(ops.uniform(weight.shape, ms.Tensor(a, weight.dtype), ms.Tensor(b, weight.dtype)))
