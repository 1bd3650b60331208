"""Derivatives of derivatives: several `autograd.grad(..., create_graph=True)` over the same inputs (PINNs).

They become one compiled function: PyNative's second derivatives are wrong, compiled ones nest. Inside, each tensor that
is differentiated is a function of the inputs, and each gradient call is `ms.grad` of such a function. Everything the
compiled function uses is an argument: it keeps what it captures as it was at first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives import compiled
from torch2ms.tape.derivatives.closed import closed, factory, telling, trained_in_parts
from torch2ms.tape.derivatives.gradcalls import GradCall, captured, read
from torch2ms.tape.derivatives.paths import Around, draws, statements_run
from torch2ms.tape.derivatives.two_askers import two_askers
from torch2ms.tape.derivatives.written import found_in, unmeasured
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.forms.interface import definition_order
from torch2ms.tape.forms.kept_names import kept_among
from torch2ms.tape.forward.dependents import dependents, renamed
from torch2ms.tape.ledger.hooks import hooked
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "one compiled function takes all derivatives over these inputs, everything it uses is an argument"


@dataclass(eq=False)
class Chain:
    """Gradient calls of one block over common inputs, and the statements that lead to what they differentiate."""

    calls: list[GradCall]
    inputs: list[str] = field(default_factory=list)
    steps: list[Stmt] = field(default_factory=list)  # what leads to the outputs, without the calls themselves

    @property
    def stmts(self) -> list[Stmt]:
        return sorted([*self.steps, *(c.event.stmt for c in self.calls)], key=lambda s: s.number)


def plan_chains(events: list[Event], around: Around) -> set[int]:
    """Plan the chains of a scope; the ids of the events that are done."""
    done: set[int] = set()
    for chain in _chains(events, around.scope, around.module):
        made = _Compiled(chain, around)
        sound = not unmeasured(chain.stmts, around) and not found_in(chain.steps, around.module)
        if sound and not draws(chain.stmts, around) and made.ready():
            made.write()
            around.together(made.arguments)
            done |= {id(c.event) for c in chain.calls}
    return done


def _chains(events: list[Event], scope: Scope, module: ModuleInfo) -> list[Chain]:
    found: list[Chain] = []
    for event in events:
        if event.kind != "gradcall":
            continue
        call = read(event, module, attributes=True)
        if isinstance(call, str) or not event.create_graph or call.weights is not None or not _plain(call):
            found.append(Chain([]))  # a border: what follows is a chain of its own
            continue
        steps = _slice(event, dependents(call.inputs, event, scope, module))
        last = found[-1] if found else None
        if (
            last is None
            or not last.calls
            or last.calls[0].event.stmt.block is not event.stmt.block
            or not (set(call.inputs) & set(last.inputs) or {id(s) for s in steps} & {id(s) for s in last.steps})
            or _rebound(call.inputs, last, scope)
        ):
            last = Chain([])
            found.append(last)
        last.calls.append(call)
        last.inputs += [n for n in call.inputs if n not in last.inputs]
        known = {id(s) for s in last.steps}
        last.steps += [s for s in steps if id(s) not in known]
    for chain in found:
        own = {id(c.event.stmt) for c in chain.calls}
        chain.steps = sorted((s for s in chain.steps if id(s) not in own), key=lambda s: s.number)
    around = [e for e in events if e.kind in ("backward", "handed")]
    watched = {place for stmt in scope.body.walk() for place in hooked(stmt)}  # refused as calls by themselves
    return [c for c in found if len(c.calls) > (0 if _held(c, around) else 1) and not watched & _tensors(c)]


def _held(chain: Chain, around: list[Event]) -> bool:
    """A forward of this scope may hold the calls: they do not stand in another loop."""
    loops = [_loop(call.event.stmt) for call in chain.calls]
    return any(_loop(e.stmt) in (None, loop) or loop is None for e in around for loop in loops)


def _loop(stmt: Stmt) -> Stmt | None:
    """The outermost loop around a statement."""
    return next((a for a in reversed([*stmt.ancestors()]) if a.is_loop), None)


def _tensors(chain: Chain) -> set[str]:
    return {*chain.inputs, *(root(d) for s in chain.steps for d in s.defs)}


def _plain(call: GradCall) -> bool:
    event = call.event
    ones = all(c is None or all_ones(c) for c in event.cotangents)
    return ones and len(event.roots) == 1 and isinstance(event.roots[0], cst.Name)


def _rebound(names: list[str], chain: Chain, scope: Scope) -> bool:
    first = min((s.number for s in chain.stmts), default=0)
    return any(s.number > first and set(names) & s.defs for s in scope.body.walk())


def _slice(event: Event, tainted: set[int]) -> list[Stmt]:
    """The statements of the block that lead from the inputs to the output."""
    wanted = {dotted(event.roots[0])}
    found: list[Stmt] = []
    block = event.stmt.block.stmts
    for stmt in reversed(block[: block.index(event.stmt)]):
        if stmt.all_defs & wanted and any(id(s) in tainted for s in stmt.walk()):
            found.append(stmt)
            wanted |= {root(u) for u in stmt.all_uses}
    return found


class _Compiled:
    """The compiled function of one chain."""

    def __init__(self, chain: Chain, around: Around) -> None:
        self.chain, self.around = chain, around
        self.scope, self.module, self.project = around.scope, around.module, around.project
        self.plan, self.writer, self.callee = around.plan, around.writer, around.callee
        self.defined = {d for s in chain.stmts for d in s.all_defs}
        self.names = {n: n.rpartition(".")[2] for n in chain.inputs}  # of the inputs -> inside
        self.arguments: dict[str, str] = {}  # place of the caller -> parameter
        self.expressions: dict[int, str] = {}
        self.methods: dict[str, Function] = {}
        self.functions: list[Item] = []
        self.made: dict[str, list[Item]] = {}  # name -> what makes it inside the function
        self.others: list[Stmt] = []  # statements between that use what the chain makes

    # --- whether it can be

    def ready(self) -> bool:
        """Everything in the chain has a compiled form that takes what it uses as arguments."""
        chain, block = self.chain, self.chain.calls[0].event.stmt.block
        names = [d for s in chain.stmts for d in s.defs]
        inside = set(self.names.values())
        if inside & self.defined or len(inside) < len(self.names):
            return False
        if any(s.blocks or s.muts for s in chain.stmts) or len(set(names)) != len(names):
            return False
        for stmt, info in statements_run(chain.steps, self.around):
            home = self.module if info is None else info.module
            if any(_leaves_device(c) for c in stmt.calls):
                return False
            if info is not None and compiled.problem(stmt, info, home, self.project):
                return False
        before: set[str] = set()
        for stmt in chain.stmts:
            event = next((c.event for c in chain.calls if c.event.stmt is stmt), None)
            if event is not None and dotted(event.roots[0]) not in before:
                return False  # its output comes from elsewhere
            if ({root(u) for u in stmt.uses} & self.defined) - before:
                return False  # it reads what the name meant before the chain
            before |= stmt.defs
        if renamed(chain.inputs, chain.calls[0].event, self.scope, chain.steps):
            return False
        if any("." in d for d in self.defined) or any(self.target(c) is None for c in chain.calls):
            return False
        first, last = chain.stmts[0], chain.stmts[-1]
        taken = {id(s) for s in chain.stmts}
        for stmt in block.stmts[block.stmts.index(first) : block.stmts.index(last)]:
            if id(stmt) in taken:
                continue
            uses = {root(u) for u in stmt.all_uses} & self.defined
            if stmt.all_defs & ({root(u) for s in chain.stmts for u in s.uses} | self.defined) and uses:
                return False
            if uses:
                self.others.append(stmt)
        if not all(self.capture(s, "self", self.expressions) for s in chain.steps):
            return False
        if inside & set(self.arguments.values()):
            return False
        return not two_askers(self.arguments, self.scope, self.project)

    def capture(self, stmt: Stmt, base: str, expressions: dict[int, str], own: frozenset[str] = frozenset()) -> bool:
        """Give every value the statement uses from outside a parameter; `base` is what its `self` is to the caller."""
        known = self.defined | set(self.chain.inputs) | own
        for node in stmt.nodes:
            if type(node) is cst.Attribute and (place := dotted(node)) in self.names and base == "self":
                expressions[id(node)] = self.names[place]
        for place in sorted(captured(stmt, self.module, known)):
            if root(place) in known or place in self.names and base == "self":
                continue
            outer = base + place[4:] if place.startswith("self.") else place
            short = place.rpartition(".")[2]
            if self.arguments.setdefault(outer, short) != short or list(self.arguments.values()).count(short) > 1:
                return False
            for node in stmt.nodes:
                if (type(node) is cst.Attribute or type(node) is cst.Name) and dotted(node) == place and "." in place:
                    expressions[id(node)] = short
        for call in stmt.calls:
            if isinstance(call.func, cst.Attribute) and not self.method(call, base, expressions):
                return False
        covered = {id(n) for node in stmt.nodes if id(node) in expressions for n in descend(node)}
        return not any(type(n) is cst.Name and n.value == "self" and id(n) not in covered for n in stmt.nodes)

    def method(self, call: cst.Call, base: str, expressions: dict[int, str]) -> bool:
        """A method of the user's own is defined again inside, on the arguments."""
        info = self.callee.get(id(call))
        if info is None or info.cls is None or info.cls.kind == "module":
            return True
        assert isinstance(call.func, cst.Attribute)
        receiver, name = dotted(call.func.value), call.func.attr.value
        body = info.scope.body.stmts
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        plain = not (node.params.kwonly_params or isinstance(node.params.star_arg, cst.Param) or node.params.star_kwarg)
        if info.module is not self.module or not receiver or not plain or any(s.blocks for s in body):
            return False
        if any(_leaves_device(c) for s in body for c in s.calls):
            return False
        expressions[id(call.func)] = name
        if name in self.methods:
            return True
        outer = base + receiver[4:] if receiver.startswith("self") else receiver
        own: dict[int, str] = {}
        local = frozenset(info.scope.locals) - {"self"}
        self.methods[name] = made = Function(name, info.scope.params[1:], [])
        if not all(self.capture(s, outer, own, local) for s in body if not is_docstring(s.node)):
            return False
        made.body += [Copy(s, own) for s in body if not is_docstring(s.node)]
        return True

    def target(self, call: GradCall) -> str | None:
        """What takes the result of a call: a name, names in a tuple, "" for a larger statement; None if not seen."""
        node = call.event.stmt.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            return None
        target = node.targets[0].target
        if node.value is not call.whole:
            return "" if call.first and len(call.inputs) == 1 else None
        if isinstance(target, cst.Name):
            return target.value if call.first else None
        if isinstance(target, cst.Tuple) and not call.first and len(target.elements) == len(call.inputs):
            names = [dotted(e.value) for e in target.elements]
            return ", ".join(names) if all(names) else None
        return None

    # --- writing it

    def write(self) -> None:
        chain, plan = self.chain, self.plan
        block, last = chain.calls[0].event.stmt.block, chain.stmts[-1]
        live = liveness.read_after(block, [*chain.stmts, *self.others], block.stmts.index(last))
        live |= {root(u) for s in self.others for u in s.all_uses}
        live |= kept_among(chain.stmts, block, self.module)
        order = [n for s in chain.stmts for n in definition_order([s])]
        results = [n for n in order if n in live]
        outputs = {dotted(c.event.roots[0]) for c in chain.calls}
        for stmt in chain.stmts:
            call = next((c for c in chain.calls if c.event.stmt is stmt), None)
            if call is not None:
                self.differentiate(call)
                continue
            for name in sorted(stmt.defs & (outputs | set(results))):
                self.forward(name, stmt)
        body: list[Item] = [*self.methods.values(), *self.functions]
        produced: list[Item] = []
        for name in results:
            produced += [i for i in self.made[name] if i not in produced]
        returned = Text(f"return {', '.join(results)}")
        name = self.writer.fresh_global(f"{dotted(chain.calls[0].event.roots[0])}_derivatives")
        body += [*produced, returned]
        free = [place for place, short in self.arguments.items() if short not in self.defined]
        networks = closed(free, self.scope, self.module, self.project)
        given = {place: short for place, short in self.arguments.items() if place not in networks}
        params = [*self.names.values(), *given.values()]
        derivatives = Function(name, params, body, decorator="@ms.jit")
        if networks:
            derivatives = factory(name, [self.arguments[place] for place in networks], params, body, self.module)
            plan.needs.add("cache")
            name = f"{name}({', '.join(networks)})"
        plan.before.setdefault(id(self.module.top_level(last)), []).append(derivatives)
        invoked = Text(f"{', '.join(results)} = {name}({', '.join([*self.names, *given])})")
        for stmt in [*chain.stmts, *self.others]:
            plan.contexts[id(stmt)] = []
        plan.contexts[id(last)] = [invoked, *(Copy(s, {}) for s in self.others)]
        plan.needs.add("ms")
        why, tier = telling(WHY, networks, self.arguments, self.scope, self.module), Tier.EXACT
        if assumed := trained_in_parts(self.arguments, self.around.project):
            why, tier = f"{why}; assumed: {', '.join(assumed)}", Tier.ASSUMED
        for call in chain.calls:
            plan.findings.append(
                Finding("T2M202", tier, "torch.autograd.grad with create_graph", why, line=call.event.stmt.lineno)
            )

    def needed(self, stmts: list[Stmt]) -> list[Item]:
        """What makes the names that the statements use, where the chain makes them."""
        used = {root(u) for s in stmts for u in s.uses}
        items: list[Item] = []
        for name, made in self.made.items():
            if name in used:
                items += [i for i in made if i not in items]
        return items

    def forward(self, name: str, last: Stmt) -> None:
        """The function from the inputs to one tensor."""
        wanted, own = {name}, []
        for stmt in reversed([s for s in self.chain.steps if s.number <= last.number]):
            if stmt.defs & wanted - self.made.keys():
                own.append(stmt)
                wanted |= {root(u) for u in stmt.uses}
        own.reverse()
        function = self.writer.fresh(f"forward_{name}")
        inputs = ", ".join(self.names.values())
        body = [*self.needed(own), *(Copy(s, self.expressions) for s in own), Text(f"return {name}")]
        self.functions.append(Function(function, list(self.names.values()), body))
        self.made[name] = [Text(f"{name} = {function}({inputs})")]

    def differentiate(self, call: GradCall) -> None:
        """The gradient of such a function at the inputs of the call."""
        output = dotted(call.event.roots[0])
        inputs = ", ".join(self.names.values())
        function = next((t.template.split(" = ")[1].partition("(")[0] for t in self.made.get(output, ())
                         if isinstance(t, Text) and t.template.startswith(f"{output} = forward_")), "")  # fmt: skip
        if not function:  # the output is a gradient itself
            function = self.writer.fresh(f"forward_{output}")
            body = [*self.made[output], Text(f"return {output}")]
            self.functions.append(Function(function, list(self.names.values()), body))
        positions = [str(self.chain.inputs.index(n)) for n in call.inputs]
        where = positions[0] if len(positions) == 1 else f"({', '.join(positions)})"
        taken = f"ms.grad({function}{'' if where == '0' else f', {where}'})({inputs})"
        target = self.target(call)
        item: Item = Text(f"{target} = {taken}") if target else Copy(call.event.stmt, {id(call.whole): taken})
        for name in sorted(call.event.stmt.defs):
            self.made[name] = [*(self.needed([call.event.stmt]) if not target else []), item]


def _leaves_device(call: cst.Call) -> bool:
    """The call makes a Python value of a tensor, which compiled code would keep as it was at first."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    if isinstance(call.func, cst.Attribute):
        return name in ("item", "numpy", "tolist", "detach_")
    return name in ("float", "int", "bool", "print", "input", "open")
