"""Custom gradients: which autograd.Function of a project becomes a Cell."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.rewrite.functions.bprop import translate
from torch2ms.rewrite.functions.contexts import Refused
from torch2ms.tape.ledger.events import LEFT
from torch2ms.tape.plan import Plan

PRODUCTS = {"mm", "matmul", "bmm", "mv", "dot", "einsum", "linear", "addmm", "baddbmm", "tensordot", "outer"}
PRODUCTS_TWICE = (
    "its gradient is differentiated again (create_graph), and MindSpore fails on matrix products in a bprop then"
)


def prepare(project: Project) -> None:
    """Decide for every autograd.Function of the project whether it can be a Cell, before any call of it is written."""
    functions = [c for m in project.modules.values() for c in m.classes.values() if c.kind == "autograd"]
    if not functions:
        return
    twice = _second_order(project)
    for cls in functions:
        try:
            translate(cls, first=True)
            cls.refused = PRODUCTS_TWICE if twice and _products(cls) else ""
            cls.twice = twice
        except Refused as reason:
            cls.refused = str(reason)
        if any(stmt.off for scope in cls.scope.walk() for stmt in scope.body.walk()):
            cls.refused = LEFT
    for cls in functions:
        refused = [c for c in cls.lineage() if c.refused]
        cls.refused = refused[0].refused if refused else ""


def _second_order(project: Project) -> bool:
    """Some gradient of the project is differentiated again."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if any(
                        a.keyword is not None and a.keyword.value == "create_graph" and constant(a.value) is not False
                        for a in call.args
                    ):
                        return True
                    if module.value(call.func).name.rpartition(".")[2] in ("hessian", "hvp", "vhp"):
                        return True
    return False


def _products(cls: ClassInfo) -> bool:
    """The backward multiplies matrices, which MindSpore does not differentiate again inside a bprop."""
    for part in descend(cls.methods["backward"].scope.node) if "backward" in cls.methods else ():  # else inherited
        if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
            return True
        if isinstance(part, cst.Attribute) and (part.attr.value in PRODUCTS or part.attr.value.startswith("conv")):
            return True
    return False


def plan_functions(module: ModuleInfo, plan: Plan) -> None:
    """Add the edits of the module's functions to the plan."""
    for cls in module.classes.values():
        if cls.kind == "autograd" and not cls.refused:
            edits = translate(cls)
            plan.heads.update(edits.heads)
            plan.replaced.update(edits.replaced)
            plan.before.update(edits.before)
            plan.expressions.update(edits.expressions)
            plan.picks.update(edits.picks)
            plan.findings += edits.findings
