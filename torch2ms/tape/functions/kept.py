"""What networks keep as they run: `logits = model(x, y)`, then `model.last_loss` or `model.encoder.kl`.

The call makes what is read there, so that it is a part of a forward that uses no other result of it.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value, replace

DEPTH = 4  # layers of layers that keep something
KEEPING = ("tensor", "list", "tuple", "dict", "unknown")


def spread_kept(project: Project) -> None:
    """Add to calls of networks what they leave in attributes that the scope reads."""
    names = _names(project)
    for module in project.modules.values() if names else ():
        if module.uses_mindspore or not any(module.has(f".{name}") for name in names):
            continue
        for scope in module.scope.walk():
            stmts = list(scope.body.walk())
            read = {u for s in stmts for u in s.uses if "." in u and u.rpartition(".")[2] in names}
            for stmt in stmts if read else ():
                for call in stmt.calls:
                    _leave(stmt, call, read, module, project)


def _leave(stmt: Stmt, call: cst.Call, read: set[str], module: ModuleInfo, project: Project) -> None:
    base, value = dotted(call.func), module.value(call.func)
    if not base or value.kind != "module" or not any(place.startswith(f"{base}.") for place in read):
        return
    cls = class_of(value, module, project)
    for path, kept in _left(cls, project, DEPTH).items() if cls is not None else ():
        place = f"{base}.{path}"
        if place in read and place not in stmt.defs:
            stmt.defs.add(place)
            stmt.out[place] = replace(kept, deps=module.value(call).deps)


@once
def _names(project: Project) -> frozenset[str]:
    """The attributes that forwards of the project bind."""
    found = {
        d[5:]
        for module in project.modules.values()
        for cls in module.classes.values() if cls.kind == "module" and "forward" in cls.methods
        for s in cls.methods["forward"].scope.body.walk()
        for d in s.defs if d.startswith("self.") and d.count(".") == 1
    }  # fmt: skip
    return frozenset(found)


def _left(cls: ClassInfo, project: Project, depth: int) -> dict[str, Value]:
    """What a forward leaves with its graph in attributes of its network and of its layers, by path."""
    forward = cls.known("forward")
    if forward is None or not depth:
        return {}
    found: dict[str, Value] = {}
    for stmt in forward.scope.body.walk():
        for place in stmt.defs:
            if place.startswith("self.") and place.count(".") == 1:
                kept = cls.attr(place[5:]) or UNKNOWN
                if kept.kind in KEEPING and kept.deps:
                    found[place[5:]] = kept
        for call in stmt.calls:
            name, layer = dotted(call.func), forward.module.value(call.func)
            inner = class_of(layer, forward.module, project) if layer.kind == "module" else None
            if inner is not None and name.startswith("self.") and inner is not cls:
                found |= {f"{name[5:]}.{path}": kept for path, kept in _left(inner, project, depth - 1).items()}
    return found
