"""Gradients in a loop behind their forward: one task's loss after the other, one row of a Jacobian after the other.

The statements of the forward stay where they are for whoever else uses their results; a function in front of the loop
repeats them, and each turn takes its gradient. An element that the loop takes out of a list is one of the list that the
function makes.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.gradcalls import GradCall, read
from torch2ms.tape.derivatives.paths import RANDOM, Around, calls_run
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.forward.regions import Finder, Region
from torch2ms.tape.ledger.events import Event
from torch2ms.tape.ledger.records import STEPS
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "ms.grad of a function that runs the forward again in each turn of the loop"


def plan_repeated(events: list[Event], around: Around, finder: Finder) -> set[int]:
    """Plan these calls of a scope; the ids of their events."""
    done: set[int] = set()
    for event in events:
        if event.kind != "gradcall" or event.create_graph or not any(a.is_loop for a in event.stmt.ancestors()):
            continue
        call = read(event, around.module)
        if isinstance(call, str) or call.weights is None or call.inputs:
            continue
        if any(c is not None and not all_ones(c, around.scope) for c in event.cotangents):
            continue
        finder.repeating = True
        region = finder.find(event, None)
        finder.repeating = False
        if not region.problem and (turns := repeated(event, region, around)) is not None:
            _write(call, turns, around)
            done.add(id(event))
    return done


def repeated(event: Event, region: Region, around: Around) -> Turns | None:
    """The turns of the loops around an event that the forward, which may run again, is not in."""
    made = Turns(event, region, around)
    return made if made.ready() else None


def rotated(event: Event, around: Around) -> Turns | None:
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
            turns = Turns(event, Region(event, loop.block, [first]), around)
            steps = any(e.kind in STEPS and e.stmt in turns.inside() for e in around.events)
            return turns if turns.plain() and not steps else None
    return None


class Turns:
    """A forward in front of loops in which its gradient is taken again and again."""

    def __init__(self, event: Event, region: Region, around: Around) -> None:
        self.event, self.region, self.around = event, region, around
        self.scope, self.plan, self.writer = around.scope, around.plan, around.writer
        # loops that the forward is not in, innermost first
        self.loops = [a for a in event.stmt.ancestors() if a.is_loop and a.block is region.block]
        self.of: tuple[Stmt, str] | None = None  # the loop over a list that gives the output, and the list

    def ready(self) -> bool:
        """The forward stands outside of a loop around the call, and may run again."""
        event, region = self.event, self.region
        if len(event.roots) != 1 or not region.stmts or region.guards or region.cut or not self.loops:
            return False
        if any(a.is_loop and a.block is not region.block for a in event.stmt.ancestors() if a in self.inside()):
            return False
        return self.plain() and self.element() and self.unchanged()

    def plain(self) -> bool:
        """Nobody notices that the forward runs again."""
        region = self.region
        if any(s.all_muts or any("." in d for d in s.all_defs) or s.blocks for s in region.stmts):
            return False
        for node, _ in calls_run(region.stmts, self.around):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
            if name in RANDOM or "random" in dotted(node.func):
                return False
        return True

    def inside(self) -> set[Stmt]:
        """The statements of the outermost of the loops."""
        return set(self.loops[-1].walk())

    def element(self) -> bool:
        """What the output is of the forward: its own, or an element of a list that a loop runs over."""
        (output,) = self.event.roots
        used = {root(u) for u in expression_uses(output, self.event.stmt)}
        for loop in self.loops:
            node = loop.node
            if not isinstance(node, cst.For) or not {root(d) for d in loop.defs} & used:
                continue
            over = node.iter
            if isinstance(over, cst.Call) and dotted(over.func) == "enumerate" and len(over.args) == 1:
                over = over.args[0].value
                target = node.target.elements[-1].value if isinstance(node.target, cst.Tuple) else node.target
            else:
                target = node.target
            made = {d for s in self.region.stmts for d in s.defs}
            if dotted(over) in made:
                if dotted(target) != dotted(output) or not dotted(target):
                    return False
                self.of = loop, dotted(over)
        return True

    def unchanged(self) -> bool:
        """What the forward uses is in each turn what it was when the forward ran."""
        last = self.loops[-1]
        clears = {id(e.stmt) for e in self.around.events if e.kind == "clear"}
        if any(e.kind in STEPS and e.stmt in self.inside() for e in self.around.events):
            return False
        for step in self.region.stmts:
            places = step.all_uses | step.all_defs
            later = [s for s in self.scope.body.walk() if step.number < s.number < last.number]
            for stmt in [*later, *(s for s in last.walk())]:
                if stmt in self.region.stmts or id(stmt) in clears:
                    continue
                written = {w for w in stmt.defs | stmt.muts if ".grad" not in w}
                if self.of is not None and stmt is self.of[0]:
                    written = written - {dotted(self.event.roots[0])}
                if any(overlaps(w, p) for w in written for p in places):
                    return False
        return True

    def function(self, given: list[str]) -> tuple[str, list[str]]:
        """Write the function in front of the loops; its name, and what it is called with: `given` comes first."""
        (output,) = self.event.roots
        label = dotted(output).rpartition(".")[2] or "output"
        forward = self.writer.fresh(f"forward_{label}")
        returned: Item = Text("return {0}", [output])
        if self.of is not None:
            loop, name = self.of
            assert isinstance(loop.node, cst.For)
            counter = self.counter(loop.node)
            params, returned = [counter], Text(f"return {name}[{counter}]")
        else:
            bound = {root(d) for s in self.inside() for d in s.defs}
            bound -= {root(d) for s in self.region.stmts for d in s.all_defs}
            params = sorted({root(u) for u in expression_uses(output, self.event.stmt)} & bound)
        params = [*given, *(p for p in params if p not in given)]
        contexts = self.plan.contexts
        body: list[Item] = [item for s in self.region.stmts for item in contexts.get(id(s), [Copy(s, {})])]
        self.plan.before.setdefault(id(self.loops[-1]), []).append(Function(forward, params, [*body, returned]))
        return forward, params

    def counter(self, node: cst.For) -> str:
        """What counts the turns of a loop, which may count them already."""
        if isinstance(node.iter, cst.Call) and isinstance(node.target, cst.Tuple):
            return dotted(node.target.elements[0].value)
        name = self.writer.fresh_index()
        self.writer.fresh_once(name)
        self.plan.expressions[id(node.target)] = f"{name}, {dotted(node.target)}"
        self.plan.expressions[id(node.iter)] = f"enumerate({dotted(node.iter)})"
        return name


def _write(call: GradCall, turns: Turns, around: Around) -> None:
    event, plan = call.event, around.plan
    forward, params = turns.function([])
    assert call.weights is not None
    target = event.stmt.node.targets[0].target if isinstance(event.stmt.node, cst.Assign) else None
    taken = f"ms.grad({forward}, None, {{0}})({', '.join(params)})"
    if isinstance(target, cst.Name) and event.stmt.node.value is call.whole and not call.first:  # type: ignore[union-attr]
        plan.replaced[id(event.stmt)] = [Text(f"{target.value} = {taken}", [call.weights])]
    else:
        grads = around.writer.fresh("grads")
        plan.contexts[id(event.stmt)] = [
            Text(f"{grads} = {taken}", [call.weights]),
            Copy(event.stmt, {id(call.whole): f"{grads}[0]" if call.first else grads}),
        ]
    plan.needs.add("ms")
    plan.findings.append(Finding("T2M201", Tier.EXACT, "torch.autograd.grad", WHY, line=event.stmt.lineno))
