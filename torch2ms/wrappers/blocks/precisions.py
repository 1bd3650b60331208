"""One block of mixed precision as several, where parts of it are not of one kind or go to different backward calls.

    with autocast():                            with autocast():
        fake = generator(noise)                     fake = generator(noise)
        scores = critic(fake.detach())          with autocast():
        with autocast(enabled=False):               scores = critic(fake.detach())
            loss = criterion(scores.float())    with autocast(enabled=False):
                                                    loss = criterion(scores.float())

A part that switches precision off may then stand by itself, and a forward that a later loss goes through as well is one
evaluation with a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import canonical, dotted, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.editing import layout
from torch2ms.editing.suites import Made
from torch2ms.wrappers.blocks.left_between import Parter
from torch2ms.wrappers.blocks.on_cuda import NAMES
from torch2ms.wrappers.passes import each_module


@each_module
def precisions(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such blocks."""
    if not module.has("autocast"):
        return None
    parter = _Precisions(module)
    made = parter.plain() if parter.cuts else None
    return made if parter.changed else None


class _Precisions(Parter):
    """One module, with the positions in the bodies of blocks before which they are parted."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.cuts: dict[int, list[int]] = {}
        for stmt in (s for scope in module.scope.walk() for s in scope.body.walk()):
            if type(stmt.node) is cst.With and type(stmt.node.body) is cst.IndentedBlock and not stmt.off:
                if self.casts(stmt.node) and not self.full(stmt.node) and (cuts := self.parted(stmt)):
                    self.cuts[id(stmt.node)] = cuts

    def parted(self, stmt: Stmt) -> list[int]:
        """Where the block is parted: around what is in full precision, and behind what a later block reads, too."""
        assert isinstance(stmt.node, cst.With)
        body = stmt.node.body.body
        if any(isinstance(a.node, cst.With) and self.casts(a.node) for a in stmt.ancestors()):
            return []
        cuts = {i + k for i, node in enumerate(body) if self.full(node) for k in (0, 1)}
        cuts.add(self.shared(stmt, body))
        return sorted(c for c in cuts if 0 < c < len(body))

    def shared(self, stmt: Stmt, body: Sequence[cst.CSTNode]) -> int:
        """Behind what the first loss sees without its graph, and a block after its backward call reads; else 0."""
        others = stmt.block.stmts[stmt.block.stmts.index(stmt) + 1 :]
        at = next((i for i, s in enumerate(others) if isinstance(s.node, cst.With) and self.casts(s.node)), None)
        if at is None or not any(_goes_backward(s) for s in others[:at]):
            return 0
        later = {n.value for s in others[at].walk() for n in s.nodes if type(n) is cst.Name}
        made: set[str] = set()
        last = 0
        for place, node in enumerate(body):
            inner = [i for s in stmt.blocks[0].walk() if s.node is node or _line_of(s, node) for i in s.walk()]
            if made & {dotted(c.func).removesuffix(".detach") for i in inner for c in i.calls}:
                return last
            if bound := {d for i in inner for d in i.defs} & later:
                made |= bound
                last = place + 1
        return 0

    def full(self, node: cst.CSTNode) -> bool:
        """`with autocast(enabled=False):`"""
        if not isinstance(node, cst.With) or not self.casts(node):
            return False
        call = node.items[0].item
        assert isinstance(call, cst.Call)
        place = NAMES.get(canonical(qualified(call.func, self.module.imports)), len(call.args))
        given = argument(call, place, "enabled")
        return given is not None and constant(given) is False

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        cuts = self.cuts.get(id(original))
        if cuts is None or not isinstance(original, cst.With) or not isinstance(updated, cst.With):
            return [updated], ()  # type: ignore[list-item]
        assert isinstance(updated.body, cst.IndentedBlock)
        self.changed = True
        body, made = updated.body.body, list[cst.BaseStatement]()
        above: list[cst.EmptyLine] = list(updated.leading_lines)
        if 1 in cuts and self.full(body[0]):  # the header goes with the block that begins with it
            above += layout.trailing_comment(updated.body.header)
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            whole = body[start]
            if end - start == 1 and isinstance(whole, cst.With) and self.full(whole):
                made.append(self.renumbered(whole, leading_lines=[*above, *whole.leading_lines]))
            else:
                made.append(self.part(original, updated, body[start:end], above, first=not made))
            above = []
        return made, layout.comments_only(updated.body.footer)


def _line_of(stmt: Stmt, node: cst.CSTNode) -> bool:
    """The statement stands on a line of a body."""
    return isinstance(node, cst.SimpleStatementLine) and any(small is stmt.node for small in node.body)


def _goes_backward(stmt: Stmt) -> bool:
    return any(type(c.func) is cst.Attribute and c.func.attr.value == "backward" for s in stmt.walk() for c in s.calls)
