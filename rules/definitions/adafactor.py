"""Adafactor, which keeps a row and a column of the second moments of a matrix."""

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.experimental import optim


class Adafactor(optim.Optimizer):
    def __init__(self, params, lr=0.01, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
                 maximize=False):
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "maximize": maximize})
        shapes = [(p.shape, p.shape) if p.ndim < 2 else ((*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1]))
                  for p in self.parameters]
        self.rows, self.columns = (
            ms.ParameterTuple([ms.Parameter(ops.zeros(both[i]), name=f"{kind}.{p.name}")
                               for p, both in zip(self.parameters, shapes)])
            for i, kind in enumerate(("row_var", "col_var"))
        )
        self.state_step = ms.Parameter(ms.Tensor(0, ms.int32), name="state_step")

    def construct(self, gradients):
        ops.assign_add(self.state_step, ms.Tensor(1, ms.int32))
        for place, group in enumerate(self.param_groups):
            for i in range(self.group_start_id[place], self.group_start_id[place + 1]):
                self.move(i, -gradients[i] if group["maximize"] else gradients[i], float(group["lr"]), group)
        return True

    def move(self, i, grad, lr, group):
        param, row, column, count = self.parameters[i], self.rows[i], self.columns[i], int(self.state_step)
        small, least = group["eps"]
        small = float(np.finfo(np.float32).eps) if small is None else small
        fresh = count ** group["beta2_decay"]
        size = float(ops.sqrt(ops.square(param).mean()))
        value = param * (1 - lr * group["weight_decay"])
        if grad.ndim > 1:
            ops.assign(row, row + fresh * (ops.square(grad).mean(-1, keep_dims=True) - row))
            ops.assign(column, column + fresh * (ops.square(grad).mean(-2, keep_dims=True) - column))
            moment = ops.matmul(row, column) / ops.clamp(row.mean(-2, keep_dims=True), small)
        else:
            ops.assign(row, row + fresh * (ops.square(grad) - row))
            moment = row
        update = ops.rsqrt(ops.clamp(moment, small * small)) * grad
        length = float(ops.sqrt(ops.square(update).mean()))
        step = max(least, size) * min(lr, count**-0.5) / max(1.0, length / group["d"])
        ops.assign(param, value - step * update)
