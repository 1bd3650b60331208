"""Lists of parameters whose order changes while a program trains: gradients keep the order in which they were taken."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.tape.model import Event, Owner

SAID = re.compile(r"\.(reverse|sort|pop|insert|remove)\(|\bshuffle\(")
CHANGING = ("reverse", "sort", "pop", "insert", "remove")
WHY = "the list of the parameters is put into another order in between"


def reordered(event: Event, owner: Owner, project: Project | None) -> bool:
    """The list of parameters that an event goes through, or that gradients were taken of, is one of these."""
    if project is None or not project.says(SAID):
        return False
    found = _lists(project)
    return bool(found) and any(place.rpartition(".")[2] in found for place in (event.place, owner.place))


@once
def _lists(project: Project) -> frozenset[str]:
    """Their names, without what they are attributes of."""
    found: set[str] = set()
    for module in project.modules.values():
        for scope in module.scope.walk() if module.says(SAID) else ():
            for stmt in scope.body.walk():
                for held in _changed(stmt):
                    name = dotted(held)
                    if module.value(held).kind == "params" and _later(name, stmt):
                        found.add(name.rpartition(".")[2])
    return frozenset(found - {""})


def _changed(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    for call in stmt.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in CHANGING:
            yield call.func.value
        if name_called(call) == "shuffle" and call.args:
            yield call.args[0].value


def _later(name: str, stmt: Stmt) -> bool:
    """Not where the list is made, before anything is trained with it."""
    if any(owner.is_loop for owner in stmt.ancestors()):
        return True
    return "." in name and stmt.block.scope.is_function and stmt.block.scope.name != "__init__"
