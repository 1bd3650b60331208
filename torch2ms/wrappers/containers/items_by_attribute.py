"""`nets.generator` of a dict whose items are attributes as well, as `nets["generator"]`, where that is a network.

The places of networks and optimizers that dicts hold are known by their keys.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.known.attribute_dicts import LIBRARIES
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import entries
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.boxes import LIVING
from torch2ms.wrappers.passes import each_module

HELD = re.compile(rf"\bdef __getattr__\b|\b(?:{'|'.join(name.partition('.')[0] for name in sorted(LIBRARIES))})\b")


@each_module
def items_by_attribute(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such attributes."""
    if module.directives.off or not project.says(HELD):
        return None
    writer = _Items(module)
    made = writer.plain()
    return made if writer.changed else None


class _Items(Suites):
    """One module, with the items."""

    changed = False

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        held = self.module.value(original.value)
        item = entries(held).get(original.attr.value) if held.kind == "dict" and dotted(original.value) else None
        if item is None or item.kind not in LIVING:
            return updated
        self.changed = True
        key = cst.SimpleString(f'"{original.attr.value}"')
        return cst.Subscript(
            updated.value, [cst.SubscriptElement(cst.Index(key))], lpar=updated.lpar, rpar=updated.rpar
        )
