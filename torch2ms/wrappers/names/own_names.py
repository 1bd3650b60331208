"""A name of its own for what a program trains or trains with, where its name means something else later on.

`tmp = SGD(net.parameters(), 0.1); opt, crit = tmp, loss; ...; tmp = loss.item()`: optimizers, layers and leaves are
known by where they are kept, in the whole scope. What has the name from one binding to the next gets another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import libcst as cst

from torch2ms.analysis.program.liveness import exposed
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import children, descend
from torch2ms.analysis.values import Value
from torch2ms.wrappers.names.rebound import Renamer, bound, imported, seen_elsewhere
from torch2ms.wrappers.passes import each_module

KEPT = ("module", "optimizer")  # and leaves: code is written that names them far from where they were made
UNLIKE = {"tensor", "int", "float", "bool", "str", "numpy", "list", "tuple", "dict", "size", "loader", "dataset",
          "scheduler", "lossfn", *KEPT}  # fmt: skip


@each_module
def renewed(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module in which that happens."""
    names = _names(module, alone=not imported(module, project))
    return Renamer(module, names).plain() if names else None


def _names(module: ModuleInfo, alone: bool) -> dict[int, str]:
    """The occurrences to rename; `alone`: no other module can import what this one binds."""
    taken: set[str] = set()
    found: dict[int, str] = {}
    for scope in module.scope.walk():
        if not (scope.is_function or scope.is_module and alone) or scope.off:
            continue
        for name, position in _bindings(scope):
            nodes = _reached(name, position, scope.body.stmts)
            if nodes is None:
                continue
            taken = taken or {n.value for n in _names_in(module.tree)}
            new = next(f"{name}_{number}" for number in count(1) if f"{name}_{number}" not in taken)
            taken.add(new)
            found |= {id(n): new for node in nodes for n in _own(node, name)}
    return found


def _bindings(scope: Scope) -> Iterator[tuple[str, int]]:
    """Names that a statement of the scope binds to such an object, and another to something else, by its position."""
    first = [(name, i) for i, stmt in enumerate(scope.body.stmts)
             if (name := bound(stmt)) and not stmt.off and _kept(stmt.out.get(name))]  # fmt: skip
    if not first:
        return
    wanted = {name for name, _ in first}
    held: dict[str, list[Value | None]] = {}
    for stmt in scope.body.walk():
        for name in wanted & stmt.defs:
            held.setdefault(name, []).append(stmt.out.get(name))
    hidden: set[str] | None = None
    for name, position in first:
        value = scope.body.stmts[position].out[name]
        if not any(_unlike(value, other) for other in held[name]) or name in scope.params or name not in scope.locals:
            continue
        hidden = seen_elsewhere(scope) if hidden is None else hidden
        if name not in hidden:
            yield name, position


def _kept(value: Value | None) -> bool:
    return value is not None and (value.kind in KEPT or value.leaf) and not value.likely


def _unlike(value: Value, other: Value | None) -> bool:
    if other is None or other.kind not in UNLIKE or other.likely and other.kind in KEPT:
        return False
    return other.kind != value.kind or value.leaf and not other.leaf


def _reached(name: str, position: int, stmts: Sequence[Stmt]) -> list[cst.CSTNode] | None:
    """Where the name means what a statement of the scope binds it to; None where something else may be meant too."""
    binding = stmts[position].node
    assert isinstance(binding, cst.Assign)
    nodes: list[cst.CSTNode] = [binding.targets[0]]
    for i, stmt in enumerate(stmts[position + 1 :], position + 1):
        if name not in stmt.all_defs:
            nodes.append(stmt.node)
            continue
        if isinstance(stmt.node, cst.Assign):  # `x = x * 2` goes on with what it was
            return nodes if all(n.value != name for n in _names_in(stmt.node.value)) else None
        return nodes if not stmt.is_small and name not in exposed(stmts[i:]) else None
    return nodes


def _names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    return (n for n in descend(node) if isinstance(n, cst.Name))


def _own(node: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    """The occurrences of a name in a statement, not in functions and classes defined there: they have their own."""
    if isinstance(node, cst.Name) and node.value == name:
        yield node
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return
    for child in children(node):
        if isinstance(child, cst.Name):
            hidden = isinstance(node, cst.Attribute) and child is node.attr
            hidden |= isinstance(node, cst.Arg) and child is node.keyword
            if child.value == name and not hidden:
                yield child
        else:
            yield from _own(child, name)


__all__ = ["renewed"]
