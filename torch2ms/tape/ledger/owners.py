"""Whose gradients a scope loads."""

from __future__ import annotations

from collections import Counter

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo
from torch2ms.analysis.program.sites import bound_arguments
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument, to_clip
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import (
    PART,
    PICKED,
    UNKNOWN,
    Value,
    any_nested,
    any_overlap,
    of_optimizer,
    overlaps,
    replace,
)  # fmt: skip
from torch2ms.tape.ledger.pairs import clause_of, kept_under, paired
from torch2ms.tape.model import Event, Owner, token

CLIPS = ("clip_norm", "clip_value")
READING = (*CLIPS, "leaf_grad", "grad_loop", "fill", "unscale", "taken")


def collect(scope: Scope, module: ModuleInfo, events: list[Event], stored: list[Owner]) -> list[Owner]:
    """Optimizers that keep gradients or step, then modules and leaves that are read and that no optimizer owns."""
    found: list[Owner] = list(stored)
    for event in events:
        value = event.value
        if value.kind == "optimizer" and (owns := _in_sight(event.place, value.owns, scope, module)) != value.owns:
            event.value = value = replace(value, owns=owns)
        if event.kind in ("step", "scaler_step"):
            plain = value.dtype == "plain"
            _add(Owner("optimizer", event.place, value.owns, plain=plain, ordered=value.ordered), found)
    if len(found) == 1 and not stored:
        _alone(found[0], scope, module, events)
        _captured(found[0], scope, module, events)
        _of_the_script(found[0], scope, module, events)
    elif not stored:
        _paired([o for o in found if o.owns is None and o.place in scope.params], events)
    for event in events:
        if event.kind == "taken" and event.value.kind == "optimizer":
            _add(Owner("optimizer", event.place, event.value.owns, ordered=event.value.ordered), found)
        for place, owns in event.handing.owns.items() if event.handing is not None else ():
            _add(Owner("optimizer", place, owns), found)
    for event in events:
        if event.kind in READING and not any(concerns(event, o, found) for o in found):
            found += _read_by(event, events, found, scope, module)
    for owner in found:
        if owner.kind == "leaf":
            owner.parameter = seen_elsewhere(owner.place, scope)
    return found


def _add(owner: Owner, found: list[Owner]) -> None:
    """Take an optimizer that has no other name."""
    if all(o.place != owner.place for o in found):
        found.append(owner)


def _read_by(event: Event, events: list[Event], found: list[Owner], scope: Scope, module: ModuleInfo) -> list[Owner]:
    """Who has the gradients that the event reads, where no optimizer has them; none if that has no name."""
    value = event.value
    if of_optimizer(value) and (weights := _of_groups(event.place, scope, module)):
        return [Owner("optimizer", event.place, value.owns, weights=weights)]
    if event.kind != "leaf_grad" or of_optimizer(value):
        return _handed(event)
    if given := _given(event, scope):
        return [Owner("params", given, value.deps)]
    if value.kind == "param" and len(value.deps) == 1 and not _in_loop_of(event, events, found):
        return _of_weight(event, events, scope, module)
    if whole := _network(event, events):
        return [Owner("module", whole, frozenset({whole}))]
    return [Owner("leaf", event.place, frozenset({event.place}))] if leaf_of_name(event) else []


def _of_groups(place: str, scope: Scope, module: ModuleInfo) -> str:
    """The parameters of what a function is given by this name, where that is a group or a list of groups."""
    info = next((i for i in module.functions.values() if i.scope is scope), None) if place in scope.params else None
    return in_groups(info.args.get(place, UNKNOWN), place) if info is not None else ""


def in_groups(given: Value, name: str) -> str:
    """The parameters in a group, in a list of groups or in one entry of it, whatever its name is; "" for others."""
    forms = {"dict": f'{name}["params"]', "list": f'[p for group in {name} for p in group["params"]]', "params": name}
    return forms.get(given.kind, "") if of_optimizer(given) else ""


def _handed(event: Event) -> list[Owner]:
    """What a call is given, or a loop goes over: `clip_grad_norm_(net.parameters(), 1.0)`."""
    deps = event.value.deps or (frozenset({event.place}) if event.place else frozenset())
    kind, listed = _kind(event), _listed(event)
    place = event.place or (next(iter(deps)) if len(deps) == 1 else listed[0] if listed else "")
    if not place or PART in place:
        return []
    owns = event.value.owns if kind == "optimizer" else deps
    weights = f"[{', '.join(listed)}]" if listed else ""
    return [Owner("leaves" if listed else kind, place, owns, weights=weights)]


def _of_weight(event: Event, events: list[Event], scope: Scope, module: ModuleInfo) -> list[Owner]:
    """The gradient of a single parameter, perhaps of one that a comprehension goes over."""
    (place,) = deps = event.value.deps
    clause = clause_of(event.node, event.stmt.node)
    place = clause is not None and kept_under(clause.iter) or place
    if clause is not None and isinstance(clause.iter, (cst.List, cst.Tuple)):  # of one weight: `for p in [w]`
        return [Owner("leaves", place, deps, weights=f"[{place}]")]
    if place.startswith(("^", "@")):
        return []
    place = place if _has_name(place, scope) else _of_loop(event, events)
    event.problem = event.problem or ("" if place else "whose gradients these are has no name here")
    return [Owner("leaves" if _of_list(event, clause, module) else "module", place, deps)]


def _in_loop_of(event: Event, events: list[Event], found: list[Owner]) -> bool:
    """It reads in a loop that goes over the gradients of an optimizer, whatever names its list has."""
    loops = [e for e in events if e.kind == "grad_loop" and e.value.kind == "optimizer"]
    return any(e.stmt in event.stmt.ancestors() and any(concerns(e, o, found) for o in found) for e in loops)


def _has_name(place: str, scope: Scope) -> bool:
    """The place is one of this scope or of those around it, not of a constructor that kept what it was given."""
    head, around = root(place), scope
    while head not in around.locals and around.parent is not None:
        around = around.parent
    return head in around.locals


def _of_loop(event: Event, events: list[Event]) -> str:
    """What the loop around a read of gradients calls the module that it runs over."""
    loops = (e for e in events if e.kind == "grad_loop" and e.stmt in event.stmt.ancestors())
    return next((e.place for e in loops if e.value.deps == event.value.deps), "")


def _of_list(event: Event, clause: cst.CompFor | None, module: ModuleInfo) -> bool:
    """What a comprehension goes over is a list of leaves, not what a network has."""
    if clause is None or not isinstance(event.node, cst.Attribute):
        return False
    found = paired(clause.iter, clause.target, {dotted(event.node.value)}, module)
    return found is not None and bool(dotted(found.params)) and module.value(found.params).kind in ("list", "tuple")


def _network(event: Event, events: list[Event]) -> str:
    """The network of `net.fc.weight.grad`: all that a backward call fills, as other weights may be read too."""
    if event.kind != "leaf_grad" or event.value.name != "module_param" or len(event.value.deps) != 1:
        return ""
    parts = next(iter(event.value.deps)).split(".")
    filled = {d for e in events if e.kind == "backward" for d in e.value.deps if not d.startswith(("^", "@"))}
    heads = (".".join(parts[: n + 1]) for n in range(len(parts)))
    return next((head for head in heads if head in filled), "")


def _listed(event: Event) -> list[str]:
    """The names of single weights that stand in the call itself: `clip_grad_norm_([w, b], 1.0)`, or the one weight."""
    call = event.node
    if event.kind not in ("clip_norm", "clip_value") or not isinstance(call, cst.Call) or not call.args:
        return []
    given, value = to_clip(call), event.value
    if not isinstance(given, (cst.List, cst.Tuple)):
        return [dotted(given)] if value.kind in ("param", "tensor") and value.leaf and dotted(given) else []
    names = [dotted(e.value) for e in given.elements]
    items = value.items or ()
    single = len(items) == len(names) and all(i.kind in ("param", "tensor") and i.leaf for i in items)
    weight = len(names) == 1 and value.deps == frozenset(names)  # `[layer.weight]`
    return names if (single or weight) and all(names) else []


def leaf_of_name(event: Event) -> bool:
    """A read of the gradient of a leaf that has a name: an item (`d["x"].grad`) cannot be a parameter of a function."""
    return event.kind == "leaf_grad" and event.value.leaf and bool(event.place)


def _alone(owner: Owner, scope: Scope, module: ModuleInfo, events: list[Event]) -> None:
    """The only optimizer of a function holds what the caller has under names that the function does not know.

    A list of modules and the list that the optimizer was made of hold the same ones, for example: what the losses of
    the function are made of is then among what it moves. So is what a function made together with the optimizer and
    gave back in a dict (`render(rays, **networks)`), where the losses are known by names of functions that are called.
    """
    losses = [e for e in events if e.kind == "backward"]
    seen = (scope.locals, module.scope.locals)
    made = all(o.startswith("<") for o in owner.owns or ("",)) and all(
        e.value.deps and not any(root(d) in names for d in e.value.deps for names in seen) for e in losses
    )
    named = all(o.startswith("^") for o in owner.owns or ("",)) and owner.place in scope.params
    if (named or made) and losses and not any(owner.takes(e.value.deps) for e in losses):
        owner.owns = None
        owner.assumed.add(f"`{owner.place}` holds the parameters of the loss, and no others")


def _captured(owner: Owner, scope: Scope, module: ModuleInfo, events: list[Event]) -> None:
    """An optimizer of the function around this one holds a network that is handed in, under the name that it has here.

    `def epoch(net): ... opt.step()` and `epoch(self.model)` where `opt` moves `self.model`.
    """
    around = scope.parent
    losses = frozenset(d for e in events if e.kind == "backward" for d in e.value.deps if not d.startswith(("^", "@")))
    free = around is not None and around.is_function and root(owner.place) not in scope.locals
    if not free or not owner.owns or not losses <= set(scope.params) or owner.takes(losses):
        return
    assert around is not None
    calls = [c for s in around.body.walk() for c in s.calls if dotted(c.func) == scope.name]
    given = [argument(call, scope.params.index(name), name) for call in calls for name in losses]
    if given and all(node is not None and {module.value(node).place} == owner.owns for node in given):
        owner.owns = losses


def _of_the_script(owner: Owner, scope: Scope, module: ModuleInfo, events: list[Event]) -> None:
    """An optimizer moves a network that the function is handed, and that it runs under the name that the script has.

    `def train_batch(net, opt): loss = crnn(x).mean(); ...; opt.step()`, always called as `train_batch(crnn, opt)`.
    """
    losses = frozenset(d for e in events if e.kind == "backward" for d in e.value.deps if not d.startswith(("^", "@")))
    owns = owner.owns or frozenset()
    if len(owns) != 1 or not owns <= set(scope.params) or owner.takes(losses):
        return
    if len(losses) != 1 or any(root(d) in scope.locals for d in losses):
        return
    (name,) = owns
    calls = [call for call in module.of_kind(cst.Call) if dotted(call.func) == scope.name]
    given = [argument(call, scope.params.index(name), name) for call in calls]
    if given and all(node is not None and {module.value(node).place} == losses for node in given):
        owner.owns = losses


def _paired(handed: list[Owner], events: list[Event]) -> None:
    """`net_d.zero_grad()`, `loss.backward()`, `opt_d.step()`: each optimizer of the callers has a network of its own.

    Whose gradients are reset before a step is what the step moves, where it is the same one before all its steps and
    not the one of another optimizer.
    """
    nets: dict[int, set[str]] = {id(o): set() for o in handed}
    reset, played = "", False
    for event in events:
        if event.kind == "clear":
            alone = event.value.kind == "module" and (played or not reset)
            reset, played = event.place if alone else "", False
        elif event.kind == "backward":
            played = played or any(overlaps(d, reset) for d in event.value.deps if reset)
        elif event.kind in ("step", "scaler_step"):
            for owner in handed:
                if owner.place == event.place:
                    nets[id(owner)].add(reset if played else "")
            reset, played = "", False
    taken = Counter(net for found in nets.values() for net in found)
    for owner in handed:
        (net, *others) = nets[id(owner)] or {""}
        if net and not others and taken[net] == 1:
            owner.owns = frozenset({net})
            owner.assumed.add(f"`{owner.place}` holds the parameters of `{net}`, and no others")


def _given(event: Event, scope: Scope) -> str:
    """The parameter of the function over which a comprehension runs that reads gradients: a list of parameters."""
    clause = clause_of(event.node, event.stmt.node) if event.kind == "leaf_grad" and not event.writes else None
    given = dotted(clause.iter) if clause is not None and event.value.kind == "param" else ""
    return given if given in scope.params and event.value.deps else ""


def _in_sight(place: str, owns: frozenset[str] | None, scope: Scope, module: ModuleInfo) -> frozenset[str] | None:
    """The places as the scope knows them; None where the object was given a module that no attribute of it holds.

    `super().__init__(policy)` may keep it, under whatever name. An optimizer that a class above made has its words: of
    a constructor with a parameter of the same name, which may be another module.
    """
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    begun = cls.methods.get("__init__") if cls is not None else None
    if owns is None or cls is None or begun is None or begun.scope is scope:
        return owns
    above = place.startswith("self.") and place[5:] not in cls.attrs
    names = _handed_up(cls, begun) if above else _named(cls)
    given = {o for o in owns if o.lstrip("^").partition(".")[0] in begun.scope.params}
    return None if any(o.lstrip("^").partition(".")[0] not in names for o in given) else owns


def _named(cls: ClassInfo) -> set[str]:
    """What the attributes that a class binds are called where it binds them."""
    held = [v for v in cls.attrs.values() if v.kind not in ("optimizer", "scheduler")]
    return {d.partition(".")[0] for v in held for d in (v.place, *v.deps)}


def _handed_up(cls: ClassInfo, begun: FunctionInfo) -> set[str]:
    """Parameters of a constructor that the one above it gets under the same name, and that attributes hold there."""
    above = next((c for c in cls.lineage()[1:] if "__init__" in c.methods), None)
    calls = [c for s in begun.scope.body.walk() for c in s.calls if _of_super(c)]
    if above is None or len(calls) != 1 or any(arg.star == "*" for arg in calls[0].args):
        return set()
    given = bound_arguments(above.methods["__init__"], calls[0])
    return {name for name, arg in given.items() if dotted(arg.value) == name} & _named(above)


def _of_super(call: cst.Call) -> bool:
    """`super().__init__(...)`"""
    func = call.func
    inner = func.value if isinstance(func, cst.Attribute) and func.attr.value == "__init__" else None
    return isinstance(inner, cst.Call) and dotted(inner.func) == "super"


def _kind(event: Event) -> str:
    if event.value.kind in ("list", "tuple"):
        return "leaves"
    if event.kind == "unscale" or event.value.kind == "optimizer" or of_optimizer(event.value):
        return "optimizer"
    if event.taking is not None and event.name.startswith("self."):
        return next(o.kind for o in event.taking.taken.owners if o.place == event.name)
    node = event.node
    given: cst.CSTNode = node
    if isinstance(node, cst.Call):
        given = node.args[0].value if node.args else node.func
    place = event.name if event.kind == "grad_loop" else dotted(given)
    return "params" if event.kind != "taken" and place == event.place != "" else "module"


def seen_elsewhere(place: str, scope: Scope) -> bool:
    """A leaf that a nested or another function reads, or that lives in an attribute, cannot be an argument alone."""
    if "." in place:
        return True
    return any(root(use) == place for child in scope.children for use in free_uses(child))


def concerns(event: Event, owner: Owner, owners: list[Owner]) -> bool:
    """Whether an event that uses gradients uses those of this owner."""
    if event.kind in ("step", "scaler_step", "unscale", "scaler_update"):
        return event.place == owner.place
    if event.value.name.startswith("param_group"):
        return event.place == owner.place
    if event.kind == "leaf_grad":
        if owner.kind == "leaf":
            return event.place == owner.place
        return owner.owns is not None and bool(event.value.deps) and any_nested(event.value.deps, owner.owns)
    if event.value.kind == "optimizer":
        return event.place == owner.place
    used = event.value.deps or (frozenset({event.place}) if event.place else frozenset())
    used = frozenset(d for d in used if not d.startswith("@"))
    if owner.owns is not None:
        return any_nested(used, owner.owns)
    optimizers = [o for o in owners if o.kind == "optimizer"]
    if len(optimizers) == 1:
        return owner.kind == "optimizer"
    return any(token(d) == token(owner.place) for d in used)


def relation(event: Event, owners: list[Owner]) -> str:
    """Whether what is clipped is what the owners hold: same, other, or not seen."""
    if event.value.kind == "optimizer" or of_optimizer(event.value):
        return "same"
    if _single(event):
        return "other"
    if event.kind in CLIPS and event.value.kind == "unknown" and _made(event.node):
        return "unseen"
    some = any(PICKED in d for d in event.value.deps)  # all callers give parameters that a condition picked
    if any(d.startswith("@") for d in event.value.deps) and not some:
        return "unseen"  # a parameter: each caller has its own
    clipped = {d for d in event.value.deps or ({event.place} if event.place else ()) if not d.startswith("@")}
    if not clipped or any(o.owns is None for o in owners) or any(d.startswith("^") for d in clipped):
        return "unseen"
    held = {p for o in owners for p in o.owns or ()}
    if any(p.startswith("^") for p in held):
        return "other" if clipped <= held else "unseen"  # callers gave the optimizer more, beside what is clipped
    inside = all(any(p == c or p.startswith(c + ".") for c in clipped) for p in held)
    if inside and len(held) > 1 and not held <= clipped:
        return "unseen"  # several parts, which may be all of it
    outside = all(any(c == p or c.startswith(p + ".") for p in held) for c in clipped)
    return "same" if inside and outside else "other"


def _single(event: Event) -> bool:
    """One parameter of a network is clipped, or some are that are listed one by one."""
    parts = (event.value, *event.value.parts)
    return event.kind in CLIPS and any(v.kind == "param" and v.place not in v.deps for v in parts)


def _made(clip: cst.CSTNode) -> bool:
    """What is clipped is what a function returns."""
    return isinstance(clip, cst.Call) and bool(clip.args) and isinstance(clip.args[0].value, cst.Call)


def kinship(event: Event, owner: Owner) -> str:
    """Whether a loop runs over what the gradients were taken of: same, unseen, or other."""
    if of_optimizer(event.value):
        return "other"  # one group of several, for all that is seen
    if event.place and event.place == owner.place:
        return "same"
    found = relation(event, [owner])
    if found != "other" or owner.owns is None or _single(event):
        return found
    wide = event.value.deps or frozenset({event.place})
    if any(not any_overlap(frozenset({w}), owner.owns) for w in wide if not w.startswith(("@", "^"))):
        return "other"  # a network of its own, which may be a copy: its gradients are looked up, and missed where it is
    return "unseen" if all(any(p == w or p.startswith(f"{w}.") for w in wide) for p in owner.owns) else "other"


def leaf_made(owner: Owner, scope: Scope) -> Stmt | None:
    """The statement of the scope that makes a leaf."""
    for stmt in scope.body.walk():
        if owner.place in stmt.defs and stmt.out[owner.place].leaf:
            return stmt
    return None
