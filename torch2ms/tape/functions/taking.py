"""Gradients that callers took and a function uses: they are handed in, and handed back where the function changes them.

`def log_grad_norms(model, log)` that reads `p.grad` becomes `def log_grad_norms(model, grads, log)`; a function that
clips returns what it made of them.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo
from torch2ms.analysis.program.sites import bound_arguments, receiver, receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import MIXED, UNKNOWN, Value, entries, of_optimizer
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forward.asked import asks
from torch2ms.tape.functions.handing import moved
from torch2ms.tape.ledger.owners import concerns, in_groups
from torch2ms.tape.ledger.pairs import clause_of
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import ENTRY, Event, Owner, Taken, Taking
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.uses.gradients import inside_loop
from torch2ms.tape.uses.loops import asks_of_each
from torch2ms.tape.uses.own_memory import by_index, kept_apart

FILLS = ("backward", "handed", "gradcall", "step_closure")


def taken_of(info: FunctionInfo, events: list[Event], names: set[str]) -> Taken | None:
    """What the function does with gradients of its callers, where it goes backward from nothing itself."""
    if any(e.kind in FILLS or e.problem or e.lifted for e in events) or not any(e.kind in LOADS for e in events):
        return None
    events = [e for e in events if e.kind != "leaf_grad" or not inside_loop(e, events)]
    alone = (e for e in events if e.kind == "leaf_grad" and (e.writes or clause_of(e.node, e.stmt.node) is None))
    single = [e for e in alone if not of_optimizer(e.value)]
    if single or any(e.kind in ("scaler_step", "unscale") for e in events):
        return None
    if any(_mixes(e, info) for e in events):
        return None
    records = Records(info.scope, info.module, events)
    loads = [e for e in events if e.kind in LOADS]
    used = [o for o in records.owners if any(concerns(e, o, records.owners) for e in loads)]
    if not used or any(o.kind not in ("optimizer", "module", "leaves", "params") for o in used):
        return None
    for load in loads:
        owners = [o for o in used if concerns(load, o, records.owners)]
        if not owners or any(not any(n == ENTRY for n, _ in records.held(load, o)) for o in owners):
            return None
    clears = all(not o.exit.held for o in used)
    asked = "" if clears else _asked(info.scope, events)
    cleared = not asked and any(e.kind == "clear" and concerns(e, o, records.owners) for e in events for o in used)
    gives = not clears and (cleared or any(changes(e) for e in loads))  # what it clears on some paths, it gives back
    returns = [s for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
    last = info.scope.body.stmts[-1]
    if gives and returns and (returns[-1] is not last or any(r.node.value is None for r in returns)):  # type: ignore[union-attr]
        return None
    variables = {o.place: _variable("" if len(used) == 1 else o.place.rpartition(".")[2], names) for o in used}
    if len(set(variables.values())) < len(used):
        return None
    shows = any(asks(e) for e in events)
    only = all(e.kind in ("clip_norm", "clip_value") for e in loads)
    return Taken(info, used, variables, gives, clears, returns if gives else [], asked, shows, only, loads)


def _mixes(event: Event, info: FunctionInfo) -> bool:
    """A loop goes over parameters of the object in another order than the list has that the object keeps."""
    kept = info.cls.attr(event.place[5:]) if info.cls is not None and event.place.startswith("self.") else None
    return event.value.odd == MIXED and kept is not None and kept.odd != MIXED


def _variable(of: str, names: set[str]) -> str:
    """The name of a parameter for gradients: those of one of several."""
    candidates = (f"{of}_{name}".lstrip("_") for name in ("grads", "gradients", "param_grads", "given_grads"))
    return next((name for name in candidates if name not in names), f"{of}_grads_")


def _asked(scope: Scope, events: list[Event]) -> str:
    """The parameter behind `if zero_grad: self.zero_grad()` at the end of a function."""
    last = scope.body.stmts[-1]
    if not isinstance(last.node, cst.If) or not isinstance(last.node.test, cst.Name) or last.node.orelse is not None:
        return ""
    inside = [e for e in events if e.stmt.block in last.blocks]
    name = last.node.test.value
    return name if name in scope.params and inside and all(e.kind == "clear" for e in inside) else ""


def _clears(taken: Taken, bound: dict[str, cst.Arg]) -> bool | None:
    """Whether a call clears the gradients; None where that hangs on a value."""
    if not taken.clears_if:
        return taken.clears
    node = taken.info.scope.node
    assert isinstance(node, cst.FunctionDef)
    defaults = {p.name.value: p.default for p in [*node.params.params, *node.params.kwonly_params]}
    given = bound[taken.clears_if].value if taken.clears_if in bound else defaults.get(taken.clears_if)
    value = constant(given) if given is not None else None
    return value if isinstance(value, bool) else None


def changes(event: Event) -> bool:
    """The event changes the gradients that it uses."""
    if event.taking is not None:
        return event.taking.taken.gives
    return event.writes or event.kind in ("clip_norm", "clip_value")


def clips(events: list[Event]) -> bool:
    """A function changes gradients that others took."""
    return any(changes(e) for e in events) and not any(e.kind in FILLS for e in events)


def taking_at(taken: Taken, call: cst.Call, caller: ModuleInfo, scope: Scope) -> Taking | None:
    """One call in the caller's words; None where its arguments are not seen."""
    if any(a.star for a in call.args):
        return None
    bound = bound_arguments(taken.info, call)
    clears = _clears(taken, bound)
    if clears is None:
        return None
    found = Taking(taken, call, clears)
    for owner in taken.owners:
        head, _, rest = owner.place.partition(".")
        if head == "self" and taken.info.cls is not None:
            base = receiving(taken.info, call)
            if not base:
                return None
            place = base + owner.place[4:]
            called = receiver(taken.info, call)
            whole = caller.value(called) if called is not None else UNKNOWN
            if whole.kind == "optimizer" and not rest:  # an optimizer of the program
                found.places.append((whole.place or place, whole))
                continue
            owns = moved(owner.owns, "self", base)
            held = entries(whole).get(rest)
            if held is not None and held.kind == "module" and held.place and owner.kind == "module":
                found.places.append((held.place, Value("params", deps=frozenset({held.place}), place=held.place)))
                continue
            if held is not None and held.kind == owner.kind == "optimizer" and _here(held.place, scope):
                found.places.append((held.place, held))
                continue
            if owns is not None and any(o.startswith("^") for o in owns):
                owns = None  # named as whoever made the object had it
            begun = taken.info.cls.method("__init__")
            named = {o.partition(".")[0] for o in owns or ()}
            if base != "self" and begun is not None and named & {*begun.scope.params}:
                owns = whole.owns  # likewise, as its constructor calls them
            if owner.kind == "params" and (base != "self" or owner.owns is None):
                owns = whole.owns or _as_held(owner.owns, taken.info.cls, whole)  # what the object was made from
                if owns is None:
                    return None
            kind = "optimizer" if owner.kind == "optimizer" else "params"
            whole_module = owner.kind == "module" and base != "self"
            deps = frozenset({place}) if whole_module else owns or frozenset()
            found.places.append((place, Value(kind, deps=deps, owns=owns, place=place, ordered=owner.ordered)))
        elif head in taken.info.scope.params:
            given = bound.get(head)
            if given is None or rest:
                return None
            value = caller.value(given.value)
            place = value.place or dotted(given.value)
            if isinstance(given.value, cst.List) and all(dotted(e.value) for e in given.value.elements):
                place = code(given.value)
            if value.kind == "module":
                value = Value("params", deps=frozenset({place}), place=place)
            found.places.append((place, value))
        else:
            if taken.info.module is not caller or head in scope.locals and not scope.is_module:
                return None
            deps = frozenset({owner.place}) if owner.kind == "module" else owner.owns or frozenset()
            kind = "optimizer" if owner.kind == "optimizer" else "params"
            value = Value(kind, deps=deps, owns=owner.owns, place=owner.place, ordered=owner.ordered)
            found.places.append((owner.place, value))
    return found


def _here(place: str, scope: Scope) -> bool:
    """The caller has it under this name as well: `opt = SGD(...)`, which it gave to `Warmup(opt)`."""
    return place in scope.locals and sum(place in s.defs for s in scope.body.walk()) == 1


def _as_held(owns: frozenset[str] | None, cls: ClassInfo, held: Value) -> frozenset[str] | None:
    """What a class calls its modules, as whoever has the object calls what it was made of; None if that is not seen."""
    known = {value.place: key for key, value in cls.attrs.items() if value.kind == "module" and value.place}
    places = {place: entries(held).get(known.get(place, "")) for place in owns or ()}
    if not places or any(v is None or not v.place for v in places.values()):
        return None
    return frozenset(v.place for v in places.values() if v is not None)


def events_of(taking: Taking, stmt: Stmt) -> list[Event]:
    """The call as events of its caller: it uses gradients, and may clear them."""
    found = []
    for owner, (place, value) in zip(taking.taken.owners, taking.places, strict=True):
        used = Event("taken", stmt, taking.call, place, value, taking=taking, writes=taking.taken.gives)
        used.name = owner.place
        found.append(used)
        if taking.clears:
            cleared = value if value.kind == "optimizer" else Value("params", deps=value.deps, place=place)
            found.append(Event("clear", stmt, taking.call, place, cleared, lifted=True, taking=taking))
    return found


def fed(event: Event, records: Records) -> bool:
    """The gradients that the call uses are all there: taken in this function, of exactly these parameters."""
    owners = [o for o in records.owners if concerns(event, o, records.owners)]
    if not owners or not records.held(event, owners[0]):
        return False
    owner = owners[0]
    if event.value.kind == "optimizer" or of_optimizer(event.value):
        return True
    if owner.owns is None:  # an optimizer that is not seen: `plan_call` tells what is assumed of it
        named = _kind(event) in ("params", "module") and event.value.kind == "params"
        return len(owners) == 1 and named and bool(event.place)
    return owner.owns == event.value.deps


def usable(taking: Taking, stmt: Stmt) -> bool:
    """The call stands where a changed tuple can be received."""
    node = stmt.node
    if not taking.taken.gives:
        lazy = any(type(n) is cst.Yield for s in taking.taken.info.scope.body.walk() for n in s.nodes)
        return not stmt.blocks or type(node) in (cst.For, cst.If) and not lazy  # in the head, which is computed first
    if isinstance(node, cst.Expr):
        return node.value is taking.call
    return (
        isinstance(node, cst.Assign)
        and len(node.targets) == 1
        and node.value is taking.call
        and isinstance(node.targets[0].target, cst.Name)
        and bool(taking.taken.returns)
    )


def plan_definition(taken: Taken, plan: Plan) -> None:
    """The gradients as parameters, and as results where they change."""
    scope = taken.info.scope
    node = scope.node
    assert isinstance(node, cst.FunctionDef)
    named = {p.name.value: p for p in [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]}
    for owner in taken.owners:
        variable = taken.variables[owner.place]
        if owner.place in named:
            plan.beside[id(named[owner.place])] = variable
        else:
            plan.added.setdefault(id(node), []).append(variable)
    if taken.gives:
        changed = ", ".join(taken.variables.values())
        for returned in taken.returns:
            value = returned.node.value  # type: ignore[union-attr]
            plan.replaced[id(returned)] = [Text(f"return {{0}}, {changed}", [value])]
        last = scope.body.stmts[-1]
        if type(last.node) is cst.Pass:
            plan.replaced[id(last)] = [Text(f"return {changed}")]
        elif not taken.returns and type(last.node) is not cst.Raise:
            plan.behind.setdefault(id(last), []).append(Text(f"return {changed}"))
    if taken.steps:
        plan.steps.add(id(node))
        why = "the step of an optimizer is its construct, which is called with the gradients"
        plan.findings.append(Finding("T2M107", Tier.EXACT, "function that uses gradients", why, line=_line(scope)))
        return
    why = "its callers hand it the gradients" + (", and take what it makes of them" if taken.gives else "")
    plan.findings.append(Finding("T2M107", Tier.EXACT, "function that uses gradients", why, line=_line(scope)))


def _line(scope: Scope) -> int:
    return min(s.lineno for s in scope.body.stmts)


def _kind(event: Event) -> str:
    """What the called function takes the gradients for: a module, or parameters."""
    assert event.taking is not None
    return next(o.kind for o in event.taking.taken.owners if o.place == event.name)


def _words(event: Event) -> str:
    """The module behind an owner of the called function, as the caller writes it."""
    assert event.taking is not None
    taken, call = event.taking.taken, event.taking.call
    head, dot, rest = _held_as(event.name, taken).partition(".")
    if head == "self" and receiving(taken.info, call):
        return receiving(taken.info, call) + dot + rest
    given = bound_arguments(taken.info, call).get(head)
    return dotted(given.value) if given is not None else event.name


def _held_as(place: str, taken: Taken) -> str:
    """The attribute under which the function finds what its object was given: `self.model`, which a caller has made."""
    scope, module = taken.info.scope, taken.info.module
    if taken.info.cls is None or place.partition(".")[0] in {*scope.params, *scope.locals}:
        return place
    nodes = (n for stmt in scope.body.walk() for n in stmt.nodes if type(n) is cst.Attribute)
    return next((dotted(n) for n in nodes if dotted(n.value) == "self" and module.value(n).place == place), place)


def _own_order(event: Event, owner: Owner) -> str:
    """What the function goes over, a module or a list, where an optimizer may have the parameters in another order."""
    assert event.taking is not None
    if of_optimizer(event.value) and (own := _in_groups(event)):
        return own if own != owner.weights else ""
    if owner.kind != "optimizer" or event.taking.taken.clips:
        return ""
    cls = event.taking.taken.info.cls
    if _kind(event) == "params" and event.name.startswith("self.") and cls is not None:
        kept = cls.attr(event.name[5:])
        whole = kept is not None and kept.place in kept.deps and kept.odd != MIXED  # all of a module, in its order
        return "" if owner.ordered and whole else _words(event)
    if owner.ordered:
        return ""
    return f"{_words(event)}.trainable_params()" if _kind(event) == "module" else ""


def _in_groups(event: Event) -> str:
    """The parameters of the group, or of the list of groups, that the function is given, as the caller writes them."""
    assert event.taking is not None
    taken, call = event.taking.taken, event.taking.call
    given = bound_arguments(taken.info, call).get(event.name)
    return in_groups(taken.info.args.get(event.name, UNKNOWN), code(given.value)) if given is not None else ""


def plan_call(event: Event, owners: list[Owner], plan: Plan, empty: bool) -> None:
    """The gradients of one owner as an argument; `empty`: at times the optimizer that keeps them has none."""
    taking = event.taking
    owner = next(o for o in owners if concerns(event, o, owners))
    assert taking is not None
    if not taking.taken.gives and not taking.taken.steps and any(by_index(e.stmt) for e in taking.taken.loads):
        kept_apart(event.stmt, owner, plan)
    variable = taking.taken.variables[event.name]
    argument = bound_arguments(taking.taken.info, taking.call).get(event.name)
    order = _own_order(event, owner)
    gradients = f"[grad_of[param] for param in {order}]" if order else owner.variable
    table = f"grad_of = dict(zip({weights_of(owner)}, {owner.variable}))"
    if empty and asks_of_each(taking.taken):
        order = order or weights_of(owner)
        gradients = f"[grad_of.get(param) for param in {order}]"
        table = f"grad_of = {{}} if {owner.variable} is None else dict(zip({weights_of(owner)}, {owner.variable}))"
    if order:
        plan.before.setdefault(id(event.stmt), []).append(Text(table))
    text = f"{variable}={gradients}"
    if argument is None and event.name == "self":  # its parameter is the first, as no argument stands for `self`
        plan.ahead[id(taking.call)] = gradients
    elif argument is not None:
        plan.beside[id(argument)] = text
        if event.value.kind == "params" and not owner.ordered and _kind(event) == "params":
            plan.arguments[id(argument)] = weights_of(owner)
        if event.value.kind == "named_params":
            plan.arguments[id(argument)] = f"[(param.name, param) for param in {weights_of(owner)}]"
    else:
        node = taking.taken.info.scope.node
        assert isinstance(node, cst.FunctionDef)
        own = taking.taken.info.cls is not None and not taking.taken.info.static
        last = len(taking.call.args) == len(node.params.params) - own and not node.params.posonly_params
        last = last and not isinstance(node.params.star_arg, (cst.Param, cst.ParamStar))
        if last and all(a.keyword is None for a in taking.call.args) and len(taking.taken.owners) == 1:
            text = gradients
        plan.added.setdefault(id(taking.call), []).append(text)
    if taking.taken.gives:
        taker = event.stmt.node
        target = "_, " if taking.taken.returns else ""
        target = f"{dotted(taker.targets[0].target)}, " if isinstance(taker, cst.Assign) else target
        received = plan.given.setdefault(id(taking.call), [])
        received.append(owner.variable)
        plan.replaced[id(event.stmt)] = [Text(f"{target}{', '.join(received)} = {{0}}", [taking.call])]
        if order:
            part = of_optimizer(event.value)  # of a group: those of the others stay what they are
            table = f"grad_of{'.update(' if part else ' = dict('}zip({order}, {owner.variable}))"
            back = f"{owner.variable} = [grad_of[param] for param in {weights_of(owner)}]"
            plan.replaced[id(event.stmt)] += [Text(table), Text(back)]
    tier, why = Tier.EXACT, "the gradients are an argument"
    if owner.owns is None and event.value.kind == "params":
        given = f"`{owner.place}` holds the parameters of `{event.place}`, and no others"
        tier, why = Tier.ASSUMED, f"{why}; assumed: {given}"
    plan.findings.append(Finding("T2M107", tier, "call that uses gradients", why, line=event.stmt.lineno))
