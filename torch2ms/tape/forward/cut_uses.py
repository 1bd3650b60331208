"""Uses of weights without their graph, of which no gradient comes: `log.append(net.spare.sum().item())`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.forward.choices import own
from torch2ms.tape.forward.dependents import silenced

METHODS = ("item", "detach", "tolist", "numpy")
NUMBERS = ("float", "int", "bool", "len", "print")
PARTS = ("data", "shape", "dtype", "device", "requires_grad")


def without_graph(stmt: Stmt, attr: str, module: ModuleInfo) -> bool:
    """A statement reads attributes of the name where gradients are off, or only what is cut of them."""
    return silenced(stmt, module) or _cut(stmt, attr) or _cut_later(stmt, attr)


def _cut(stmt: Stmt, name: str) -> bool:
    """Every mention of the name in a statement is cut."""
    found = list(_mentions(own(stmt), name))
    return bool(found) and all(found)


def _cut_later(stmt: Stmt, attr: str) -> bool:
    """`norm = net.spare.norm()`, and whatever reads `norm` cuts it."""
    name = dotted(stmt.node.targets[0].target) if type(stmt.node) is cst.Assign else ""
    scope = stmt.block.scope
    if not name.isidentifier() or stmt.defs != {name} or stmt.muts:
        return False
    reading = [s for inner in scope.walk() for s in inner.body.walk() if name in {u.partition(".")[0] for u in s.uses}]
    return all(s.block.scope is scope and _cut(s, name) for s in reading)


def _mentions(node: cst.CSTNode, name: str) -> Iterator[bool]:
    """For each mention of a name, or of an attribute of it, whether what becomes of it is cut at once."""
    waiting = [(node, False)]
    while waiting:
        node, cut = waiting.pop()
        if type(node) is cst.Attribute and node.attr.value == name or type(node) is cst.Name and node.value == name:
            yield cut
        if type(node) is cst.Attribute:
            waiting.append((node.value, cut or node.attr.value in PARTS))
        elif type(node) is cst.Call:
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            waiting.append((node.func, cut or method in METHODS))
            waiting += [(arg.value, cut or dotted(node.func) in NUMBERS) for arg in node.args]
        elif type(node) is not cst.Name:
            waiting += [(child, cut) for child in node.children]
