"""Class methods of an autograd.Function as static ones, where no other class derives from it: cls is the class."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

DECORATED = re.compile(r"^[ \t]+@classmethod\b", re.MULTILINE)
STATIC = cst.Name("staticmethod")


@each_module
def static(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such methods."""
    own = [c for c in module.classes.values() if c.kind == "autograd" and not _inside(c)]
    if not own or not module.says(DECORATED):
        return None
    above = {id(p) for m in project.modules.values() for c in m.classes.values() for p in c.parents}
    methods = {id(n): c.scope.name for c in own if id(c) not in above for n in _class_methods(c)}
    return Static(module, methods).plain() if methods else None


def _inside(cls: ClassInfo) -> bool:
    """It is defined in the body of a class, whose names methods do not see."""
    return cls.scope.parent is not None and type(cls.scope.parent.node) is cst.ClassDef


def _class_methods(cls: ClassInfo) -> list[cst.FunctionDef]:
    """The class methods of a class; none where one of them needs what is above the class, or binds its name anew."""
    nodes = [m.scope.node for m in cls.methods.values() if isinstance(m.scope.node, cst.FunctionDef)]
    found = [n for n in nodes if [dotted(d.decorator) for d in n.decorators] == ["classmethod"] and n.params.params]
    for node in found:
        first = node.params.params[0].name.value
        bound = [p for p in descend(node) if isinstance(p, (cst.Param, cst.AssignTarget, cst.NamedExpr, cst.For))]
        targets = [p.name if isinstance(p, cst.Param) else p.target for p in bound]
        again = [t for t in targets if isinstance(t, cst.Name) and t.value == first]
        named = {p.value for p in descend(node) if isinstance(p, cst.Name)}
        if len(again) > 1 or named & {"super", cls.scope.name}:
            return []
    return found


class Static(Suites):
    """One module, with the methods and the names of their classes."""

    def __init__(self, module: ModuleInfo, methods: dict[int, str]) -> None:
        super().__init__(module)
        self.methods = methods
        self.stack: list[tuple[str, str]] = []  # the first parameter of each function around, and the class it means

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        around = self.stack[-1] if self.stack else ("", "")
        named = self.methods.get(id(node))
        self.stack.append((node.params.params[0].name.value, named) if named else around)

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        self.stack.pop()
        if id(original) not in self.methods:
            return updated
        decorators = [updated.decorators[0].with_changes(decorator=STATIC)]
        params = updated.params.with_changes(params=updated.params.params[1:])
        return updated.with_changes(decorators=decorators, params=params)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        return cst.Name(self.stack[-1][1]) if self.stack and self.stack[-1][0] == original.value else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        return updated if updated.attr is original.attr else updated.with_changes(attr=original.attr)

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated if updated.keyword is original.keyword else updated.with_changes(keyword=original.keyword)
