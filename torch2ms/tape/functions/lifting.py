"""Backward calls whose step stands in the caller: the callee becomes the function that computes the loss.

`backward_G()` that ends in `self.loss_G.backward()` returns `self.loss_G`; the caller, which steps, takes its gradient.
A closure handed to `optimizer.step` is the same with the step as its caller.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.arguments import bind_arguments
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import (
    CALL,
    Site,
    Unseen,
    any_object,
    bound_arguments,
    inherited,
    receiving,
    resolved,
    versions,
)
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import Value, replace
from torch2ms.tape.forward.properties import spread_getters
from torch2ms.tape.forward.stashes import left_behind
from torch2ms.tape.functions.attributes import keeps_for_list, narrow, spread
from torch2ms.tape.functions.brought import brings, brought
from torch2ms.tape.functions.clearing import clearing
from torch2ms.tape.functions.closures import Handover, closure_in, handovers, has_form
from torch2ms.tape.functions.exported import USES, Export, export_of
from torch2ms.tape.functions.foreign import spread_changes, spread_foreign
from torch2ms.tape.functions.handed_out import handed_out
from torch2ms.tape.functions.handed_versions import hand_on_versions, overridden
from torch2ms.tape.functions.handing import event_of, handed_of, handing_at, steps_always
from torch2ms.tape.functions.kept import spread_kept
from torch2ms.tape.functions.memory import spread_writes
from torch2ms.tape.functions.own_steps import own_step
from torch2ms.tape.functions.reach import Known
from torch2ms.tape.functions.remaining import left_in_leaves, remaining
from torch2ms.tape.functions.rollouts import Episodes
from torch2ms.tape.functions.spills import Spills
from torch2ms.tape.functions.stores import find_stores
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.functions.taken_versions import take_in_versions
from torch2ms.tape.functions.taking import clips, events_of, fed, taken_of, taking_at, usable
from torch2ms.tape.functions.thawed import thawed
from torch2ms.tape.functions.valued import spread_valued
from torch2ms.tape.functions.within import reachable
from torch2ms.tape.ledger.events import find
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import ENTRY, Event, Owner
from torch2ms.tape.uses.frozen_first import frozen_first
from torch2ms.tape.uses.own_memory import through_name

OBJECTS = ("unknown", "object", "module", "class", "builtin_super", "none")  # what may have methods of the project
ROUNDS = 3  # a loss is handed on through as many functions


def lift(project: Project, stores: bool = True) -> Lifting:
    """Find the exports; adds to each call statement what its callee writes and reads of the receiver.

    `stores`: optimizers may keep gradients from one call to the next.
    """
    lifting = Lifting(freezes=project.freezes_trained)
    lifting.frozen_first = not lifting.freezes or frozen_first(project)
    functions = [i for m in project.modules.values() for i in m.functions.values()]
    lifting.functions = {id(i.scope): i for i in functions}
    events: dict[int, list[Event]] = {}
    unseen = Unseen()
    _read(project, lifting, events, unseen)
    _spread(project, lifting, events, unseen)
    called = (list(versions(i)) for i in functions if i.name != "__init__" and id(i.scope) in lifting.sites)
    unseen.versions |= {id(i.scope) for several in called if len(several) > 1 for i in several}
    unseen.scopes = handed_out(functions, project)
    _export(project, functions, lifting, events, unseen)
    project.reads_gradients = any(e.kind in USES for found in events.values() for e in found)
    project.readers = {i.name for i in functions if any(e.kind in USES for e in events[id(i.scope)])}
    project.clipping = {i.name for i in functions if clips(events[id(i.scope)])}
    project.leaving = {
        id(scope) for m in project.modules.values() for scope in m.scope.walk()
        if _leaves(events[id(scope)], scope, m, lifting)
    }  # fmt: skip
    lifting.meeting = project.meeting = _meeting(lifting, project, events)
    lifting.spills = Spills(project, lifting.callee, events)
    project.remaining = remaining(project, lifting.callee, events, lifting.spills)
    project.left_in_leaves = left_in_leaves(project, lifting.callee, events)
    episodes = Episodes(project, lifting, events, unseen)
    lifting.episodes, lifting.incomplete = episodes.found, episodes.reasons
    lifting.inside = [i for e in episodes.found.values() for i in episodes.inside(e)]
    seen = [i for i in functions if own_step(i.scope, i.module) or i.scope not in unseen]
    methods = overridden(functions)
    hand_on_versions(lifting, methods, events, unseen)
    take_in_versions(lifting, methods, events, unseen)
    hand_on(lifting, seen, events, project)
    if stores:
        _store(lifting, project, seen, events, unseen)
    project.changing = lifting.changing
    return lifting


def _read(project: Project, lifting: Lifting, events: dict[int, list[Event]], unseen: Unseen) -> None:
    """Enter the events of every scope, and the function that each call reaches for certain or may reach."""
    certain = resolved(project)
    objects = any(CALL in cls.methods for m in project.modules.values() for cls in m.classes.values())
    for module in project.modules.values():
        for scope in module.scope.walk():
            events[id(scope)] = find(scope, module)
            if not events[id(scope)]:
                lifting.without.add(id(scope))
            own = {id(e.node) for e in events[id(scope)]}
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if (info := certain.get(id(call))) is not None:
                        if stmt.off or module.held:
                            unseen.names.add(info.name)  # the call stays as it is, and so must what it calls
                        lifting.callee[id(call)] = info
                        lifting.sites.setdefault(id(info.scope), []).append(Site(module, scope, stmt, call))
                    elif id(call) not in own:
                        if objects and any_object(call.func, module, project):
                            unseen.add(call, CALL, stmt)
                        if type(call.func) is cst.Attribute:
                            _may_reach(call, call.func, stmt, module, project, unseen)


def _may_reach(
    call: cst.Call, func: cst.Attribute, stmt: Stmt, module: ModuleInfo, project: Project, unseen: Unseen
) -> None:
    """A method of an object that is not known."""
    base = module.value(func.value).kind
    above = func.attr.value == "__init__" and base in ("builtin_super", "class")
    above = above or inherited(func, module, project)  # `scheduler.step()`
    if base in OBJECTS and not above:  # that of a class by its name, or of the classes above
        unseen.add(call, func.attr.value, stmt)
        keeps_for_list(call, stmt, module)


def _spread(project: Project, lifting: Lifting, events: dict[int, list[Event]], unseen: Unseen) -> None:
    """Add to call statements what their callees write and read, until no more comes of it."""
    sites = [s for own in lifting.sites.values() for s in own]
    reached = [(i, s) for s in sites for i in versions(lifting.callee[id(s.call)])]
    for info, site in reached:
        narrow(info, site)
    none: set[int] = set()
    called = Known(project, lifting.callee, lifting.sites, unseen, none, none, none, lambda scope, _: events[id(scope)])
    spread_getters(project)
    spread_kept(project)
    more = spread_writes(project)
    if spread_changes(called) or more:
        spread_writes(project)
    spread_valued(called)
    spread_foreign(called)
    for _ in range(ROUNDS):
        if any([spread(info, site, lifting.callee) for info, site in reached]):
            spread_changes(called)


def _export(
    project: Project, functions: list[FunctionInfo], lifting: Lifting, events: dict[int, list[Event]], unseen: Unseen
) -> None:
    """Enter the functions that become functions of the loss, and closures."""
    given = handovers(project, events)
    lifting.left = left_behind(list(project.modules.values()))
    for info in functions:
        if id(info.scope) in given:
            _close(info, given[id(info.scope)], lifting, events)
            continue
        export, sites = export_of(info, events[id(info.scope)]), lifting.sites.get(id(info.scope), [])
        if export is None or not sites or info.scope in unseen:
            continue
        far = not _in_reach(info, export, project)
        if all(_loads(s.scope, lifting, events, far) for s in sites) and all(_usable(s, export) for s in sites):
            lifting.exports[id(info.scope)] = export


def _store(
    lifting: Lifting, project: Project, seen: list[FunctionInfo], events: dict[int, list[Event]], unseen: Unseen
) -> None:
    """Find the optimizers that keep gradients, and the functions that go backward from what callers made into them."""
    settled = {*lifting.exports, *lifting.episodes, *lifting.closures}

    def everything(scope: Scope, module: ModuleInfo) -> list[Event]:
        return all_events(scope, module, lifting, events)

    def cleared(scope: Scope, module: ModuleInfo) -> list[Event]:
        return clearing(scope, module, lifting)

    handed = set(lifting.handed)  # callers see to it that these are entered without gradients
    while True:
        taken = set(lifting.taken)
        known = Known(
            project, lifting.callee, lifting.sites, unseen, settled, handed, taken, everything, cleared, lifting.records
        )
        lifting.stores = find_stores(known)
        if not lifting.stores.freed:
            break
        for key in lifting.stores.freed:
            lifting.give_up(key)
    if lifting.stores.owners:
        hand_on(lifting, [i for i in seen if id(i.scope) in lifting.stores.owners], events, project)
        lifting.stores = find_stores(known)  # callers that now hand a loss on know the optimizer, too
        late = {k for k in lifting.handed.keys() - handed if not _all_empty(k, lifting, events)}
        for key in late:  # they counted on an optimizer that keeps gradients, and that cannot
            lifting.give_up(key)


def _close(info: FunctionInfo, given: list[Handover], lifting: Lifting, events: dict[int, list[Event]]) -> None:
    """Enter a closure that optimizers are handed, as a function of the loss or as one that returns its gradients."""
    key = id(info.scope)
    sites, export = lifting.sites.get(key, []), export_of(info, events[key])
    if brings(info, events[key], [g.event for g in given], lifting.left):
        return
    told = export is not None and export.returns is not None and export.beside is None and bool(export.clears)
    if export is not None and told and all(has_form(g.event) for g in given):
        used = [s for s in sites if any(e.kind in USES and e.kind != "step_closure" for e in events[id(s.scope)])]
        export.called = bool(used)  # `loss_func()`, `adam.step()`, and later `lbfgs.step(loss_func)`
        if not used or len(used) == len(sites) and all(_usable(s, export) for s in sites):
            export.closure = True
            lifting.exports[key] = export
    elif not sites and (closure := closure_in(info, events[key], given)) is not None:
        lifting.closures[key] = closure


def _meeting(lifting: Lifting, project: Project, events: dict[int, list[Event]]) -> set[int]:
    """Scopes with an optimizer in which another function leaves gradients: one caller or object has both."""
    places: dict[int, set[tuple[int, str]]] = {}
    for info in lifting.functions.values():
        own = events[id(info.scope)]
        found = places.setdefault(id(info.scope), set())
        for owner in lifting.records.of(info.scope, info.module, own).owners if own else ():
            head = root(owner.place)
            if owner.kind != "optimizer":
                continue
            if head == "self" and info.cls is not None:
                found.add((id(info.cls), owner.place))
            elif head not in info.scope.params:
                found.add((id(info.module), owner.place) if head not in info.scope.locals else (id(info.scope), ""))
            for site in lifting.sites.get(id(info.scope), []) if head in info.scope.params else ():
                given = bound_arguments(info, site.call).get(head)
                if given is not None and (place := dotted(given.value)):
                    found.add((id(site.scope), place))
    left: dict[tuple[int, str], set[int]] = {}
    for key in project.leaving:
        for kept in places.get(key, ()):
            left.setdefault(kept, set()).add(key)
    return {key for key, mine in places.items() if any(left.get(kept, set()) - {key} for kept in mine)}


def _leaves(events: list[Event], scope: Scope, module: ModuleInfo, lifting: Lifting) -> bool:
    """Gradients are left in an optimizer when the scope ends: the next backward call elsewhere would add to them."""
    if not any(e.kind == "backward" for e in events):
        return False
    owners = lifting.records.of(scope, module, events).owners
    return any(o.kind == "optimizer" and {n for n, _ in o.exit.held} - {ENTRY} for o in owners)


def hand_on(lifting: Lifting, functions: list[FunctionInfo], events: dict[int, list[Event]], project: Project) -> None:
    """Find the functions that use gradients of their callers, or go backward from what callers made.

    One such function may call another: they are found in rounds, and given up where a call does not fit.
    """
    given_up: set[int] = set()
    for turn in range(2 * ROUNDS):
        for info in functions:
            key = id(info.scope)
            done = lifting.exports.keys() | lifting.handed.keys() | lifting.taken.keys() | lifting.episodes.keys()
            if not {key} & (done | given_up):
                _offer(info, lifting, events)
        late = {k for k in lifting.handed if not _all_empty(k, lifting, events)}
        late |= {k for k in lifting.taken if not _all_fed(k, lifting, events, project)}
        if not late and turn >= ROUNDS - 1:
            break
        for key in late:
            given_up.add(key)
            lifting.give_up(key)


def _handed_out(info: FunctionInfo, sites: list[Site]) -> bool:
    """A function within another one, which callers find that are not seen: `timed(work, loss)`, `return work`."""
    home = info.scope.parent
    if home is None or not home.is_function:
        return False
    called = {id(site.call.func) for site in sites}
    own = (n for s in home.body.walk() if not s.blocks for n in s.nodes)
    return not sites or any(type(n) is cst.Name and n.value == info.name and id(n) not in called for n in own)


def _offer(info: FunctionInfo, lifting: Lifting, events: dict[int, list[Event]]) -> None:
    """Enter the function if it and all its calls fit."""
    key = id(info.scope)
    sites = lifting.sites.get(key, [])
    own = all_events(info.scope, info.module, lifting, events)
    names = set(info.scope.locals) | set(info.module.imports.table)
    stored = lifting.stores.of(info.scope)
    handed = handed_of(info, own, names, stored)
    if handed is not None and _handed_out(info, sites):
        return
    if handed is not None:
        handings = [handing_at(handed, s.call, s.module, s.scope) for s in sites]
        if all(handings) and (sites or handed.clears or steps_always(handed, own)):
            handed.called = bool(sites)
            lifting.handed[key] = handed
            lifting.handings |= {id(s.call): h for s, h in zip(sites, handings, strict=True) if h is not None}
        return
    steps = own_step(info.scope, info.module)
    taken = taken_of(info, own, names) if (sites or steps) and not stored else None
    if taken is not None and steps:
        if all(not s.call.args or _above(s) for s in sites):
            if info.cls is not None and (taken.gives or any(through_name(e.stmt) for e in taken.loads)):
                lifting.changing.add(info.cls.qualified)
            taken.steps, taken.gives, taken.returns = True, False, []
            lifting.taken[key] = taken
    elif taken is not None:
        takings = [taking_at(taken, s.call, s.module, s.scope) for s in sites]
        if all(t is not None and usable(t, s.stmt) for t, s in zip(takings, sites, strict=True)):
            lifting.taken[key] = taken
            lifting.takings |= {id(s.call): t for s, t in zip(sites, takings, strict=True) if t is not None}


def _above(site: Site) -> bool:
    """`super().step(closure)` in the step of a subclass: it is an event of that step."""
    return site.scope.name == "step" and site.module.value(site.call.func.value).kind == "builtin_super"  # type: ignore[attr-defined]


def all_events(
    scope: Scope, module: ModuleInfo, lifting: Lifting, events: dict[int, list[Event]] | None = None
) -> list[Event]:
    """The events of a scope, those of the functions that it calls among them; `events` are known ones of its own."""
    own = find(scope, module) if events is None else events[id(scope)]
    return sorted([*own, *lifted(scope, module, lifting), *called_events(scope, module, lifting)], key=_number)


def _number(event: Event) -> int:
    return event.stmt.number


def _all_empty(key: int, lifting: Lifting, events: dict[int, list[Event]]) -> bool:
    """The function clears gradients itself, or every caller hands its loss on when they are empty."""
    if lifting.handed[key].clears or lifting.stores.of(lifting.handed[key].info.scope):
        return True
    for site in lifting.sites.get(key, []):
        own = all_events(site.scope, site.module, lifting, events)
        records = lifting.records.of(site.scope, site.module, own)
        for event in own:
            if event.handing is None or event.node is not site.call:
                continue
            places = event.handing.places
            if any(_in_use(event, o, records, site, lifting) for o in records.owners if o.place in places):
                return False
    return True


def _in_use(event: Event, owner: Owner, records: Records, site: Site, lifting: Lifting) -> bool:
    """Gradients may be there; none came with the call of a caller that leaves none behind itself."""
    before = {number for number, _ in records.held(event, owner)}
    left = {number for number, _ in owner.exit.held} - {ENTRY}
    return bool(before - {ENTRY}) or ENTRY in before and (bool(left) or id(site.scope) in lifting.meeting)


def _all_fed(key: int, lifting: Lifting, events: dict[int, list[Event]], project: Project) -> bool:
    """Every caller has the gradients that the function uses."""
    if lifting.taken[key].steps:
        return True
    info = lifting.taken[key].info
    for site in lifting.sites.get(key, []):
        if site.scope.name == "step" and site.scope.cls is not None and site.scope.cls is info.scope.cls:
            continue  # `step(closure)` of SAM goes backward through its closure: it is refused by itself
        own = all_events(site.scope, site.module, lifting, events)
        records = lifting.records.of(site.scope, site.module, own)
        used = [e for e in own if e.kind == "taken" and e.node is site.call]
        if not all(fed(e, records) for e in used):
            return False
        apart = (
            e for e in used if lifting.freezes and not _told_apart(e, lifting)
        )  # not all parameters have gradients
        if not all(_by_network(e) and thawed(e.stmt, e.place, site.module, project) for e in apart):
            return False
    return True


def _told_apart(event: Event, lifting: Lifting) -> bool:
    """The function knows which parameters its gradients belong to, where some are frozen and have none."""
    assert event.taking is not None
    clips = event.taking.taken.clips
    return event.value.kind == "optimizer" or lifting.frozen_first and (_by_network(event) or clips)


def _by_network(event: Event) -> bool:
    """... as it goes over the network that they are of."""
    assert event.taking is not None
    return all(o.kind == "module" for o in event.taking.taken.owners if o.place == event.name)


def called_events(scope: Scope, module: ModuleInfo, lifting: Lifting) -> list[Event]:
    """The calls of a scope that hand a loss or gradients on."""
    found: list[Event] = []
    for stmt in scope.body.walk():
        for call in stmt.calls:
            if (handing := lifting.handings.get(id(call))) is not None:
                found.append(event_of(handing, stmt, module))
            if (taking := lifting.takings.get(id(call))) is not None:
                found += events_of(taking, stmt)
    return found


def _in_reach(info: FunctionInfo, export: Export, project: Project) -> bool:
    """The function makes the loss itself, and finds an optimizer that could keep its gradients."""
    name = dotted(export.backward.roots[0])
    made = any(name in s.defs for s in info.scope.body.walk())
    return made and bool(reachable(info.scope, info.module, project))


def _loads(scope: Scope, lifting: Lifting, events: dict[int, list[Event]], far: bool) -> bool:
    """The scope uses gradients; `far`: or calls a function that only does that."""
    if any(e.kind in USES for e in events[id(scope)]):
        return True
    called = [lifting.callee.get(id(c)) for s in scope.body.walk() for c in s.calls] if far else []
    kinds = [{e.kind for e in events[id(i.scope)]} for i in called if i is not None]
    return any(k & set(USES) and "backward" not in k for k in kinds)


def _usable(site: Site, export: Export) -> bool:
    """The call stands alone, or names the loss."""
    node = site.stmt.node
    if isinstance(node, cst.Expr):
        return node.value is site.call
    if isinstance(node, cst.Assign) and export.beside is not None:
        return node.value is site.call and len(node.targets) == 1 and bool(_names(node.targets[0].target))
    if isinstance(node, cst.Assign) and export.returns is not None and not export.backward.scaler:
        return node.value is site.call and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
    return False


def _names(target: cst.BaseExpression) -> list[str]:
    """The names that a target is made of, none where it is made of anything else."""
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return [p.value for p in parts if isinstance(p, cst.Name)] if all(isinstance(p, cst.Name) for p in parts) else []


def lifted(scope: Scope, module: ModuleInfo, lifting: Lifting) -> list[Event]:
    """The events that calls of exporting functions are to this scope."""
    found: list[Event] = [x for e in lifting.episodes.values() if e.site.scope is scope for x in e.events()]
    for stmt in scope.body.walk():
        for call in stmt.calls:
            info = lifting.callee.get(id(call))
            export = lifting.exports.get(id(info.scope)) if info is not None else None
            if info is None or export is None or export.closure and not export.called:
                continue
            base = receiving(info, call)
            for clear in export.clears:
                place = _outside(clear.place, info, call, module, base)
                found.append(Event("clear", stmt, call, place, replace(clear.value, place=place), lifted=True))
            value = info.module.value(export.backward.roots[0])
            deps = frozenset(_outside(d, info, call, module, base) for d in value.deps if not d.startswith("@"))
            event = Event(
                "backward", stmt, call, value=Value("tensor", deps=deps), roots=[call], cotangents=[None], lifted=True
            )
            event.scaler = _outside(export.backward.scaler, info, call, module, base)
            event.captured = {n: d for n, d in brought(info, export.backward).items() if "." not in n}
            if export.beside is not None:
                event.beside = _taker(stmt, export.beside)
            elif isinstance(stmt.node, cst.Assign):
                event.name = dotted(stmt.node.targets[0].target)
            found.append(event)
    return found


def _taker(stmt: Stmt, value: cst.BaseExpression) -> str:
    """What takes the value that a function returns beside its loss."""
    if not isinstance(stmt.node, cst.Assign):
        return "_"
    target = code(stmt.node.targets[0].target).strip("()")
    return f"({target})" if isinstance(value, cst.Tuple) else f"({target},)"


def _outside(place: str, info: FunctionInfo, call: cst.Call, module: ModuleInfo, base: str) -> str:
    """A place of the callee in the caller's words."""
    head, _, rest = place.lstrip("^").partition(".")
    if head == "self" and base:
        return base + place.lstrip("^")[4:]
    bound = bind_arguments(
        info, call, [module.value(a.value) for a in call.args], skip_self=info.cls is not None and not info.static
    )
    if head in bound and bound[head].place:
        return bound[head].place + (f".{rest}" if rest else "")
    return place
