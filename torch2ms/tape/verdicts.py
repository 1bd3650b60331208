"""Why a scope, or one event in it, cannot be translated: what is asked before anything is written."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, free_uses, root
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import UNKNOWN, any_overlap, overlaps, within
from torch2ms.tape.forward.carried import carried, reads_itself
from torch2ms.tape.forward.harmless import asked_only, filled_only, only_cut
from torch2ms.tape.forward.properties import computed_anew
from torch2ms.tape.forward.refilled import emptied, kept_anew, left_in_object, put_before
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.forward.stashes import feeding
from torch2ms.tape.forward.unseen import through_unseen, unseen_step
from torch2ms.tape.forward.watched import spelled
from torch2ms.tape.functions.brought import kept_elsewhere
from torch2ms.tape.functions.handing import Handed
from torch2ms.tape.functions.reversible import weights_beside
from torch2ms.tape.functions.taking import Taken
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.again import comes_again, left_over
from torch2ms.tape.ledger.beyond import read_beyond
from torch2ms.tape.ledger.clears import grads_of
from torch2ms.tape.ledger.event import Event
from torch2ms.tape.ledger.given import backward_elsewhere, given_elsewhere
from torch2ms.tape.ledger.hooks import has_hooks, watched
from torch2ms.tape.ledger.ledger import ENTRY, Owner
from torch2ms.tape.ledger.records import LOADS, STEPS, Records
from torch2ms.tape.left_out import LeftOut, filled_at_times, left_out
from torch2ms.tape.uses.freezing import switched_behind, thaws
from torch2ms.tape.uses.stored import unguarded

PLAIN = re.compile(r"[A-Za-z_]\w*([.][A-Za-z_]\w*|\[\d+\])*")  # places that code may name
NO_GRADIENT = "no gradient of `{}` reaches this step: torch leaves it alone, MindSpore's optimizer would move it"

UNTAKEN = "no step or read of the gradients stands in this function"


class Verdicts:
    """Questions about the events of one scope; answers are reasons, "" where nothing stands against it."""

    def __init__(
        self,
        scope: Scope,
        module: ModuleInfo,
        project: Project,
        records: Records,
        handed: Handed | None,
        taken: Taken | None,
    ) -> None:
        self.scope = scope
        self.module = module
        self.project = project
        self.records = records
        self.handed = handed
        self.taken = taken
        self.idle: dict[int, dict[str, str]] = {}  # by id of an event: layers that do not run in it, and why it matters

    def played(self, event: Event) -> bool:
        """What the event differentiates was made by callers, who hand over its playback."""
        return self.handed is not None and event.node is self.handed.backward.node

    def fed(self, event: Event) -> list[Owner]:
        """The owners whose gradients come from the event."""
        if event.handing is None:
            return self.records.takers(event)
        return [o for o in self.records.owners if o.place in event.handing.places]

    def brought(self, owner: Owner) -> bool:
        """Callers bring the gradients of the owner."""
        return self.taken is not None and owner.place in self.taken.variables

    def local_names(self) -> set[str]:
        return self.scope.locals - set(self.scope.params)

    def hopeless(self, takers: dict[int, list[Owner]], scaling: str) -> str:
        """A reason why nothing of this scope can be translated, "" if there is none."""
        for event in self.records.events:
            if event.kind == "backward":
                deps = self.records.root_deps(event)
                made = deps and all(d.startswith(("^", "@")) for d in deps) and not self.played(event)
                if made and not through_unseen(event, self.scope, self.module)[0]:
                    return "the loss is made by the caller of this function"
                for owner in takers[id(event)]:
                    if owner.stored and (left := self.left_out(event, owner, deps)).surely:
                        return NO_GRADIENT.format(left.surely[0])
                apart = all(
                    o.kind not in ("optimizer", "leaf") for o in takers[id(event)]
                )  # clipped or looked at, at most
                if apart and (name := unseen_step(event, self.scope, self.module)):
                    return f"`{name}` may use the gradients it stores"
                if place := weights_beside(event, self.scope, self.records, self.project):
                    return f"a custom function runs it, and the weights of `{place}` get gradients from it as well"
                if not takers[id(event)] and (name := self.stepped_elsewhere(event)):
                    return f"`{name}` was given an optimizer of what it fills, and may step"
                waiting = self.loadless() and has_hooks(self.module) and watched(event, self.module)
                if not takers[id(event)] and self.scope.is_function and not self.unread(event) and not waiting:
                    stepped = any(e.kind in STEPS for e in self.records.events)
                    return "whose gradients it fills is not seen" if stepped else UNTAKEN
            if event.handing is not None:
                if any(not o.stored for o in self.records.takers(event)):
                    return "gradients that a called function fills are used here"
                fed = self.fed(event)
                if added := [o for o in self.records.takers(event) if o.stored and o not in fed]:
                    return f"a called function also adds to the gradients that `{added[0].place}` keeps"
                for owner in fed:
                    if (left := self.left_out(event, owner, self.records.root_deps(event))).surely:
                        return NO_GRADIENT.format(left.surely[0])
            if event.kind == "step_closure":
                return "step(closure) is not translated here"
        keeping = [o for o in self.records.owners if o.stored]
        for event in self.records.lost_fills() if self.scope.is_function else ():
            if not any(owners.concerns(event, o, self.records.owners) for o in keeping):
                return UNTAKEN
        if scaling:
            return scaling
        if name := self.project.remaining.get(id(self.scope), ""):
            return f"{name} leaves gradients in the networks that are trained here, and nothing clears them before"
        clipping = self.project.clipping
        if name := given_elsewhere(self.records.events, self.records.owners, self.scope, self.module, clipping):
            seen = name.rpartition(".")[2] in clipping
            whose = f"`{name}`" if seen else f"`{name}`, which is not seen,"
            return f"{whose} may use the gradients of what it is given"
        if name := backward_elsewhere(self.records.events, self.scope, self.module):
            return f"`{name}`, which is not seen, may go backward from what it is given"
        if part := self.records.beside_stored():
            return f"the gradients of `{part.place}` are a part of those that an optimizer keeps"
        for owner in self.records.owners:
            if owner.looked_at:
                return f"`{owner.place}` may be None, and its gradients are used without asking"
            if why := next(filter(None, (unguarded(e, owner) for e, _ in self.records.gaps(owner))), ""):
                return why
            if (source := comes_again(owner, self.scope, self.module)) and self.records.filled(owner):
                return f"`{owner.place}` is one of `{source}` and keeps its gradient until it comes again"
            if left_over(owner, self.records, self.project):
                return f"gradients of `{owner.place}` are left over from one call of this function to the next"
            if place := self.kept(owner):
                return f"the gradients of `{place}` are not cleared with the others of `{owner.place}`"
            for event in self.records.events:
                if event.kind not in LOADS or not owners.concerns(event, owner, self.records.owners):
                    continue
                if place := read_beyond(event, self.records.owners, self.records.events, self.module, self.project):
                    return f"the gradients of all of `{place}` are read, and `{owner.place}` holds a part of it"
                if owner.kind == "module" and (place := self.unlisted(event)):
                    return f"`{place}` is looked at, and is no parameter of `{owner.place}`"
                held = self.records.held(event, owner)
                stored = [self.records.events[n] for n, _ in held if n != ENTRY]
                if spilled := [e.place for e in stored if e.kind == "spill"]:
                    return f"`{spilled[0]}` leaves gradients in `{owner.place}`, and nothing clears them before"
                if owner.stored and self.records.may_be_empty(event, owner) and (why := unguarded(event, owner)):
                    return why
                if self.passed_by(event, held, takers):
                    return f"a backward call here may fill the gradients of `{owner.place}`, which are of another loop"
                reached = frozenset().union(
                    *(self.records.root_deps(self.records.events[n]) for n, _ in held if n != ENTRY)
                )
                left = self.left_out(event, owner, reached)
                if every := [*left.surely, *left.perhaps]:
                    told = self.tells(every, stored if len(stored) == len(held) else [])
                    if left.surely and not (told and self.module.skips):
                        return NO_GRADIENT.format(left.surely[0])
                if not owner.stored and (why := filled_at_times(event, owner, stored, self.records, self.project)):
                    return why
                held_back = owner.kind == "optimizer" and not owner.plain and not self.module.skips
                around = (self.scope, self.module, self.project, self.records)
                if held_back and thaws(owner, *around):
                    return (
                        "parameters are frozen while training: "
                        "torch leaves them alone, MindSpore's optimizer would move them"
                    )
                if self.project.freezes and switched_behind(owner, *around):
                    return "parameters are frozen or thawed between a forward and its backward call"
                if (
                    owner.kind == "leaf"
                    and (state := owner.before.get(self.records.number[id(event)])) is not None
                    and state.empty
                    and (owners.leaf_made(owner, self.scope) is not None or self.records.filled(owner))
                ):
                    owner.initial = True
                    continue
                if owner.stored:
                    continue
                if not {n for n, _ in held} - {ENTRY} and not self.brought(owner):
                    return f"no backward call of this function fills the gradients of `{owner.place}`"
                mixed = id(self.scope) in self.project.meeting and owner.kind == "optimizer"
                if mixed and (ENTRY, True) in held:
                    return f"another function leaves gradients in `{owner.place}`, and they reach this step"
                if self.records.entry_leaks(owner) and (ENTRY, True) in held:
                    return f"gradients of `{owner.place}` are left over from one call of this function to the next"
        return ""

    def unlisted(self, event: Event) -> str:
        """A leaf that is kept in an attribute, and no Parameter that the network of the same object lists."""
        if event.kind not in ("grad_loop", "leaf_grad"):
            return ""
        return next((d for d in event.value.deps if "." in d and d.rpartition(".")[2] in self.module.weights), "")

    def tells(self, places: list[str], stored: list[Event]) -> bool:
        """The gradient function, if it is one, may tell the optimizer that these layers did not run."""
        stmts = self.scope.body.walk()
        names = {spelled(place, stmts, self.module): NO_GRADIENT.format(place) for place in places}
        if len(stored) != 1 or not all(PLAIN.fullmatch(name) for name in names):
            return False
        self.idle.setdefault(id(stored[0]), {}).update(names)
        self.project.idle.add(self.module.name)
        return True

    def passed_by(self, load: Event, held: frozenset[tuple[int, bool]], takers: dict[int, list[Owner]]) -> bool:
        """What a loop uses comes from outside of it, and nothing seems to use what its own backward call stores."""
        loop = next((a for a in load.stmt.ancestors() if a.is_loop), None)
        if loop is None:
            return False
        inside = [e for e in self.records.events if e.kind == "backward" and loop in e.stmt.ancestors()]
        dead = [e for e in inside if not takers[id(e)]]
        return bool(dead) and not any(self.records.events[n] in inside for n, _ in held if n != ENTRY)

    def left_out(self, event: Event, owner: Owner, reached: frozenset[str]) -> LeftOut:
        return left_out(event, owner, reached, self.scope, self.module, self.project, self.records)

    def kept(self, owner: Owner) -> str:
        """A part of an owner that no clear reaches where others of its parts are cleared one by one, "" if none."""
        clears = [e for e in self.records.events if e.kind == "clear" and owner.cleared_by(e, False)]
        owns = {o for o in owner.owns or () if not o.startswith(("^", "@"))}
        if len(owns) < 2 or not clears or any(e.place == owner.place or e.value.kind != "module" for e in clears):
            return ""
        cleared = frozenset().union(*(e.value.own or {e.place} for e in clears))
        missing = sorted(o for o in owns if not any(overlaps(o, c) for c in cleared))
        return missing[0] if missing else ""

    def crossing(self, event: Event, region: Region, owns: frozenset[str] | None) -> str:
        """A value the region takes from outside that is varied with what it differentiates, "" if there is none."""
        made = {d for s in region.all for i in s.walk() for d in i.defs | i.refills}
        for loop in (a for a in event.stmt.ancestors() if a.is_loop and a.block is region.block):
            made |= loop.defs if any(root(u) in made for u in loop.uses) else set()  # elements of what the forward made
        made |= emptied(region) | kept_anew(region, self.module, self.project)
        made -= self.entering(region)
        called = {dotted(c.func) for s in [*region.all, event.stmt] for i in s.walk() for c in i.calls}
        sources = [(s.node, s) for s in region.all] + [(r, event.stmt) for r in event.roots]
        for source, stmt in sources:
            read = {root(u) for i in stmt.walk() for u in i.uses}
            nodes = gathered(source)
            filled = filled_only(nodes) | asked_only(nodes) | put_before(nodes, stmt, region)
            for node in nodes:
                if type(node) is not cst.Name and type(node) is not cst.Attribute or id(node) in filled:
                    continue
                place = dotted(node)
                value = self.module.value(node)
                if root(place) not in read or within(place.rpartition(".")[0], called):
                    continue
                if place in called or root(place) in region.graphless:
                    continue
                if (
                    not place
                    or place in made
                    or root(place) in made
                    or value.leaf
                    or value.of_leaves
                    or value.kind not in ("tensor", "list", "tuple", "dict", "unknown")
                ):
                    continue
                if value.name in ("module_param", "parameter", "of param", "of parameter") or (
                    value.place and value.place == place and value.kind == "unknown" and place not in self.scope.params
                ):
                    continue
                real = frozenset(d for d in value.deps if not d.startswith("@") and not overlaps(d, place))
                if value.kind == "unknown" and value.place == place:  # whatever callers hand over: data, or an output
                    real = frozenset(d for d in real if self.is_network(d))
                if real and (owns is None or any(d.startswith("^") for d in real) or any_overlap(real, owns)):
                    if only_cut(node, source, self.module) or computed_anew(node, self.module, self.project):
                        continue
                    if root(place) in region.handed_in:
                        region.graphless.add(root(place))
                        continue
                    return place
        if event.lifted:
            return self.lifted_crossing(event, made, owns)
        kept = kept_elsewhere(region.all, made, owns, self.module, self.project)
        return kept or left_in_object(region, owns, self.module) or self.carried_over(event, region, owns)

    def is_network(self, place: str) -> bool:
        """Something of that name is a network in this module."""
        kind = cst.Attribute if "." in place else cst.Name
        return any(dotted(n) == place and self.module.value(n).kind == "module" for n in self.module.of_kind(kind))

    def carried_over(self, event: Event, region: Region, owns: frozenset[str] | None) -> str:
        """A sum of losses that goes from turn to turn of a loop around the region, which is of one turn."""
        inner = [i for s in region.all for i in s.walk()]
        sums = [(i, name) for i in inner for name in {reads_itself(i), *i.sums} if name]
        roots = {u for r in event.roots for u in expression_uses(r, event.stmt)}
        wanted = feeding(event.stmt, roots) if sums else set()
        for stmt, name in sums:
            found = carried(name, stmt, {id(i) for i in inner}) if name in wanted else frozenset()
            after = stmt.out[name].deps if name in stmt.out else found
            real = frozenset(d for d in found & after if not d.startswith("@"))
            if real and (owns is None or any_overlap(real, owns)):
                return name
        return ""

    def entering(self, region: Region) -> set[str]:
        """Parameters of the function that the region reads before it binds their names anew: `loss = loss / steps`."""
        found: set[str] = set()
        bound: set[str] = set()
        for stmt in (i for s in region.all for i in s.walk()):
            found |= stmt.uses - bound
            bound |= stmt.defs
        return found & bound & set(self.scope.params)

    def lifted_crossing(self, event: Event, made: set[str], owns: frozenset[str] | None) -> str:
        """What the called function reads, and what something else made before the region: its name or attribute."""
        for name, deps in event.captured.items():
            if name not in made and (owns is None or any_overlap(deps, owns)):
                return name
        for place in sorted(event.stmt.uses):
            if "." not in place or any(overlaps(place, m) for m in made):
                continue
            head, _, attr = place.rpartition(".")
            holder = self.module.env.get(head) if head != "self" else None
            name = (
                holder.name.rpartition(".")[2]
                if holder is not None
                else (self.scope.cls.name if self.scope.cls is not None else "")
            )
            cls = self.module.classes.get(name)
            value = cls.attr(attr) if cls is not None else None
            if value is None or value.kind not in ("tensor", "list", "tuple", "dict", "unknown"):
                continue
            written = {d for s in self.scope.body.walk() if s.number != event.stmt.number for d in s.defs}
            own = place in event.stmt.defs and place not in written
            real = frozenset(d for d in value.deps if not d.startswith(("@", "^")))
            if real and not own and (owns is None or any_overlap(real, owns)):
                return place
        return ""

    def unread(self, event: Event) -> bool:
        """Nobody can read what the event stores: nothing here does, and its parameters do not leave the function."""
        if not self.loadless():
            return False
        if self.testing() and (not self.project.reads_gradients or self.alone(event)):
            return True
        return self.kept_inside(event)

    def kept_inside(self, event: Event) -> bool:
        """The parameters that the event fills do not leave the function."""
        roots = {root(d) for d in event.value.deps if not d.startswith("@")}
        if not roots or not roots <= self.local_names():
            return False
        for stmt in self.scope.body.walk():
            if isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)) or stmt.number <= event.stmt.number:
                continue
            passed = [a.value for c in stmt.calls for a in c.args]
            if isinstance(stmt.node, (cst.Return, cst.Assign)) and stmt.node.value is not None:
                passed.append(stmt.node.value)
            if any(isinstance(v, cst.Name) and v.value in roots for v in passed):
                return False
        return not any(root(u) in roots for child in self.scope.children for u in free_uses(child))

    def stepped_elsewhere(self, event: Event) -> str:
        """An object that was made around an optimizer of what the event fills: it may step; "" if there is none."""
        stmts = list(self.scope.body.walk())
        names = {n for s in stmts for n, v in s.out.items() if v.kind == "optimizer"} | set(self.scope.params)
        given = [(c, a.value) for s in stmts for c in s.calls for a in c.args
                 if isinstance(a.value, cst.Name) and a.value.value in names]  # fmt: skip
        filled = {root(d) for d in event.value.deps if not d.startswith("@")} if given else set()
        for call, name in given:
            held = self.module.value(name)
            if held.kind == "optimizer" and (held.owns is None or {root(p) for p in held.owns} & filled):
                if self.module.value(call.func).kind in ("class", "unknown", "object"):
                    return dotted(call.func)
        return ""

    def loadless(self) -> bool:
        """Nothing of this function reads gradients, or is handed any."""
        return not any(e.kind in LOADS or e.kind == "handed" for e in self.records.events)

    def alone(self, event: Event) -> bool:
        """Neither the test around the scope, nor what it calls by name or hands its model, looks at gradients."""
        outer = self.scope
        while outer.parent is not None and outer.parent.is_function:
            outer = outer.parent
        stmts = [s for scope in outer.walk() for s in scope.body.walk()]
        called = {dotted(c.func).rpartition(".")[2] for s in stmts for c in s.calls}
        roots = {root(d) for d in event.value.deps if not d.startswith("@")}
        later = [c for s in stmts if s.number > event.stmt.number for c in s.calls]
        looked = any(grads_of(s) for s in stmts) or any(
            isinstance(a.value, cst.Name) and a.value.value in roots
            for c in later if self.module.value(c.func).kind not in ("module", "api", "builtin")
            for a in c.args
        )  # fmt: skip
        return not looked and not called & (self.project.readers | {"step", "clip_grad_norm_", "clip_grad_value_"})

    def testing(self) -> bool:
        """The function is a test: what it leaves in gradients is for nobody."""
        around = self.scope.parent
        names = [self.scope.name.lower(), *([around.name.lower()] if around is not None and around.is_function else [])]
        if self.scope.cls is not None:
            names.append(self.scope.cls.name.lower())
        return any(n.startswith("test") or n.endswith("test") for n in names)

    def own_optimizer(self) -> str:
        """A method of an optimizer of the project's own that may use gradients, "" if none is called."""
        for stmt in self.scope.body.walk():
            for call in stmt.calls:
                if isinstance(call.func, cst.Attribute) and call.func.attr.value not in ("zero_grad", "state_dict"):
                    value = self.module.value(call.func.value)
                    found = self.project.find(value.name, self.module)
                    if isinstance(found, ClassInfo) and found.kind == "optimizer":
                        return dotted(call.func)
        return ""

    def stepping(self, event: Event) -> str:
        """A function of the project, called in this scope, that may let an optimizer step; "" if there is none."""
        if self.records.root_deps(event) <= self.local_leaves():
            return ""
        own = {id(e.node) for e in self.records.events}
        for stmt in self.scope.body.walk():
            for call in stmt.calls:
                name = dotted(call.func)
                receiver = self.module.value(call.func.value) if isinstance(call.func, cst.Attribute) else UNKNOWN
                apart = id(call) in own or receiver.kind in ("optimizer", "scaler", "scheduler")
                if name.rpartition(".")[2] in self.project.stepping and not apart:
                    return name
        return ""

    def local_leaves(self) -> set[str]:
        """Leaves that the scope makes."""
        return {p for s in self.scope.body.walk() for p, v in s.out.items() if v.leaf}

    def reader(self, event: Event) -> str:
        """A function of the project that reads gradients nobody hands it, called behind the event; "" if there is none.

        What it is told to read is seen nowhere: it may be what the event stores.
        """
        own = {id(e.node) for e in self.records.events}
        loops = {id(a) for a in event.stmt.ancestors() if a.is_loop}
        for stmt in self.scope.body.walk():
            again = any(id(a) in loops for a in stmt.ancestors())
            for call in stmt.calls if again or stmt.number > event.stmt.number else ():
                last = dotted(call.func).rpartition(".")[2]
                receiver = self.module.value(call.func.value) if isinstance(call.func, cst.Attribute) else UNKNOWN
                apart = receiver.kind in ("optimizer", "scaler", "scheduler", "tensor") or id(call) in own
                if last in self.project.readers and not apart and self.module.value(call.func).kind != "api":
                    return dotted(call.func)
        return ""

    def placed(self, event: Event) -> bool:
        """Every module behind the root is one whose construction is seen."""
        real = {d for d in event.value.deps if not d.startswith("@")}
        known = {v.place for v in self.module.values.values() if v.kind == "module" and v.name and v.place}
        return all(any(overlaps(d, k) for k in known) for d in real)

    def independent(self, first: Event, second: Event, region: Region) -> bool:
        """The second forward may wait for the update that the first brings: no weights in common, no use between."""
        updated = frozenset().union(*(o.owns or frozenset({o.place}) for o in self.fed(first)))
        if any(o.owns is None for o in self.fed(first)) or any_overlap(updated, self.records.root_deps(second)):
            return False
        made = {root(d) for s in region.all for d in s.all_defs}
        between = [
            s
            for s in region.block.stmts
            if region.all[-1].number < s.number < second.stmt.number and s is not first.stmt
        ]
        return region.block is second.stmt.block and not any({root(u) for u in s.all_uses} & made for s in between)

    def overlap(self, regions: list[tuple[Event, Region]], finder: Finder) -> tuple[Event, Region, Event] | None:
        """A backward with its forward, which a later one needs too, and which costs something to run twice."""
        owner: dict[int, tuple[Event, Region]] = {}
        for event, region in regions:
            for stmt in region.all:
                first, its = owner.setdefault(id(stmt), (event, region))
                if first is not event and not finder.pure(stmt):
                    return first, its, event
        return None

    def foreign(self) -> frozenset[str]:
        """Leaves made in this function, where its optimizers were made by callers."""
        steps = [e for e in self.records.events if e.kind in STEPS]
        if not self.scope.is_function or any(e.place.partition(".")[0] in self.local_names() for e in steps):
            return frozenset()
        return frozenset(
            p for s in self.scope.body.walk() for p, v in s.out.items() if v.leaf and p in self.scope.locals
        )

    def repeats(self) -> bool:
        """Running a forward twice gives the same values both times, and changes nothing."""
        return not (self.project.moves_state or self.project.draws)
