"""Functions that a project also hands about: who calls them then is not seen, and they must stay what callers know.

`UPDATES = {"plain": update, "clipped": partial(update, clip=1.0)}`, `self.terms = [self.fit, self.decay]`,
`getattr(self, f"backward_{part}")()`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.functions.reach import used_as_values


def handed_out(infos: list[FunctionInfo], project: Project) -> set[int]:
    """Ids of the scopes of those of some functions that stand somewhere without being called, or are operators."""
    names, fetched = used_as_values(project), _fetched(project)
    wanted = {i.name: i for i in infos if i.name in names}
    found = {id(i.scope) for i in infos if i.cls is not None and _by_syntax(i.name)}
    for module in project.modules.values() if wanted else ():
        for info in _mentioned(module, wanted, project):
            found |= {id(i.scope) for i in (info, *(info.cls.overriding(info.name) if info.cls is not None else ()))}
    for info in infos if fetched else ():
        if info.cls is not None and any(info.name.startswith(head) and cls in _near(info.cls) for head, cls in fetched):
            found.add(id(info.scope))
    return found


def _by_syntax(name: str) -> bool:
    """`__iadd__`, `__setitem__`, `__next__`: Python runs it, without a call that says so."""
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__")


def _mentioned(module: ModuleInfo, wanted: dict[str, FunctionInfo], project: Project) -> Iterator[FunctionInfo]:
    """The functions that a module mentions, apart from where it calls them or asks for something of theirs."""
    apart = {id(call.func) for call in module.of_kind(cst.Call)}
    apart |= {id(node.value) for node in module.of_kind(cst.Attribute)}
    for name in (n for n in module.of_kind(cst.Name) if n.value in wanted and id(n) not in apart):
        value = module.value(name)
        found = project.find(value.name or name.value, module) if value.kind == "function" else None
        if isinstance(found, FunctionInfo):
            yield found
    for node in (n for n in module.of_kind(cst.Attribute) if n.attr.value in wanted and id(n) not in apart):
        holder = module.value(node.value)
        if holder.kind == "api":
            found = project.find(module.value(node).name, module)
            if isinstance(found, FunctionInfo):
                yield found
        cls = class_of(holder, module, project) if holder.kind in ("object", "module", "class", "optimizer") else None
        method = cls.known(node.attr.value) if cls is not None else None
        if method is not None and not method.getter:
            yield method


@once
def _fetched(project: Project) -> list[tuple[str, ClassInfo]]:
    """What `getattr` fetches of objects of the project by names that are not written out, and how these begin."""
    found = []
    for module in (m for m in project.modules.values() if m.has("getattr(")):
        for call in (c for c in module.of_kind(cst.Call) if dotted(c.func) == "getattr" and len(c.args) > 1):
            head = _head(call.args[1].value)
            cls = class_of(module.value(call.args[0].value), module, project) if head else None
            if cls is not None:
                found.append((head, cls))
    return found


def _head(name: cst.BaseExpression) -> str:
    """What a name that is put together begins with."""
    if isinstance(name, cst.FormattedString) and name.parts:
        first = name.parts[0]
        return first.value if isinstance(first, cst.FormattedStringText) else ""
    if isinstance(name, cst.BinaryOperation) and isinstance(name.operator, (cst.Add, cst.Modulo)):
        text = constant(name.left)
        return text.partition("%")[0] if isinstance(text, str) else ""
    return ""


def _near(cls: ClassInfo) -> list[ClassInfo]:
    return [*cls.lineage(), *cls.below()]
