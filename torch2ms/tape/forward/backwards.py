"""The way back from the root of a gradient event: the statements that make what it wants, block after block."""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.values import any_overlap, overlaps, within
from torch2ms.tape.forward.activity import Activity, Owns
from torch2ms.tape.forward.captured import Captured
from torch2ms.tape.forward.outside import freed_each_turn, lent
from torch2ms.tape.forward.steps import asked_by, cotangents_of, cut_off, made_by, unseen
from torch2ms.tape.ledger.hooks import late_hooks
from torch2ms.tape.model import Event


class Level(NamedTuple):
    """The statements of one block, in order, that stand before the event, or before the block that holds it."""

    block: Block
    active: list[Stmt]  # they make something with a graph that leads to the root
    feeding: list[Stmt]  # they make a value that these read


class Backwards:
    """Goes from the event to the beginning of its function.

    `wanted` are the places that what was passed reads, `ended` those of them that are wanted for their values alone:
    their graphs end before they get to the root.
    """

    def __init__(self, event: Event, owns: Owns, activity: Activity, captured: Captured, events: set[int]) -> None:
        self.event, self.owns, self.activity, self.captured, self.events = event, owns, activity, captured, events
        self.module = activity.module
        self.wanted = self.by_root()
        self.ended: set[str] = set()
        self.levels: list[Level] = []
        self.chain: list[Stmt] = []  # the statements around the event whose blocks were left, innermost first
        self.graphless: set[str] = set()  # as in Region
        self.handed_in: set[str] = set()

    @property
    def outermost(self) -> int:
        """The last level with a part of the forward."""
        return max((i for i, level in enumerate(self.levels) if level.active), default=0)

    def by_root(self) -> set[str]:
        """What the event itself wants."""
        start, wanted = self.event.stmt, set()
        for expr in self.event.roots:
            wanted |= start.uses if self.event.lifted else expression_uses(expr, start)
        wanted |= {u for u in start.uses - {"self"} if any(w.startswith(f"{u}.") for w in wanted)}  # of records
        wanted |= start.uses - expression_uses(start.node, start) if start.is_small else set()  # behind properties
        wanted |= self.captured.reads(start) if not self.event.lifted else set()
        return wanted | cotangents_of(self.event, self.module)

    def walk(self) -> None:
        """Find the statements of every block around the event."""
        end: Stmt | None = self.event.stmt
        while end is not None:
            self.levels.append(self.level(end.block, end))
            end = end.block.owner
            if end is not None:
                self.leave(end)

    def level(self, block: Block, end: Stmt) -> Level:
        """Of one block, the statements before `end`."""
        before = block.stmts[: block.stmts.index(end)]
        active: list[Stmt] = []
        feeding: list[Stmt] = []
        outside = self.begun and freed_each_turn(self.event, self.chain, self.events)
        for stmt in reversed(before):
            written = {w for s in stmt.walk() for w in (*s.defs, *s.muts) if ".grad" not in w}
            if not any_overlap(written, self.wanted):
                behind = [self.event.stmt, *active, *feeding]
                if not self.chain and self.activity.for_others(stmt, self.wanted, self.owns, behind):
                    active.append(stmt)
                    self.wanted |= stmt.uses
                continue
            varied = self.activity.varied(stmt, self.wanted - self.ended, self.owns)
            varied = varied or self.activity.along(stmt, active)
            if outside and varied and lent(varied, stmt, self.chain, self.module):
                self.graphless |= varied.keys()
                varied = {}
            (active if varied else feeding).append(stmt)
            self.pass_over(stmt, written, bool(varied))
        if late := late_hooks(before, active):
            active = sorted([*active, *late], key=lambda s: -s.number)
            feeding = [s for s in feeding if s not in late]
        return Level(block, active[::-1], feeding[::-1])

    @property
    def begun(self) -> bool:
        """A part of the forward was passed."""
        return any(level.active for level in self.levels)

    def pass_over(self, stmt: Stmt, written: set[str], varied: bool) -> None:
        """What the statement makes is no longer wanted; what it reads is."""
        valued = not varied and not stmt.blocks and not stmt.muts and any_overlap(written, self.ended)
        if type(stmt.node) is not cst.AugAssign:
            made = made_by(stmt) | stmt.refills
            self.wanted = {u for u in self.wanted if not within(u, made)}
        self.ended &= self.wanted
        ends = cut_off(stmt, self.module) if varied else self.activity.ended(stmt, self.owns)
        if valued:  # what it makes is wanted for its value, so what it reads is
            ends = ends | stmt.uses
        self.ended |= ends - self.wanted
        asked = asked_by(stmt, self.module) | self.captured.reads(stmt)
        self.wanted |= asked
        self.ended -= asked - ends if varied else set()

    def leave(self, owner: Stmt) -> None:
        """Go on in front of a statement around the event; a `for` makes its targets."""
        self.chain.append(owner)
        if not isinstance(owner.node, cst.For):
            return
        targets = {d for d in self.wanted if any(overlaps(d, t) for t in owner.defs)}
        self.wanted = self.wanted - targets | owner.uses
        if self.begun and freed_each_turn(self.event, self.chain, self.events):
            self.handed_in |= {root(t) for t in targets if unseen(root(t), owner)}
