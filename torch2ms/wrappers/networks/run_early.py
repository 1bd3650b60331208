"""Networks that run while they are made: `self.size = self.features(torch.zeros(1, 3, 32, 32)).numel()`.

They are in training mode then, statistics of normalisation move and dropout draws. Cells begin in evaluation mode:
the constructor says `self.train()` before, which changes nothing in torch.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.layer_modes import made_sensitive
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing.suites import Made, Suites, line_of
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.networks.begun import keeps_given
from torch2ms.wrappers.passes import each_module

WHY = "torch modules start in training mode, cells do not, and this one runs in its constructor"
GIVEN = "; assumed: the modules that it is given are in training mode"


@each_module
def run_early(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such constructors."""
    if module.directives.off:
        return None
    found: dict[int, tuple[str, bool]] = {}
    for cls in module.classes.values():
        first = _first_run(cls) if cls.kind == "module" else None
        if first is not None and made_sensitive(cls, project):
            found[id(first.node)] = (cls.methods["__init__"].scope.params[0], keeps_given(cls))
    return _Writer(module, found).plain() if found else None


def _first_run(cls: ClassInfo) -> Stmt | None:
    """The statement of a constructor that runs the network first, or a part of it; None where modes are set before."""
    made = cls.methods.get("__init__")
    if made is None or not made.scope.params or any("train" in part.methods for part in cls.lineage()):
        return None
    for stmt in made.scope.body.stmts:
        calls = [call for inner in stmt.walk() for call in inner.calls]
        if any(type(c.func) is cst.Attribute and c.func.attr.value in ("eval", "train") for c in calls):
            return None
        if any(_runs(call, made, cls, frozenset()) for call in calls):
            return stmt
    return None


def _runs(call: cst.Call, info: FunctionInfo, cls: ClassInfo, seen: frozenset[str]) -> bool:
    """The call runs the network itself or a part of it, or a method of its own that does."""
    own = info.scope.params[0] if info.scope.params else ""
    name = dotted(call.func)
    if name in (own, f"{own}.forward") and (cls.method("forward") is not None):
        return True
    if type(call.func) is not cst.Attribute or not name.startswith(f"{own}."):
        return False
    method = cls.method(call.func.attr.value) if dotted(call.func.value) == own else None
    if method is None:
        return info.module.value(call.func).kind == "module"
    if method.name in seen or method.static:
        return False
    inner = (c for stmt in method.scope.body.walk() for c in stmt.calls)
    return any(_runs(c, method, cls, seen | {method.name}) for c in inner)


class _Writer(Suites):
    """One module with constructors that set the mode before."""

    def __init__(self, module: ModuleInfo, wanted: dict[int, tuple[str, bool]]) -> None:
        super().__init__(module)
        self.wanted = wanted

    def statement(self, stmt: cst.CSTNode) -> Made:
        parts = [stmt, *stmt.body] if isinstance(stmt, cst.SimpleStatementLine) else [stmt]
        own, given = next((self.wanted[id(part)] for part in parts if id(part) in self.wanted), ("", False))
        made, waiting = super().statement(stmt)
        if not own or not made:
            return made, waiting
        tier, why = (Tier.ASSUMED, WHY + GIVEN) if given else (Tier.EXACT, WHY)
        self.findings.append(Finding("T2M306", tier, "new module", why, line=self.line))
        line = line_of(f"{own}.train()")
        self.number(line, stmt)
        self.number(line.body[0], parts[-1])
        return [line, *made], waiting


__all__ = ["run_early"]
