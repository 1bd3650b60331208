"""The forward region of a backward call: the statements that become the differentiated function."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import Value, any_overlap, overlaps, within
from torch2ms.tape.forward.alike import SHARING, alike, shared_too
from torch2ms.tape.forward.asked_first import invariant
from torch2ms.tape.forward.captured import captured
from torch2ms.tape.forward.dependents import silenced
from torch2ms.tape.forward.effects import RUN, clash, effects, leaves, pure
from torch2ms.tape.forward.nested import nested
from torch2ms.tape.forward.outside import freed_each_turn, lent
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.steps import (
    asked_by,
    changed_before,
    cotangents_of,
    cut_off,
    graphless,
    is_called,
    lasting,
    made_by,
    optimized,
    puts_back,
    same_object,
    unseen,
    written_directly,
)
from torch2ms.tape.ledger.events import LEFT
from torch2ms.tape.ledger.hooks import late_hooks
from torch2ms.tape.model import Event

HOLDERS = {"module", "optimizer", "params", "named_params", "param", "object", "function", "class"}  # of weights
TENSOR = Value("tensor")


def _only_reads(event: Event) -> bool:
    """A call that is handed gradients, and makes something of them and of the parameters: a forward may contain it."""
    taking, node = event.taking, event.stmt.node
    return taking is not None and not taking.taken.gives and isinstance(node, cst.Assign) and node.value is taking.call


class Finder:
    """Finds regions in one scope. `busy` are statements that must keep their place: events, and regions of others."""

    def __init__(self, module: ModuleInfo, dropped: set[int], events: list[Event]) -> None:
        self.module = module
        self.dropped = dropped
        kept = {id(e.stmt) for e in events if not _only_reads(e)}
        self.event_stmts = kept - dropped
        self.constant = {id(e.stmt) for e in events if nested(e)}
        self.taken: dict[int, Region] = {}
        self.foreign: frozenset[str] = frozenset()  # leaves that no optimizer of the callers can own
        self.callers: dict[str, list[Stmt]] = {}  # by name, the statements that call what it holds: no tensor
        self.captured, self.alike = captured(module), alike(module) if module.says(SHARING) else None
        self.arrays = module.has("from_numpy(") or "numpy" in module.imports.table.values()  # it may make some
        self.known: set[int] | None = None
        self.mixed: set[int] = set()  # `with` blocks of mixed precision
        self.units: list[set[int]] = []  # ids of statements that gave way to one call: none goes in without the others
        self.draws = True  # networks may draw random numbers
        self.repeating = False  # a forward outside of a loop may run again in each turn

    def without(self, event: Event) -> Finder:
        """One that has found nothing yet, for a scope in which the event happens together with another."""
        other = copy(self)
        other.dropped, other.event_stmts = self.dropped | {id(event.stmt)}, self.event_stmts - {id(event.stmt)}
        other.taken = {}
        return other

    def find(self, event: Event, owns: frozenset[str] | None, active: set[int] | None = None) -> Region:
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

    def cut(self, event: Event, owns: frozenset[str] | None, active: set[int] | None) -> Region:
        """The statements that feed the event, whether or not they may become a function."""
        self.known = active
        start = event.stmt
        wanted: set[str] = set()
        for expr in event.roots:
            wanted |= start.uses if event.lifted else expression_uses(expr, start)
        wanted |= {u for u in start.uses - {"self"} if any(w.startswith(f"{u}.") for w in wanted)}  # of records
        wanted |= start.uses - expression_uses(start.node, start) if start.is_small else set()  # behind properties
        wanted |= self.captured.reads(start) if not event.lifted else set()
        wanted |= cotangents_of(event, self.module)
        region = Region(event, start.block)
        ended: set[str] = set()  # wanted for their values alone: their graphs end before they get to the root
        levels: list[tuple[Block, list[Stmt], list[Stmt]]] = []
        block, position = start.block, start.block.stmts.index(start)
        chain: list[Stmt] = []
        found_at = 0
        while True:
            active_here: list[Stmt] = []
            feeding: list[Stmt] = []
            outside = any(active for _, active, _ in levels) and freed_each_turn(event, chain, self.event_stmts)
            for stmt in reversed(block.stmts[:position]):
                written = {w for s in stmt.walk() for w in (*s.defs, *s.muts) if ".grad" not in w}
                if not any_overlap(written, wanted):
                    if block is start.block and self.for_others(stmt, wanted, owns, [start, *active_here, *feeding]):
                        active_here.append(stmt)
                        wanted |= stmt.uses
                    continue
                varied = self.varied(stmt, wanted - ended, owns) or self.along(stmt, active_here)
                if outside and varied and lent(varied, stmt, chain, self.module):
                    region.graphless |= varied.keys()
                    varied = {}
                (active_here if varied else feeding).append(stmt)
                valued = not varied and not stmt.blocks and not stmt.muts and any_overlap(written, ended)
                if type(stmt.node) is not cst.AugAssign:
                    made = made_by(stmt) | stmt.refills
                    wanted = {u for u in wanted if not within(u, made)}
                ended &= wanted
                ends = cut_off(stmt, self.module) if varied else self.ended(stmt, owns)
                ends |= stmt.uses if valued else set()  # what it makes is wanted for its value, so what it reads is
                ended |= ends - wanted
                asked = asked_by(stmt, self.module) | self.captured.reads(stmt)
                wanted |= asked
                ended -= asked - ends if varied else set()
            if late := late_hooks(block.stmts[:position], active_here):
                active_here = sorted([*active_here, *late], key=lambda s: -s.number)
                feeding = [s for s in feeding if s not in late]
            levels.append((block, active_here[::-1], feeding[::-1]))
            if active_here:
                found_at = len(levels) - 1
            owner = block.owner
            if owner is None:
                break
            chain.append(owner)
            if isinstance(owner.node, cst.For):
                targets = {d for d in wanted if any(overlaps(d, t) for t in owner.defs)}
                wanted = wanted - targets | owner.uses
                if levels[found_at][1] and freed_each_turn(event, chain, self.event_stmts):
                    region.handed_in |= {root(t) for t in targets if unseen(root(t), owner)}
            block, position = owner.block, owner.block.stmts.index(owner)
        if found_at == 0:
            self.fill(region, levels[0][0], levels[0][1], levels[0][2], start)
            return region
        between = chain[:found_at]
        if between and all(self.transparent(s, start) for s in between):
            ending = levels[0][1] if self.repeating else []
            if any(active for _, active, _ in levels[bool(ending) : found_at]):
                region.problem = "its forward is spread over several blocks"
                return region
            self.fill(region, *levels[found_at], between[-1])
            if ending:
                inner = Region(event, start.block)
                self.fill(inner, *levels[0], start)
                region.each, region.problem = inner.stmts, region.problem or inner.problem
                region.cut = region.cut or inner.cut
            region.tried = any(isinstance(s.node, cst.Try) for s in between)
            if region.cut and not region.problem:
                region.problem = "something between its statements has to happen in between"
            return region
        if any(not isinstance(s.node, cst.If) for s in between):
            kinds = {type(s.node).__name__.lower() for s in between if not isinstance(s.node, cst.If)}
            region.problem = (
                f"its forward stands outside the {'/'.join(sorted(kinds))} statement that holds the backward call"
            )
            return region
        region.guards = between[::-1]
        outer_block, outer_active, outer_feeding = levels[found_at]
        middle = [a for level in levels[1:found_at] for a in level[1]]
        if middle:
            region.problem = "its forward is spread over several nested conditions"
            return region
        region.waiting = bool(levels[0][1])
        self.fill(region, outer_block, outer_active, outer_feeding, between[-1])
        inner = Region(event, start.block)
        self.fill(inner, start.block, levels[0][1], levels[0][2], start)
        region.guarded = inner.stmts
        region.after += inner.after
        region.problem = region.problem or inner.problem or self.first_in_guard(region, start, levels[0][2])
        asked_first = len(region.guards) == 1 and invariant(region.guards[0], region)
        if region.guarded and region.stmts and not asked_first and not region.problem:
            live = liveness.read_after(region.block, region.stmts, region.block.stmts.index(between[-1]))
            if not all(self.pure(s) for s in region.stmts) or live & {d for s in region.stmts for d in s.all_defs}:
                region.problem = "its forward is spread over conditions that cannot be asked before it"
        if inner.cut and not region.problem:
            region.problem = "something between its statements has to happen in between"
        return region

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
                return "something between its statements has to happen in between"
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

    def along(self, stmt: Stmt, active: list[Stmt]) -> dict[str, Value]:
        """The statement is part of a unit that is in the region already."""
        inside = {id(s) for s in active}
        return {"": TENSOR} if any(id(stmt) in unit and unit & inside for unit in self.units) else {}

    def for_others(self, stmt: Stmt, wanted: set[str], owns: frozenset[str] | None, behind: list[Stmt]) -> bool:
        """A network is called for nothing, and behind it the network, or objects that are not seen, are asked for what
        they kept."""
        call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
        if not isinstance(call, cst.Call) or self.module.value(call.func).kind != "module":
            return False
        asked = (n.value for s in behind for n in s.nodes if type(n) is cst.Attribute)
        own = any(place.startswith(f"{dotted(call.func)}.") for place in wanted)
        kept = own or any(self.module.value(held).kind == "unknown" for held in asked)
        return kept and self.reached(self.module.value(call), owns)

    def varied(self, stmt: Stmt, wanted: set[str], owns: frozenset[str] | None) -> dict[str, Value]:
        """What the statement makes that is varied with an owner of the gradients, and useful for the root."""
        if self.known is not None:
            known = [s for s in stmt.walk() if id(s) in self.known]
            made = {p: v for s in known for p, v in s.out.items() if any(overlaps(p, u) for u in wanted)}
            return made or ({"": TENSOR} if known else {})
        found = {}
        for place, values in lasting(stmt).items():
            if place in self.callers and is_called(place, stmt, self.callers[place]):
                continue
            for value in values:
                if self.reached(value, owns):
                    itself = value.place if value.name == "module_param" else place  # `w = net.weight`
                    alone = {d for d in value.deps if not d.startswith("@")} == {itself}
                    held = value.kind in HOLDERS or value.leaf or alone and value.kind in ("list", "tuple")
                    held = held or alone and value.name == "module_param" and place != itself
                    held = held or alone and silenced(stmt, self.module)  # a parameter changes its value
                    held = held or value.kind in ("list", "tuple") and value.name in ("of param", "of parameter")
                    rows = value.kind in ("list", "dict", "unknown")  # unknown: what a filter picks
                    held = held or rows and place in optimized(stmt.block.scope, self.module)
                    tensors = value.name.startswith("torch.distributions.") or value.keys is not None
                    if held and not tensors or value.of_leaves:  # a distribution, or a record, is its tensors
                        continue
                    if any(overlaps(place, u) for u in wanted):
                        found[place] = value
        return found

    def ended(self, stmt: Stmt, owns: frozenset[str] | None) -> set[str]:
        """What a statement reads that is varied with an owner of the gradients, where nothing that it makes is.

        An index, a number, a NumPy array: the graph ends there. A call that changes an object may hide it in there.
        """
        found: set[str] = set()
        hidden: set[str] = set()
        cut: set[str] = set()
        whole: set[str] = set()
        for inner in stmt.walk():
            asked = stmt.blocks or self.arrays and any(graphless(c, self.module) for c in inner.calls)
            ends = cut_off(inner, self.module) if asked and not inner.blocks else set()
            cut |= ends
            whole |= inner.uses - ends
            changed = {m for m in inner.muts if root(m) not in self.module.imports.table}  # torch.zeros(2).fill_(1)
            held = inner.node
            if type(held) is cst.If or type(held) is cst.While:
                parts: cst.BaseExpression | None = held.test
            elif type(held) is cst.Assign or type(held) is cst.AnnAssign:
                parts = held.value
            else:
                parts = None
                changed = inner.uses
            if changed:
                hidden |= inner.uses
                continue
            for node in gathered(parts) if parts is not None else ():
                if (type(node) is cst.Name or type(node) is cst.Attribute) and (place := dotted(node)) in inner.uses:
                    shown = node.value if type(node) is cst.Attribute and node.attr.value == "data" else node
                    value = self.module.value(shown)
                    if value.kind == "tensor" and self.reached(value, owns):
                        found |= {u for u in inner.uses if u == place or u.startswith(f"{place}.")}
        return found | (cut - whole) - hidden

    def reached(self, value: Value, owns: frozenset[str] | None) -> bool:
        """The value is varied with an owner of the gradients."""
        real = frozenset(d for d in value.deps if not d.startswith("@"))
        real -= self.foreign if owns is None else frozenset()
        return bool(real) and (owns is None or any_overlap(real, owns))

    def fill(self, region: Region, block: Block, active: list[Stmt], feeding: list[Stmt], end: Stmt) -> None:
        """Choose which statements from the first to the last active one go inside."""
        region.block = block
        if not active:
            return
        grown = {root(m) for s in active if not puts_back(s, region.event) for m in s.all_muts}
        makers = [s for s in feeding if {root(d) for d in s.defs} & grown and not s.blocks and not same_object(s.node)
                  and not self.used_before(s, active[0], block)]  # fmt: skip
        active = sorted([*active, *makers], key=lambda s: s.number)  # a list is made where it is filled
        feeding = [s for s in feeding if s not in makers]
        stmts = block.stmts
        first = stmts.index(active[0])
        last = stmts.index(active[-1])
        useful = {id(s) for s in active} | {id(s) for s in feeding}
        last = max([last, *(stmts.index(s) for s in feeding if first < stmts.index(s) < stmts.index(end))])
        alone = region.event.lifted and end is region.event.stmt
        if alone and any(self.blocks(s) for s in stmts[last + 1 : stmts.index(end)]):
            region.stmts = [s for s in stmts[first : last + 1] if id(s) in {id(a) for a in active}]
            region.cut = len(region.stmts)  # the call itself is the second part
            return
        inside = list(stmts[first : last + 1])
        graphs = {id(s) for s in active}
        for stmt in list(inside):
            if id(stmt) in useful:
                if id(stmt) not in graphs and any(id(s) in self.event_stmts for s in stmt.walk()):
                    useful.discard(id(stmt))  # its values count, and are there before the rest runs
                    self.split(region, inside, useful, graphs)
                    return
                continue
            if id(stmt) in self.dropped:
                inside.remove(stmt)
                continue
            if self.blocks(stmt):
                self.split(region, inside, useful, graphs)
                return
        given = region.event.inputs
        weights = expression_uses(given, region.event.stmt) if given is not None else set()
        for stmt in reversed(list(inside)):
            if any_overlap(stmt.all_defs, weights):
                continue  # `params = list(net.parameters())`: the call is given them
            if id(stmt) not in useful and self.moves(stmt, inside[inside.index(stmt) + 1 :]):
                inside.remove(stmt)
                region.after.insert(0, stmt)
        for stmt in list(inside):
            filled = {root(m) for s in inside if s is not stmt and not puts_back(s, region.event) for m in s.all_muts}
            if {root(d) for d in stmt.all_defs} & filled and not same_object(stmt.node):
                continue  # it makes what a later one fills
            behind = stmt.number > active[-1].number and not region.waiting  # the root needs it where the call stands
            if id(stmt) not in graphs and not behind and self.moves(stmt, inside[: inside.index(stmt)]):
                inside.remove(stmt)
        filled = {root(m) for s in inside if not puts_back(s, region.event) for m in s.all_muts}
        more = [s for s in feeding if s.number < inside[0].number and {root(d) for d in s.defs} & filled
                and not s.blocks and not same_object(s.node) and not self.used_before(s, active[0], block)]  # fmt: skip
        if more:  # what an inner statement fills is made inside too
            region.after = []
            self.fill(
                region,
                block,
                sorted([*active, *more], key=lambda s: s.number),
                [s for s in feeding if s not in more],
                end,
            )
            return
        region.stmts = inside
        for stmt in inside:
            if reason := leaves(stmt):
                region.problem = f"a `{reason}` stands inside its forward"
            if any(id(s) in self.event_stmts - self.constant for s in stmt.walk()):
                region.problem = region.problem or "another gradient event stands inside its forward"

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
            region.problem = region.problem or "something between its statements has to happen in between"
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
        pairs = self.alike.of(stmt.block.scope) if self.alike is not None else None
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
