"""Python's own types as element types: `dtype=bool`, `x.to(float)`."""

from __future__ import annotations

import libcst as cst

TYPES = {"bool": "ms.bool_", "int": "ms.int64", "float": "ms.float64", "complex": "ms.complex128"}
TAKEN_FIRST = ("torch.Tensor.to",)


def typed(name: str, call: cst.Call) -> cst.Call:
    """The call of an API with MindSpore's types in their place, which takes no others."""
    args = list(call.args)
    for number, arg in enumerate(args):
        asked = arg.keyword.value == "dtype" if arg.keyword is not None else not number and name in TAKEN_FIRST
        if asked and type(arg.value) is cst.Name and arg.value.value in TYPES:
            args[number] = arg.with_changes(value=cst.parse_expression(TYPES[arg.value.value]))
    return call if all(a is b for a, b in zip(args, call.args, strict=True)) else call.with_changes(args=args)
