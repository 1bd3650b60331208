"""`@autocast("cuda", enabled=False)` above a function as the block around its body, which is understood."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import canonical, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Made, Suites

ABOVE = re.compile(r"^[ \t]*@[\w.]*autocast\(", re.MULTILINE)


def cast_inside(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such functions, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if not module.uses_mindspore and module.says(ABOVE):
            made = (writer := CastInside(module)).plain()
            if writer.changed:
                plain[module.name] = made
    return plain


class CastInside(Suites):
    """One module whose functions begin with the block."""

    changed = False

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if not isinstance(updated, cst.FunctionDef) or not isinstance(updated.body, cst.IndentedBlock):
            return super().compound(original, updated)
        casts = [d for d in updated.decorators if _casts(d, self.module)]
        if not casts:
            return super().compound(original, updated)
        if updated.asynchronous is not None or any(type(n) in (cst.Yield, cst.Await) for n in descend(updated.body)):
            return super().compound(original, updated)
        self.changed = True
        said = updated.get_docstring() is not None
        before, inside = updated.body.body[:said], updated.body.body[said:]
        block = cst.With([cst.WithItem(d.decorator) for d in casts], cst.IndentedBlock(inside))
        self.number(block, original)
        comments = [line for d in casts for line in d.leading_lines if line.comment is not None]
        made = updated.with_changes(
            decorators=[d for d in updated.decorators if d not in casts],
            leading_lines=[*updated.leading_lines, *comments],
            body=updated.body.with_changes(body=[*before, block]),
        )
        self.number(made, original)
        return [made], ()


def _casts(decorator: cst.Decorator, module: ModuleInfo) -> bool:
    """A call of autocast; its arguments are the same when the function runs, as they name what modules have."""
    call = decorator.decorator
    name = canonical(qualified(call.func, module.imports)) if isinstance(call, cst.Call) else ""
    return name.startswith("torch.") and name.endswith(".autocast")
