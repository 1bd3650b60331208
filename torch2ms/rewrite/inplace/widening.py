"""Changes in place that keep the element type of the tensor, where the method of MindSpore gives the wider one."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.values import Value
from torch2ms.api.promotion import promoted


def widens(call: cst.Call, value: Value, module: ModuleInfo) -> bool:
    """`x.add_(y)` where `y` is of a wider element type: the tensor keeps its own, the method's result does not."""
    if not value.dtype or value.likely or value.kind != "tensor":
        return False
    given = [module.value(arg.value) for arg in call.args]
    types = {one.dtype for one in given if one.kind == "tensor" and one.dtype and not one.likely and one.rank != 0}
    return bool(types) and promoted({value.dtype, *types}) not in ("", value.dtype)
