"""Gradients of a forward that another gradient call runs already: `autograd.grad(loss_a, shared, retain_graph=True)`.

The statements of the forward stay where that other call has put them; a function of its own repeats those that lead to
the output, where running them twice makes no difference.
"""

from __future__ import annotations

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.gradcalls import GradCall, beside_another, placed, read, receive, turning, unused
from torch2ms.tape.derivatives.paths import RANDOM, Around, calls_run
from torch2ms.tape.forms.calls import Call, Outputs, all_ones
from torch2ms.tape.forms.interface import differentiated_by, leaves_first, parameters_of, weight_nodes
from torch2ms.tape.forward.dependents import dependents, renamed
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.ledger.records import STEPS
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "ms.grad of a function that repeats a part of the forward, which another gradient runs as well"


def plan_beside(event: Event, around: Around, finder: Finder) -> bool:
    """Plan the call; False where its forward is its own, or may not run again."""
    call = read(event, around.module)
    if isinstance(call, str) or call.weights is not None and call.inputs or event.create_graph or turning(event):
        return False
    if any(c is not None and not all_ones(c, around.scope) for c in event.cotangents) or len(event.roots) != 1:
        return False
    tainted = dependents(call.inputs, event, around.scope, around.module) if call.inputs else None
    region = finder.find(event, None, active=tainted)
    if not any(id(s) in finder.taken for s in region.all) or not _repeatable(region, event, around):
        return False
    if renamed(call.inputs, event, around.scope, region.all, puts_back=True) or unused(call, _used(event, region)):
        return False
    if beside_another(event, region, around.plan):
        return False
    if (assumed := around.again(region.stmts, region.stmts)) is None:
        return False
    _write(call, region, around, assumed)
    return True


def _used(event: Event, region: Region) -> set[str]:
    asked = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
    return asked | {root(u) for s in region.all for u in s.all_uses}


def _repeatable(region: Region, event: Event, around: Around) -> bool:
    """The statements give at the call what they gave before, and nobody notices that they run."""
    if region.problem or region.guarded or region.cut or not region.stmts:
        return False
    if any(s.all_muts or s.blocks or any("." in d for d in s.all_defs) for s in region.stmts):
        return False
    for node, _ in calls_run(region.stmts, around):
        name = node.func.attr.value if hasattr(node.func, "attr") else getattr(node.func, "value", "")
        if name in RANDOM:
            return False
    first, last = region.stmts[0].number, event.stmt.number
    if any(e.kind in STEPS and first < e.stmt.number < last for e in around.events):
        return False
    places = {p for s in region.stmts for p in s.all_uses | s.all_defs}
    own = {id(s) for s in region.stmts}
    between = [s for s in around.scope.body.walk() if first < s.number < last and id(s) not in own]
    return not any(overlaps(w, p) for s in between for w in s.defs | s.muts for p in places)


def _write(call: GradCall, region: Region, around: Around, assumed: set[str]) -> None:
    event, plan, writer = call.event, around.plan, around.writer
    owners = placed(call)
    made = Call(event, region, owners, several=True, weights=call.weights)
    suffix = writer.suffix(made)
    forward = writer.fresh(f"forward_{suffix}")
    loop = writer.hoist(made)
    params = leaves_first(made, parameters_of(writer, made, region.stmts, loop, Outputs("", [], [], False)))
    body: list[Item] = [*(Copy(s, {}) for s in region.stmts), Text("return {0}", list(event.roots))]
    definition: list[Item] = [Function(forward, params, body)]
    taken = f"ms.grad({forward}{differentiated_by(made, params)})"
    nodes = weight_nodes(made)
    if loop is not None:
        grad = writer.fresh(f"grad_{suffix}")
        plan.before.setdefault(id(loop), []).extend([*definition, Text(f"{grad} = {taken}", nodes)])
        definition, taken, nodes = [], grad, []
    receive(call, owners, writer, plan)
    names = [o.variable for o in owners]
    received = names[0] if len(names) == 1 else f"({', '.join(names)})"
    line = Text(f"{received} = {taken}({', '.join(params)})", nodes)
    if id(event.stmt) not in plan.replaced:  # it does more than to take the gradients
        plan.moved.add(id(event.stmt))
        plan.replaced[id(event.stmt)] = [event.stmt]
    plan.replaced[id(event.stmt)] = [*definition, line, *plan.replaced[id(event.stmt)]]
    tier, why = (Tier.ASSUMED, f"{WHY}; assumed: {', '.join(sorted(assumed))}") if assumed else (Tier.EXACT, WHY)
    plan.findings.append(Finding("T2M201", tier, "torch.autograd.grad", why, line=event.stmt.lineno))
    plan.needs.add("ms")
