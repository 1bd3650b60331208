"""Attributes of networks whose names nn.Cell has for something else: `self.cells` becomes `self.cells_`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.suites import Suites

# what nn.Cell has and nn.Module has not, as far as it is a word that somebody would use
TAKEN = {
    "cells", "cls_name", "compiled", "construct", "create_time", "get_inputs", "get_scope", "name_cells", "offload",
    "param_prefix", "phase", "recompute", "set_inputs", "shard",
}  # fmt: skip
WHY = "nn.Cell has something else under this name"


def out_of_the_way(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that name such attributes, by name."""
    classes = [c for m in project.modules.values() for c in m.classes.values() if c.kind == "module"]
    names = {name for cls in classes for name in TAKEN & cls.attrs.keys() if name not in cls.methods}
    if not names:
        return {}
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        found = {} if module.uses_mindspore or module.directives.off else _found(names, module, project)
        if found:
            plain[module.name] = _Renamer(module, found).plain()
    return plain


def _found(names: set[str], module: ModuleInfo, project: Project) -> dict[int, str]:
    """The attributes to rename in a module, by id."""
    found: dict[int, str] = {}
    for scope in module.scope.walk():
        cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
        for stmt in scope.body.walk():
            for node in stmt.nodes if not stmt.blocks else ():
                if type(node) is cst.Attribute and node.attr.value in names:
                    if _has(node.attr.value, node.value, module.value(node.value), cls, module, project):
                        found[id(node)] = f"{node.attr.value}_"
            for node in (n for e in _heads(stmt.node) for n in descend(e)):
                if isinstance(node, cst.Attribute) and node.attr.value in names:
                    if _has(node.attr.value, node.value, module.value(node.value), cls, module, project):
                        found[id(node)] = f"{node.attr.value}_"
    return found


def _heads(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The expressions of a compound statement itself."""
    if isinstance(node, (cst.If, cst.While)):
        return [node.test]
    if isinstance(node, cst.For):
        return [node.target, node.iter]
    return [i.item for i in node.items] if isinstance(node, cst.With) else []


def _has(
    name: str, node: cst.BaseExpression, value: Value, own: ClassInfo | None, module: ModuleInfo, project: Project
) -> bool:
    """The object is a network with the attribute, for all that is seen."""
    if dotted(node) == "self":
        return own is not None and own.kind == "module" and own.attr(name) is not None
    if value.kind != "module":
        return False
    cls = project.find(value.name, module) if value.name else None
    return not isinstance(cls, ClassInfo) or cls.attr(name) is not None


class _Renamer(Suites):
    """One module with other names for these attributes."""

    def __init__(self, module: ModuleInfo, found: dict[int, str]) -> None:
        super().__init__(module)
        self.found = found

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        name = self.found.get(id(original))
        if name is None:
            return updated
        self.findings.append(Finding("T2M515", Tier.EXACT, original.attr.value, f"{WHY}: {name}", line=self.line))
        return updated.with_changes(attr=cst.Name(name))
