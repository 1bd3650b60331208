"""`loss: Tensor = criterion(out, y)` as the assignment that it is.

What is trained, and what is differentiated, is known by the assignments of names; what an annotation tells of a value
that is known anyway adds nothing. It stays where it is all that is known, in bodies of classes, and for plain numbers.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.wrappers.suites import Suites
from torch2ms.wrappers.walrus import TORCH

CONTAINERS = ("list", "tuple", "dict")


def unannotated(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such assignments, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        found = set() if module.uses_mindspore else _told_anyway(module)
        if found:
            plain[module.name] = Plainer(module, found).plain()
    return plain


def _told_anyway(module: ModuleInfo) -> set[int]:
    """The annotated assignments, by id."""
    bodies = (scope.body for scope in module.scope.walk() if not isinstance(scope.node, cst.ClassDef))
    nodes = (stmt.node for body in bodies for stmt in body.walk() if type(stmt.node) is cst.AnnAssign)
    valued = ((id(node), node.value) for node in nodes if node.value is not None)
    return {at for at, value in valued if module.value(value).kind in (*TORCH, *CONTAINERS)}


class Plainer(Suites):
    """One module, with the assignments to write plainly."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.found or not isinstance(node, cst.AnnAssign) or node.value is None:
            return super().small(node)
        return [cst.Assign([cst.AssignTarget(node.target)], node.value, semicolon=node.semicolon)]
