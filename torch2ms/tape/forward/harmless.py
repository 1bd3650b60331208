"""Uses of what carries a graph that no gradient flows through."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known.torchapi import SHAPED
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

CUTTING = ("detach", "data", "item", "shape", "size", "device", "dtype")


def only_cut(node: cst.CSTNode, source: cst.CSTNode, module: ModuleInfo) -> bool:
    """The use is detached on the spot, or only its form is asked for."""
    inside = list(descend(source))
    cutting = [n.value for n in inside if type(n) is cst.Attribute and n.attr.value in CUTTING]
    cutting += [arg.value for n in inside if type(n) is cst.Call and shaped(n, module) for arg in n.args]
    return any(held is node or part_of(held, module) is node for held in cutting)


def shaped(call: cst.Call, module: ModuleInfo) -> bool:
    """A tensor takes the form or type of what the call is given, and nothing else of it: `target.type_as(value)`."""
    if type(call.func) is not cst.Attribute or call.func.attr.value not in SHAPED:
        return False
    return module.value(call.func.value).kind == "tensor"


def part_of(node: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    """The tensor in `values[1:]` and `values[:, 0].mean(1)`: nothing but what they give comes of them."""
    whole = node
    while not dotted(node):
        if type(node) is cst.Subscript:
            node = node.value
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and not node.func.attr.value.endswith("_"):
            node = node.func.value
        else:
            return None
    return node if node is not whole and module.value(node).kind == "tensor" else None


def asked_only(nodes: list[cst.CSTNode]) -> set[int]:
    """Ids of what only decides what runs: `if self.recurrent`, `a if flag else b`, `x is None`."""
    found: set[int] = set()
    for node in nodes:
        if type(node) is cst.If or type(node) is cst.While or type(node) is cst.IfExp or type(node) is cst.Assert:
            found |= {id(n) for n in descend(node.test)}
        elif type(node) is cst.Comparison:
            found |= {id(n) for n in descend(node)}
    return found


def filled_only(nodes: list[cst.CSTNode]) -> set[int]:
    """Ids of the expressions that something is put into: `losses["l1"] = l1`, `history.append(l1)`."""
    found: set[int] = set()
    for node in nodes:
        if type(node) is cst.AssignTarget and type(node.target) is cst.Subscript:
            found.add(id(node.target.value))
        elif type(node) is cst.Expr and type(node.value) is cst.Call:
            func = node.value.func
            if type(func) is cst.Attribute and func.attr.value in ("append", "extend", "update"):
                found |= {id(func), id(func.value)}
    return found
