"""`return getattr(self.module, name)` in the `__getattr__` of a network that stands for another one."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.writer import Writer


def delegated(stmt: Stmt, node: cst.Return, writer: Writer) -> list[cst.BaseStatement] | None:
    """MindSpore asks a cell for attributes before its constructor has given it any: the other is not there yet."""
    scope, call = stmt.block.scope, node.value
    if scope.name != "__getattr__" or scope.cls is None or not isinstance(call, cst.Call):
        return None
    cls = writer.module.classes.get(scope.cls.name)
    if dotted(call.func) != "getattr" or len(call.args) != 2 or cls is None or cls.kind != "module":
        return None
    held, name = dotted(call.args[0].value), dotted(call.args[1].value)
    if held.count(".") != 1 or not held.startswith("self.") or name not in scope.params:
        return None
    writer.tell("T2M501", "__getattr__ of a module", "a cell is asked for attributes before it has any")
    inner = held.removeprefix("self.")
    return writer.text(f"if {name} == {inner!r}:\n    raise AttributeError({name})\nreturn {{0}}", call)
