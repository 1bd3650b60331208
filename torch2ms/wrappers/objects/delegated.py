"""What an object has from another one, as in fastai: `def __getattr__(self, k): return getattr(self.learn, k)`.

A method that uses gradients of `self.model` says whose network it means: `self.learn.model`.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.classes import ClassInfo
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

ASKED = "__getattr__"
USING = re.compile(r"\.grad\b|\bclip_grad|\.zero_grad\(|\.backward\(|\.step\(")


def delegated(project: Project) -> dict[str, Plain]:
    """What becomes of modules with such methods."""
    asking = any(m.has(f"def {ASKED}(") for m in project.modules.values())
    return _written(project) if asking else {}


@each_module
def _written(module: ModuleInfo, project: Project) -> Plain | None:
    if module.directives.off or not module.says(USING):
        return None
    writer = _Named(module)
    for cls in module.classes.values():
        asked = cls.method(ASKED) if cls.kind != "module" else None
        other = _other(asked) if asked is not None else ""
        if other:
            writer.reads |= _reads(cls, other, module, project)
    return writer.plain() if writer.reads else None


def _other(asked: FunctionInfo) -> str:
    """The attribute with the object that is asked; "" where more is done than to refuse some names."""
    *refused, last = [s.node for s in asked.scope.body.stmts]
    raising = all(isinstance(n, cst.If) and n.orelse is None and "raise " in code(n.body) for n in refused)
    call = last.value if isinstance(last, cst.Return) else None
    if not raising or not isinstance(call, cst.Call) or dotted(call.func) != "getattr" or len(call.args) != 2:
        return ""
    place, key = (dotted(arg.value) for arg in call.args)
    own, name = asked.scope.params if len(asked.scope.params) == 2 else ("", "")
    found = place.removeprefix(f"{own}.") if own == "self" and key == name else ""
    return found if found.isidentifier() and found != place else ""


def _reads(cls: ClassInfo, other: str, module: ModuleInfo, project: Project) -> dict[int, str]:
    """By id of the attribute: the other object, where a method that uses gradients asks it through its own."""
    family = [*cls.lineage(), *cls.below()]
    found: dict[int, str] = {}
    for method in cls.methods.values():
        if not USING.search(code(method.scope.node)):
            continue
        for node in (n for s in method.scope.body.walk() for top in s.nodes for n in descend(top)):
            if not isinstance(node, cst.Attribute) or dotted(node.value) != "self":
                continue
            name = node.attr.value
            if any(name in c.attrs or name in c.methods for c in family) or not _has(cls, other, name, module, project):
                continue
            found[id(node)] = other
    return found


def _has(cls: ClassInfo, other: str, name: str, module: ModuleInfo, project: Project) -> bool:
    """The other object is seen to have the attribute."""
    held = next((c.attr(other) for c in cls.lineage() if c.attr(other) is not None), None)
    owner = class_of(held, module, project) if held is not None else None
    return owner is not None and (owner.attr(name) is not None or owner.method(name) is not None)


class _Named(Suites):
    """One module, with the attributes of other objects."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.reads: dict[int, str] = {}

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        other = self.reads.get(id(original))
        return updated if other is None else updated.with_changes(value=cst.Attribute(updated.value, cst.Name(other)))
