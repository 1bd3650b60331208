"""Why a scope, or one event in it, cannot be translated: what is asked before anything is written."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, any_overlap, overlaps
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.ledger.clears import grads_of
from torch2ms.tape.ledger.records import LOADS, STEPS, Records
from torch2ms.tape.model import Event, Handed, Owner, Taken
from torch2ms.tape.uses.resets import leaves_zeros


class Verdicts:
    """Questions about the events of one scope; '""' and False where nothing stands against it."""

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
        self.twice: set[tuple[int, int]] = set()  # ids of events that both run what their forwards share
        self.idle: dict[int, dict[str, str]] = {}  # by id of an event: layers that do not run in it, and why it matters

    def played(self, event: Event) -> bool:
        """What the event differentiates was made by callers, who hand over its playback."""
        return self.handed is not None and event.node is self.handed.backward.node

    def fed(self, event: Event) -> list[Owner]:
        """The owners whose gradients come from the event."""
        if event.handing is None:
            return self.records.takers(event)
        return [o for o in self.records.owners if o.place in event.handing.places]

    def local_names(self) -> set[str]:
        return self.scope.locals - set(self.scope.params)

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
        """Every module and leaf behind the root is one whose construction is seen."""
        real = {d for d in event.value.deps if not d.startswith("@")}
        values = [v for v in self.module.values.values() if v.place]
        zeros = any(e.kind == "clear" and leaves_zeros(e) for e in self.records.events)  # made of the gradient before
        known = {v.place for v in values if v.leaf and not zeros or v.kind == "module" and v.name}
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

    def overlap(self, regions: list[tuple[Event, Region]], finder: Finder) -> tuple[Event, Region, Region] | None:
        """A backward with its forward, which a later one needs too, and which costs something to run twice."""
        owner: dict[int, tuple[Event, Region]] = {}
        for event, region in regions:
            for stmt in region.all:
                first, its = owner.setdefault(id(stmt), (event, region))
                if first is not event and not finder.pure(stmt) and (id(first), id(event)) not in self.twice:
                    return first, its, region
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
