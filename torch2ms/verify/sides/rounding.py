"""The torch program with other rounding errors: what its operators read and give is disturbed in the last digits.

Two frameworks sum in another order and have other approximations of `exp`; operators that are exact, or rounded
correctly everywhere (`+`, `*`, `max`, indexing), agree to the bit. So only the former are disturbed, forward and
backward: what they read, because the error of a sum has the size of its terms, and what they give. A disturbance of
the weights instead would be the same for all samples, and cancel in a batch normalisation. (Monte Carlo arithmetic:
D. Stott Parker, UCLA CSD-970002, 1997; here with the same draws in every run.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

INEXACT = {
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "convolution", "convolution_backward"),
    *("sum", "mean", "var", "var_mean", "std", "std_mean", "prod", "cumsum", "cumprod", "norm", "linalg_vector_norm"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logsumexp", "logcumsumexp", "pow", "rsqrt", "erf"),
    *("erfc", "erfinv", "lgamma", "digamma", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh"),
    *("tanh", "tanh_backward", "sigmoid", "sigmoid_backward", "log_sigmoid_forward", "log_sigmoid_backward"),
    *("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "softplus"),
    *("softplus_backward", "elu", "elu_backward", "gelu", "gelu_backward", "silu", "silu_backward", "mish"),
    *("mish_backward", "native_batch_norm", "native_batch_norm_backward", "native_layer_norm"),
    *("native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "_native_batch_norm_legit"),
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "nll_loss_forward", "nll_loss2d_forward"),
    *("binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits"),
    *("avg_pool2d", "_adaptive_avg_pool2d", "upsample_bilinear2d", "grid_sampler_2d", "_cdist_forward", "index_add"),
    *("_thnn_fused_lstm_cell", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "_embedding_bag"),
    *("embedding_dense_backward", "scatter_add", "_scaled_dot_product_flash_attention_for_cpu"),
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}


WRITING = {"native_batch_norm"}  # it updates its statistics, which its schema does not say


class OtherRounding(TorchDispatchMode):  # type: ignore[misc]
    """Some elements of every inexact operator's tensors are smaller by `size`: none leaves the domain of a function."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size, self.chosen = size, np.random.RandomState(0)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = function.overloadpacket.__name__
        if name not in INEXACT:
            return function(*args, **(kwargs or {}))
        kept = [argument.alias_info is not None for argument in function._schema.arguments]  # it writes there
        if name in WRITING:
            kept = [False] + [True] * len(args)
        given = [a if kept[i] else self._disturbed(a) for i, a in enumerate(args)]
        return self._disturbed(function(*given, **(kwargs or {})))

    def _disturbed(self, value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(self._disturbed, value))
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, torch.complex64):
            return value
        factors = self.chosen.choice((1.0 - self.size, 1.0), size=tuple(value.shape))
        return value * torch.from_numpy(np.asarray(factors)).to(value.device, torch.float32)
