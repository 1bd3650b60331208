"""Loops of a forward that run once in some network: `for t in range(self.layers)` of `Stack(4, layers=1)`.

A condition that asks which turn it is then comes to the same each time, and what it leaves out has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.project import ClassInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant


def of_one_turn(test: cst.BaseExpression, stmt: Stmt, cls: ClassInfo, project: Project) -> bool:
    """The condition asks for the turn of a loop that runs once in a network that the program makes."""
    asked = expression_uses(test, stmt)
    for loop in (a for a in stmt.ancestors() if type(a.node) is cst.For and a.defs & asked):
        over = loop.node.iter  # type: ignore[union-attr]
        if isinstance(over, cst.Call) and dotted(over.func) == "range" and len(over.args) == 1:
            if any(given == 1 for given in _given(dotted(over.args[0].value), cls, project)):
                return True
    return False


def _given(place: str, cls: ClassInfo, project: Project) -> Iterator[object]:
    """The constants that the networks of a class are made with for what they keep at a place."""
    init = cls.method("__init__")
    if init is None or not place.startswith("self."):
        return
    kept = [s.node for s in init.scope.body.walk() if place in s.defs and isinstance(s.node, cst.Assign)]
    names = {dotted(node.value) for node in kept} & set(init.scope.params)
    for name in sorted(names):
        position = init.scope.params.index(name) - 1
        for call in _makings(cls, project):
            node = argument(call, position, name)
            if node is not None and not any(a.star for a in call.args):
                yield constant(node)


def _makings(cls: ClassInfo, project: Project) -> Iterator[cst.Call]:
    """The calls that make networks of a class."""
    for module in project.modules.values():
        for call in module.of_kind(cst.Call):
            value = module.value(call.func)
            if value.kind == "class" and project.find(value.name, module) is cls:
                yield call
