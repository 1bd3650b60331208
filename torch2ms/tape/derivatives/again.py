"""Gradients at tensors that are differentiated again: `autograd.grad(net(x).sum(), x, create_graph=True)`.

PyNative's second derivatives are wrong, compiled ones nest. The statements that lead from the inputs to the output are
written once more, in a compiled function of everything they use; it keeps what it captures as it was at first. They
also stay where they are, and carry on the graph of what else is made of them, unless nobody else reads their results.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.program.structures import used_as_dict
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives import compiled
from torch2ms.tape.derivatives.closed import closed, factory, telling, trained_in_parts
from torch2ms.tape.derivatives.gradcalls import GradCall, captured, read
from torch2ms.tape.derivatives.listed import listed
from torch2ms.tape.derivatives.paths import Around, Misfit, Way, calls_run, drawing, flags, statements_run
from torch2ms.tape.derivatives.written import assumed_of, copied, found_in, problem_of, unmeasured, within, write_out
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.forms.graphmode import Check
from torch2ms.tape.forward.dependents import renamed
from torch2ms.tape.ledger.events import Event
from torch2ms.tape.ledger.hooks import hooked
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "the inner gradient is compiled, everything it uses is an argument"
TWICE = "; its forward runs once more in it"
DECAYED = "the loss depends on every parameter that is decayed: torch leaves the others alone"
DICT = "`{0}` is a dict of tensors, whose gradients compiled code loses"
KEYS = "names"  # of the inputs, where they are the values of a dict
LEAVING = ("item", "numpy", "tolist")
STEPPING = ("step", "scaler_step", "step_closure")
BACKWARD = re.compile(r"\.backward\(")


def plan_again(done: set[int], around: Around) -> dict[int, str]:
    """Plan the calls that are differentiated again and not done yet: by id of the event why one is not, "" if it is."""
    found: dict[int, str] = {}
    for event in around.events:
        if event.kind != "gradcall" or id(event) in done:
            continue
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
    return any(a.is_loop and steps[0] not in set(a.walk()) for a in call.event.stmt.ancestors()) if steps else False


class _Compiled(Way):
    """The compiled gradient of one call, with those it is made of."""

    def __init__(self, call: GradCall, around: Around) -> None:
        super().__init__(call, around)
        self.assumed: set[str] = set()
        self.inner = {n: n.rpartition(".")[2] for n in self.inputs}  # place of an input -> its name inside
        self.arguments: dict[str, str] = {}
        self.smooth: dict[int, str] = {}  # losses in functions that its forward calls, which are written out there
        self.expressions: dict[int, str] = {}  # attributes that have a short name inside
        self.check()

    # --- whether it can be

    def check(self) -> None:
        steps, event = self.path.steps, self.event
        used = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
        if not used & self.tainted:
            raise Misfit("the graph between its inputs and outputs is made by the caller of this function")
        if len(set(self.inner.values())) != len(self.inner):
            raise Misfit("two things its forward uses have the same short name")
        if self.tainted & {place for stmt in self.scope.body.walk() for place in hooked(stmt)}:
            raise Misfit("a hook on a tensor that is part of it runs for both gradients")
        for stmt in [*steps, event.stmt]:
            if stmt is not event.stmt and (stmt.muts or any("." in d for d in stmt.defs)):
                raise Misfit("its forward changes attributes or tensors in place")
        if renamed(self.inputs, event, self.scope, steps):
            raise Misfit("its forward uses an input under another name as well")
        if any(id(s) in self.plan.contexts for s in steps if id(s) not in self.around.gone):
            raise Misfit("its forward is part of a compiled function")
        if len(event.roots) > 1 and any(c is not None and not all_ones(c, self.scope) for c in event.cotangents):
            raise Misfit("a gradient of a gradient with cotangents of several outputs")
        self.runs()
        self.losses()
        for stmt in steps:
            inner = self.calls.get(id(stmt))
            self.capture(stmt, [stmt.node] if inner is None else [*inner.roots, *self.besides(inner)])
        self.capture(event.stmt, list(event.roots))
        self.unchanged()
        names = [*self.inner.values(), *self.arguments.values(), *([KEYS] if self.call.mapped else [])]
        made = {root(d) for s in steps for d in s.defs}
        if len(set(names)) != len(names) or made & set(names):
            raise Misfit("two things its forward uses have the same short name")
        if not self.around.repeats and not self.kept() and self.dead() < {id(s) for s in steps}:
            raise Misfit("its forward is run for another gradient too, and would not give the same values twice")

    def besides(self, event: Event) -> list[cst.CSTNode]:
        """What a statement with a gradient call uses beside the call."""
        whole = self.own(event).whole
        hidden = {id(n) for n in descend(whole)}
        return [n for n in event.stmt.nodes if type(n) is cst.Name and id(n) not in hidden]

    def runs(self) -> None:
        """Nothing that runs in the forward draws numbers, or makes Python values of tensors."""
        for node, home in calls_run([*self.path.steps, self.event.stmt], self.around):
            if node is self.event.node:
                continue
            if drawing(node, home):
                raise Misfit("its forward draws random numbers")
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
            where = dotted(node.func)
            if name in LEAVING or name in ("float", "int", "bool", "print", "input", "open") and "." not in where:
                raise Misfit("its forward makes Python values of tensors, which compiled code would freeze")
            if where == "dict" and all(n is not self.event.node for n in descend(node)):
                raise Misfit("its forward makes a dict, whose values compiled code mixes up")
        for stmt, info in statements_run([*self.path.steps, self.event.stmt], self.around):
            if stmt is not self.event.stmt:
                home = self.module if info is None else info.module
                if reason := compiled.problem(stmt, info, home, self.around.project):
                    raise Misfit(reason)

    def losses(self) -> None:
        """What has no second derivative can be written out."""
        stmts = [*self.path.steps, self.event.stmt] if self.twice else []
        if name := unmeasured(stmts, self.around):
            raise Misfit(f"{name} has no second derivative in MindSpore")
        self.smooth, problem = within(stmts, self.around, Check(self.around.project).bare)
        if problem:
            raise Misfit(problem)
        for key, stmt in found_in(stmts, self.module).items():
            node = next(c for c in stmt.calls if id(c) == key)
            if problem := problem_of(node, self.module, Check(self.around.project).bare):
                raise Misfit(problem)
            self.assumed |= assumed_of(node, self.module)

    def capture(self, stmt: Stmt, nodes: list[cst.CSTNode]) -> None:
        """Give every value from outside that the nodes use a parameter."""
        made = {root(d) for s in self.path.steps for d in s.defs}
        within = {id(n) for node in nodes for n in descend(node)}
        for node in stmt.nodes:
            if id(node) in within and type(node) is cst.Attribute and (place := dotted(node)) in self.inner:
                self.expressions[id(node)] = self.inner[place]
        within -= {id(n) for node in stmt.nodes if dotted(node) in self.inner for n in descend(node)}
        for place in sorted(captured(stmt, self.module, made)):
            places = [n for n in stmt.nodes if id(n) in within
                      and (type(n) is cst.Attribute or type(n) is cst.Name) and dotted(n) == place]  # fmt: skip
            if place in self.inner or not places or any(place.startswith(n + ".") for n in self.inner):
                continue
            if any(used_as_dict(n, place, self.module, self.around.project) for n in nodes):
                raise Misfit(DICT.format(place))
            short = place.rpartition(".")[2]
            if self.arguments.setdefault(place, short) != short:
                raise Misfit("two things its forward uses have the same short name")
            if "." in place:
                self.expressions |= {id(n): short for n in places}
        covered = {id(n) for node in stmt.nodes if dotted(node) in {*self.arguments, *self.inner}
                   for n in descend(node)}  # fmt: skip
        parts = {id(n.attr) for n in stmt.nodes if type(n) is cst.Attribute}
        parts |= {id(n.keyword) for n in stmt.nodes if type(n) is cst.Arg and n.keyword is not None}
        parts |= {id(n) for c in stmt.nodes if isinstance(c, (cst.BaseComp, cst.Lambda)) for n in descend(c)}
        local = _locals(self.scope)
        for node in stmt.nodes:
            if type(node) is not cst.Name or id(node) not in within or id(node) in parts | covered:
                continue
            value = self.module.value(node)
            if value.kind in ("dict", "named_params") and value.deps:
                raise Misfit(DICT.format(node.value))
            if node.value in made or node.value not in local and node.value != "self":
                continue
            raise Misfit(f"it uses `{node.value}`, which compiled code cannot be given")

    def unchanged(self) -> None:
        """What the forward uses is at the call what it was when the forward ran."""
        last, taken = self.event.stmt, {id(s) for s in self.path.steps}
        for step in self.path.steps:
            places = {p for p in self.arguments if any(overlaps(p, u) for u in step.uses)} | step.defs | {*self.inputs}
            loops = [a for a in last.ancestors() if a.is_loop and step not in set(a.walk())]
            between = {id(s): s for s in self.scope.body.walk() if step.number < s.number < last.number}
            for stmt in (between | {id(s): s for a in loops for s in a.walk()}).values():
                if id(stmt) in taken or flags(stmt.node):
                    continue
                if changed := sorted(p for d in stmt.defs | stmt.muts for p in places if overlaps(d, p)):
                    raise Misfit(f"`{changed[0]}` changes between its forward and the call")
            if any(e.kind in STEPPING and step.number < e.stmt.number < last.number for e in self.around.events):
                raise Misfit("weights change between its forward and the call")

    def named_elsewhere(self, stmt: Stmt, gone: set[int]) -> set[str]:
        """Names that a step defines and that stand elsewhere than in the call and the steps that go."""
        given = [c for c in self.event.cotangents if c is not None and not all_ones(c, self.scope)]
        passed = {id(n) for c in given for n in descend(c)}
        hidden = {id(n) for n in descend(self.event.node)} - passed
        hidden |= {id(n) for s in [stmt, *(s for s in self.path.steps if id(s) in gone)] for n in s.nodes}
        left = {n.value for n in descend(self.scope.node) if type(n) is cst.Name and id(n) not in hidden}
        return {root(d) for d in stmt.defs} & left

    def read_elsewhere(self, stmt: Stmt, gone: set[int]) -> set[str]:
        """Names that a step defines and others read than the call, the steps that go, and the compiled function."""
        named, event = self.named_elsewhere(stmt, gone), self.event
        if not named or stmt.block is not event.stmt.block:
            return named
        own = gone | self.ones() | {id(stmt), id(event.stmt)}
        region = [s for s in stmt.block.stmts if id(s) in own]
        live = liveness.read_after(stmt.block, region, stmt.block.stmts.index(stmt))
        given = {id(n) for c in event.cotangents if c is not None and not all_ones(c, self.scope) for n in descend(c)}
        call = {id(n) for n in descend(event.node)} - given
        beside = {n.value for n in event.stmt.nodes if type(n) is cst.Name and id(n) not in call}
        return named & (live | beside)

    def dead(self) -> set[int]:
        """The steps whose results nobody but the compiled function reads: they go."""
        gone: set[int] = set()
        for stmt in reversed(self.path.steps):
            around = any(a.is_loop and stmt not in set(a.walk()) for a in self.event.stmt.ancestors())
            if not around and id(stmt) not in self.calls and not self.read_elsewhere(stmt, gone):
                gone.add(id(stmt))
        return gone

    def kept(self) -> str:
        """The name of the output, where it is all that others read of the forward, and only behind the call."""
        stmts, event = self.path.steps, self.event
        name = event.roots[0].value if len(event.roots) == 1 and isinstance(event.roots[0], cst.Name) else ""
        if not name or not stmts or any(s.block is not event.stmt.block or id(s) in self.calls for s in stmts):
            return ""
        gone = {id(s) for s in stmts}
        if set().union(*(self.read_elsewhere(s, gone) for s in stmts)) != {name}:
            return ""
        inside = [s for s in event.stmt.block.stmts if stmts[0].number < s.number < event.stmt.number if s not in stmts]
        cotangents = any(c is not None and not all_ones(c, self.scope) for c in event.cotangents)
        return "" if cotangents or any(name in {root(u) for u in s.all_uses} for s in inside) else name

    def undecided(self, gone: set[int], keeps: str) -> bool:
        """Parameters that shift the output have no part in its gradient, and an optimizer would decay them."""
        if keeps or self.call.listed or gone < {id(s) for s in self.path.steps} or not decays(self.around.project):
            return False
        own = {id(c) for s in self.path.steps for c in s.calls} | {id(n) for n in descend(self.event.node)}
        for module in self.around.project.modules.values():
            for scope in module.scope.walk():
                info = module.functions.get(id(scope))
                if info is not None and info.cls is not None and info.cls.kind == "module":
                    continue
                calls = (c for stmt in scope.body.walk() for c in stmt.calls if id(c) not in own)
                if any(module.value(c.func).kind == "module" for c in calls):
                    return True
        raise Misfit("an optimizer decays parameters that have no part in a gradient, which torch leaves alone")

    # --- writing it

    def write(self) -> None:
        event, plan, call, writer = self.event, self.plan, self.call, self.around.writer
        label, keeps = self.label(event), self.kept()
        gone = {id(s) for s in self.path.steps} if keeps else self.dead()
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
        params = [*([KEYS] if call.mapped else []), *self.inner.values(), *given_on.values(), *extra]
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
        plan.contexts |= {key: [] for key in gone | self.ones()}
        self.around.gone |= gone
        plan.smooth |= self.smooth
        given_inputs = [f"ms.mutable({code(event.inputs)})"] if call.listed and event.inputs else self.inputs
        if call.mapped:
            (place,) = call.inputs
            given_inputs = [f"list({place})", f"ms.mutable(list({place}.values()))"]
        made: list[Item] = [
            Text(f"{c} = {{0}}", [g]) for c, g in zip(cotangent, given, strict=True) if not isinstance(g, cst.Name)
        ]
        self.receive(f"{name}({', '.join([*given_inputs, *given_on, *extra])})", keeps, made)
        told = WHY if not decorator else telling(WHY, networks, self.arguments, self.scope, self.module)
        why = told + TWICE if any(id(s) not in gone for s in self.path.steps) else told
        tier = Tier.EXACT
        if assumed := sorted(self.assumed | (trained_in_parts(self.around.project) if decorator else set())):
            tier, why = Tier.ASSUMED, f"{why}; assumed: {', '.join(assumed)}"
        what = "torch.autograd.grad" + " with create_graph" * event.create_graph
        plan.findings.append(
            Finding("T2M202" if event.create_graph else "T2M201", tier, what, why, line=event.stmt.lineno)
        )
        plan.needs.add("ms")

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

    def ones(self) -> set[int]:
        """Statements that only make a cotangent of ones, which MindSpore takes by itself."""
        found: set[int] = set()
        names = {c.value for c in self.event.cotangents if isinstance(c, cst.Name) and all_ones(c, self.scope)}
        for stmt in self.scope.body.walk():
            if stmt.defs and stmt.defs <= names and not self.named_elsewhere(stmt, set()):
                found.add(id(stmt))
        return found

    @property
    def twice(self) -> bool:
        """Its gradient, or that of what it is made with, is differentiated again."""
        recorded = self.call.listed and self.module.says(BACKWARD)  # compiled code gets its gradient in any case
        return self.event.create_graph or recorded or any(id(s) in self.calls for s in self.path.steps)

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


def decays(project: Project) -> bool:
    """Some optimizer moves parameters whose gradient is zero."""
    for module in project.modules.values():
        for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls):
            name = module.value(call.func).name
            given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "weight_decay"]
            if name.startswith("torch.optim.") and (given or name.endswith("AdamW")):
                if not given or constant(given[0]) not in (0, None):
                    return True
    return False


def _locals(scope: Scope) -> set[str]:
    """Names of functions around a place, which a function at the top of the module does not see."""
    found: set[str] = set()
    inner: Scope | None = scope
    while inner is not None and not inner.is_module:
        if inner.is_function:
            found |= inner.locals
        inner = inner.parent
    return found
