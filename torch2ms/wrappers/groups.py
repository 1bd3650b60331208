"""`optimizer.state_dict()["param_groups"]` to read a learning rate, written as `optimizer.param_groups`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.wrappers.suites import Suites


def direct(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that read groups so, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or "state_dict()[" not in module.source:
            continue
        groups = Groups(module)
        made = groups.plain()
        if groups.changed:
            plain[module.name] = made
    return plain


class Groups(Suites):
    """One module, with the groups themselves."""

    changed = False

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        call, index = updated.value, original.slice[0].slice
        if not isinstance(original.value, cst.Call) or not isinstance(original.value.func, cst.Attribute):
            return updated
        asked = constant(index.value) if isinstance(index, cst.Index) and len(original.slice) == 1 else None
        func = original.value.func
        if func.attr.value != "state_dict" or asked != "param_groups" or not dotted(func.value):
            return updated
        if self.module.value(func.value).kind != "optimizer" or not isinstance(call, cst.Call):
            return updated
        self.changed = True
        assert isinstance(call.func, cst.Attribute)
        return call.func.with_changes(attr=cst.Name("param_groups"))
