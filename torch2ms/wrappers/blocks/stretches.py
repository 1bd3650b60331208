"""Statements between two calls of `torch.set_grad_enabled(...)` as a block of that mode.

    before = torch.is_grad_enabled()        with torch.set_grad_enabled(True):
    torch.set_grad_enabled(True)                ...
    ...
    torch.set_grad_enabled(before)

So do two calls of one suite that switch recording off and on again, or on and off: what stands below is then a block
without gradients. `torch.set_grad_enabled(phase == "train")` in a loop holds for the rest of the turn, as the next one
switches again; what switches recording on behind the loop goes with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

SWITCHED = re.compile(r"^[ \t]*(?:\w+\.)*set_grad_enabled\(", re.M).search
WHY = "the statements between two of these calls are a block of that mode"


@each_module
def stretches(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such statements."""
    if not module.has("set_grad_enabled(") or not SWITCHED(module.source):
        return None
    gatherer = Gatherer(module)
    made = gatherer.plain()
    return made if gatherer.findings else None


class Stretch(NamedTuple):
    """Positions in a suite: where the mode is switched and where back, and what remembers it before."""

    first: int
    last: int
    saved: int | None
    below: bool = False  # what follows in the suite is of the other mode


class Gatherer(Suites):
    """One module."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.turns: set[int] = set()  # the suites of loops

    def suite(self, body: Sequence[cst.CSTNode]) -> Made:
        turn = id(body) in self.turns
        while (found := self.found(body)) is not None:
            body = self.gathered(body, found)
        if (ending := self.behind_a_loop(body)) is not None:
            self.tell(ending)
            body = [stmt for stmt in body if stmt is not ending]
        if turn and (first := self.rest_of_a_turn(body)) is not None:
            body = self.gathered(body, Stretch(first, len(body), None))
        return super().suite(body)

    def statement(self, stmt: cst.CSTNode) -> Made:
        if isinstance(stmt, (cst.For, cst.While)) and isinstance(stmt.body, cst.IndentedBlock):
            self.turns.add(id(stmt.body.body))
        return super().statement(stmt)

    def rest_of_a_turn(self, body: Sequence[cst.CSTNode]) -> int | None:
        """Where the one switch of a suite stands, which is not switched on alone."""
        switches = [(i, arg) for i, stmt in enumerate(body) if (arg := self.switched(stmt)) is not None]
        if len(switches) != 1 or constant(switches[0][1]) is True or self.off_at(body[switches[0][0]]):
            return None
        first = switches[0][0]
        return first if body[first + 1 :] and not self.jumps(body[first + 1 :]) else None

    def behind_a_loop(self, body: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """What switches recording on again that turns of a loop before it may have left off."""
        for number, stmt in enumerate(body):
            mode = self.switched(stmt)
            if mode is None or constant(mode) is not True or self.off_at(stmt):
                continue
            loops = [b.body for b in body[:number] if isinstance(b, (cst.For, cst.While))]
            inner = [b.body for b in loops if isinstance(b, cst.IndentedBlock)]
            if any(self.found(b) is None and self.rest_of_a_turn(b) is not None for b in inner):
                return stmt
        return None

    def found(self, body: Sequence[cst.CSTNode]) -> Stretch | None:
        """The first stretch of a suite."""
        switches = [(i, arg) for i, stmt in enumerate(body) if (arg := self.switched(stmt)) is not None]
        for (first, mode), (last, back) in zip(switches, switches[1:], strict=False):
            if any(self.off_at(body[i]) for i in (first, last)):
                continue
            if constant(mode) is not True and constant(back) is True:  # `phase == "train"`, too
                return Stretch(first, last, None)
            if constant(mode) not in (True, False):
                continue
            if constant(mode) is True and constant(back) is False and not self.jumps(body[last + 1 :]):
                return Stretch(first, last, None, below=True)
            saved = next((i for i in range(first) if self.saves(body[i], dotted(back))), None)
            if saved is not None and _named(dotted(back), body) == 2:
                return Stretch(first, last, saved)
        return None

    def jumps(self, body: Sequence[cst.CSTNode]) -> bool:
        """Definitions below are found by who comes after."""
        return any(isinstance(stmt, (cst.FunctionDef, cst.ClassDef)) for stmt in body)

    def switched(self, stmt: cst.CSTNode) -> cst.BaseExpression | None:
        """The argument of `torch.set_grad_enabled(...)` as a statement of its own."""
        node = stmt.body[0] if type(stmt) is cst.SimpleStatementLine and len(stmt.body) == 1 else None
        call = node.value if type(node) is cst.Expr else None
        if type(call) is not cst.Call or len(call.args) != 1:
            return None
        full = qualified(call.func, self.module.imports)
        return call.args[0].value if full.startswith("torch.") and full.endswith(".set_grad_enabled") else None

    def saves(self, stmt: cst.CSTNode, name: str) -> bool:
        """`name = torch.is_grad_enabled()`."""
        node = stmt.body[0] if type(stmt) is cst.SimpleStatementLine and len(stmt.body) == 1 else None
        if type(node) is not cst.Assign or len(node.targets) != 1 or not name or type(node.value) is not cst.Call:
            return False
        return dotted(node.targets[0].target) == name and (
            qualified(node.value.func, self.module.imports) == "torch.is_grad_enabled"
        )

    def off_at(self, stmt: cst.CSTNode) -> bool:
        return self.line_of(stmt) in self.off

    def line_of(self, stmt: cst.CSTNode) -> int:
        assert type(stmt) is cst.SimpleStatementLine
        return self.numbers.get(id(stmt.body[0]), (0, 0))[0]

    def gathered(self, body: Sequence[cst.CSTNode], found: Stretch) -> list[cst.CSTNode]:
        """The suite with the block in place of the stretch."""
        opening, closing = body[found.first], body[found.last] if found.last < len(body) else None
        assert type(opening) is cst.SimpleStatementLine
        inside = list(body[found.first + 1 : found.last])
        lines = [*opening.leading_lines, *layout.trailing_comment(opening.trailing_whitespace)]
        ends: layout.Lines = ()
        if type(closing) is cst.SimpleStatementLine:
            told = [*closing.leading_lines, *layout.trailing_comment(closing.trailing_whitespace)]
            ends = layout.comments_only(told)
        before = list(body[: found.first])
        if found.saved is not None:
            saving = before.pop(found.saved)
            assert type(saving) is cst.SimpleStatementLine
            comments = layout.comments_only(
                [*saving.leading_lines, *layout.trailing_comment(saving.trailing_whitespace)]
            )
            lines = [*comments, *lines]
            self.tell(saving)
        self.tell(closing if closing is not None else opening)
        expr = opening.body[0]
        assert isinstance(expr, cst.Expr)
        if not inside:
            self.tell(opening)
            inside = [cst.SimpleStatementLine([cst.Pass()])]
        block = cst.With([cst.WithItem(expr.value)], cst.IndentedBlock(inside, footer=ends), leading_lines=lines)  # type: ignore[arg-type]
        self.number(block, expr)
        rest = list(body[found.last + 1 :])
        if found.below and rest:
            assert type(closing) is cst.SimpleStatementLine
            ended = closing.body[0]
            assert isinstance(ended, cst.Expr)
            off = cst.With([cst.WithItem(ended.value)], cst.IndentedBlock(rest))  # type: ignore[arg-type]
            self.number(off, expr)
            rest = [off]
        return [*before, block, *rest]

    def tell(self, stmt: cst.CSTNode) -> None:
        node = stmt.body[0]  # type: ignore[attr-defined]
        call = node.value
        self.findings.append(Finding("T2M301", Tier.EXACT, code(call.func), WHY, line=self.line_of(stmt)))


def _named(name: str, body: Sequence[cst.CSTNode]) -> int:
    """How often a name stands in a suite."""
    return sum(type(node) is cst.Name and node.value == name for stmt in body for node in descend(stmt))
