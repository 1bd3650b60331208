"""`u_t, u_x = du[:, :1], du[:, 1:]`, where derivatives go on from one of them: each gets a statement of its own.

A compiled function holds the statements that lead to what is differentiated again; with the others in one statement
with it, it would have to give them back as well.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

GRAD = "torch.autograd.grad"
TWICE = re.compile(r"\bcreate_graph\b")


@each_module
def components(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such assignments."""
    if not module.says(TWICE) or module.directives.off:
        return None
    writer = _Parted(module)
    for scope in module.scope.walk():
        writer.read(scope)
    return writer.plain() if writer.pairs else None


class _Parted(Suites):
    """One module; by id of an assignment, the names and the values that it pairs."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.pairs: dict[int, list[tuple[cst.Name, cst.BaseExpression]]] = {}

    def read(self, scope: Scope) -> None:
        derived: set[str] = set()
        for stmt in scope.body.walk():
            if stmt.blocks or not (derived & stmt.uses or any(map(self._derives, stmt.calls))):
                continue
            pairs = _pairs(stmt)
            if pairs and derived & stmt.uses:
                self.pairs[id(stmt.node)] = pairs
            derived |= stmt.defs

    def _derives(self, call: cst.Call) -> bool:
        return self.module.value(call.func).name == GRAD

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        pairs = self.pairs.get(id(node), [])
        return [cst.Assign([cst.AssignTarget(name)], value) for name, value in pairs] or [self.rewrite(node)]


def _pairs(stmt: Stmt) -> list[tuple[cst.Name, cst.BaseExpression]]:
    """The names and values of `a, b = x, y`, where no value reads a name that one before it binds."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, (cst.Tuple, cst.List)):
        return []
    target = node.targets[0].target
    if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != len(node.value.elements):
        return []
    names = [e.value for e in target.elements if type(e) is cst.Element and isinstance(e.value, cst.Name)]
    values = [e.value for e in node.value.elements if type(e) is cst.Element]
    if len(names) != len(target.elements) or len(values) != len(names):
        return []
    bound: set[str] = set()
    pairs = list(zip(names, values, strict=True))
    for name, value in pairs:
        if bound & {n.value for n in descend(value) if isinstance(n, cst.Name)}:
            return []
        bound.add(name.value)
    return pairs
