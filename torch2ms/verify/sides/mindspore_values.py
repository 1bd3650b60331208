"""Reading MindSpore's objects: the numbers of tensors, what a cell holds, what a gradient is taken by."""

from __future__ import annotations

import inspect
from typing import Any

import mindspore as ms
from mindspore import nn

from torch2ms.verify.sides.replay import RANDOM_INITIALIZERS
from torch2ms.verify.trace import Array

CONSTANTS = ("zeros", "zero", "ones", "one")


def to_array(value: Any) -> Array | None:
    """The numbers of a tensor, or None for anything else."""
    if not isinstance(value, ms.Tensor):
        return None
    if value.dtype == ms.bfloat16:
        value = value.astype(ms.float32)
    return value.asnumpy()


def recorded(record: dict[str, Any], cell: Any) -> dict[str, Any]:
    """The parameters of a cell by the names of the torch layer it stands for."""
    own = dict(cell.parameters_and_names())
    found = {entry["name"]: own.get(entry["other"], own.get(entry["name"])) for entry in record["parameters"]}
    return {name: parameter for name, parameter in found.items() if parameter is not None}


def members(cell: Any) -> dict[str, Any]:
    """The tensors a cell of the program holds itself, as parameters, buffers or plain attributes."""
    members = {**cell.__dict__, **cell._buffers, **cell._params}
    return {name: value for name, value in members.items() if isinstance(value, ms.Tensor)}


def explicit(arguments: dict[str, Any]) -> dict[str, str]:
    """The parameters whose initial values a constructor call states itself: as a constant, or at random."""
    stated = {}
    for name, value in arguments.items():
        if value is not None and (name.endswith("_init") or name in ("embedding_table", "w")):
            random = type(value).__name__ in RANDOM_INITIALIZERS or (isinstance(value, str) and value not in CONSTANTS)
            stated[name.removesuffix("_init")] = "random" if random else "constant"
    return stated


def tensors(value: Any) -> list[Any]:
    """The tensors of a nested tuple or list, in order."""
    if isinstance(value, ms.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def all_ones(cotangent: Any) -> bool:
    """The cotangent of a loss."""
    arrays = [to_array(value) for value in tensors(cotangent)]
    return all(array is not None and bool((array == 1).all()) for array in arrays)


def argument_names(fn: Any, position: Any, operation: Any) -> list[str]:
    """What the program calls the arguments a gradient is taken for."""
    while getattr(fn, "__name__", "") == "aux_fn" and fn.__closure__:  # MindSpore's own wrapper for has_aux
        inner = [cell.cell_contents for cell in fn.__closure__ if callable(cell.cell_contents)]
        if not inner:
            break
        fn = inner[0]
    target = fn.construct if isinstance(fn, nn.Cell) else fn
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return []
    if getattr(operation, "get_by_position", False) and position is not None:
        positions = (position,) if isinstance(position, int) else position
        return [names[p] for p in positions if p < len(names)]
    return names if getattr(operation, "get_all", False) else names[:1]
