"""The numbers of torch's tensors, as they are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from torch2ms.verify.trace import Array

HALF = (torch.float16, torch.bfloat16)


def to_array(value: Any) -> Array | None:
    """The numbers of a tensor, or None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.dtype in HALF:
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().cpu().numpy()


def weight_array(value: Any) -> Array | None:
    """The numbers of a weight or of its gradient; MindSpore's are real, with a pair for each complex number."""
    array = to_array(value)
    return as_pairs(array, -1) if array is not None and np.iscomplexobj(array) else array


def as_pairs(array: Array, axis: int) -> Array:
    """Real and imaginary parts along an axis of their own."""
    return np.stack([array.real, array.imag], axis)
