"""What becomes of a function that goes backward for its callers, and of `optimizer.step(closure)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.findings import Finding, Tier
from torch2ms.tape.functions.closures import closure_of, plan_step
from torch2ms.tape.functions.exported import Export
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan, Text


def plan_export(export: Export, plan: Plan) -> None:
    """The callee returns the loss; who calls it takes the gradient."""
    event = export.backward
    why = "the function returns the loss, its callers take the gradient"
    plan.findings.append(
        Finding("T2M105", Tier.EXACT, "backward call whose step is elsewhere", why, line=event.stmt.lineno)
    )
    body = event.stmt.block.stmts
    if export.returns is None:
        if body[-1] is event.stmt:
            plan.replaced[id(event.stmt)] = [Text("return {0}", [event.roots[0]])]
        else:
            plan.replaced[id(event.stmt)] = []
            plan.behind.setdefault(id(body[-1]), []).append(Text("return {0}", [event.roots[0]]))
    else:
        plan.replaced[id(event.stmt)] = []
    if export.beside is not None and export.returns is not None:
        several = isinstance(export.beside, cst.Tuple)
        form = "return {0}, {1}" if several and export.beside.lpar else "return {0}, ({1})"
        template = form if several else "return {0}, ({1},)"
        plan.replaced[id(export.returns)] = [Text(template, [event.roots[0], export.beside])]
    for clear in export.clears:
        plan.replaced[id(clear.stmt)] = []
        why = "gradient functions start from nothing at each call: dropped"
        plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=clear.stmt.lineno))


def plan_closure(
    event: Event, scope: Scope, module: ModuleInfo, plan: Plan, lifting: Lifting, project: Project
) -> bool:
    """Write `optimizer.step(closure)`, where the closure is one of those that were found."""
    info = closure_of(event, scope, module, project)
    export = lifting.exports.get(id(info.scope)) if info is not None else None
    if info is None or not (export is not None and export.closure) and id(info.scope) not in lifting.closures:
        return False
    if id(info.scope) in lifting.closures and lifting.closures[id(info.scope)].refused:
        return True
    return plan_step(event, export is not None, scope, module, plan)
