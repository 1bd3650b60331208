"""Loops over parameters: which iterable gives them, and which name holds each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.project import ModuleInfo

PARAMETERS = ("params", "list", "tuple")


@dataclass(frozen=True)
class Pairing:
    """`params` gives the parameters, `target` takes each; `name` takes its name, `index` its number.

    `zipped` is the argument of the `zip` in which the parameters are one of several.
    """

    params: cst.BaseExpression
    target: cst.BaseExpression
    name: str = ""
    index: str = ""
    zipped: cst.Arg | None = None
    wrapped: bool = False  # the loop runs over more than the parameters


def paired(
    given: cst.BaseExpression, target: cst.BaseExpression, names: Collection[str], module: ModuleInfo
) -> Pairing | None:
    """The parameters among what a loop runs over, whose `.grad` is used under one of these names."""
    value = module.value(given)
    if isinstance(target, cst.Name):
        if target.value not in names:
            return None
        if isinstance(given, cst.Call) and dotted(given.func) in ("list", "tuple", "iter") and len(given.args) == 1:
            return paired(given.args[0].value, target, names, module)
        grouped = value.name.startswith("param_group")
        return Pairing(given, target) if value.kind in PARAMETERS or grouped else None
    if not isinstance(target, cst.Tuple):
        return None
    parts = [e.value for e in target.elements]
    if value.kind == "named_params" and len(parts) == 2 and dotted(parts[1]) in names:
        return Pairing(given, parts[1], name=dotted(parts[0]))
    if not isinstance(given, cst.Call) or any(a.star or a.keyword is not None for a in given.args):
        return None
    if dotted(given.func) == "enumerate" and len(parts) == 2 and given.args:
        found = paired(given.args[0].value, parts[1], names, module)
        counted = dotted(parts[0]) if len(given.args) == 1 else ""
        return None if found is None else replace(found, index=counted or found.index, wrapped=True)
    if dotted(given.func) == "zip" and len(given.args) == len(parts):
        for arg, part in zip(given.args, parts, strict=True):
            if isinstance(part, cst.Name) and (found := paired(arg.value, part, names, module)) is not None:
                return replace(found, zipped=arg, wrapped=True)
    return None
