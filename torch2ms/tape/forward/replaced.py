"""Weights that a program takes out of use by assignments of forwards to single layers.

torch has no gradient for what is out of use, and leaves it alone; MindSpore's optimizer lets it decay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value, overlaps
from torch2ms.tape.ledger.beyond import BIASED, weighted, weighted_parts, weights
from torch2ms.tape.model import Owner

PATCHED = re.compile(r"\.forward\s*=[^=]")
OWN_WEIGHTS = ("weight", "bias")
PASSED_OVER = "the forward that `{}` is given uses no `{}`: torch leaves it alone, MindSpore's optimizer may move it"


def out_of_use(owner: Owner, project: Project) -> Iterator[str]:
    """Why an optimizer would move weights that assignments took out of use."""
    owns = owner.owns or frozenset()
    if project.says(PATCHED):
        for home in project.modules.values():
            yield from (why for place, why in _patched(home, project) if any(overlaps(place, o) for o in owns))


def _patched(module: ModuleInfo, project: Project) -> Iterator[tuple[str, str]]:
    """The layers whose forward is set to one that passes over weights of theirs, and why that matters."""
    for scope in module.scope.walk() if module.says(PATCHED) else ():
        for stmt in scope.body.walk():
            node = stmt.node
            if type(node) is not cst.Assign:
                continue
            for target in (t.target for t in node.targets):
                if type(target) is cst.Attribute and target.attr.value == "forward":
                    held = module.value(target.value)
                    text = _text(node.value, module, project) if held.kind == "module" and held.place else ""
                    for name in _weights(held, module, project) if text and "forward" not in text else ():
                        if not re.search(rf"\b{name}\b", text):
                            yield held.place, PASSED_OVER.format(code(target.value), name)


def _text(node: cst.BaseExpression, module: ModuleInfo, project: Project) -> str:
    """The source of a function: of a lambda, or of one of the project, bound to an object or not."""
    if type(node) is cst.Lambda:
        return code(node)
    for name in descend(node):
        value = module.value(name) if type(name) is cst.Name or type(name) is cst.Attribute else None
        info = project.find(value.name, module) if value is not None and value.kind == "function" else None
        if isinstance(info, FunctionInfo):
            return code(info.scope.node)
    return dotted(node) and "forward"  # nothing is seen of it: it may run the one that was there


def _weights(held: Value, module: ModuleInfo, project: Project) -> list[str]:
    """The names of the weights, or of the layers with weights, that a layer has itself."""
    cls = class_of(held, module, project)
    if cls is not None:
        return [*weighted_parts(cls, project), *weights(cls)]
    return [*OWN_WEIGHTS[: 1 + bool(BIASED.search(held.name))]] if weighted(held, module, project) else []
