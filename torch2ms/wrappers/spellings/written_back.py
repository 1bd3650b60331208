"""`state = optimizer.state_dict()`, a learning rate written into it, and `optimizer.load_state_dict(state)`.

That is a write to the optimizer's own groups: `optimizer.param_groups[0]["lr"] = rate`.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.boxes import key_of, own_nodes, parts
from torch2ms.wrappers.passes import each_module


@each_module
def written_back(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that changes the settings of an optimizer so."""
    if module.directives.off or not module.has("load_state_dict"):
        return None
    writer = _Writer(module)
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            _look(stmt, scope, module, writer)
    return writer.plain() if writer.dropped else None


class _Writer(Suites):
    """One module, with the groups of the optimizers themselves."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.dropped: set[int] = set()  # statements that take the state, or give it back
        self.groups: dict[int, str] = {}  # by id of `state["param_groups"]`: the optimizer

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.dropped else [self.rewrite(node)]

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        optimizer = self.groups.get(id(original))
        return updated if optimizer is None else cst.parse_expression(f"{optimizer}.param_groups")


def _look(stmt: Stmt, scope: Scope, module: ModuleInfo, writer: _Writer) -> None:
    """Note what is written otherwise where a statement takes such a state."""
    both = parts(stmt.node)
    if both is None or stmt.off or not isinstance(both[0], cst.Name):
        return
    name, optimizer = both[0].value, _called(both[1], "state_dict")
    if not optimizer or module.value(both[1].func.value).kind != "optimizer":  # type: ignore[attr-defined]
        return
    after = stmt.block.stmts[stmt.block.stmts.index(stmt) + 1 :]
    given = [s for s in after if _given_back(s, optimizer, name)]
    if len(given) != 1 or any(name in s.defs for s in scope.body.walk() if s is not stmt):
        return
    between = after[: after.index(given[0])]
    calls = [c.func for s in between for inner in s.walk() for c in inner.calls]
    if any(isinstance(func, cst.Attribute) and func.attr.value == "step" for func in calls):
        return
    groups, mentions = _uses(scope, name)
    if mentions != len(groups) + 2 or not groups:  # itself, and the statement that gives it back
        return
    writer.dropped |= {id(stmt.node), id(given[0].node)}
    writer.groups |= dict.fromkeys(groups, optimizer)


def _uses(scope: Scope, name: str) -> tuple[list[int], int]:
    """Where the groups are taken out of the state, and how often it is mentioned."""
    nodes = [n for s in scope.body.walk() for n in own_nodes(s)]
    groups = [n for n in nodes if isinstance(n, cst.Subscript) and dotted(n.value) == name]
    taken = [id(n) for n in groups if key_of(n) == "param_groups"]
    return taken, sum(isinstance(n, cst.Name) and n.value == name for n in descend(scope.node))


def _called(node: cst.BaseExpression, method: str) -> str:
    """The object whose method is called without arguments."""
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        return dotted(node.func.value) if node.func.attr.value == method else ""
    return ""


def _given_back(stmt: Stmt, optimizer: str, name: str) -> bool:
    """`optimizer.load_state_dict(state)`"""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or dotted(call.args[0].value) != name:
        return False
    return dotted(call.func) == f"{optimizer}.load_state_dict"
