"""`hasattr(optimizer, "is_second_order") and ...`, asked of optimizers of torch, which have nothing of that name.

What it decides is then known: a backward call that would keep its graph for such an optimizer keeps none.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.suites import Suites

OWN = {"param_groups", "state", "defaults", "step", "zero_grad", "state_dict", "load_state_dict", "add_param_group"}
KEEPS = ("create_graph", "retain_graph")
WHY = "an optimizer of torch has nothing of this name"


def asked(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that ask optimizers so, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or "hasattr(opt" not in module.source:
            continue
        writer = Asked(module)
        made = writer.plain()
        if writer.findings:
            plain[module.name] = made
    return plain


def lacks(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`hasattr` of an optimizer and a name that those of torch do not have."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "hasattr" or len(node.args) != 2:
        return False
    value, name = module.value(node.args[0].value), constant(node.args[1].value)
    of_torch = not value.name or value.name.startswith("torch.")
    return value.kind == "optimizer" and of_torch and isinstance(name, str) and name not in OWN


def never(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """A condition that begins with such a question."""
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
        return never(node.left, module)
    return lacks(node, module)


class Asked(Suites):
    """One module with the answers."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.flags = {key for scope in module.scope.walk() for key in _flags(scope, module)}

    def leave_BooleanOperation(
        self, original: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        return cst.Name("False") if never(original, self.module) else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if not lacks(original, self.module):
            return updated
        self.findings.append(Finding("T2M535", Tier.EXACT, "hasattr", WHY, line=self.line))
        return cst.Name("False")

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(value=cst.Name("False")) if id(original) in self.flags else updated


def _flags(scope: Scope, module: ModuleInfo) -> set[int]:
    """Arguments that keep graphs, by id, whose names the scope binds to such a condition alone."""
    stmts = list(scope.body.walk())
    bound = [d for s in stmts for d in s.defs]
    names = {
        d for s in stmts if isinstance(s.node, cst.Assign) and never(s.node.value, module)
        for d in s.defs if bound.count(d) == 1
    }  # fmt: skip
    calls = [n for s in stmts if not s.blocks for n in descend(s.node) if isinstance(n, cst.Call)] if names else []
    return {
        id(a) for c in calls for a in c.args
        if a.keyword is not None and a.keyword.value in KEEPS and dotted(a.value) in names
    }  # fmt: skip
