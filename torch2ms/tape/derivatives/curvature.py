"""Gradients with respect to weights that are differentiated again: penalties on gradients, Hessian-vector products.

The inner gradient is a compiled function of everything it uses but the weights, which it captures: PyNative's second
derivatives are wrong, and only Parameters stay live in compiled code. The statements of its forward give way to a call
of it, and whatever differentiates again takes that call for a part of its own forward. Nothing stands in such a forward
whose second derivative was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value, overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.closed import closed, trained_in_parts
from torch2ms.tape.derivatives.gradcalls import GradCall, captured, read
from torch2ms.tape.derivatives.two_askers import WHY as TWO_ASK
from torch2ms.tape.derivatives.two_askers import two_askers
from torch2ms.tape.derivatives.written import KINDS, assumed_of, copied, found_in, kind_of, problem_of
from torch2ms.tape.forms.calls import Call, Outputs, all_ones
from torch2ms.tape.forms.graphmode import Check, Unfit, measured
from torch2ms.tape.forms.interface import definition_order
from torch2ms.tape.forms.lifetime import lifetime
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Copy, Function, Item, Plan, Text

WHY = "the inner gradient is compiled, everything it uses but the weights is an argument"
VARIABLE = "torch.autograd.Variable"
SHAPES = ("size", "shape", "dim", "ndim", "numel")  # say nothing that varies


@dataclass(eq=False)
class Curvature:
    """The gradients of a scope that are compiled: by id of the event why one is not, "" if it is."""

    problems: dict[int, str] = field(default_factory=dict)
    groups: list[set[int]] = field(default_factory=list)  # statements that gave way to one call

    @property
    def done(self) -> set[int]:
        return {key for key, problem in self.problems.items() if not problem}

    def holds(self, stmt: Stmt) -> bool:
        """The statement is, or became a part of, such a call."""
        return any(id(stmt) in group for group in self.groups)

    def cut(self, stmts: list[Stmt]) -> bool:
        """The statements hold a part of what gave way to a call, and not the call."""
        own = {id(s) for s in stmts}
        return any(group & own and group - own for group in self.groups)


def plan_curvature(
    events: list[Event], scope: Scope, module: ModuleInfo, plan: Plan, writer: Writer, finder: Finder, project: Project
) -> Curvature:
    """Plan these gradients of a scope."""
    found = Curvature()
    for event in events:
        if event.kind != "gradcall" or not event.create_graph:
            continue
        call = read(event, module)
        if isinstance(call, str) or call.weights is None or call.inputs:
            continue
        made = _Compiled(call, events, scope, module, plan, writer, project)
        found.problems[id(event)] = problem = made.unready(finder)
        if not problem:
            made.write()
            found.groups.append({id(s) for s in [*made.region.stmts, event.stmt]})
            finder.event_stmts.discard(id(event.stmt))
    return found


def _bound_once(name: str, home: Scope) -> bool:
    """A name of the module that no function declares, and one statement binds."""
    declared = any(isinstance(s.node, cst.Global) and name in code(s.node)
                   for each in home.walk() for s in each.body.walk())  # fmt: skip
    return len([s for s in home.body.walk() if name in s.all_defs]) == 1 and not declared


def listing(node: cst.BaseExpression, scope: Scope) -> cst.BaseExpression | None:
    """What a name of parameters stands for, where each turn of a loop lists them again."""
    made = [s for s in scope.body.walk() if type(node) is cst.Name and node.value in s.defs]
    only = made[0] if len(made) == 1 and any(a.is_loop for a in made[0].ancestors()) else None
    value = only.node.value if only is not None and isinstance(only.node, cst.Assign) else None
    while isinstance(value, cst.Call) and dotted(value.func) in ("list", "tuple") and len(value.args) == 1:
        value = value.args[0].value
    if isinstance(value, cst.ListComp) and _picks_trained(value):
        value = value.for_in.iter
    of = value.func if isinstance(value, cst.Call) and not value.args else None
    if only is None or not isinstance(of, cst.Attribute) or of.attr.value != "parameters" or not dotted(of.value):
        return None
    bound = {d for a in only.ancestors() if a.is_loop for d in a.all_defs}
    return None if any(overlaps(d, dotted(of.value)) for d in bound) else only.node.value  # type: ignore[union-attr]


def _picks_trained(node: cst.ListComp) -> bool:
    """`[p for p in net.parameters() if p.requires_grad]`."""
    clause, name = node.for_in, dotted(node.elt)
    asked = all(code(i.test) == f"{name}.requires_grad" for i in clause.ifs)
    return bool(name) and dotted(clause.target) == name and asked and clause.inner_for_in is None


class _Compiled:
    """The compiled gradient of one call."""

    def __init__(
        self,
        call: GradCall,
        events: list[Event],
        scope: Scope,
        module: ModuleInfo,
        plan: Plan,
        writer: Writer,
        project: Project,
    ) -> None:
        assert call.weights is not None
        self.call, self.event = call, call.event
        self.weights = listing(call.weights, scope) or call.weights
        self.events = events
        self.scope = scope
        self.module = module
        self.plan = plan
        self.writer = writer
        self.project = project
        self.region = Region(call.event, call.event.stmt.block)
        self.name = ""  # of what is differentiated
        self.aux: list[str] = []  # what else leaves the forward
        self.live: set[str] = set()
        self.arguments: dict[str, str] = {}  # place of the caller -> parameter
        self.kept: set[str] = set()  # names that are no arguments
        self.losses: dict[int, Stmt] = {}  # calls of a cross entropy, which has a second derivative only written out
        self.loop: Stmt | None = None
        self.assumed: set[str] = set()
        self.smooth: dict[int, str] = {}  # such losses in functions that the forward calls

    # --- whether it can be

    def unready(self, finder: Finder) -> str:
        """Why the call has no compiled form here, "" if it has one."""
        event = self.event
        if len(event.roots) != 1 or any(c is not None and not all_ones(c, self.scope) for c in event.cotangents):
            return "a gradient of a gradient with an own cotangent or several outputs"
        self.name = dotted(event.roots[0])
        if not self.name or "." in self.name:
            return "its output is no plain name"
        self.region = region = finder.find(event, None)
        if region.problem:
            return region.problem
        if not region.stmts:
            return "the graph between its inputs and outputs is made by the caller of this function"
        if region.guards or region.cut or region.after or region.block is not event.stmt.block:
            return "its forward is not one run of statements"
        if any(s.blocks for s in region.stmts):
            return "its forward has control flow that compiled code would freeze"
        if why := self.unfit() or self.leaks():
            return why
        return TWO_ASK if two_askers(self.arguments, self.scope, self.project) else ""

    def leaks(self) -> str:
        """Something of the forward is used where its gradient would count."""
        stmts, event = self.region.stmts, self.event
        defined = {d for s in stmts for d in s.all_defs}
        if any("." in d for d in defined) or any(s.muts for s in stmts):
            return "its forward changes attributes or tensors in place"
        block = event.stmt.block
        between = [
            s for s in block.stmts[block.stmts.index(stmts[0]) : block.stmts.index(event.stmt)] if s not in stmts
        ]
        used = {root(u) for s in between for u in s.all_uses} & defined
        if used:
            return f"`{sorted(used)[0]}` is used between its forward and the call"
        self.live = liveness.read_after(block, [*stmts, event.stmt], block.stmts.index(event.stmt))
        self.live |= {root(u) for u in event.stmt.uses} & (defined - {self.name})
        self.aux = [n for n in definition_order(stmts) if n in self.live and n != self.name]
        varied = set(self.aux)
        for stmt in self.scope.body.walk():
            if stmt.number > event.stmt.number and not stmt.blocks and {root(u) for u in stmt.uses} & varied:
                varied |= {root(d) for d in stmt.defs | stmt.muts}
            if self.handed_on(stmt, varied):
                return f"`{self.aux[0]}` leaves its forward and the function as well"
        for other in self.events:
            if other is event or other.stmt.number < event.stmt.number:
                continue
            if varied & {root(u) for r in other.roots for u in expression_uses(r, other.stmt)}:
                return f"`{self.aux[0]}` leaves its forward as well, and is differentiated"
        return ""

    def handed_on(self, stmt: Stmt, varied: set[str]) -> bool:
        """The statement gives a value that depends on one of the names to somebody who may differentiate it."""
        node = stmt.node
        if stmt.number <= self.event.stmt.number or not {root(u) for u in stmt.uses} & varied:
            return False
        if isinstance(node, cst.Return) and node.value is not None:
            parts = [e.value for e in node.value.elements] if isinstance(node.value, cst.Tuple) else [node.value]
            return any(self.module.value(p).deps and expression_uses(p, stmt) & varied for p in parts)
        return any("." in place and value.deps for place, value in stmt.out.items() if place in stmt.defs)

    def unfit(self) -> str:
        """Why the forward is not compiled, or not differentiated twice."""
        defined = {d for s in self.region.stmts for d in s.all_defs}
        written: set[str] = set()  # losses that are written out
        for stmt in self.region.stmts:
            self.losses |= found_in([stmt], self.module)
            written |= {dotted(c.func) for c in stmt.calls if id(c) in self.losses}
            for place in sorted(captured(stmt, self.module, defined) - written):
                self.arguments[place] = place.rpartition(".")[2]
        covered = {id(n) for s in self.region.stmts for node in s.nodes
                   if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) in self.arguments
                   for n in descend(node)}  # fmt: skip
        self.kept = {
            n.value for s in self.region.stmts for n in s.nodes if isinstance(n, cst.Name)
            and id(n) not in covered and n.value in {root(u) for u in s.uses} - defined - written
        }  # fmt: skip
        if "self" in self.kept:
            return "its forward uses more of `self` than tensors, numbers and networks"
        if len(set(self.arguments.values())) != len(self.arguments):
            return "two things its forward uses have the same short name"
        self.loop = self.hoisted()
        made = Call(self.event, self.region, [Owner("list", code(self.weights), None)])
        tensors = [p for p in self.arguments if self.kind(p) in ("tensor", "unknown") and "." not in p]
        check = _Twice(self.project, set(self.losses), self.module)
        try:
            check.forward(made, tensors, Outputs(self.name, [], [], False), self.module)
            if self.loop is not None:
                check.captured -= {p for p in self.arguments if self.kind(p) in ("int", "float")}  # given anew
                lifetime(made, self.loop, check, self.module, self.project)
        except Unfit as reason:
            return f"its forward cannot be compiled and differentiated twice: {reason}"
        self.assumed |= {f"`{n}` is a tensor" for n in check.unseen}
        self.smooth = check.smooth
        self.together(check.networks)
        for key in self.losses:
            node = next(c for c in self.losses[key].calls if id(c) == key)
            if problem := problem_of(node, self.module, check.bare):
                return problem
            self.assumed |= assumed_of(node, self.module)
        return ""

    def together(self, networks: set[str]) -> None:
        """Their parameters need different names, which they get where their optimizers are made."""
        if len(networks) > 1:
            self.plan.together.append(frozenset(networks))
            if given := sorted(n for n in networks if root(n) in self.scope.params and root(n) != "self"):
                self.assumed.add(f"the parameters of `{given[0]}` have other names than those of other networks")

    def kind(self, place: str) -> str:
        for stmt in self.region.stmts:
            for node in stmt.nodes:
                if (type(node) is cst.Name or type(node) is cst.Attribute) and dotted(node) == place:
                    return self.module.value(node).kind
        return "unknown"

    def hoisted(self) -> Stmt | None:
        """The outermost loop above which the function can be made: the weights stay the same in it."""
        places = expression_uses(self.weights, self.event.stmt)
        found = None
        for ancestor in self.event.stmt.ancestors():
            if isinstance(ancestor.node, (cst.For, cst.While)):
                if any(overlaps(d, p) for d in ancestor.all_defs for p in places):
                    break
                found = ancestor
        return found

    def anchor(self) -> Stmt:
        """Where the function is made: in the module if the weights stay there, else above the loop around it."""
        if self.scope.is_function and isinstance(self.weights, cst.Name) and not self.kept & self.scope.locals:
            name, home, scope = self.weights.value, self.module.scope, self.scope
            while scope.parent is not None and name not in scope.locals:
                scope = scope.parent
            if scope is home and _bound_once(name, home):
                return self.module.top_level(self.event.stmt)
        return self.loop if self.loop is not None else self.event.stmt

    def seen_there(self, above: Stmt) -> list[str]:
        """Networks that the function closes over: given as arguments, they would make each call compile it anew."""
        home = above.block.scope
        if self.loop is None and not home.is_module:
            return []
        changed = {root(d) for d in above.all_defs} if home is self.scope else self.scope.locals
        names = [n for n in self.arguments if "." not in n and n not in changed]
        if home.is_module:
            names = [n for n in names if _bound_once(n, home)]
        return closed(names, self.scope, self.module, self.project)

    # --- writing it

    def write(self) -> None:
        event, plan, stmts = self.event, self.plan, self.region.stmts
        plan.smooth |= self.smooth
        above = self.anchor()
        items: list[Item] = []
        weights = code(self.weights)
        if not isinstance(self.weights, cst.Name):
            weights = self.writer.fresh("params")
            items.append(Text(f"{weights} = {{0}}", [self.weights]))
        for stmt in stmts:
            for node in stmt.nodes:
                place = dotted(node) if type(node) is cst.Attribute else ""
                if place in self.arguments:
                    plan.expressions[id(node)] = self.arguments[place]
        fresh = self.writer.fresh_global if above.block.scope.is_module else self.writer.fresh
        forward, function = self.writer.fresh(f"forward_{self.name}"), fresh(f"grad_{self.name}")
        keeps = self.name in self.live or bool(self.aux)
        returned = ", ".join([self.name, *self.aux])
        taken = f"ms.{'value_and_grad' if keeps else 'grad'}({forward}, None, {weights}"
        body: list[Item] = [
            Function(forward, [], [*self.body(), Text(f"return {returned}")]),
            Text(f"return {taken}{', has_aux=True' if self.aux else ''})()"),
        ]
        seen = self.seen_there(above)
        given = {place: short for place, short in self.arguments.items() if place not in seen}
        items.append(Function(function, list(given.values()), body, decorator="@ms.jit"))
        plan.before.setdefault(id(above), []).extend(items)
        for stmt in stmts:
            plan.contexts[id(stmt)] = []
        node = event.stmt.node
        target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
        plain = isinstance(target, cst.Name) and isinstance(node, cst.Assign) and node.value is event.node
        grads = dotted(target) if plain and target is not None else self.writer.fresh("grads")
        left = f"({returned})" if self.aux else self.name
        received = f"{left}, {grads}" if keeps else grads
        call: list[Item] = [Text(f"{received} = {function}({', '.join(given)})")]
        if not plain:
            call.append(Copy(event.stmt, {id(event.node): grads}))
        plan.contexts[id(event.stmt)] = call
        plan.needs.add("ms")
        tier, why = Tier.EXACT, WHY
        if above is event.stmt and self.scope.is_function:
            why += "; it is compiled again at each call of the function around it"
        if assumed := sorted(self.assumed | trained_in_parts(self.arguments, self.project)):
            tier, why = Tier.ASSUMED, f"{why}; assumed: {', '.join(assumed)}"
        what = "torch.autograd.grad with create_graph"
        plan.findings.append(Finding("T2M202", tier, what, why, line=event.stmt.lineno))

    def body(self) -> list[Item]:
        """The forward, losses without a second derivative written out."""
        items: list[Item] = []
        for stmt in self.region.stmts:
            made, needs = copied(stmt, self.module, self.writer.fresh, {})
            items += made
            self.plan.needs |= needs
        return items


class _Twice(Check):
    """Walks a forward that is differentiated twice; `losses` are calls that are written out."""

    def __init__(self, project: Project, losses: set[int], home: ModuleInfo) -> None:
        super().__init__(project)
        self.losses, self.own = losses, home
        self.smooth: dict[int, str] = {}  # those in called functions, which are written out there

    def several(self) -> None:
        """The networks are arguments; their parameters are told apart where optimizers take them."""

    def call(self, node: cst.Call, module: ModuleInfo, local: set[str]) -> None:
        if id(node) in self.losses or module.value(node.func).name == VARIABLE and len(node.args) == 1:
            return  # `Variable(x)` is `x`
        if module is self.own and (kind := kind_of(node, module)) and not problem_of(node, module, self.bare):
            self.smooth[id(node)] = kind
            return
        super().call(node, module, local)

    def layer(self, value: Value, module: ModuleInfo) -> None:
        if value.name in KINDS:
            raise Unfit("a cross entropy in a called function has no second derivative here")
        super().layer(value, module)

    def rule(self, name: str) -> None:
        """The name or its twin was measured; losses beside the layers are looked at where they are called."""
        layer = name.rpartition(".")[2][:1].isupper()
        if name in KINDS and layer or name.rpartition(".")[2] in SHAPES:
            return
        if name in measured("bare", "twice") and self.bare(name):
            return
        known = measured("holds", "twice")
        if name not in known and name.replace("torch.Tensor.", "torch.") not in known:
            raise Unfit(f"the second derivative of {name} was not measured")
