"""Gradients that live longer than one call: optimizers that keep them in an attribute of their own.

A function that steps every few calls, a method that goes backward while another one steps, a `zero_grad` that stands in
a third: what `.grad` holds crosses the borders of functions. There `optimizer.grads` takes its place: `None` where the
optimizer is made and where gradients are cleared, filled or added to by gradient calls, read by the step. All functions
that may meet such an optimizer go by it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.sites import Site, bound_arguments, overriding, receiver, receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value, any_nested, any_overlap
from torch2ms.tape.forward.captured import generates
from torch2ms.tape.functions.aliases import ANY, Aliases, Creation, Key
from torch2ms.tape.functions.cleared_unseen import cleared_unseen, left_unseen, runs_unseen
from torch2ms.tape.functions.flows import Part, settle, uses_left
from torch2ms.tape.functions.made_here import handed_in, local, makes
from torch2ms.tape.functions.outsiders import trained_outside
from torch2ms.tape.functions.own_steps import own_step
from torch2ms.tape.functions.reach import Known, Reach, used_as_values
from torch2ms.tape.functions.unmet import unmet
from torch2ms.tape.functions.within import by_attribute, own_module, reachable
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import ENTRY, LEFT_OVER, Event, Owner

ROUNDS = 5  # of callers that are asked whether they call once
OUT_OF_SIGHT = "<optimizer>"  # its place in a scope that only calls those that have it


@dataclass(eq=False)
class Stores:
    """The optimizers that keep gradients, as each scope knows them."""

    owners: dict[int, list[Owner]] = field(default_factory=dict)  # by id of the scope
    touches: dict[int, list[Event]] = field(default_factory=dict)  # by id of the scope
    creations: list[tuple[Key, Creation]] = field(default_factory=list)
    late: list[tuple[Key, ModuleInfo, str, Stmt]] = field(default_factory=list)  # where no creation is the begin
    freed: set[int] = field(default_factory=set)  # scopes that callers handed gradients, which now find them
    again: dict[int, str] = field(default_factory=dict)  # by id of a scope: its optimizer, whose parameters hold more
    used: set[Key] = field(default_factory=set)  # groups whose gradients are written with the optimizer
    filled: set[Key] = field(default_factory=set)  # groups to which a backward call adds gradients

    def of(self, scope: Scope) -> list[Owner]:
        return self.owners.get(id(scope), [])


def find_stores(known: Known) -> Stores:
    """The stores of a project; none where all gradients live within one function."""
    search = _Search(known)
    known.project.unmet = unmet(search.records, known)
    wanted = [(s, m, p) for s, m in search.scopes for p in search.needs(s, m)]
    leaving = [(s, m, p) for s, m in search.scopes for p in search.leaves_some(s, m)]
    if not wanted and not leaving:
        return Stores()
    search.connect()
    used = search.loaded()
    groups = {key for s, m, place in wanted if (key := search.wide(place, s, m)) in used}
    groups -= {search.wide(place, s, m) for s, m, place in wanted if trained_outside(s, m, search.aliases)}
    found = Stores()
    for scope, module, place in leaving:
        key = search.aliases.find(search.aliases.key(place, scope, module))
        made = [c for k, c in search.aliases.creations if search.aliases.find(k) == key and c.stmt.block.scope is scope]
        if any(not search.once(c.stmt, scope, _models(c)) for c in made):
            found.again[id(scope)] = place
    for group in groups:
        search.enter(group, found)
    known.project.clearing = left_unseen(search.scopes, known, search.records, found.owners)
    return found


class _Search:
    def __init__(self, known: Known) -> None:
        self.known = known
        self.project = known.project
        self.scopes = [
            (s, m) for m in self.project.modules.values() for s in m.scope.walk() if id(s) not in known.settled
        ]
        self.events: dict[int, list[Event]] = {id(s): known.everything(s, m) for s, m in self.scopes}
        self.records = {id(s): known.records.of(s, m, self.events[id(s)]) for s, m in self.scopes if self.events[id(s)]}
        self.named: dict[Key, str] = {}

    # --- which optimizers have to keep their gradients

    def needs(self, scope: Scope, module: ModuleInfo) -> set[str]:
        """Places of optimizers in whose gradients this scope meets other calls."""
        records = self.with_clears(scope, module)
        apart = id(scope) in self.known.handed | self.known.taken or own_step(scope, module)
        if records is None or apart or any(e.problem or e.kind == "step_closure" for e in records.events):
            return set()
        found = set()
        for owner in records.owners:
            if owner.kind != "optimizer":
                continue
            for event in records.events:
                if event.kind not in LOADS or not concerns(event, owner, records.owners):
                    continue
                held = records.held(event, owner)
                alone = not {n for n, _ in held} - {ENTRY}
                meets = (ENTRY, True) in held and (records.entry_leaks(owner) or id(scope) in self.project.meeting)
                if meets or alone and (ENTRY, True) in held:
                    found.add(owner.place)
        if not found and scope.is_function:
            found = self.used(records, scope, module)
        if not found and (scope.is_function or self.loaded_elsewhere(scope)):
            lost = [e for e in records.events if e.kind == "backward" and not records.takers(e)]
            for event in (e for e in lost if id(e.node) not in self.project.unmet):
                found |= self.reaching(self.deps(event, scope, module), scope, module)
            for event in records.lost_fills():
                meant = [o for o in records.owners if concerns(event, o, records.owners)]
                places = frozenset().union(*(o.owns or {o.place} for o in meant))
                found |= self.reaching(places, scope, module)
        return found or cleared_unseen(scope, self.known, self.records)

    def with_clears(self, scope: Scope, module: ModuleInfo) -> Records | None:
        """The records of the scope, where what it calls clears, too."""
        records = self.records.get(id(scope))
        clears = self.known.cleared(scope, module) if records is not None else []
        if not clears:
            return records
        events = sorted([*self.events[id(scope)], *clears], key=lambda e: e.stmt.number)
        return self.known.records.of(scope, module, events)

    def used(self, records: Records, scope: Scope, module: ModuleInfo) -> set[str]:
        """Optimizers of networks whose gradients the scope finds and uses, without naming the optimizers."""
        deps: set[str] = set()
        for event in records.events:
            for owner in records.owners if event.kind in LOADS else ():
                if owner.kind == "module" and concerns(event, owner, records.owners):
                    if not {n for n, _ in records.held(event, owner)} - {ENTRY}:
                        deps |= owner.owns or {owner.place}
            if event.kind[:4] == "clip" and not any(concerns(event, o, records.owners) for o in records.owners):
                deps |= event.value.deps  # lists of the parameters of several networks
        return self.reaching(frozenset(deps), scope, module)

    def loaded_elsewhere(self, scope: Scope) -> bool:
        """Some other function uses gradients of an optimizer that it did not get from its callers."""
        return any(
            o.kind == "optimizer" and root(o.place) not in r.scope.params
            for key, r in self.records.items() if key != id(scope)
            for o in r.owners
        )  # fmt: skip

    def leaves_some(self, scope: Scope, module: ModuleInfo) -> list[str]:
        """Optimizers of a function that end with gradients which one made over the same parameters would start with."""
        records = self.records.get(id(scope))
        if records is None or not scope.is_function:
            return []
        found = []
        for owner in records.owners:
            own = owner.place in scope.locals and owner.place not in scope.params
            if owner.kind != "optimizer" or not own or not owner.exit.held:
                continue
            probe = Owner("optimizer", owner.place, owner.owns, stored=True)
            entered = Records(scope, module, list(records.events), stored=[probe])
            met = next(o for o in entered.owners if o.place == owner.place and o.kind == "optimizer")
            loads = [e for e in entered.events if e.kind in LOADS and concerns(e, met, entered.owners)]
            if any((ENTRY, True) in entered.held(e, met) for e in loads):
                found.append(owner.place)
        return found

    def deps(self, event: Event, scope: Scope, module: ModuleInfo) -> frozenset[str]:
        """What a root is varied with; a loss that methods of the same object hand over, in their words."""
        deps = event.value.deps if event.lifted else self.records[id(scope)].root_deps(event)
        info, sites = module.functions.get(id(scope)), self.known.sites.get(id(scope), [])
        if info is None or not all(dotted(s.call.func).rpartition(".")[0] == "self" for s in sites):
            return deps
        bound = [(s, bound_arguments(info, s.call)) for s in sites]
        names = [d[1:] for d in deps if d.startswith("@")]
        found = deps.union(*(s.module.value(a[n].value).deps for s, a in bound for n in names if n in a))
        return found.union(*(v for n, v in self.stand_ins(scope, module).items() if n in deps))

    def stand_ins(self, scope: Scope, module: ModuleInfo) -> dict[str, frozenset[str]]:
        """Parameters of a method under which its own object always hands over modules of its own, and these."""
        info, sites = module.functions.get(id(scope)), self.known.sites.get(id(scope), [])
        if info is None or scope.cls is None or not sites or scope in self.known.unseen:
            return {}
        if not all(dotted(s.call.func).rpartition(".")[0] == "self" for s in sites):
            return {}
        bound = [{n: own_module(a.value, s.module) for n, a in bound_arguments(info, s.call).items()} for s in sites]
        given = {n: [b[n] for b in bound if n in b] for n in scope.params[1:]}
        return {n: frozenset(places) for n, places in given.items() if len(places) == len(sites) and all(places)}

    def reaching(self, deps: frozenset[str], scope: Scope, module: ModuleInfo) -> set[str]:
        """The optimizers from outside of a scope that hold some of these."""
        known = reachable(scope, module, self.project)
        return {place for place, value in known.items() if self.reached(value, deps, scope, module)}

    def reached(self, value: Value, deps: frozenset[str], scope: Scope, module: ModuleInfo) -> bool:
        """An optimizer from outside of a scope surely holds what a root there is varied with."""
        real = frozenset(d for d in deps if not d.startswith(("@", "^")) and not handed_in(d, scope))
        if value.owns is None or not real:
            return False
        return any_overlap(value.owns | by_attribute(value.owns, scope, module, self.project), real)

    def widen(self, owner: Owner, scope: Scope, module: ModuleInfo) -> Owner:
        """Parameters of a method that stand for modules of an optimizer are its own, too."""
        if owner.owns is not None:
            named = {o: frozenset({o}) | by_attribute(frozenset({o}), scope, module, self.project) for o in owner.owns}
            hidden = set(scope.params) - {"self"} if owner.place.startswith("self.") else set()  # given by callers
            known = frozenset().union(*named.values()) - hidden
            inside = {
                n: own for n, own in self.stand_ins(scope, module).items()
                if all(any(p == o or p.startswith(f"{o}.") for o in known) for p in own)
            }  # fmt: skip
            owner.owns = owner.owns - hidden | inside.keys()
            turns = frozenset().union(*inside.values())
            owner.in_turn = frozenset(inside) if all(names & turns for names in named.values()) else frozenset()
        return owner

    # --- which names mean them

    def connect(self) -> None:
        values = used_as_values(self.project)
        self.valued = values
        self.aliases = Aliases(self.project, self.known.callee, self.known.sites, self.known.unseen.also(values))

    def wide(self, place: str, scope: Scope, module: ModuleInfo) -> Key:
        return self.aliases.wide(self.aliases.key(place, scope, module))

    def loaded(self) -> set[Key]:
        """The groups whose gradients something in the project uses: who else finds what is kept is not seen."""
        return {
            self.wide(owner.place, scope, module)
            for scope, module in self.scopes if (records := self.records.get(id(scope))) is not None
            for owner in self.optimizers(records)
            if any(e.kind in LOADS and concerns(e, owner, records.owners) for e in records.events)
        }  # fmt: skip

    def kept_in(
        self, scope: Scope, module: ModuleInfo, records: Records, group: Key, creations: list[tuple[Key, Creation]]
    ) -> list[Owner] | None:
        """The optimizers of a group that a scope meets, with gradients of their own; None where that cannot be."""
        used = [o for o in self.optimizers(records) if self.wide(o.place, scope, module) == group]
        kinds = {self.aliases.find(self.aliases.key(o.place, scope, module)) for o in used}
        met = self.met(group, kinds, scope, module, records)
        if len(kinds) < len(used) and group != ANY and not self.made_apart(used, creations, scope, module):
            return None  # one optimizer under two names
        given = group == ANY and any(handed_in(o.place, scope) for o in used)
        if given and not all(handed_in(p, scope) for p in met):
            return None  # a caller may hand over the very optimizer that the object has
        if any(not all(p.isidentifier() for p in o.place.split(".")) for o in used):
            return None
        if any(e.scaler for e in records.events) and used and _told_apart(records):
            return None
        if used and scope.is_function and generates(scope):
            return None
        if module.held and (used or met):
            return None  # what stays as it is knows of no such attribute
        named = met or self.optimizers(records)
        if not named and self.strange(records, scope, module):
            return None
        made = frozenset(id(c.stmt) for _, c in creations)
        kept = [Owner("optimizer", o.place, o.owns, plain=o.plain, ordered=o.ordered, stored=True) for o in used]
        kept += [
            Owner("optimizer", p, v.owns, ordered=v.ordered, stored=True, assumed=_told(p, v)) for p, v in met.items()
        ]
        for owner in kept:
            owner.made, owner.group = made, group
        return [self.widen(o, scope, module) for o in kept]

    def enter(self, group: Key, found: Stores) -> None:
        """All scopes that may meet the optimizers of a group keep their gradients with them, or none does."""
        owners: dict[int, list[Owner]] = {}
        creations = [(k, c) for k, c in self.aliases.creations if self.aliases.wide(k) == group]
        made = frozenset(id(c.stmt) for _, c in creations)
        for scope, module in self.scopes:
            if (records := self.records.get(id(scope))) is not None:
                kept = self.kept_in(scope, module, records, group, creations)
                if kept is None:
                    return
                owners[id(scope)] = kept
        opened = any(self.aliases.wide(k) == group for k in self.aliases.open)
        if not self.fit(creations) or opened and not self.clears(owners):
            return
        begun = group != ANY and not any(self.aliases.find(k) == group for k in self.aliases.unnamed)
        scopes = {id(s): (s, m) for s, m in self.scopes}
        for key, kept in owners.items():
            scope, module = scopes[key]
            for owner in kept:
                if opened:
                    owner.assumed.add(f"callers outside neither fill nor clear the gradients of `{owner.place}`")
        reach = Reach(self.known, {k for k, kept in owners.items() if kept})
        touched: dict[int, list[Event]] = {}
        for key, kept in owners.items():
            effects = {o.place: LEFT_OVER for o in kept}
            calls = reach.calls(*scopes[key]) if kept else ()
            touched[key] = [Event("touch", s, c, effects=dict(effects)) for s, c in calls]
        if not any(self.meets(owner, *scopes[key], touched[key]) for key, kept in owners.items() for owner in kept):
            return  # whoever uses gradients has cleared what others leave
        found.creations += [(group, c) for _, c in creations]
        found.freed |= self.known.taken & {k for k, kept in owners.items() if kept}
        for key, kept in owners.items():
            touches = touched[key]
            if kept:
                found.owners.setdefault(key, []).extend(kept)
                found.touches.setdefault(key, []).extend(touches)
            for owner in () if begun else kept:
                scope, module = scopes[key]
                new = any(owner.place in s.defs and id(s) in made for s in scope.body.walk())
                if not new and not self.begins_clear(owner, scope, module, touches):
                    first = min(self.events[key], key=lambda e: e.stmt.number).stmt
                    found.late.append((group, module, owner.place, first))
        if group != ANY and max(len(kept) for kept in owners.values()) == 1:
            self.settle(found, {k for k, kept in owners.items() if kept}, reach, creations)

    def meets(self, owner: Owner, scope: Scope, module: ModuleInfo, touches: list[Event]) -> bool:
        """Something in the scope uses gradients that another call may have left there, or it is called unseen."""
        events, unseen = self.events[id(scope)], scope in self.known.unseen or scope.name in self.valued
        unseen |= runs_unseen(scope, self.known, self.records)
        return bool(events) and unseen or uses_left(owner, scope, module, [*events, *touches])

    def made_apart(
        self, used: list[Owner], creations: list[tuple[Key, Creation]], scope: Scope, module: ModuleInfo
    ) -> bool:
        """Each name of a scope means an optimizer of its own, though some function is handed all of them in turn."""
        named = {key for key, _ in creations}
        made = {id(c.stmt) for _, c in creations}
        bound = {id(s) for s in scope.body.walk() if s.defs & {o.place for o in used}}
        return bound <= made and all(self.aliases.key(o.place, scope, module) in named for o in used)

    def begins_clear(self, owner: Owner, scope: Scope, module: ModuleInfo, touches: list[Event]) -> bool:
        """The first that a scope does to the gradients that an optimizer keeps is to clear them."""
        events = sorted([*self.events[id(scope)], *touches], key=lambda e: e.stmt.number)
        clear = next((e for e in events if e.kind == "clear" and not e.lifted and e.place == owner.place), None)
        if clear is None or clear.stmt.block is not scope.body:
            return False
        records = Records(scope, module, events, stored=[owner])
        mine = [
            e for e in events
            if (owner.place in {o.place for o in records.takers(e)} if e.kind == "backward" else e.kind != "clear")
            and not (e.kind == "step" and e.place != owner.place)
        ]  # fmt: skip
        return all(e.stmt.number > clear.stmt.number for e in mine)

    def settle(self, found: Stores, kept: set[int], reach: Reach, creations: list[tuple[Key, Creation]]) -> None:
        """Find out what the one optimizer of a group holds where functions are entered and left."""
        parts: list[Part] = []
        settled: dict[int, Owner] = {}  # by id of the scope, which may have optimizers of other groups as well
        made = frozenset(id(c.stmt) for _, c in creations)
        for scope, module in reach.ways.every:
            key = id(scope)
            if key in kept:
                owner = settled[key] = found.owners[key][-1]
                own, touches = self.events[key], [t for t in found.touches[key] if owner.place in t.effects]
            elif touches := [Event("touch", s, c) for s, c in reach.calls(scope, module)]:
                place = next((c.place for _, c in creations if c.stmt.block.scope is scope), OUT_OF_SIGHT)
                own, owner = [], Owner("optimizer", place, None, stored=True, made=made)
            else:
                continue
            seen = scope not in self.known.unseen and scope.name not in self.valued
            parts.append(Part(scope, module, own, touches, owner, self.known.sites.get(key, []) if seen else None))
        several = Counter(id(e.stmt) for p in parts for e in p.touches)  # of one statement: in which order is not asked
        certain = {
            id(e.node) for p in parts for e in p.touches
            if (i := self.known.callee.get(id(e.node))) is not None
            and not overriding(i) and several[id(e.stmt)] == 1
        }  # fmt: skip
        for part in parts:
            if part.sites is not None and any(id(s.call) not in certain for s in part.sites):
                part.sites = None
        settle(parts, self.known.callee, certain)
        for part in parts:
            if id(part.scope) in kept:
                others = [o for o in found.owners[id(part.scope)] if o is not settled[id(part.scope)]]
                found.owners[id(part.scope)] = [*others, part.owner]

    def optimizers(self, records: Records) -> list[Owner]:
        """The optimizers that a scope names: those that step, and those that it only clears."""
        found = [o for o in records.owners if o.kind == "optimizer"]
        for event in records.events:
            if (
                event.kind == "clear"
                and event.value.kind == "optimizer"
                and event.place not in {o.place for o in found}
            ):
                found.append(Owner("optimizer", event.place, event.value.owns, ordered=event.value.ordered))
        return found

    def met(self, group: Key, kinds: set[Key], scope: Scope, module: ModuleInfo, records: Records) -> dict[str, Value]:
        """Optimizers of the group whose gradients are filled, cleared or used here, though nothing names them."""
        found: dict[str, Value] = {}
        seen = set(kinds)
        stores = [e for e in records.events if e.kind in ("backward", "handed")]
        clears = [e for e in records.events if e.kind == "clear"]
        loads = [e for e in records.events if e.kind in ("clip_norm", "clip_value", "grad_loop", "leaf_grad")]
        for place, value in reachable(scope, module, self.project).items():
            key = self.aliases.key(place, scope, module)
            if self.aliases.wide(key) != group or self.aliases.find(key) in seen:
                continue
            probe = Owner("optimizer", place, value.owns)
            if (
                any(self.reached(value, self.deps(e, scope, module), scope, module) for e in stores)
                or any(self.reached(value, e.value.deps or frozenset({e.place}), scope, module) for e in loads)
                or any(probe.cleared_by(e, False) for e in clears if not handed_in(e.place, scope))
            ):
                seen.add(self.aliases.find(key))
                found[place] = value
        return found

    def once(self, stmt: Stmt, scope: Scope, models: set[str], depth: int = 0) -> bool:
        """A statement does not run again for the same models, as far as is seen."""
        inner = next((a for a in stmt.ancestors() if a.is_loop), None)
        turn = set(map(id, inner.walk())) if inner is not None else set()
        given: set[str] = set()  # parameters behind the models
        for model in models:
            bound = [s for s in scope.body.walk() if model in s.defs and s is not stmt]
            new = [s for s in bound if makes(s, scope)]
            if inner is not None and not any(id(s) in turn for s in new):
                return False
            if not new and bound:
                given |= {root(u) for s in bound for u in s.uses} & set(scope.params)
            elif not new and not scope.is_module:
                given.add(root(model) if root(model) in scope.params else "self" if scope.cls is not None else "")
        if not given or given == {"self"} and scope.name == "__init__" or depth > ROUNDS:
            return True
        asked = []
        for site in self.known.sites.get(id(scope), []) or self.aliases.constructed.get(id(scope), []):
            places = {p for p in self.places(given, scope, site) if p}
            asked.append((id(site.scope), frozenset(places)))
            if not self.once(site.stmt, site.scope, places, depth + 1):
                return False
        return len(set(asked)) == len(asked)

    def places(self, given: set[str], scope: Scope, site: Site) -> set[str]:
        """What a call hands over as these parameters, where that is a place."""
        names = scope.params[1:] if scope.cls is not None else scope.params
        free = iter(names)
        bound = {a.keyword.value if a.keyword is not None else next(free, ""): a.value for a in site.call.args}
        found = {dotted(bound[g]) for g in given if g in bound}
        callee = self.known.callee.get(id(site.call))
        if "self" in given and callee is not None and receiver(callee, site.call) is not None:
            found.add(receiving(callee, site.call))
        return found

    def clears(self, owners: dict[int, list[Owner]]) -> bool:
        """Some function of the group clears: it does not leave that to callers outside."""
        return any(
            o.cleared_by(e, False) for k, kept in owners.items() for o in kept
            for e in self.events[k] if e.kind == "clear"
        )  # fmt: skip

    def strange(self, records: Records, scope: Scope, module: ModuleInfo) -> bool:
        """Without an optimizer in sight, the scope fills or clears gradients that may be those of any."""
        for event in records.events:
            called = id(event.node) in self.known.callee  # a method of the project, which has events of its own
            if event.kind == "clear" and self.for_callers(event, scope):
                continue
            if event.kind == "clear" and event.value.kind not in ("tensor", "optimizer") and not called:
                return True
            if event.kind in ("backward", "handed") and not local(self.deps(event, scope, module), scope):
                return True
        return False

    def for_callers(self, event: Event, scope: Scope) -> bool:
        """It clears what it is given, and every call of it is seen: the callers have the event, too."""
        return handed_in(event.place, scope) and scope not in self.known.unseen and scope.name not in self.valued

    def fit(self, creations: list[tuple[Key, Creation]]) -> bool:
        """No optimizer follows another one over the same parameters: those would keep what the first has left."""
        if any(not self.once(c.stmt, c.stmt.block.scope, _models(c)) for _, c in creations):
            return False
        for number, (key, one) in enumerate(creations):
            for other_key, other in creations[number + 1 :]:
                mine, others = one.value.owns, other.value.owns
                apart = mine is not None and others is not None and not any_nested(mine, others)
                rebound = self.aliases.find(key) == self.aliases.find(other_key)  # `global opt` in a function
                near = one.module is other.module and (one.stmt.block.scope is other.stmt.block.scope or rebound)
                if near and not apart and not one.stmt.excludes(other.stmt):
                    return False
        return True


def _told(place: str, value: Value) -> set[str]:
    """What has to be said of an optimizer that was made out of sight."""
    modules = ", ".join(f"`{o}`" for o in sorted(value.owns or ()))
    return {f"`{place}` holds the parameters of {modules}"} if value.likely and modules else set()


def _models(creation: Creation) -> set[str]:
    """The places behind the parameters that a new optimizer gets."""
    scope, owns = creation.stmt.block.scope, creation.value.owns
    places = {o for o in owns if not o.startswith(("@", "^"))} if owns else set()
    return places or {u for u in creation.stmt.uses if root(u) in {*scope.params, *scope.locals}}


def _told_apart(records: Records) -> bool:
    """Gradients are unscaled, or the scale is updated, in another function than the step that has to know of it."""
    kinds = {e.kind for e in records.events}
    return bool(kinds & {"unscale", "scaler_update"}) and "scaler_step" not in kinds
