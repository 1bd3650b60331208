"""`if h.requires_grad: h.register_hook(...)`: the question goes, as hooks do nothing where no gradient is taken.

torch refuses hooks on tensors without a graph, and so evaluation asks for one first. MindSpore's tensors do not know.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

ASKED = re.compile(r"\bif [\w.]+\.requires_grad *:").search
HOOKS = ("register_hook", "retain_grad")
WHY = "hooks do nothing where no gradient is taken: the question is dropped"


@each_module
def hooked(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks so."""
    if not any(module.has(f".{name}(") for name in HOOKS) or not ASKED(module.source):
        return None
    writer = _Hooked(module)
    made = writer.plain()
    return made if writer.findings else None


class _Hooked(Suites):
    """One module."""

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if not isinstance(updated, cst.If) or updated.orelse is not None or not _only_hooks(updated):
            return super().compound(original, updated)
        self.findings.append(Finding("T2M303", Tier.EXACT, "Tensor.requires_grad", WHY, line=self.line))
        return self.opened(updated)


def _only_hooks(node: cst.If) -> bool:
    """The body does nothing but register hooks on the tensor that the test asks."""
    test = node.test
    if not isinstance(test, cst.Attribute) or test.attr.value != "requires_grad" or not dotted(test.value):
        return False
    lines = node.body.body
    smalls = [s.body[0] for s in lines if isinstance(s, cst.SimpleStatementLine) and len(s.body) == 1]
    calls = [s.value for s in smalls if isinstance(s, (cst.Expr, cst.Assign))]
    return bool(lines) and len(calls) == len(lines) and all(_hooks(c, dotted(test.value)) for c in calls)


def _hooks(node: cst.CSTNode, name: str) -> bool:
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in HOOKS and dotted(func.value) == name
