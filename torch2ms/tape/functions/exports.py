"""What becomes of a function that goes backward for its callers, and of `optimizer.step(closure)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Scope
from torch2ms.analysis.project import ModuleInfo, Project
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.functions.lifting import Export, Lifting, closure_of, closure_ready
from torch2ms.tape.ledger.events import Event
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
    for clear in export.clears:
        plan.replaced[id(clear.stmt)] = []
        why = "gradient functions start from nothing at each call: dropped"
        plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=clear.stmt.lineno))


def plan_closure(
    event: Event, scope: Scope, module: ModuleInfo, plan: Plan, lifting: Lifting, project: Project
) -> bool:
    """`optimizer.step(closure)` of a first-order optimizer: gradient of the closure, then the step."""
    info = closure_of(event, scope, module, project)
    export = lifting.exports.get(id(info.scope)) if info is not None else None
    if export is None or not export.closure or not closure_ready(event, export):
        return False
    assert isinstance(event.node, cst.Call)
    function = event.node.args[0].value
    node = event.stmt.node
    if isinstance(node, cst.Expr):
        target = "_"
    elif (
        isinstance(node, cst.Assign)
        and len(node.targets) == 1
        and node.value is event.node
        and dotted(node.targets[0].target)
    ):
        target = dotted(node.targets[0].target)
    else:
        return False
    grads = Writer(scope, module, plan).fresh("grads")
    plan.replaced[id(event.stmt)] = [
        Text(f"{target}, {grads} = ms.value_and_grad({{0}}, None, {event.place}.parameters)()", [function]),
        Text(f"{event.place}({grads})"),
    ]
    plan.needs.add("ms")
    plan.findings.append(
        Finding(
            "T2M106",
            Tier.EXACT,
            "step with a closure",
            "gradient of the closure, then the step",
            line=event.stmt.lineno,
        )
    )
    for clear in export.clears:
        why = "gradient functions start from nothing at each call: dropped"
        plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=clear.stmt.lineno))
    return True
