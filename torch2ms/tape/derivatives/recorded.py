"""Gradients of what a caller's gradient call records: `autograd.grad(nll_loss, last_layer, retain_graph=True)[0]`.

The loss that the function returns is differentiated by its caller, and it was given a part of the forward. PyNative
differentiates within that call what was recorded so far, whichever functions made it: the forward stays where it is.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.gradcalls import GradCall, placed, read, receive, subscripted, turning
from torch2ms.tape.derivatives.paths import Around
from torch2ms.tape.derivatives.unused import allowed
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Text

WHY = "ms.grad of what the gradient call around it records; assumed: `{}` runs nowhere else than in such a call"


def plan_recorded(event: Event, around: Around) -> bool:
    """Plan the call; False where it is not one of weights, or nothing of its forward comes from callers."""
    seen = read(event, around.module)
    call = _never_bound(event, around.module, around.project) if isinstance(seen, str) else seen
    if call is None or call.weights is None or call.inputs or call.leaves:
        return False
    if event.create_graph or turning(event) or allowed(event):
        return False
    if len(event.roots) != 1 or type(event.roots[0]) is not cst.Name:
        return False
    if any(c is not None and not all_ones(c, around.scope) for c in event.cotangents) or not _within(event, around):
        return False
    owners = placed(call)
    receive(call, owners, around.writer, around.plan)
    taken = "[ops.stop_gradient(g) for g in ms.grad(lambda: {0}, None, {1})()]"
    line = Text(f"{owners[0].variable} = {taken}", [event.roots[0], call.weights])
    plan = around.plan
    if id(event.stmt) not in plan.replaced:  # it does more than to take the gradients
        plan.moved.add(id(event.stmt))
        plan.replaced[id(event.stmt)] = [event.stmt]
    plan.replaced[id(event.stmt)] = [line, *plan.replaced[id(event.stmt)]]
    why = WHY.format(around.scope.name)
    plan.findings.append(Finding("T2M201", Tier.ASSUMED, "torch.autograd.grad", why, line=event.stmt.lineno))
    plan.needs |= {"ms", "ops"}
    return True


def _within(event: Event, around: Around) -> bool:
    """The function goes backward nowhere itself, is given a part of the forward, and returns what is made of it."""
    scope = around.scope
    if not scope.is_function or any(e.kind != "gradcall" for e in around.events):
        return False
    deps = around.module.value(event.roots[0]).deps
    given = any(d[0] == "@" and d[1:] in scope.params for d in deps)
    returned = [s.node.value for s in scope.body.walk() if isinstance(s.node, cst.Return) and s.node.value is not None]
    return given and any(around.module.value(part).deps & deps for node in returned for part in descend(node)
                         if isinstance(part, cst.Name))  # fmt: skip


def _never_bound(event: Event, module: ModuleInfo, project: Project) -> GradCall | None:
    """An attribute that no class of the project binds: torch raises where it is asked for, and so does this."""
    inputs, scope = event.inputs, event.stmt.block.scope
    held = inputs.value if isinstance(inputs, cst.Subscript) else inputs
    place = dotted(held) if held is not None else ""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if inputs is None or cls is None or not event.roots or not place.startswith("self.") or place.count(".") != 1:
        return None
    attr = place[5:]
    if (
        cls.attr(attr) is not None
        or cls.method(attr) is not None
        or any(m.quotes[attr] for m in project.modules.values())
    ):
        return None
    bound = (d for m in project.modules.values() for s in m.scope.walk() for b in s.body.walk() for d in b.defs)
    if any(d.endswith(f".{attr}") for d in bound):
        return None
    whole, first = subscripted(event)
    return GradCall(event, [], cst.parse_expression(f"[{code(inputs)}]"), whole, first)
