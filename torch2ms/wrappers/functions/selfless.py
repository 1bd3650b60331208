"""Methods of modules whose first parameter has another name: MindSpore compiles those alone that call it `self`."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites

COMPILED = re.compile(r"create_graph|\bautograd\b|\bfunc\b|\bjit\b")  # what may need a compiled gradient


def renamed(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such methods, by name, where the project may compile something."""
    named = [(m, names) for m in project.modules.values() if not m.uses_mindspore and (names := _methods(m))]
    if not named or not project.says(COMPILED):
        return {}
    return {module.name: Renamer(module, names).plain() for module, names in named}


class Renamer(Suites):
    """One module, with the methods and the names of their first parameters."""

    def __init__(self, module: ModuleInfo, names: dict[int, str]) -> None:
        super().__init__(module)
        self.names = names
        self.stack: list[str] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.stack.append(self.names.get(id(node), self.stack[-1] if self.stack else ""))

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        self.stack.pop()
        return updated if updated.name is original.name else updated.with_changes(name=original.name)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        return cst.Name("self") if self.stack and self.stack[-1] == original.value else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        return updated if updated.attr is original.attr else updated.with_changes(attr=original.attr)

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated if updated.keyword is original.keyword else updated.with_changes(keyword=original.keyword)


def _methods(module: ModuleInfo) -> dict[int, str]:
    return {
        id(node): node.params.params[0].name.value
        for cls in module.classes.values()
        if cls.kind == "module"
        for node in _functions(cls)
        if node.params.params and not node.decorators and _free(node, node.params.params[0].name.value)
    }


def _functions(cls: ClassInfo) -> list[cst.FunctionDef]:
    nodes = [method.scope.node for method in cls.methods.values()]
    return [node for node in nodes if isinstance(node, cst.FunctionDef)]


def _free(node: cst.FunctionDef, name: str) -> bool:
    """The name is not `self`, which has no other meaning here, and nothing binds it anew."""
    if name == "self":
        return False
    bound: list[str] = []
    for part in descend(node):
        if isinstance(part, cst.Name) and part.value == "self":
            return False
        if isinstance(part, cst.Param):
            bound.append(part.name.value)
        if isinstance(part, (cst.AssignTarget, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)):
            bound += _bound(part.target)
    return bound.count(name) == 1


def _bound(target: cst.CSTNode) -> list[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [name for element in target.elements for name in _bound(element.value)]
    return [target.value] if isinstance(target, cst.Name) else []
