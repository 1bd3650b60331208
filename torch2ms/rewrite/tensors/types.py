"""Python's own types as element types: `dtype=bool`, `x.to(float)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo

TYPES = {"bool": "bool_", "int": "int64", "float": "float64", "complex": "complex128"}
TAKEN_FIRST = ("torch.Tensor.to",)


def typed(name: str, original: cst.Call, updated: cst.Call, module: ModuleInfo, alias: str) -> cst.Call:
    """The call with MindSpore's types in their place, which takes no others."""
    args = list(updated.args)
    for number, (arg, now) in enumerate(zip(original.args, args, strict=False)):
        asked = arg.keyword.value == "dtype" if arg.keyword is not None else not number and name in TAKEN_FIRST
        value = arg.value
        if asked and type(value) is cst.Name and value.value in TYPES and value.value not in module.scope.locals:
            args[number] = now.with_changes(value=cst.parse_expression(f"{alias}.{TYPES[value.value]}"))
    return updated if all(a is b for a, b in zip(args, updated.args, strict=True)) else updated.with_changes(args=args)
