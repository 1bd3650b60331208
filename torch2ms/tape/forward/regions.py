"""The forward region of a backward call: the statements that become the differentiated function."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap, overlaps
from torch2ms.tape.forward.activity import Activity, Owns
from torch2ms.tape.forward.alike import alike, shared_too
from torch2ms.tape.forward.asked_first import invariant
from torch2ms.tape.forward.backwards import Backwards, Level
from torch2ms.tape.forward.captured import captured
from torch2ms.tape.forward.dependents import silenced
from torch2ms.tape.forward.effects import RUN, clash, effects, leaves, pure
from torch2ms.tape.forward.nested import nested
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.steps import (
    added_to,
    changed_before,
    puts_back,
    same_object,
    written_directly,
)
from torch2ms.tape.ledger.events import LEFT
from torch2ms.tape.model import Event

INTERRUPTED = "something between its statements has to happen in between"


def _only_reads(event: Event) -> bool:
    """A call that is handed gradients, and makes something of them and of the parameters: a forward may contain it."""
    taking, node = event.taking, event.stmt.node
    return taking is not None and not taking.taken.gives and isinstance(node, cst.Assign) and node.value is taking.call


class Finder:
    """Finds regions in one scope. `busy` are statements that must keep their place: events, and regions of others."""

    def __init__(self, module: ModuleInfo, project: Project, dropped: set[int], events: list[Event]) -> None:
        self.module = module
        self.dropped = dropped
        kept = {id(e.stmt) for e in events if not _only_reads(e)}
        self.event_stmts = kept - dropped
        self.constant = {id(e.stmt) for e in events if nested(e)}
        self.taken: dict[int, Region] = {}
        self.activity = Activity(module)
        self.captured, self.alike = captured(module), alike(module, project)
        self.mixed: set[int] = set()  # `with` blocks of mixed precision
        self.draws = True  # networks may draw random numbers
        self.repeating = False  # a forward outside of a loop may run again in each turn

    def without(self, event: Event) -> Finder:
        """One that has found nothing yet, for a scope in which the event happens together with another."""
        other = copy(self)
        other.dropped, other.event_stmts = self.dropped | {id(event.stmt)}, self.event_stmts - {id(event.stmt)}
        other.taken = {}
        return other

    def find(self, event: Event, owns: Owns, active: set[int] | None = None) -> Region:
        """The region of an event whose gradients go to the owners of `owns` (None: to anyone).

        `active` names the varied statements where they are known otherwise.
        """
        region = self.cut(event, owns, active)
        if not region.problem and any(inner.off for stmt in region.all for inner in stmt.walk()):
            region.problem = LEFT
        if not region.problem and any(inner.rebinds for stmt in region.all for inner in stmt.walk()):
            region.problem = "a nested function that it calls binds a name of this function"
        if not region.problem and (name := self.captured.rebound(region.all, event.stmt)):
            region.problem = f"a function that it calls reads `{name}`, which is bound between its statements"
        if not region.problem and (name := self.overwritten(region)):
            region.problem = f"`{name}` is written into where gradients are off, which MindSpore would record"
        if not region.problem and (name := changed_before(region.all, event.stmt, self.module)):
            region.problem = f"`{name}` shows its memory to the forward, and changes before the backward call"
        return region

    def overwritten(self, region: Region) -> str:
        """A tensor with a graph that a statement under no_grad changes in a way that is not written apart; or ""."""
        made: set[str] = set()
        for stmt in (inner for s in region.all for inner in s.walk()):
            if stmt.muts and stmt.modes and silenced(stmt, self.module) and (hit := sorted(stmt.muts & made)):
                if hit != [written_directly(stmt)]:
                    return hit[0]
            made |= {p for p, v in stmt.out.items() if p in stmt.defs and v.kind == "tensor" and v.deps and not v.leaf}
        return ""

    def cut(self, event: Event, owns: Owns, active: set[int] | None) -> Region:
        """The statements that feed the event, whether or not they may become a function."""
        self.activity.known = active
        back = Backwards(event, owns, self.activity, self.captured, self.event_stmts)
        back.walk()
        start, levels = event.stmt, back.levels
        region = Region(event, start.block, graphless=back.graphless, handed_in=back.handed_in)
        between = back.chain[: back.outermost]
        if not between:
            self.fill(region, levels[0], start)
        elif all(self.transparent(s, start) for s in between):
            self.through(region, levels[: len(between) + 1], between)
        elif all(isinstance(s.node, cst.If) for s in between):
            self.under_guards(region, levels[: len(between) + 1], between)
        else:
            kinds = "/".join(sorted({type(s.node).__name__.lower() for s in between} - {"if"}))
            region.problem = f"its forward stands outside the {kinds} statement that holds the backward call"
        return region

    def through(self, region: Region, levels: list[Level], between: list[Stmt]) -> None:
        """The forward stands in front of blocks that run as if they were not there; each turn of a loop may end it."""
        ending = levels[0].active if self.repeating else []
        if any(level.active for level in levels[bool(ending) : -1]):
            region.problem = "its forward is spread over several blocks"
            return
        self.fill(region, levels[-1], between[-1])
        if ending:
            inner = Region(region.event, region.event.stmt.block)
            self.fill(inner, levels[0], region.event.stmt)
            region.each, region.problem = inner.stmts, region.problem or inner.problem
            region.cut = region.cut or inner.cut
        region.tried = any(isinstance(s.node, cst.Try) for s in between)
        if region.cut and not region.problem:
            region.problem = INTERRUPTED

    def under_guards(self, region: Region, levels: list[Level], between: list[Stmt]) -> None:
        """The forward stands in front of conditions, and perhaps goes on under the innermost."""
        region.guards = between[::-1]
        if any(level.active for level in levels[1:-1]):
            region.problem = "its forward is spread over several nested conditions"
            return
        start = region.event.stmt
        region.waiting = bool(levels[0].active)
        self.fill(region, levels[-1], between[-1])
        inner = Region(region.event, start.block)
        self.fill(inner, levels[0], start)
        region.guarded = inner.stmts
        region.after += inner.after
        region.problem = region.problem or inner.problem or self.first_in_guard(region, start, levels[0].feeding)
        asked_first = len(region.guards) == 1 and invariant(region.guards[0], region)
        if region.guarded and region.stmts and not asked_first and not region.problem:
            live = liveness.read_after(region.block, region.stmts, region.block.stmts.index(between[-1]))
            if not all(self.pure(s) for s in region.stmts) or live & {d for s in region.stmts for d in s.all_defs}:
                region.problem = "its forward is spread over conditions that cannot be asked before it"
        if inner.cut and not region.problem:
            region.problem = INTERRUPTED

    def first_in_guard(self, region: Region, start: Stmt, feeding: list[Stmt]) -> str:
        """Take in what the guarded part needs: the gradient is taken where the guard begins, before all else there."""
        asked = set() if region.event.lifted else {u for r in region.event.roots for u in expression_uses(r, start)}
        needed = {root(u) for s in region.guarded for u in s.all_uses} | {root(u) for u in asked}
        more: list[Stmt] = []
        for stmt in reversed([s for s in feeding if s.number < start.number and s not in region.guarded]):
            if {root(d) for d in stmt.all_defs | stmt.all_muts} & needed:
                more.append(stmt)
                needed |= {root(u) for u in stmt.all_uses}
        region.guarded = sorted([*region.guarded, *more], key=lambda s: s.number)
        if not region.guarded:
            return ""
        if region.stmts and (problem := self.down_to_guard(region, needed)):
            return problem
        if region.stmts and not region.late and self.updated_between(region):
            return "its forward is interleaved with the update of another optimizer"
        last = region.guarded[-1]
        staying = [s for s in start.block.stmts if s.number < last.number and s not in region.guarded]
        for stmt in staying:
            later = [s for s in region.guarded if s.number > stmt.number]
            if id(stmt) not in self.dropped and stmt not in region.after and not self.moves(stmt, later):
                return "something in the branch that holds its forward has to happen before it"
        if any(self.blocks(s) for s in more):
            return "something in the branch that holds its forward has to happen before it"
        return ""

    def down_to_guard(self, region: Region, needed: set[str]) -> str:
        """What the guarded part needs is made between the rest of the forward and the guard: that rest waits for it."""
        block = region.block.stmts
        between = block[block.index(region.stmts[-1]) + 1 : block.index(region.guards[0])]
        between = [s for s in between if id(s) not in self.dropped and s not in region.after]
        if any({root(d) for d in s.all_defs | s.all_muts} & needed for s in between):
            region.late = True
            if not all(self.moves(s, region.stmts) for s in between):
                return INTERRUPTED
        return ""

    def updated_between(self, region: Region) -> bool:
        """A step between the rest of the forward and the guard moves weights that the guarded part uses."""
        block = region.block.stmts
        between = block[block.index(region.stmts[-1]) + 1 : block.index(region.guards[0])]
        uses = {u for s in region.guarded for u in s.all_uses}
        runs = any(e.startswith(RUN) for s in region.guarded for e in effects(s, self.module))
        for call in (call for s in between for inner in s.walk() for call in inner.calls):
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            if isinstance(call.func, cst.Attribute) and name == "step":
                moved = self.module.value(call.func.value).owns
                if runs if moved is None else any(overlaps(use, place) for use in uses for place in moved):
                    return True
            elif runs and self.module.value(call.func).kind in ("function", "method") and self.may_step(name):
                return True
        return False

    def may_step(self, name: str) -> bool:
        """A function of the project by this name takes a step, for all that is seen here."""
        found = [i for i in self.module.functions.values() if i.name == name]
        calls = (c for i in found for s in i.scope.body.walk() for c in s.calls)
        return not found or any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "step" for c in calls)

    def transparent(self, around: Stmt, inner: Stmt) -> bool:
        """What stands in the block runs as if it stood there without it: a `with`, or a `try` that goes well."""
        if self.repeating and around.is_loop:
            return True
        if isinstance(around.node, cst.Try):
            return inner in set(around.blocks[0].walk()) and around.blocks[0].role == "body"
        return isinstance(around.node, cst.With) and id(around) not in self.mixed

    def fill(self, region: Region, level: Level, end: Stmt) -> None:
        """Choose which statements of the level, from the first to the last active one, go inside."""
        block, active, feeding = level
        region.block = block
        if not active:
            return
        makers = self.makers(
            feeding, self.filled(active, region), added_to(active), active[0]
        )  # a list is made where it is filled
        active = sorted([*active, *makers], key=lambda s: s.number)
        feeding = [s for s in feeding if s not in makers]
        stmts, graphs = block.stmts, {id(s) for s in active}
        first, stop = stmts.index(active[0]), stmts.index(end)
        read = [i for s in feeding if first < (i := stmts.index(s)) < stop]
        last = max([stmts.index(active[-1]), *read])
        alone = region.event.lifted and end is region.event.stmt
        if alone and any(self.blocks(s) for s in stmts[last + 1 : stop]):
            region.stmts = [s for s in stmts[first : last + 1] if id(s) in graphs]
            region.cut = len(region.stmts)  # the call itself is the second part
            return
        inside, useful = list(stmts[first : last + 1]), graphs | {id(s) for s in feeding}
        if self.parted(region, inside, useful, graphs):
            return
        self.move_behind(region, inside, useful)
        self.leave_before(region, inside, graphs, active[-1])
        more = [s for s in feeding if s.number < inside[0].number]
        if more := self.makers(more, self.filled(inside, region), added_to(inside), active[0]):
            region.after = []
            active = sorted([*active, *more], key=lambda s: s.number)
            self.fill(region, Level(block, active, [s for s in feeding if s not in more]), end)
            return
        region.stmts = inside
        for stmt in inside:
            if reason := leaves(stmt):
                region.problem = f"a `{reason}` stands inside its forward"
            if any(id(s) in self.event_stmts - self.constant for s in stmt.walk()):
                region.problem = region.problem or "another gradient event stands inside its forward"

    def filled(self, stmts: Iterable[Stmt], region: Region) -> set[str]:
        """The names of what the statements change."""
        return {root(m) for s in stmts if not puts_back(s, region.event) for m in s.all_muts}

    def makers(self, feeding: list[Stmt], filled: set[str], again: set[str], first: Stmt) -> list[Stmt]:
        """The statements that make what is filled inside of the region: they go inside, too. Those that only name what
        is there do if a name is bound `again`: a gradient function may not write into what it is given."""
        making = [s for s in feeding if {root(d) for d in s.defs} & filled and not s.blocks]
        making = [s for s in making if not same_object(s.node) or s.defs & again]
        return [s for s in making if not self.used_before(s, first, first.block)]

    def parted(self, region: Region, inside: list[Stmt], useful: set[int], graphs: set[int]) -> bool:
        """Take out what is dropped; whether something has to stay in between, and the tape was cut there."""
        for stmt in list(inside):
            if id(stmt) not in useful and id(stmt) in self.dropped:
                inside.remove(stmt)
                continue
            valued = id(stmt) in useful and id(stmt) not in graphs
            if valued and any(id(s) in self.event_stmts for s in stmt.walk()):
                useful.discard(id(stmt))  # its values count, and are there before the rest runs
            elif id(stmt) in useful or not self.blocks(stmt):
                continue
            self.split(region, inside, useful, graphs)
            return True
        return False

    def move_behind(self, region: Region, inside: list[Stmt], useful: set[int]) -> None:
        """What stands in between, and may as well run later, moves behind the gradient call."""
        given = region.event.inputs
        weights = expression_uses(given, region.event.stmt) if given is not None else set()
        for stmt in reversed(list(inside)):
            if id(stmt) in useful or any_overlap(stmt.all_defs, weights):
                continue  # `params = list(net.parameters())`: the call is given them
            if self.moves(stmt, inside[inside.index(stmt) + 1 :]):
                inside.remove(stmt)
                region.after.insert(0, stmt)

    def leave_before(self, region: Region, inside: list[Stmt], graphs: set[int], last: Stmt) -> None:
        """What has no graph, and may as well run earlier, stays in front of the region."""
        for stmt in list(inside):
            if id(stmt) in graphs or stmt.number > last.number and not region.waiting:
                continue  # behind the last one: the root needs it where the call stands
            others = [s for s in inside if s is not stmt]
            if {root(d) for d in stmt.all_defs} & self.filled(others, region):
                if not same_object(stmt.node) or stmt.defs & added_to(others):
                    continue  # it makes what a later one fills
            if self.moves(stmt, inside[: inside.index(stmt)]):
                inside.remove(stmt)

    def used_before(self, maker: Stmt, first: Stmt, block: Block) -> bool:
        """What it makes is filled and read around another gradient call, before the forward goes on to fill it."""
        made, stmts = {root(d) for d in maker.defs}, block.stmts
        between = stmts[stmts.index(maker) + 1 : stmts.index(first)] if maker.number < first.number else []
        return any(made & {root(u) for u in s.all_uses | s.all_muts} and self.blocks(s) for s in between)

    def split(self, region: Region, inside: list[Stmt], useful: set[int], active: set[int]) -> None:
        """Something between the active statements has to stay between: cut the tape there."""
        blockers = [s for s in inside if id(s) not in useful and self.blocks(s)]
        first, last = inside.index(blockers[0]), inside.index(blockers[-1])
        early = [s for s in inside[:first] if id(s) in useful]
        middle = [s for s in inside[first:last] if id(s) in active]
        if middle and not any(id(s) in active for s in early):
            early, middle = middle, []
        if middle:
            region.problem = "its forward is interleaved with the update of another optimizer"
        late = [s for s in inside[last + 1 :] if id(s) in useful or id(s) not in self.dropped]
        while late and id(late[0]) not in active:
            late.pop(0)
        while early and id(early[-1]) not in active:
            early.pop()
        while early and id(early[0]) not in active:
            early.pop(0)
        made = {root(d) for s in early for d in s.all_defs}
        staying = [s for s in inside[:first] if s not in early and early and s.number < early[-1].number]
        if any(made & {root(u) for u in s.all_uses} for s in staying):  # it would run before the first part does
            region.problem = region.problem or INTERRUPTED
        region.stmts = early + late
        region.cut = len(early)

    def blocks(self, stmt: Stmt) -> bool:
        """The statement must stay where it is, and nothing of a forward may pass it."""
        if any(id(s) in self.event_stmts for s in stmt.walk()):
            return True
        if any(id(s) in self.taken for s in stmt.walk()) and not self.pure(stmt):
            return True
        return bool(leaves(stmt))

    def pure(self, stmt: Stmt) -> bool:
        """Running the statement twice makes no difference."""
        return pure(stmt, self.module)

    def moves(self, stmt: Stmt, others: Iterable[Stmt]) -> bool:
        """The statement commutes with the others: no shared writes, no shared order of effects."""
        pairs = self.alike.of(stmt.block.scope)
        writes = {root(w) for w in stmt.all_defs | stmt.all_muts}
        writes |= shared_too(stmt.all_muts, pairs) if pairs else set()
        reads = {root(u) for u in stmt.all_uses} | self.captured.reads(stmt)
        own = self.effects(stmt)
        for other in others:
            other_writes = {root(w) for w in other.all_defs | other.all_muts}
            other_writes |= shared_too(other.all_muts, pairs) if pairs else set()
            other_reads = {root(u) for u in other.all_uses}
            if writes & (other_reads | other_writes) or reads & other_writes or writes & self.captured.reads(other):
                return False
            if clash(own, self.effects(other)):
                return False
        return True

    def effects(self, stmt: Stmt) -> set[str]:
        """What the statement does, and the generators that it runs."""
        found = effects(stmt, self.module, self.draws)
        behind = self.captured.behind(stmt) if self.captured.waiting else ()
        return found.union(*(effects(s, self.module, self.draws) for s in behind)) if behind else found
