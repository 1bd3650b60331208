"""Properties that make what they give when they are asked first: `if self._optimizer is None: self._build()`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo
from torch2ms.analysis.syntax.names import dotted


@once
def made_when_asked(module: ModuleInfo) -> frozenset[int]:
    """Ids of the scopes of such getters, where the class asks nothing but getters for the attribute behind them.

    Whoever uses the attribute itself may find None in it.
    """
    return frozenset(
        id(info.scope) for cls in module.classes.values() for info in cls.methods.values()
        if info.getter and (attribute := _kept(info)) and not _used_otherwise(attribute, cls)
    )  # fmt: skip


def _kept(getter: FunctionInfo) -> str:
    """The attribute that a getter returns which asks for None first, "" for what returns something else."""
    stmts = list(getter.scope.body.walk())
    last = stmts[-1].node
    place = dotted(last.value) if type(last) is cst.Return and last.value is not None else ""
    asked = any(place in s.uses and s.blocks for s in stmts if type(s.node) is cst.If)
    return place if place.startswith("self.") and place.count(".") == 1 and asked else ""


def _used_otherwise(place: str, cls: ClassInfo) -> bool:
    """A method uses it that is neither a getter, nor called by one, nor the constructor."""
    methods = [m for c in (*cls.lineage(), *cls.below()) for m in c.methods.values()]
    getters = [m for m in methods if m.getter]
    called = {dotted(call.func) for m in getters for s in m.scope.body.walk() for call in s.calls}
    others = [m for m in methods if not m.getter and m.name != "__init__" and f"self.{m.name}" not in called]
    uses = (use for m in others for s in m.scope.body.walk() for use in s.uses)
    return any(use == place or use.startswith(f"{place}.") for use in uses)
