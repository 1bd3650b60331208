"""A block of mixed precision that a jump leaves in its middle, as one block before the jump and one behind it.

    with torch.autocast("cuda"):            with torch.autocast("cuda"):
        ...                                     ...
        if distance > limit:                if distance > limit:
            break                               break
        ...                                 with torch.autocast("cuda"):
                                                ...

What compares numbers does it in any precision; what stands before the jump and behind it may then become functions.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import canonical, name_called, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

COMPARED = {"item", "float", "bool", "isnan", "isinf", "isfinite", "any", "all", "abs"}
JUMPS = (cst.Break, cst.Continue)


@each_module
def left_between(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such blocks."""
    if not module.has("autocast"):
        return None
    parter = Parter(module)
    made = parter.plain()
    return made if parter.changed else None


class Parter(Suites):
    """One module."""

    changed = False

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if not isinstance(original, cst.With) or not isinstance(updated, cst.With) or not self.casts(original):
            return [updated], ()  # type: ignore[list-item]
        body = updated.body.body
        at = next((i for i, stmt in enumerate(body) if _jumps(stmt)), None)
        if at is None or not isinstance(updated.body, cst.IndentedBlock):
            return [updated], ()
        self.changed = True
        jump = body[at]
        before = [self.part(original, updated, body[:at], updated.leading_lines, first=True)] if at else []
        if not at:
            jump = self.renumbered(jump, leading_lines=updated.leading_lines)  # type: ignore[arg-type]
        behind: list[cst.BaseStatement] = []
        if rest := body[at + 1 :]:
            behind, _ = self.compound(original, self.part(original, updated, rest, (), first=not at))
        return [*before, jump, *behind], layout.comments_only(updated.body.footer)  # type: ignore[list-item]

    def part(self, original: cst.With, updated: cst.With, body: object, above: object, first: bool) -> cst.With:
        """Some of the statements in a block of their own; the first keeps what stands behind the header."""
        header = {} if first else {"header": cst.TrailingWhitespace()}
        inner = updated.body.with_changes(body=body, footer=(), **header)
        made = updated.with_changes(body=inner, leading_lines=above)
        self.number(made, original)
        return made

    def casts(self, node: cst.With) -> bool:
        """It is a block of mixed precision, and nothing else."""
        if node.asynchronous is not None or len(node.items) != 1 or node.items[0].asname is not None:
            return False
        call = node.items[0].item
        name = canonical(qualified(call.func, self.module.imports)) if isinstance(call, cst.Call) else ""
        return name.startswith("torch.") and name.endswith(".autocast")


def _jumps(stmt: cst.CSTNode) -> bool:
    """`if distance > limit: break`"""
    if not isinstance(stmt, cst.If) or stmt.orelse is not None or len(stmt.body.body) != 1:
        return False
    line = stmt.body.body[0]
    parts = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    if len(parts) != 1 or not isinstance(parts[0], JUMPS):
        return False
    return all(not isinstance(n, cst.Call) or name_called(n) in COMPARED for n in descend(stmt.test))
