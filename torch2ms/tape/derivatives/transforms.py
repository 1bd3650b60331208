"""Losses in functions whose second derivatives a transform takes: `hessian(f)`, `hvp(f, x, v)`, `jacfwd(grad(f))`.

What has no second derivative in MindSpore is written out in the functions, as it is for `autograd.grad` with a graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.paths import Around
from torch2ms.tape.derivatives.written import unmeasured, within
from torch2ms.tape.forms.graphmode import Check
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.plan import Plan

HOMES = ("torch.func", "functorch", "torch.autograd.functional")
TWICE = ("hessian", "hvp", "vhp")
SAID = re.compile(r"\bfunctorch\b|\bfunc\b|\bautograd\b|\bvmap\b")
ONCE = ("grad", "grad_and_value", "jacrev", "jacfwd", "jacobian", "jvp", "vjp", "vmap")
TODO = "write the loss of operations that have a second derivative"


def plan_transforms(
    scope: Scope, module: ModuleInfo, project: Project, plan: Plan, callee: dict[int, FunctionInfo]
) -> None:
    """Plan the losses that the second derivatives of a scope are taken of."""
    for stmt in scope.body.walk() if project.says(SAID) else ():
        for call in stmt.calls if not stmt.off else ():
            if id(call) not in plan.refused and (node := _twice(call, module)) is not None:
                _plan(call, _run(node, stmt, module), stmt, Around(
                    scope, module, project, plan, Writer(scope, module, plan, project), [], callee, True
                ))  # fmt: skip


def _plan(call: cst.Call, stmts: list[Stmt], stmt: Stmt, around: Around) -> None:
    plan, name = around.plan, around.module.value(call.func).name
    problem = unmeasured(stmts, around)
    found, why = within(stmts, around, Check(around.project).bare, direct=True)
    if problem or why:
        plan.refused.add(id(call))
        reason = why or f"{problem} has no second derivative in MindSpore"
        plan.refuse(stmt, Finding("T2M220", Tier.REFUSED, name, reason, f"{TODO} ({reason})", stmt.lineno))
        return
    plan.smooth |= found


def _short(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """The transform that an expression names, "" for anything else."""
    home, _, last = module.value(node).name.rpartition(".")
    return last if home in HOMES or (home, last) == ("torch", "vmap") else ""


def _twice(call: cst.Call, module: ModuleInfo) -> cst.BaseExpression | None:
    """The function that a transform, or one transform of another, takes second derivatives of."""
    order, node = 0, call
    while (kind := _short(node.func, module)) in TWICE + ONCE and node.args:
        order += 2 if kind in TWICE else kind != "vmap"
        inner = node.args[0].value
        if type(inner) is not cst.Call:
            return inner if order > 1 else None
        node = inner
    return None


def _run(node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> list[Stmt]:
    """The statements of the function; of a lambda, the statement around it."""
    if not isinstance(node, cst.Name):
        return [stmt]
    return list(_body(node.value, stmt, module))


def _body(name: str, stmt: Stmt, module: ModuleInfo) -> Iterator[Stmt]:
    """The statements of the function that a name means in a statement, or of the lambda that it was bound to."""
    scope: Scope | None = stmt.block.scope
    while scope is not None:
        inside = [s for s in module.scope.walk() if s.is_function and s.name == name and s.parent is scope]
        for function in inside:
            yield from function.body.walk()
        bound = [s for s in scope.body.walk() if name in s.defs and isinstance(s.node, cst.Assign)]
        yield from (s for s in bound if isinstance(s.node.value, cst.Lambda))  # type: ignore[union-attr]
        if inside or bound:
            return
        scope = scope.parent
