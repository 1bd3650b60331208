"""Containers of layers that are made empty: what is put into them is called by its number alone in MindSpore."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo

CONTAINERS = ("Sequential", "ModuleList")


def growing(info: FunctionInfo) -> int:
    """How many containers a constructor makes empty, with those of the classes above; 0 where it makes none itself."""
    if info.cls is None or info.cls.kind != "module" or not (own := _empty(info)):
        return 0
    above = (c.methods["__init__"] for c in info.cls.lineage() if c is not info.cls and "__init__" in c.methods)
    return own + sum(map(_empty, above))


def numbered(cls: ClassInfo) -> bool:
    """Some parameters of a network begin with the number that their layer has in a container."""
    inits = (c.methods["__init__"] for c in cls.lineage() if "__init__" in c.methods)
    return any(growing(init) == 1 for init in inits)  # of several, the constructor gives the names anew


def _empty(info: FunctionInfo) -> int:
    made = [s.node.value for s in info.scope.body.walk() if type(s.node) is cst.Assign]
    parts = [e.value for v in made for e in (v.elements if type(v) is cst.Tuple else [cst.Element(v)])]
    empty = [v for v in parts if isinstance(v, cst.Call) and not any(map(_filled, v.args))]
    return sum(info.module.value(call.func).name.rpartition(".")[2] in CONTAINERS for call in empty)


def _filled(arg: cst.Arg) -> bool:
    """What a container is given is something else than an empty list."""
    return not isinstance(arg.value, (cst.List, cst.Tuple)) or bool(arg.value.elements)
