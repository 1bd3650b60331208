"""`if warm: ...; continue` with an `else` that makes the loss: what stands there is what goes on, below the branch.

So it is a forward like any other, with a guard above it, instead of one that something may jump out of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

JUMPS = (cst.Continue, cst.Break, cst.Return, cst.Raise)
BACKWARD = re.compile(r"\.backward\(")
LEAVING = re.compile(
    r"^[ \t]+(?:continue|break|return|raise)\b.*\n(?:[ \t]*(?:#.*)?\n)*[ \t]*(?:else:|elif )", re.MULTILINE
)


@each_module
def levelled(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such branches above a backward call."""
    if not module.says(BACKWARD) or not module.says(LEAVING):
        return None
    made = (writer := _Levelled(module)).plain()
    return made if writer.found else None


class _Levelled(Suites):
    """One module, with the other branch below the one that leaves."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.found: set[int] = set()

    def suite(self, body: Sequence[cst.CSTNode]) -> Made:
        chosen = [n for n in body if type(n) is cst.If and n.orelse is not None and _leaves(n.body)]
        for node in chosen:
            below = body[next(i for i, n in enumerate(body) if n is node) + 1 :]
            if isinstance(node, cst.If) and not _named(node.orelse) and any(BACKWARD.search(code(n)) for n in below):
                self.found.add(id(node))
        return super().suite(body)

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.found or not isinstance(updated, cst.If):
            return super().compound(original, updated)
        made: list[cst.BaseStatement] = []
        other: cst.If | cst.Else | None = updated
        while isinstance(other, cst.If) and other.orelse is not None and _leaves(other.body):
            made.append(self.renumbered(other, orelse=None))
            other = other.orelse
        if isinstance(other, cst.If):
            return [*made, other], ()
        rest, waiting = self.opened(other) if other is not None else ([], ())
        return [*made, *rest], waiting


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    if type(last) is cst.With:
        return _leaves(last.body)
    return type(last) is cst.SimpleStatementLine and type(last.body[-1]) in JUMPS


def _named(other: cst.CSTNode | None) -> bool:
    """The other branch defines functions or leaves as well: it stays where it is."""
    last = other
    while isinstance(last, cst.If):
        last = last.orelse
    if isinstance(last, cst.Else) and _leaves(last.body):
        return True
    return other is not None and any(isinstance(n, (cst.FunctionDef, cst.ClassDef)) for n in descend(other))
