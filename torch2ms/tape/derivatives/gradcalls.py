"""`torch.autograd.grad`: the statements from inputs to outputs become a function, differentiated at the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value, overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.derivatives.own_leaves import own_leaves
from torch2ms.tape.derivatives.unused import allowed, unused_weights
from torch2ms.tape.forms.calls import Call
from torch2ms.tape.forms.function import write
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.dependents import dependents, renamed, undecided
from torch2ms.tape.forward.nested import selecting
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.ledger.pairs import COMPREHENSIONS, bound, clauses
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan

WEIGHTS = ("module_param", "parameter")  # names of values that are Parameters in the output as well


class Compiled(Protocol):
    """The gradients of a scope that gave way to calls of compiled functions."""

    def holds(self, stmt: Stmt) -> bool:
        """The statement is, or became a part of, such a call."""

    def cut(self, stmts: list[Stmt]) -> bool:
        """The statements hold a part of what gave way to a call, and not the call."""


@dataclass(eq=False)
class GradCall:
    """One call, its inputs by name (or the expression of a parameter list), and how its result is received."""

    event: Event
    inputs: list[str]
    weights: cst.BaseExpression | None
    whole: cst.BaseExpression  # the call, or its subscript [0]
    first: bool  # `[0]` follows
    listed: bool = False  # its one input is a list of tensors
    mapped: bool = False  # ... the values of a dict
    leaves: list[str] = field(default_factory=list)  # its weights, where these are leaves of the program's own


def plan_gradcall(
    event: Event,
    scope: Scope,
    module: ModuleInfo,
    plan: Plan,
    writer: Writer,
    finder: Finder,
    repeats: Callable[[list[Stmt], list[Stmt]], set[str] | None],
    compiled: Compiled,
    weights: cst.BaseExpression | None = None,
    given: GradCall | None = None,
) -> str:
    """Add the edits of one call to the plan; the reason if that cannot be done.

    `repeats` says what is assumed where some statements of a forward run again, None if they may not.
    `weights`: what they are listed from, where the name of the list is not bound in time; `given`: the call, as far as
    it is read already.
    """
    if turning(event):
        return "it stands in a comprehension or a lambda whose names it uses"
    call = given or read(event, module)
    if isinstance(call, str):
        return call
    call.weights = weights or call.weights
    if call.weights is not None and call.inputs and event.create_graph:
        return "a gradient at tensors and weights together that is differentiated again"
    if undecided(call.inputs, event, scope, module):
        return "an input begins to require gradients in the loop, and what was made of it before takes part"
    tainted = dependents(call.inputs, event, scope, module)
    owns = frozenset(call.leaves) if call.leaves else None
    region = finder.find(event, owns, active=tainted if call.weights is None else None)
    if region.problem:
        return region.problem
    if call.weights is not None:  # what lists the weights is there before the forward is a function
        _list_before(call, region, finder)
    assumed = repeats([s for s in region.all if id(s) in finder.taken], region.all)
    if why := _misfit(call, region, scope, module, writer, compiled, again=assumed is not None):
        return why
    owners = placed(call)
    before, taken = plan.saved(), set(writer.names)
    receive(call, owners, writer, plan)
    made = Call(event, region, owners)
    made.several = True
    made.keep = id(event.stmt) not in plan.replaced
    if call.weights is not None:
        made.weights = call.weights
    problem = write(writer, made)
    if not problem and made.form.startswith("ms.vjp"):  # the forward stays where it is, and wants to know the weights
        behind = _listed_behind(call, region.stmts)
        problem = "its weights are listed between the forward and the call" if behind == [] else ""
        if behind:
            plan.restore(before)
            writer.names = taken
            return plan_gradcall(event, scope, module, plan, writer, finder, repeats, compiled, weights=behind[0])
    if problem:
        plan.restore(before)
        return problem
    within = any(id(s) in finder.taken for s in (event.stmt, *event.stmt.ancestors()))
    if within and (selected := selecting(region, module)):
        plan.expressions |= selected
        plan.needs.add("mint")
    for stmt in region.all:
        finder.taken.setdefault(id(stmt), region)
    tier, why = Tier.EXACT, made.form
    if told := (assumed or set()) | region.assumed:
        tier, why = Tier.ASSUMED, f"{why}; assumed: {', '.join(sorted(told))}"
    plan.findings.append(Finding("T2M201", tier, "torch.autograd.grad", why, line=event.stmt.lineno))
    plan.leaves |= {name: name for name in call.leaves}
    plan.homes |= {(id(scope), name) for name in call.leaves}
    plan.needs.add("ms")
    return ""


def _misfit(
    call: GradCall, region: Region, scope: Scope, module: ModuleInfo, writer: Writer, compiled: Compiled, again: bool
) -> str:
    """Why the forward is no function that the gradient could be taken of; `again`: it may run for others too."""
    event, weights = call.event, call.weights
    if renamed(call.inputs, event, scope, region.all, puts_back=True):
        return "its forward uses an input under another name as well"
    if not again:
        return "its forward is run for another gradient too, and would not give the same values twice"
    held = [s for s in region.all if id(s) in writer.plan.contexts and not compiled.holds(s)]
    if beside_another(event, region, writer.plan):
        return "another gradient goes through the compiled one in its forward: MindSpore has zeros for one of the two"
    single = id(event) in writer.plan.once
    if any(not single or id(s) not in writer.plan.read for s in held) or compiled.cut(region.all):
        return "its forward is part of a compiled function"
    if region.guards or region.cut or region.after and event.create_graph:
        return "its forward is not one run of statements"
    used = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
    elsewhere = all(dotted(r) for r in event.roots) if weights is not None else not used & set(call.inputs)
    if not region.stmts and elsewhere:
        return "the graph between its inputs and outputs is made by the caller of this function"
    if name := unused(call, used | {root(u) for s in region.all for u in s.all_uses}):
        return f"torch gives None for `{name}`, which nothing uses, and MindSpore zeros"
    return unused_weights(event, weights, region, module, writer.project) if weights is not None else ""


def beside_another(event: Event, region: Region, plan: Plan) -> bool:
    """The forward has compiled gradients, and others are differentiated through them as well."""
    return id(event) not in plan.once and any(plan.read.get(id(s)) for s in region.all)


def _list_before(call: GradCall, region: Region, finder: Finder) -> None:
    """Take out of the forward what its weights are listed with; what has a graph stays, whatever it is kept as."""
    assert call.weights is not None
    names = expression_uses(call.weights, call.event.stmt)
    binding = [s for s in region.stmts if any(overlaps(d, name) for d in s.defs for name in names)]
    for stmt in [s for s in binding if not s.blocks]:
        earlier = region.stmts[: region.stmts.index(stmt)]
        made = {root(d) for s in earlier for d in s.all_defs}
        lists = bool(stmt.calls) and _only_lists(stmt)
        plain = finder.moves(stmt, earlier) and not finder.activity.varied(stmt, stmt.defs, None)
        if plain or lists and not made & {root(u) for u in stmt.all_uses}:
            region.stmts.remove(stmt)


def placed(call: GradCall) -> list[Owner]:
    """What the call is with respect to, in the order of its inputs."""
    owners = [Owner("leaf", name, frozenset({name}), starred=call.listed) for name in call.inputs]
    if call.weights is not None:
        owners.append(Owner("list", code(call.weights), None))
    return owners


def unused(call: GradCall, used: set[str]) -> str:
    """An input that the forward does not have, in a call that allows it (another raises); "" if there is none."""
    if not allowed(call.event):
        return ""
    return next((name for name in call.inputs if root(name) not in used), "")


def _listed_behind(call: GradCall, forward: list[Stmt]) -> list[cst.BaseExpression] | None:
    """What the weights are listed from behind the forward: `ws = tuple(net.parameters())`; an empty list where that
    cannot be asked before it, None where they are known by then."""
    event, weights = call.event, call.weights
    if weights is None or not forward:
        return None
    names = {root(u) for u in expression_uses(weights, event.stmt)}
    later = [s for s in event.stmt.block.stmts if forward[-1].number < s.number < event.stmt.number]
    bound = [s for s in later if names & s.all_defs]
    if not bound:
        return None
    node = bound[-1].node
    plain = isinstance(node, cst.Assign) and dotted(node.targets[0].target) == dotted(weights) != ""
    made = {root(d) for s in (*forward, *later) for d in s.all_defs}
    if not plain or not _only_lists(bound[-1]) or made & {root(u) for u in bound[-1].uses}:
        return []
    return [_unpacked(node.value)]  # type: ignore[union-attr]


def _unpacked(node: cst.BaseExpression) -> cst.BaseExpression:
    """What `list(...)` or `tuple(...)` goes over."""
    held = isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple") and len(node.args) == 1
    return node.args[0].value if held else node  # type: ignore[attr-defined]


def _only_lists(stmt: Stmt) -> bool:
    """The statement does nothing but list parameters."""
    called = [c.func.attr.value if isinstance(c.func, cst.Attribute) else dotted(c.func) for c in stmt.calls]
    return set(called) <= {"parameters", "named_parameters", "list", "tuple", "filter"}


def turning(event: Event) -> bool:
    """The call is made with names that a comprehension or a lambda around it binds: it cannot stand above them."""
    used = {n.value for n in descend(event.node) if type(n) is cst.Name}
    for outer in event.stmt.nodes:
        kind = outer.__class__
        if kind is not cst.Lambda and kind not in COMPREHENSIONS or not any(n is event.node for n in descend(outer)):
            continue
        if kind is cst.Lambda:
            return True
        if used & {name for clause in clauses(outer.for_in) for name in bound(clause)}:  # type: ignore[attr-defined]
            return True
    return False


def read(event: Event, module: ModuleInfo, attributes: bool = False) -> GradCall | str:
    """What is differentiated with respect to what, or why that is not seen; `attributes` may be inputs as well."""
    inputs = event.inputs
    if inputs is None or not event.roots:
        return "its arguments are not seen"
    whole, first = subscripted(event)
    if (mixed := _mixed(inputs, module)) is not None:
        return GradCall(event, mixed[0], mixed[1], whole, first)
    if type(inputs) is cst.Tuple or type(inputs) is cst.List:
        names = [dotted(e.value) for e in inputs.elements]
        if names and all(_is_weight(e.value, module) for e in inputs.elements):
            return GradCall(event, [], inputs, whole, first)
        if not all(names) or any("." in n for n in names) and not attributes:
            return "an input is not a plain name"
        return GradCall(event, names, None, whole, first)
    value = module.value(inputs)
    held = value.items if value.kind in ("list", "tuple") else None
    if value.kind == "params" or (value.kind == "list" and value.name in ("of param", "of parameter")):
        return GradCall(event, [], inputs, whole, first)
    if held and all(i.kind == "param" or i.name in WEIGHTS or _trained(i, module) for i in held):
        return GradCall(event, [], inputs, whole, first)
    if leaves := own_leaves(event, module):
        return GradCall(event, [], inputs, whole, first, leaves=leaves)
    name = dotted(inputs)
    if value.kind == "param" and (leaf := _leaf_among(value, event, module)):
        return f"`{name}` stands for `{leaf}` and others in turn, which are no weights"
    if _is_weight(inputs, module) and (name or isinstance(inputs, cst.Attribute)):
        return GradCall(event, [], cst.List([cst.Element(inputs)]), whole, first)
    if not name or "." in name and not attributes:
        return _by_method(inputs, module) or "an input is not a plain name"
    if value.kind == "tensor" or value.kind == "unknown" and first and not name.endswith("s"):
        return GradCall(event, [name], None, whole, first)
    return f"whether `{name}` is a tensor or a list is not seen"


def _by_method(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """`net.params()`, as networks have it that let tensors stand in place of their weights."""
    func = node.func if isinstance(node, cst.Call) else None
    if not isinstance(func, cst.Attribute) or module.value(func.value).kind != "module":
        return ""
    return f"what `{func.attr.value}` lists may stand in place of weights: give them to a forward, as functional_call"


def _mixed(node: cst.BaseExpression, module: ModuleInfo) -> tuple[list[str], cst.BaseExpression] | None:
    """Tensors and then the weights of a network: `[x, *net.parameters()]`, `(x,) + tuple(net.parameters())`."""
    weights: cst.BaseExpression | None = None
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Add:
        weights = node.right
        node = node.left
        weights = _unpacked(weights)
    if type(node) is not cst.Tuple and type(node) is not cst.List:
        return None
    elements = list(node.elements)
    if weights is None and elements and isinstance(elements[-1], cst.StarredElement):
        weights = elements.pop().value
    names = [dotted(e.value) for e in elements]
    if weights is None or not names or not all(names) or any("." in n for n in names):
        return None
    value = module.value(weights)
    listed = value.kind == "params" or value.kind == "list" and value.name in ("of param", "of parameter")
    plain = not any(isinstance(e, cst.StarredElement) or _is_weight(e.value, module) for e in elements)
    return (names, weights) if listed and plain and len(set(names)) == len(names) else None


def _leaf_among(value: Value, event: Event, module: ModuleInfo) -> str:
    """A tensor that no optimizer updates, among those of which a loop takes one at a time; "" if there is none."""
    if value.place:
        return ""
    made = {p: v for s in event.stmt.block.scope.body.walk() for p, v in s.out.items() if p in value.deps}
    leaves = (p for p, v in sorted(made.items()) if v.leaf and v.kind == "tensor" and v.name not in WEIGHTS)
    return next((p for p in leaves if p not in module.weights), "")


def _trained(value: Value, module: ModuleInfo) -> bool:
    """A leaf that a class of the project has and an optimizer updates: it becomes a Parameter where it is made."""
    place, _, name = value.place.rpartition(".")
    return bool(place) and name in module.weights and value.deps == {value.place}


def _is_weight(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A Parameter in the output as well: it is differentiated as a weight."""
    value = module.value(node)
    if value.kind == "param" or value.name in WEIGHTS or _trained(value, module):
        return True
    owned = type(node) is cst.Attribute and module.value(node.value).kind == "module"
    return owned and node.attr.value in ("weight", "bias")  # type: ignore[attr-defined]


def subscripted(event: Event) -> tuple[cst.BaseExpression, bool]:
    assert isinstance(event.node, cst.Call)
    for node in event.stmt.nodes:
        if type(node) is cst.Subscript and node.value is event.node and len(node.slice) == 1:
            part = node.slice[0].slice
            if isinstance(part, cst.Index) and constant(part.value) == 0:
                return node, True
    return event.node, False


def receive(call: GradCall, owners: list[Owner], writer: Writer, plan: Plan) -> None:
    """Name the gradients after the user's own targets where the statement does nothing else."""
    event = call.event
    node = event.stmt.node
    target = (
        node.targets[0].target
        if isinstance(node, cst.Assign) and len(node.targets) == 1 and node.value is call.whole
        else None
    )
    if target is not None and len(owners) == 1 and call.weights is None:
        if call.first and isinstance(target, cst.Name):
            owners[0].variable = target.value
            plan.replaced[id(event.stmt)] = []
            return
        if (
            not call.first
            and isinstance(target, (cst.Tuple, cst.List))
            and len(target.elements) == 1
            and (name := dotted(target.elements[0].value))
        ):
            owners[0].variable = name
            plan.replaced[id(event.stmt)] = []
            return
    if (
        target is not None
        and not call.first
        and isinstance(target, cst.Tuple)
        and len(target.elements) == len(owners) > 1
        and call.weights is None
    ):
        names = [dotted(e.value) for e in target.elements]
        if all(names):
            for owner, name in zip(owners, names, strict=False):
                owner.variable = name
            plan.replaced[id(event.stmt)] = []
            return
    if (
        target is not None
        and (call.weights is not None and not call.inputs or call.listed)
        and not call.first
        and isinstance(target, cst.Name)
    ):
        owners[0].variable = target.value
        plan.replaced[id(event.stmt)] = []
        return
    for owner in owners:
        owner.variable = writer.fresh(f"{owner.place}_grad" if owner.kind == "leaf" else "grads")
    names = [o.variable for o in owners]
    if call.weights is not None and call.inputs:
        plan.expressions[id(call.whole)] = names[0] if call.first else f"({', '.join(names[:-1])}, *{names[-1]})"
    elif call.weights is not None:
        plan.expressions[id(call.whole)] = f"{names[0]}[0]" if call.first else names[0]
    elif call.first:
        plan.expressions[id(call.whole)] = names[0]
    else:
        plan.expressions[id(call.whole)] = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


VALUES = ("module", "lossfn", "tensor", "param", "int", "float", "list", "tuple")


def captured(stmt: Stmt, module: ModuleInfo, defined: set[str]) -> set[str]:
    """Places a statement reads that are values, not functions or names of libraries."""
    found = set()
    callees = {dotted(c.func) for c in stmt.calls}
    heads = {root(c) for c in callees}
    names = {root(u) for u in stmt.uses}
    held = {id(n.value) for n in stmt.nodes if type(n) is cst.Attribute and module.value(n).kind in VALUES}
    for node in stmt.nodes:
        if (type(node) is not cst.Name and type(node) is not cst.Attribute) or not dotted(node):
            continue
        value = module.value(node)
        place = dotted(node)
        if place == "self" and id(node) in held:
            continue  # of the network that trains, a part: compiled code need not be able to run it whole
        if (
            value.kind in VALUES
            or (value.kind == "unknown" and place in callees and "." in place)
            or (value.kind == "unknown" and place in names - heads and id(node) in module.values)
        ):
            if root(place) not in defined and place not in ("True", "False", "None"):
                found.add(place)
    return {p for p in found if not any(p != q and p.startswith(q + ".") and q in found for q in found)}
