"""Forwards that leave parameters out under a condition: torch has no gradient for them then, and a step skips them.

MindSpore's gradient is zeros, and momentum, averages or decay move the parameters all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import any_overlap, overlaps
from torch2ms.tape.forward.branching import decided_by, ways
from torch2ms.tape.forward.choices import by_name, chosen, elsewhere, one_item, one_of_all, tests_of
from torch2ms.tape.forward.differing import PICKING, by_branch, lists_of, picked
from torch2ms.tape.forward.evaluating import evaluating
from torch2ms.tape.forward.exchanged import exchanged
from torch2ms.tape.forward.given import Given
from torch2ms.tape.forward.left import Skipped
from torch2ms.tape.forward.passed_over import guarded, of_items
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.replaced import out_of_use
from torch2ms.tape.forward.skipped import skipped
from torch2ms.tape.forward.turning import from_attributes, same_at_every_step, turning_names
from torch2ms.tape.forward.watched import spelled
from torch2ms.tape.ledger.again import given_by_loops
from torch2ms.tape.model import Event, Owner

NOTHING: frozenset[str] = frozenset()
CALLED = "()"  # behind the place of a module that runs as a whole
Cut = tuple[cst.BaseExpression, set[str], frozenset[str]]  # a condition, its names, what runs in one case alone


def left_out_at_times(
    event: Event, region: Region, owners: list[Owner], steps: list[Event], module: ModuleInfo, project: Project
) -> Iterator[Skipped]:
    """What a step has no gradient of under conditions that change while the program trains.

    Of items of which always the same one is picked, it never has one of the others: decay moves them all the same.
    """
    moving = [o for o in owners if o.kind == "optimizer" and not o.plain and o.owns]
    found = [*_cuts(event, region, module), *_choices(event, region, module)] if moving else []
    found += _picks(event, region, module, project) if moving else []
    decaying = _decaying(steps)
    scope = event.stmt.block.scope
    stmts = [*(i for s in region.all for i in s.walk()), event.stmt] if found else []
    read = {u for s in stmts for u in s.uses}
    stmts = [s for s in scope.body.walk() if s in stmts or not s.blocks and s.defs & read] if found else []
    for test, asked, missing in found:
        for owner in moving:
            if not module.grows and not any_overlap(missing, owner.owns or NOTHING):
                continue
            if one_of_all(test, region.all):
                owner.assumed.add(f"`{code(test)}` holds once in each list")
                continue
            picked_once = owner.place in decaying and any(one_item(test, s) for s in stmts if test in s.nodes)
            if picked_once or not same_at_every_step(test, asked, event, owner, module, project):
                for place in sorted(missing):
                    yield Skipped(place, code(test), True, spelled(place, stmts, module))


def picked_anew(callables: list[str], event: Event, owners: list[Owner], project: Project) -> str:
    """What picks a callable of which nothing is known, where it picks another one at each step of an optimizer.

    `loss_of = getattr(self, f"{task}_loss")`: each of them runs layers of its own, and nobody knows which.
    """
    scope = event.stmt.block.scope
    given = given_by_loops(scope, project)
    for stmt in (s for s in scope.body.walk() if s.defs.intersection(callables)):
        node = stmt.node
        asked: cst.BaseExpression | None = None
        if isinstance(node, cst.For):
            asked, names = node.target, stmt.defs & set(callables)
        elif isinstance(node, cst.Assign):
            asked = by_name(node.value) if isinstance(node.value, cst.Call) else None
            asked = node.value if isinstance(node.value, cst.Subscript) else asked
            names = {root(u) for u in expression_uses(asked, stmt)} if asked is not None else set()
        if asked is None:
            continue
        for owner in owners:
            others = owner.kind == "optimizer" and not owner.plain and "[" not in owner.place
            if others and names & (given | turning_names(event, owner)):
                return code(asked)
    return ""


def left_out_of_networks(
    event: Event, region: Region, owners: list[Owner], steps: list[Event], module: ModuleInfo, project: Project
) -> Iterator[Skipped]:
    """The layers that a step moves and torch leaves alone, as the networks that are called do not run them."""
    moving = [o for o in owners if o.kind == "optimizer" and not o.plain and o.owns != NOTHING]
    if not moving:
        return
    there = frozenset(d for d in event.value.deps if not d.startswith(("@", "^")))  # it may have all
    wanted = frozenset().union(*(there if o.owns is None else o.owns for o in moving))
    stmts = [*(i for s in region.all for i in s.walk()), event.stmt]
    decaying = _decaying(steps)
    for owner in moving:
        yield from (Skipped("", reason=why) for why in exchanged(event, owner, module, project))
        if owner.place in decaying:
            yield from (Skipped("", reason=why) for why in out_of_use(owner, project))
    items = list(of_items(stmts, module, project)) if decaying else []
    if not items and not any(skipped(stmts, Given(), module, project, wanted)):
        return
    inside = [e.stmt for e in steps if any(e.place == o.place for o in moving)]
    loops = [a for a in event.stmt.ancestors() if a.is_loop and (not inside or any(a in s.ancestors() for s in inside))]
    changing = {root(d) for a in loops for s in a.walk() for d in s.defs}
    changing |= given_by_loops(event.stmt.block.scope, project) | from_attributes(event.stmt.block.scope)
    given = Given(changing, evaluating=evaluating(event.stmt, wanted, module, project))
    for left in (*items, *skipped(stmts, given, module, project, wanted)):
        for owner in moving:
            if any_overlap(frozenset({left.place}), there if owner.owns is None else owner.owns):
                if owner.place in decaying if left.ever or left.once or not left.test else left.changes:
                    yield left


def _decaying(steps: list[Event]) -> set[str]:
    """The optimizers that let weights decay."""
    return {e.place for e in steps if e.value.dtype == "decays"}


def without_gradient(
    event: Event, region: Region, owner: Owner, module: ModuleInfo, project: Project
) -> frozenset[str]:
    """The places of an owner that the loss does not depend on, at times or ever; settings are taken to let it."""
    owns = owner.owns or NOTHING
    stmts = [*(i for s in region.all for i in s.walk()), event.stmt]
    turning = {root(d) for a in event.stmt.ancestors() if a.is_loop for s in a.walk() for d in s.defs}
    turning |= given_by_loops(event.stmt.block.scope, project)
    found = [*_cuts(event, region, module), *_choices(event, region, module)]
    missing = {p for _, asked, places in found if asked & turning for p in places}
    set_once = [(code(test), p) for test, asked, places in found if not asked & turning for p in places]
    given = Given(turning, evaluating=evaluating(event.stmt, owns, module, project))
    for left in skipped(stmts, given, module, project, owns) if owns else ():
        if left.changes or left.ever or not left.test:
            missing.add(left.place)
        else:
            set_once.append((left.test, left.place))
    for test, place in set_once:
        if any_overlap(frozenset({place}), owns):
            owner.assumed.add(f"`{test}` lets `{place}` take part: MindSpore has zeros where torch has None")
    return frozenset(p for p in missing if any_overlap(frozenset({p}), owns))


def _cuts(event: Event, region: Region, module: ModuleInfo) -> Iterator[Cut]:
    """The conditions of a forward, and the modules that its root depends on in one case and not in the other."""
    whole: frozenset[str] | None = None
    for stmt in (i for s in region.all for i in s.walk()):
        if not (asked := decided_by(stmt)):
            continue
        whole = _Way().reached(event, region, module) if whole is None else whole
        each = (_Way(stmt, block) for block in ways(stmt))
        if missing := frozenset().union(*(_beside(whole, way.reached(event, region, module)) for way in each)):
            yield from ((test, {root(u) for u in expression_uses(test, stmt)}, missing) for test in asked)


def _choices(event: Event, region: Region, module: ModuleInfo) -> Iterator[Cut]:
    """What the expressions of a forward decide by, and the modules that run in one case alone."""
    stmts = [*(i for s in region.all for i in s.walk()), event.stmt]
    names = {c.func.value for s in stmts for c in s.calls if type(c.func) is cst.Name}
    names |= {root(u) for s in stmts for u in s.uses if "." in u}  # `head.weight`
    named = [s for s in event.stmt.block.scope.body.walk() if s.defs & names and s not in stmts]
    loops = [s for s in stmts if s.is_loop]
    for stmt in [*stmts, *named]:
        for test, places in chosen(stmt, module):
            if missing := elsewhere(places, stmt, stmts, module):
                yield from ((*found, missing) for found in tests_of(test, stmt, loops))


def _picks(event: Event, region: Region, module: ModuleInfo, project: Project) -> Iterator[Cut]:
    """What is decided behind the networks that a forward calls, and the layers behind one of the results alone."""
    stmts = [*(i for s in region.all for i in s.walk()), event.stmt]
    loops, lists = [s for s in stmts if s.is_loop], lists_of(stmts, module, project)
    every = event.stmt.block.scope.body.walk()
    for test, stmt, places in guarded(stmts, module, lists):
        yield from ((*found, places) for found in tests_of(test, stmt, loops))
    for stmt in stmts:
        if isinstance(stmt.node, cst.If):
            asked = {root(u) for u in expression_uses(stmt.node.test, stmt)}
            yield stmt.node.test, asked, frozenset(filter(lists, by_branch(stmt, every, module, lists)))
        elif any(type(n) in PICKING for n in stmt.nodes):
            for test, places in picked(stmt, module, lists):
                yield from ((*found, places) for found in tests_of(test, stmt, loops) if places)


@dataclass
class _Way:
    """One way through a forward: a branch of an `if` is taken, None for none of them."""

    stmt: Stmt | None = None
    branch: Block | None = None
    now: dict[str, frozenset[str]] = field(default_factory=dict)  # the modules behind each name on this way
    seen: dict[str, frozenset[str]] = field(default_factory=dict)  # ... and on any way, as the analysis has it

    def reached(self, event: Event, region: Region, module: ModuleInfo) -> frozenset[str]:
        """The modules whose parameters the root depends on."""
        self.run(region.all, module, certain=True)
        uses = frozenset().union(*(expression_uses(r, event.stmt) for r in event.roots))
        return self.behind(uses) | _called([event.stmt], module)

    def behind(self, uses: set[str] | frozenset[str]) -> frozenset[str]:
        return frozenset().union(*(self.now.get(root(u), NOTHING) for u in uses))

    def run(self, stmts: list[Stmt], module: ModuleInfo, certain: bool) -> None:
        for stmt in stmts:
            if stmt is self.stmt:
                self.note(stmt)
                self.run(self.branch.stmts if self.branch is not None else [], module, certain)
            elif stmt.blocks:
                for block in stmt.blocks:
                    self.run(block.stmts, module, certain=False)
            else:
                self.small(stmt, module, certain)

    def note(self, stmt: Stmt) -> None:
        """What the branches bring that are not taken is known by name to the analysis all the same."""
        for inner in (i for i in stmt.walk() if not i.blocks):
            recorded = _real(*(v.deps for v in inner.out.values()))
            for name in {root(p) for p in inner.defs | inner.muts}:
                self.seen[name] = self.seen.get(name, NOTHING) | recorded

    def small(self, stmt: Stmt, module: ModuleInfo, certain: bool) -> None:
        recorded = _real(*(v.deps for v in stmt.out.values()))
        brought = frozenset().union(*(self.seen.get(root(u), NOTHING) for u in stmt.uses))
        ran = self.behind(stmt.uses) | _called([stmt], module) if recorded else NOTHING
        for name in {root(p) for p in stmt.defs | stmt.muts}:
            kept = NOTHING if certain and name in stmt.defs else self.now.get(name, NOTHING)
            own = _real(stmt.out[name].deps) if name in stmt.defs and name in stmt.out else recorded
            self.now[name] = kept | ran | (own - brought)
            self.seen[name] = self.seen.get(name, NOTHING) | recorded


def never_recorded(owner: Owner, scope: Scope, module: ModuleInfo) -> str:
    """A part of a module that an optimizer holds, and that this scope runs only where nothing is recorded."""
    silent, recorded = set[str](), set[str]()
    for stmt in scope.body.walk():
        blind = any(is_no_grad(i.item, module) for w in stmt.modes for i in w.items)
        (silent if blind else recorded).update(p for p in _called([stmt], module) if not p.endswith(CALLED))
    for part in sorted(silent):
        wholes = [o for o in owner.owns or () if part.startswith(f"{o}.")]
        if (
            wholes
            and any_overlap(frozenset(wholes), frozenset(recorded))
            and not any(overlaps(part, r) for r in recorded)
        ):
            return part.rpartition(".")[2] if part.endswith("]") else part
    return ""


def _beside(whole: frozenset[str], reached: frozenset[str]) -> frozenset[str]:
    """The modules of `whole` that were not reached, neither themselves nor with what they are a part of.

    A network of which it is known which parts were reached brings no others, but where it runs itself on another way.
    """
    covering = {r for r in reached if not any(other.startswith(f"{r}.") for other in reached)}
    missing = {p for p in whole - reached if not any(p.startswith(f"{r}.") for r in covering)}
    called = {p.removesuffix(CALLED) for p in missing if p.endswith(CALLED)}
    in_part = {p for p in called if any(r.startswith(f"{p}.") for r in reached)}
    return frozenset({p for p in missing if not p.endswith(CALLED)} | in_part)


def _real(*deps: frozenset[str]) -> frozenset[str]:
    return frozenset(d for each in deps for d in each if not d.startswith(("@", "^")))


def _called(stmts: list[Stmt], module: ModuleInfo) -> frozenset[str]:
    """The modules that statements run, themselves and marked as called; `net[0]` is a part of `net`."""
    found = ((c.func, module.value(c.func)) for s in stmts for c in s.calls)
    known = [(func, value.place) for func, value in found if value.kind == "module" and value.place]
    whole = {name for func, place in known if not isinstance(func, cst.Subscript) for name in (place, place + CALLED)}
    return frozenset(whole | {f"{place}.{code(func)}" for func, place in known if isinstance(func, cst.Subscript)})
