"""Arguments that are dicts of tensors, as far as functions show by what they do with them."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

WITH_WEIGHTS = "forward_with"  # how the methods are called that take the weights of a network


def takes_dict(info: FunctionInfo, place: int, project: Project, seen: frozenset[int] = frozenset()) -> bool:
    """The function uses its argument as a dict of tensors, or hands it to one that does."""
    if place >= len(info.scope.params) or id(info) in seen:
        return False
    return used_as_dict(info.scope.node, info.scope.params[place], info.module, project, seen | {id(info)})


def used_as_dict(
    source: cst.CSTNode, name: str, module: ModuleInfo, project: Project, seen: frozenset[int] = frozenset()
) -> bool:
    """The code takes what is in a place for a dict of tensors."""
    for node in descend(source):
        if type(node) is cst.Subscript and dotted(node.value) == name:
            part = node.slice[0].slice
            if isinstance(part, cst.Index) and isinstance(part.value, cst.SimpleString):
                return True
        if type(node) is not cst.Call:
            continue
        if isinstance(node.func, cst.Attribute) and dotted(node.func.value) == name:
            if node.func.attr.value in ("items", "values", "keys"):
                return True
        at = [i for i, a in enumerate(node.args) if dotted(a.value) == name and a.keyword is None and not a.star]
        if 0 in at and isinstance(node.func, cst.Attribute) and node.func.attr.value.startswith(WITH_WEIGHTS):
            return True
        value = module.value(node.func)
        called = project.find(value.name, module) if value.kind == "function" and value.name else None
        if isinstance(called, FunctionInfo) and called.cls is None:
            if any(takes_dict(called, i, project, seen) for i in at):
                return True
    return False
