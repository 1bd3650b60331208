"""Deep copies of what nobody knows to hold tensors: a change of one in place shows in the other, in MindSpore."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import CONTAINERS
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value
from torch2ms.rewrite.translation import Translation


def changed_in_place(held: Value, call: cst.Call, work: Translation) -> bool:
    """`for g in copy.deepcopy(grads): g -= h`, where `grads` is a parameter; what holds numbers is copied so, too."""
    if work.stmt is None or not (held.kind == "unknown" or held.likely or held.kind in CONTAINERS and not held.parts):
        return False
    names = _reached({root(dotted(call.args[0].value)), *work.stmt.defs} - {"", "self"}, work.stmt)
    return any(_changes(stmt, names) for stmt in work.stmt.block.scope.body.walk())


def _reached(names: set[str], copying: Stmt) -> set[str]:
    """Names that some statement of the scope gives to a part of what others of them name."""
    size = -1
    while size != len(names):
        size = len(names)
        for stmt in copying.block.scope.body.walk():
            if _hands_on(stmt) and names & {root(use) for use in stmt.uses}:
                names |= stmt.defs
    return names


def _hands_on(stmt: Stmt) -> bool:
    if type(stmt.node) is cst.For:
        return True
    return isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Subscript | cst.Name | cst.Attribute)


def _changes(stmt: Stmt, names: set[str]) -> bool:
    if isinstance(stmt.node, cst.AugAssign):
        return isinstance(stmt.node.target, cst.Name) and stmt.node.target.value in names
    return any(is_change(call) and _of(base(call), names) for call in stmt.calls)


def _of(node: cst.CSTNode, names: set[str]) -> bool:
    while isinstance(node, cst.Subscript | cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name) and node.value in names
