"""States that a module loads, and whose values they hold."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend


def of_network(given: cst.BaseExpression, stmt: Stmt, module: ModuleInfo, depth: int = 3) -> bool:
    """A state has values of a network that is there: its own, or `{k: v for k, v in net.state_dict().items() if ...}`.

    What copies them, or reads them from a file, has others.
    """
    bound = bound_to(given, stmt)
    if stated(bound, module) is not None:
        return True
    over = [c.iter for c in descend(bound) if type(c) is cst.CompFor] if _plain_items(bound) else []
    names = [n for it in over for n in descend(it)]
    return (
        any(stated(n, module) is not None for n in names)
        or depth > 0
        and any(
            type(n) is cst.Name and n.value != dotted(given) and of_network(n, stmt, module, depth - 1) for n in names
        )
    )


def stated(node: cst.CSTNode, module: ModuleInfo) -> cst.BaseExpression | None:
    """The module in `net.state_dict()`."""
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    if not isinstance(func, cst.Attribute) or func.attr.value != "state_dict":
        return None
    return func.value if module.value(func.value).kind in ("module", "unknown") else None


def bound_to(given: cst.BaseExpression, stmt: Stmt) -> cst.BaseExpression:
    """What a name was bound to last before the statement."""
    if isinstance(given, cst.Name):
        made = [s for s in stmt.block.scope.body.walk() if given.value in s.defs and s.number < stmt.number]
        node = made[-1].node if made else None
        if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
            return node.value
    return given


def _plain_items(node: cst.CSTNode) -> bool:
    """`{k: v for k, v in state.items()}`, whose values are those of the other one."""
    if type(node) is not cst.DictComp or type(node.value) is not cst.Name:
        return False
    target = node.for_in.target
    return type(target) is cst.Tuple and dotted(target.elements[-1].value) == node.value.value
