"""What networks keep as they run: `logits = model(x, y)`, then `model.last_loss` or `model.encoder.kl`.

The call makes what is read there, so that it is a part of a forward that uses no other result of it.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value, replace

ITSELF = ("train", "eval", "to", "cuda", "cpu", "float", "double", "half")  # methods that give back their network
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
                    _leave(stmt, call, read, scope, module, project)


def _leave(stmt: Stmt, call: cst.Call, read: set[str], scope: Scope, module: ModuleInfo, project: Project) -> None:
    base, value = dotted(call.func), module.value(call.func)
    bases = [b for b in (base, own_name(base, scope)) if b and any(place.startswith(f"{b}.") for place in read)]
    if value.kind != "module" or not bases:
        return
    cls = class_of(value, module, project)
    for path, kept in _left(cls, project, DEPTH).items() if cls is not None else ():
        for place in (f"{b}.{path}" for b in bases):
            if place in read and place not in stmt.defs:
                stmt.defs.add(place)
                stmt.out[place] = replace(kept, deps=module.value(call).deps)


def own_name(name: str, scope: Scope) -> str:
    """ "self" where a name of a method is one of its own object: `model = self.train()`; else ""."""
    made = [s.node for s in scope.body.walk() if name in s.defs] if scope.cls is not None and "." not in name else []
    value = made[0].value if len(made) == 1 and type(made[0]) is cst.Assign else None
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in ITSELF:
        value = value.func.value
    return "self" if value is not None and dotted(value) == "self" else ""


@once
def _names(project: Project) -> frozenset[str]:
    """The attributes that forwards of the project bind, by themselves or in methods that they call."""
    found = {
        d[5:]
        for module in project.modules.values()
        for cls in module.classes.values() if cls.kind == "module" and "forward" in cls.methods
        for info in _run(cls.methods["forward"], cls)
        for s in info.scope.body.walk()
        for d in s.defs if d.startswith("self.") and d.count(".") == 1
    }  # fmt: skip
    return frozenset(found)


def _run(forward: FunctionInfo, cls: ClassInfo) -> list[FunctionInfo]:
    """A forward of a class, and the methods of the same object that it calls."""
    found = [forward]
    for info in found:
        for call in (c for s in info.scope.body.walk() for c in s.calls):
            owner, _, name = dotted(call.func).partition(".")
            method = cls.known(name) if owner == "self" and "." not in name else None
            found += [method] if method is not None and method not in found else []
    return found


def _left(cls: ClassInfo, project: Project, depth: int) -> dict[str, Value]:
    """What a forward leaves with its graph in attributes of its network and of its layers, by path; of a class without
    one, what those of its subclasses leave."""
    forward = cls.method("forward")
    if not depth:
        return {}
    if forward is None:
        below = [_left(sub, project, depth - 1) for sub in cls.below() if "forward" in sub.methods]
        return {path: kept for found in below for path, kept in found.items()}
    found: dict[str, Value] = {}
    for info in _run(forward, cls):
        for stmt in info.scope.body.walk():
            for place in stmt.defs:
                if place.startswith("self.") and place.count(".") == 1:
                    kept = cls.attr(place[5:]) or UNKNOWN
                    if kept.kind in KEEPING and kept.deps:
                        found[place[5:]] = kept
            for call in stmt.calls:
                name, layer = dotted(call.func), info.module.value(call.func)
                inner = class_of(layer, info.module, project) if layer.kind == "module" else None
                if inner is not None and name.startswith("self.") and inner is not cls:
                    found |= {f"{name[5:]}.{path}": kept for path, kept in _left(inner, project, depth - 1).items()}
    return found
