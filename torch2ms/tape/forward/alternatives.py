"""Networks of one of several classes: `net = Small() if small else Large()`, a factory, a loop over classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.evaluation.methods import RETURNING_SELF
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import choices

DEPTH = 3  # names and functions that give on what others made
WHOLE = -1  # ... of a value, in place of the number of a part
Found = Iterator[ClassInfo | None]  # None: it may be of any class


def classes_of(name: str, scope: Scope, module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The classes of which a name of the scope may be an instance; none where one of those is not seen."""
    found = list(_Source(scope, module, project, DEPTH).named(name, WHOLE))
    return [] if None in found else list({id(cls): cls for cls in found if cls is not None}.values())


@dataclass(frozen=True)
class _Source:
    """What a scope makes, as far as functions are followed from there."""

    scope: Scope
    module: ModuleInfo
    project: Project
    depth: int

    def named(self, name: str, part: int) -> Found:
        """What a name is bound to, or one part of that."""
        bindings = [s.node for s in self.scope.body.walk() if name in s.defs]
        if not bindings or not self.depth or not all(type(node) is cst.Assign for node in bindings):
            yield None
            return
        for node in bindings:
            assert isinstance(node, cst.Assign)
            for target in (t.target for t in node.targets):
                if isinstance(target, cst.Tuple):
                    names = [dotted(element.value) for element in target.elements]
                    if name in names:
                        yield from self.made(node.value, names.index(name), name) if part == WHOLE else [None]
                elif dotted(target) == name and dotted(node.value) != "None":
                    yield from self.made(node.value, part, name)

    def made(self, node: cst.BaseExpression, part: int, name: str = "") -> Found:
        """What an expression makes, or one part of it; `name` itself makes nothing new."""
        if isinstance(node, cst.IfExp):
            yield from self.made(node.body, part, name)
            yield from self.made(node.orelse, part, name)
        elif isinstance(node, cst.Tuple) and 0 <= part < len(node.elements):
            yield from self.made(node.elements[part].value, WHOLE)
        elif isinstance(node, cst.Name):
            yield from replace(self, depth=self.depth - 1).named(node.value, part) if node.value != name else ()
        elif isinstance(node, cst.Call):
            yield from self.called(node, part, name)
        else:
            yield None

    def called(self, call: cst.Call, part: int, name: str) -> Found:
        """What a call gives: of a class, of a function, or of a method that gives back the network, as `cuda`."""
        value = self.module.value(call.func)
        found = self.project.find(value.name, self.module) if value.kind == "function" and value.name else None
        if value.kind == "class" and part == WHOLE:
            yield from (class_of(one, self.module, self.project) for one in choices(value))
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in RETURNING_SELF:
            yield from self.made(call.func.value, part, name)
        elif isinstance(found, FunctionInfo) and self.depth:
            given = [s.node.value for s in found.scope.body.walk() if isinstance(s.node, cst.Return)]
            within = _Source(found.scope, found.module, self.project, self.depth - 1)
            for node in given or [None]:
                yield from within.made(node, part) if node is not None else [None]
        else:
            yield None
