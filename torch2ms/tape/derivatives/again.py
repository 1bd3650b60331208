"""Gradients at tensors that are differentiated again: `autograd.grad(net(x).sum(), x, create_graph=True)`.

PyNative's second derivatives are wrong, compiled ones nest. The statements that lead from the inputs to the output are
written once more, in a compiled function of everything they use; it keeps what it captures as it was at first. They
also stay where they are, and carry on the graph of what else is made of them, unless nobody else reads their results.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.closed import closed, factory, telling, trained_in_parts
from torch2ms.tape.derivatives.compilable import BACKWARD, KEYS, Compilable
from torch2ms.tape.derivatives.gradcalls import GradCall, read
from torch2ms.tape.derivatives.listed import listed
from torch2ms.tape.derivatives.paths import Around, Misfit, Way
from torch2ms.tape.derivatives.written import copied, write_out
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "the inner gradient is compiled, everything it uses is an argument"
TWICE = "; its forward runs once more in it"
DECAYED = "the loss depends on every parameter that is decayed: torch leaves the others alone"


def plan_again(done: set[int], around: Around) -> dict[int, str]:
    """Plan the calls that are differentiated again and not done yet: by id of the event why one is not, "" if it is."""
    found: dict[int, str] = {}
    for event in around.events:
        if event.kind != "gradcall" or id(event) in done:
            continue
        around.plan.once |= {id(event)} if _asked_once(event, around) else set()
        call: GradCall | str | None = listed(event, around)
        if call is None:
            call = read(event, around.module, attributes=True)
            held = isinstance(call, GradCall) and any("." in n for n in call.inputs)
            if not event.create_graph and not held and not isinstance(call, str) and not _apart(call, around):
                continue
        if isinstance(call, str) or call.weights is not None:
            continue
        try:
            _Compiled(call, around).write()
            found[id(event)] = ""
        except Misfit as reason:
            found[id(event)] = str(reason)
    return found


def _asked_once(event: Event, around: Around) -> bool:
    """There are compiled gradients, and no other gradient goes through them: MindSpore compiles their derivative for
    what is asked of it first, and gives back zeros for the rest."""
    calls = [e for e in around.events if e.kind == "gradcall"]
    inner = {d for e in calls if e.create_graph for d in e.stmt.defs}
    ends = {id(e.stmt) for e in calls if not e.create_graph}
    stmts = [s for s in around.scope.body.walk() if id(s) not in ends and not s.blocks] if inner else []
    others = [e for e in around.events if e.kind in ("backward", "gradcall") and not e.create_graph and e is not event]
    for other in others if inner else ():
        wanted = {root(u) for r in other.roots for u in expression_uses(r, other.stmt)}
        while more := {root(u) for s in stmts if {root(d) for d in s.defs} & wanted for u in s.uses} - wanted:
            wanted |= more
        if wanted & inner:
            return False
    return bool(inner)


def _apart(call: GradCall, around: Around) -> bool:
    """The call is in a loop that its forward is not in, differentiates a gradient, or is part of a larger forward."""
    if call.weights is not None:
        return False
    try:
        way = Way(call, around)
    except Misfit:
        return False
    steps = way.path.steps
    if any(id(s) in way.calls for s in steps):
        return True
    wanted: set[str] = set()
    for event in (e for e in around.events if e.kind == "backward" and e.stmt.number > call.event.stmt.number):
        wanted |= {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
        before = [s for s in around.scope.body.walk() if s.number < event.stmt.number and s is not call.event.stmt]
        while more := {root(u) for s in before if {root(d) for d in s.defs} & wanted for u in s.uses} - wanted:
            wanted |= more
    made = {root(d) for s in steps for d in s.defs}
    if wanted & made and {root(d) for d in call.event.stmt.defs} & wanted:
        return True
    first = next((s for s in steps if type(s.node) is not cst.FunctionDef), None)  # a definition computes nothing
    return first is not None and any(a.is_loop and first not in set(a.walk()) for a in call.event.stmt.ancestors())


class _Compiled(Compilable):
    """The compiled function, and what takes the place of the call."""

    def write(self) -> None:
        event, plan, call, writer = self.event, self.plan, self.call, self.around.writer
        label, keeps = self.label(event), self.kept()
        gone = self.moved if keeps else self.dead()
        self.assumed |= {DECAYED} if self.undecided(gone, keeps) else set()
        given = [c for c in event.cotangents if c is not None and not all_ones(c, self.scope)]
        cotangent = [dotted(c) if isinstance(c, cst.Name) else writer.fresh("cotangent") for c in given]
        forward, positions = f"forward_{label}", self.positions(call)
        if keeps and not positions:
            positions = ", 0"
        inputs = ", ".join(self.inner.values())
        steps = [*self.mapping(), *self.body(self.path.steps), *self.returned(event, cotangent)]
        body: list[Item] = [
            Function(forward, list(self.inner.values()), steps),
            Text(f"return ms.{'value_and_grad' if keeps else 'grad'}({forward}{positions})({inputs})"),
        ]
        name = writer.fresh_global(f"{label}_gradient")
        nested = any(id(s) in self.calls and not self.called(s) for s in self.path.steps)
        decorator = "@ms.jit" if event.create_graph or call.listed or nested else ""
        extra = [c for c in cotangent if c not in self.arguments]
        networks = closed(self.arguments, self.scope, self.module, self.around.project) if decorator else []
        given_on = {place: short for place, short in self.arguments.items() if place not in networks}
        params = [*self.inner.values(), *given_on.values(), *extra]
        given_inputs = [*self.inputs, *given_on, *extra]
        if call.listed:
            params, given_inputs = self.spread([*given_on.values(), *extra], [*given_on, *extra])
        above = plan.before.setdefault(id(self.module.top_level(event.stmt)), [])
        names = [*self.inputs, *self.arguments, *extra]
        self.around.called |= {id(event.stmt): ()} if not any("." in n for n in names) else {}
        if networks:
            above.append(factory(name, [self.arguments[place] for place in networks], params, body, self.module))
            plan.needs.add("cache")
            name = f"{name}({', '.join(networks)})"
        else:
            above.append(Function(name, params, body, decorator))
        self.around.together(self.arguments)
        ones = self.ones()
        plan.contexts |= {key: [] for key in gone | ones.keys()}
        plan.read |= {key: set() for key in gone}
        writer.implied |= {name for stmt in ones.values() for name in stmt.defs}
        self.around.gone |= gone
        plan.smooth |= self.smooth
        made: list[Item] = [
            Text(f"{c} = {{0}}", [g]) for c, g in zip(cotangent, given, strict=True) if not isinstance(g, cst.Name)
        ]
        self.receive(f"{name}({', '.join(given_inputs)})", keeps, made)
        plan.read[id(event.stmt)] = {root(n) for n in (*self.inputs, *self.arguments, *extra)}
        told = WHY if not decorator else telling(WHY, networks, self.arguments, self.scope, self.module)
        why = told + TWICE if any(id(s) not in gone for s in self.path.steps) else told
        tier = Tier.EXACT
        parts = trained_in_parts(self.arguments, self.around.project) if decorator else set()
        if assumed := sorted(self.assumed | parts):
            tier, why = Tier.ASSUMED, f"{why}; assumed: {', '.join(assumed)}"
        what = "torch.autograd.grad" + " with create_graph" * event.create_graph
        plan.findings.append(
            Finding("T2M202" if event.create_graph else "T2M201", tier, what, why, line=event.stmt.lineno)
        )
        plan.needs.add("ms")

    def spread(self, params: list[str], given: list[str]) -> tuple[list[str], list[str]]:
        """The parameters and arguments where the inputs are a list: each of them an argument, behind all others.

        Behind a list that MindSpore differentiates (`ms.mutable`) the gradients of other arguments, and those of the
        weights that compiled code captures, are those of their neighbours, or zeros.
        """
        call, inputs = self.call, self.event.inputs
        (name,) = self.inner.values()
        if call.mapped:
            (place,) = call.inputs
            return [KEYS, *params, f"*{name}"], [f"list({place})", *given, f"*{place}.values()"]
        assert inputs is not None
        if isinstance(inputs, cst.Call) and dotted(inputs.func) in ("list", "tuple") and len(inputs.args) == 1:
            inputs = inputs.args[0].value
        return [*params, f"*{name}"], [*given, f"*{code(parenthesised(inputs))}"]

    def mapping(self) -> list[Item]:
        """The dict that a forward takes its inputs from; compiled code has right gradients of the list in it alone."""
        if not self.call.mapped:
            return []
        (name,) = self.inner.values()
        return [Text(f"{name} = {{key: value for key, value in zip({KEYS}, {name})}}")]

    def receive(self, invoked: str, keeps: str, above: list[Item]) -> None:
        """Put the call of the compiled function in place of the gradient call; `keeps` takes the output as well."""
        event, call, plan, node = self.event, self.call, self.plan, self.event.stmt.node
        single = len(call.inputs) == 1 and not call.listed
        target = _alone(node, call) if single else ""
        if keeps:
            variable = target or (_target(node, call) if single == call.first and event.create_graph else "")
            suffix = "s" if call.listed else ""
            names = [self.around.writer.fresh(f"{n.rpartition('.')[2]}_grad{suffix}") for n in call.inputs]
            taken = variable or (names[0] if len(names) == 1 else f"({', '.join(names)})")
            above.append(Text(f"{keeps}, {taken} = {invoked}"))
            if variable:
                plan.contexts[id(event.stmt)] = above
                return
            invoked = taken
        if not event.create_graph:  # in MindSpore it would have a graph nevertheless
            each = f"[ops.stop_gradient(g) for g in {invoked}]"
            invoked = f"ops.stop_gradient({invoked})" if single else each
            plan.needs.add("ops")
        if target:
            plan.contexts[id(event.stmt)] = [*above, Text(f"{target} = {invoked}")]
            return
        result = (invoked if call.first else f"({invoked},)") if single else f"{invoked}[0]" if call.first else invoked
        if above:
            plan.contexts[id(event.stmt)] = [*above, Copy(event.stmt, {id(call.whole): result})]
        else:
            plan.expressions[id(call.whole)] = result

    def called(self, stmt: Stmt) -> bool:
        """An inner gradient may be a call of the compiled function that it is by itself.

        Not where that function may be differentiated for a loss as well: MindSpore compiles its derivative for what is
        asked of it first, here the inputs and there the weights, and gives back zeros for the rest from then on.
        """
        if self.event.create_graph or self.call.listed or id(stmt) in self.plan.contexts:
            return False
        if self.around.project.says(BACKWARD):
            return False
        known = self.around.called.get(id(stmt))
        if known is None or known not in ((), tuple(self.call.inputs)):
            return False
        self.around.called[id(stmt)] = tuple(self.call.inputs)
        return True

    def body(self, steps: list[Stmt]) -> list[Item]:
        """Statements of the forward inside a function; a gradient call among them is one of a function of its own."""
        items: list[Item] = []
        for stmt in steps:
            event = self.calls.get(id(stmt))
            if not self.twice:
                items.append(Copy(stmt, self.expressions))
                continue
            if event is None or self.called(stmt):
                made, needs = copied(stmt, self.module, self.around.writer.fresh, self.expressions)
                items += made
                self.plan.needs |= needs
                continue
            call = self.own(event)
            if any(c is not None and not all_ones(c, self.scope) for c in event.cotangents):
                raise Misfit("a gradient inside its forward has a cotangent of its own")
            varied = {id(s) for s in steps}
            own = [s for s in self.leading(event, varied) if id(s) in varied]
            function = self.around.writer.fresh(f"forward_{self.label(event)}")
            items.append(Function(function, list(self.inner.values()), [*self.body(own), *self.returned(event, [])]))
            taken = f"ms.grad({function}{self.positions(call)})({', '.join(self.inner.values())})"
            if not event.create_graph:
                taken = f"ops.stop_gradient({taken})"
                self.plan.needs.add("ops")
            if not call.first:
                taken = f"({taken},)" if len(call.inputs) == 1 else taken
            elif len(call.inputs) > 1:
                taken = f"{taken}[0]"
            items.append(Copy(stmt, {**self.expressions, id(call.whole): taken}))
        return items

    def returned(self, event: Event, cotangent: list[str]) -> list[Item]:
        """What the forward gives back: MindSpore differentiates the sum of it."""
        expressions = dict(self.expressions)
        roots: list[cst.CSTNode] = list(event.roots) if self.twice else []
        above = write_out(event.stmt, roots, self.module, self.around.writer.fresh, expressions)
        self.plan.needs |= {"ops"} if len(expressions) > len(self.expressions) else set()
        terms = " + ".join(f"{{{i}}}.sum()" for i in range(len(event.roots))) if len(event.roots) > 1 else "{0}"
        times = f" * {cotangent[0]}" if cotangent else ""
        return [*above, Text(f"return {terms}{times}", list(event.roots), expressions)]

    def positions(self, call: GradCall) -> str:
        """Which inputs are differentiated, as further arguments of `ms.grad`."""
        found = [str(self.inputs.index(n)) for n in call.inputs]
        where = found[0] if len(found) == 1 else f"({', '.join(found)})"
        return "" if where == "0" else f", {where}"

    def label(self, event: Event) -> str:
        """What the output is called: its name, or that of what it is made with."""
        used = expression_uses(event.roots[0], event.stmt)
        for node in descend(event.roots[0]):
            if isinstance(node, cst.Attribute) and dotted(node.value) == "self" and dotted(node) in used:
                return node.attr.value
            if isinstance(node, cst.Name) and node.value in {root(u) for u in used} - {"self"}:
                return node.value
        return "output"


def _target(node: cst.CSTNode, call: GradCall) -> str:
    """The name that the statement gives to the gradient, "" if it does anything else."""
    plain = isinstance(node, cst.Assign) and len(node.targets) == 1 and node.value is call.whole
    return node.targets[0].target.value if plain and isinstance(node.targets[0].target, cst.Name) else ""  # type: ignore[attr-defined]


def _alone(node: cst.CSTNode, call: GradCall) -> str:
    """The name that takes the only gradient out of its tuple: `grad, = autograd.grad(...)`."""
    if call.first or not isinstance(node, cst.Assign) or len(node.targets) != 1 or node.value is not call.whole:
        return ""
    target = node.targets[0].target
    if isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == 1:
        return dotted(target.elements[0].value)
    return ""
