"""Leaves that are taken out of a list: the same tensors come again, with what their gradients hold."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.ledger.ledger import Owner

CONTAINERS = ("list", "tuple", "dict")
THROUGH = ("enumerate", "zip", "reversed", "sorted", "tqdm")


def comes_again(owner: Owner, scope: Scope, module: ModuleInfo) -> str:
    """The container out of which a leaf comes more than once, while its gradient is not cleared, "" if none."""
    if owner.kind != "leaf" or not owner.left:
        return ""
    for stmt in scope.body.walk():
        bound_anew = any(owner.place in s.defs for b in stmt.blocks for s in b.stmts)  # `x = x.to(device)`
        if owner.place in stmt.defs and not bound_anew:
            for source in _sources(stmt):
                if module.value(source).kind in CONTAINERS and _again(source, stmt, scope):
                    return code(source)
    return ""


def _sources(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What a statement takes items out of."""
    node = stmt.node
    if isinstance(node, cst.For):
        yield from _walked(node.iter)
    elif isinstance(node, cst.Assign) and isinstance(node.value, cst.Subscript):
        yield node.value.value


def _walked(source: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if not isinstance(source, cst.Call):
        yield source
    elif isinstance(source.func, cst.Attribute) and source.func.attr.value in ("items", "values"):
        yield source.func.value
    elif dotted(source.func).rpartition(".")[2] in THROUGH:
        for arg in source.args:
            yield from _walked(arg.value)


def _again(source: cst.BaseExpression, stmt: Stmt, scope: Scope) -> bool:
    """The items are taken more than once: in a loop around, or by another call of the function."""
    name = root(dotted(source))
    if not name:
        return False  # it is written where it stands: new each time
    made = [s for s in scope.body.walk() if name in s.defs]
    loops = [a for a in stmt.ancestors() if a.is_loop and not any(a in m.ancestors() for m in made)]
    picked = isinstance(stmt.node, cst.Assign)
    if picked and loops and isinstance(loops[0].node, cst.For) and _index(stmt) in loops[0].defs:
        loops = loops[1:]  # one item per turn
    return bool(loops) or not made and scope.is_function


def _index(stmt: Stmt) -> str:
    assert isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Subscript)
    index = stmt.node.value.slice[0].slice
    return dotted(index.value) if isinstance(index, cst.Index) else ""
