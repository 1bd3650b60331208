"""Gradients in a loop behind their forward: one task's loss after the other, one row of a Jacobian after the other.

The statements of the forward stay where they are for whoever else uses their results; a function in front of the loop
repeats them, and each turn takes its gradient. An element that the loop takes out of a list is one of the list that the
function makes. Without a loop: a loss whose gradient is looked at before another one that shares its forward is played
back; the function stands above the call.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.gradcalls import GradCall, beside_another, read, unused
from torch2ms.tape.derivatives.paths import Around
from torch2ms.tape.derivatives.turns import WHY, Turns
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.forward.dependents import dependents, renamed, varied_uses
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.ledger.records import STEPS
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Copy, Text

SHARED = "two backward calls share a forward, and something happens between them"


def plan_repeated(events: list[Event], around: Around, finder: Finder) -> set[int]:
    """Plan these calls of a scope; the ids of their events."""
    done: set[int] = set()
    for event in events:
        if event.kind != "gradcall" or event.create_graph or not any(a.is_loop for a in event.stmt.ancestors()):
            continue
        call = read(event, around.module)
        if isinstance(call, str) or (call.weights is None) == (not call.inputs) or call.inputs and call.listed:
            continue
        if any(c is not None and not all_ones(c, around.scope) for c in event.cotangents):
            continue
        tainted = dependents(call.inputs, event, around.scope, around.module) if call.inputs else None
        finder.repeating = True
        region = finder.find(event, None, active=tainted)
        finder.repeating = False
        rows = _picked([*region.all, event.stmt], around) if _goes_on(event, around) else set()
        if _apart(call, region, around) or rows is None or beside_another(event, region, around.plan):
            continue
        turns = repeated(event, region, [], around, call.weights is not None) if not region.problem else None
        if turns is not None:
            _write(call, turns, around)
            around.plan.rows |= rows
            done.add(id(event))
    return done


def repeated(event: Event, region: Region, takers: list[Owner], around: Around, trains: bool = False) -> Turns | None:
    """The turns of the loops around an event that the forward, which may run again, is not in."""
    made = Turns(event, region, around, trains or of_weights(takers))
    return made if made.ready() and not made.makes(takers) else None


def shared(event: Event, region: Region, takers: list[Owner], around: Around) -> Turns | None:
    """The forward of an event is also that of a later one, with something between them, and may run for each."""
    if event.kind != "backward" or not takers:
        return None
    made = Turns(event, region, around, of_weights(takers))
    return made if not made.loops and made.repeatable() and not made.makes(takers) and not made.stepped() else None


def of_weights(takers: list[Owner]) -> bool:
    """The gradients are those of weights: networks are trained then, as a rule in training mode."""
    return any(o.kind != "leaf" for o in takers)


def rotated(event: Event, takers: list[Owner], around: Around) -> Turns | None:
    """The forward runs once in front of the loop, and again at the end of each turn, for the next."""
    if len(event.roots) != 1:
        return None
    asked = {root(u) for u in expression_uses(event.roots[0], event.stmt)}
    for loop in (a for a in event.stmt.ancestors() if a.is_loop):
        body, block = loop.blocks[0].stmts, loop.block.stmts
        for name in sorted(asked):
            made = [s for s in around.scope.body.walk() if name in s.defs]
            if len(made) != 2 or made[0].block is not loop.block or made[1] not in body:
                continue
            first, last = made
            if not isinstance(first.node, cst.Assign) or code(first.node) != code(last.node):
                continue
            used = {root(u) for u in first.uses} | {name}
            before = block[block.index(first) + 1 : block.index(loop)]
            here = next(s for s in body if event.stmt in set(s.walk()))
            upto, after = body[: body.index(here) + 1], body[body.index(last) + 1 :]
            staying = [s for each in (*before, *upto, *after) for s in each.walk()]
            if here is last or any(root(w) in used for s in staying for w in s.defs | s.muts if ".grad" not in w):
                continue
            turns = Turns(event, Region(event, loop.block, [first]), around, of_weights(takers))
            steps = any(e.kind in STEPS and e.stmt in turns.inside() for e in around.events)
            return turns if turns.steady() and turns.plain() and not steps else None
    return None


def _apart(call: GradCall, region: Region, around: Around) -> bool:
    """The forward makes one of the inputs, knows it by another name, or does not use it: no argument of a function."""
    if not call.inputs:
        return False
    made = {root(d) for s in region.all for d in s.all_defs}
    used = {root(u) for s in region.all for u in s.all_uses}
    if made & set(call.inputs) or unused(call, used) or any("." in name for name in call.inputs):
        return True
    return bool(renamed(call.inputs, call.event, around.scope, region.all, puts_back=True))


def _goes_on(event: Event, around: Around) -> bool:
    """What is made of the gradients is differentiated, or leaves the function."""
    made = {root(d) for d in event.stmt.defs | event.stmt.muts}
    using = [s for s in around.scope.body.walk() if s is not event.stmt]
    while more := {root(d) for s in using if _varies(s, made) for d in s.defs | s.muts} - made:
        made |= more
    given = [{root(u) for u in s.uses} for s in using if isinstance(s.node, cst.Return)]
    given += [{root(u) for r in e.roots for u in expression_uses(r, e.stmt)} for e in around.events if e is not event]
    return "self" in made or any(made & names for names in given)


def _picked(stmts: list[Stmt], around: Around) -> set[int] | None:
    """Where a tensor is asked for an element by its number: MindSpore fails with a number alone where a forward takes
    gradients, and takes it beside an ellipsis. None where it is not seen whether it is a number."""
    found: set[int] = set()
    for node in (n for s in stmts for n in s.nodes if isinstance(n, cst.Subscript)):
        only = node.slice[0].slice if len(node.slice) == 1 else None
        held = around.module.value(node.value)
        if not isinstance(only, cst.Index) or held.kind != "tensor":
            continue
        if held.likely or not isinstance(constant(only.value), int) and around.module.value(only.value).kind != "int":
            return None
        found.add(id(node))
    return found


def _varies(stmt: Stmt, names: set[str]) -> bool:
    """What the statement makes has the graph of one of the names."""
    node = stmt.node.value if isinstance(stmt.node, cst.AugAssign) else stmt.node
    return bool(names & {root(u) for u in stmt.uses}) and (bool(stmt.blocks) or varied_uses(node, names))


def _write(call: GradCall, turns: Turns, around: Around) -> None:
    event, plan = call.event, around.plan
    forward, params = turns.function(call.inputs)
    target = event.stmt.node.targets[0].target if isinstance(event.stmt.node, cst.Assign) else None
    one = len(call.inputs) == 1
    if call.weights is not None:
        where = ", None, {0}"
    else:
        where = "" if one else f", ({', '.join(str(i) for i in range(len(call.inputs)))})"
    taken = f"ms.grad({forward}{where})({', '.join(params)})"
    if _goes_on(event, around):  # in MindSpore it would have a graph nevertheless
        taken = f"ops.stop_gradient({taken})"
        plan.needs.add("ops")
    given: list[cst.CSTNode] = [call.weights] if call.weights is not None else []
    if isinstance(target, cst.Name) and event.stmt.node.value is call.whole and call.first == one:  # type: ignore[union-attr]
        plan.replaced[id(event.stmt)] = [Text(f"{target.value} = {taken}", given)]
    else:
        grads = around.writer.fresh("grad" if one else "grads")
        whole = f"({grads},)" if one and not call.first else f"{grads}[0]" if call.first and not one else grads
        plan.contexts[id(event.stmt)] = [Text(f"{grads} = {taken}", given), Copy(event.stmt, {id(call.whole): whole})]
    plan.moved |= {id(stmt) for stmt in turns.idle()}
    plan.needs.add("ms")
    assumed = f"; assumed: {', '.join(sorted(turns.assumed))}" if turns.assumed else ""
    tier = Tier.ASSUMED if assumed else Tier.EXACT
    plan.findings.append(Finding("T2M201", tier, "torch.autograd.grad", WHY + assumed, line=event.stmt.lineno))
