"""Learning rates of groups are Parameters in MindSpore, which schedulers and compiled steps hold: they are assigned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code
from torch2ms.rewrite.inplace.callers import key

if TYPE_CHECKING:
    from torch2ms.rewrite.writer import Writer

ASKED = re.compile(r"""\[\s*["']lr["']\s*\]\s+is\b|\blr\w*\s+is\b""")  # for None, under a name of its own as well
WHAT = "learning rate of a group"
WHY = "written with ops.assign: plain writes are ignored or shadow the scheduler"


def written(target: cst.Subscript, given: cst.BaseExpression, writer: Writer) -> list[cst.BaseStatement]:
    """The learning rate of a group gets another value."""
    writer.needs.add("ops")
    writer.tell("T2M502", WHAT, WHY)
    writer.plan.expressions.setdefault(id(target), code(target))
    return writer.text("ops.assign({0}, {1})", target, given)


def and_named(node: cst.Assign, writer: Writer) -> list[cst.BaseStatement] | None:
    """`lr = group["lr"] = value`."""
    targets = [t.target for t in node.targets]
    rates = [t for t in targets if isinstance(t, cst.Subscript) and _is_rate(t, writer.module)]
    named = [t for t in targets if isinstance(t, cst.Name)]
    if not rates:
        return None
    if len(named) + len(rates) != len(targets) or not named and not atomic(node.value):
        todo = "write the rate in a statement of its own"
        writer.refuse("T2M502", WHAT, "other things get the same value with it", todo)
        return None
    given: cst.BaseExpression = named[0] if named else node.value
    lines = writer.text("{0} = {1}", named[0], node.value) if named else []
    for name in named[1:]:
        lines += writer.text("{0} = {1}", name, named[0])
    return [*lines, *(line for rate in rates for line in written(rate, given, writer))]


def shown(target: cst.BaseExpression, given: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`self._last_lr = [g["lr"] for g in optimizer.param_groups]`: the rates of the groups."""
    if type(target) is not cst.Attribute or target.attr.value != "_last_lr":
        return False
    holder = module.value(target.value)
    cls = module.classes.get(holder.name.rpartition(".")[2]) if holder.kind == "object" else None
    if holder.kind != "scheduler" and (cls is None or not _schedules(cls.scope)):
        return False
    return isinstance(given, cst.ListComp) and isinstance(given.elt, cst.Subscript) and _is_rate(given.elt, module)


def remembered(call: cst.Call, stmt: Stmt | None) -> bool:
    """A scheduler of the project asks another one: `self.after.get_last_lr()`."""
    func, cls = call.func, stmt.block.scope.cls if stmt is not None else None
    if type(func) is not cst.Attribute or func.attr.value != "get_last_lr" or cls is None:
        return False
    return _schedules(cls) and dotted(func.value) not in ("self", "super")


def perhaps_none(call: cst.Call, stmt: Stmt | None) -> bool:
    """`super().__init__(params, {"lr": lr})` in an optimizer whose rate is None by default, which its steps ask for."""
    cls = stmt.block.scope.cls if stmt is not None and name_called(call) == "__init__" else None
    init = stmt.block.scope.node if stmt is not None else None
    if cls is None or type(init) is not cst.FunctionDef or init.name.value != "__init__":
        return False
    assert isinstance(cls.node, cst.ClassDef)
    none = any(p.name.value == "lr" and p.default is not None and dotted(p.default) == "None"
               for p in (*init.params.params, *init.params.kwonly_params))  # fmt: skip
    return none and any(dotted(base.value).endswith("Optimizer") for base in cls.node.bases) and asks(cls)


def asks(cls: Scope) -> bool:
    """Some method of the class, the constructor apart, compares the rate with None."""
    return any(ASKED.search(code(method.node)) for method in cls.children if method.name != "__init__")


def _schedules(cls: Scope) -> bool:
    """A class that is made of torch's schedulers."""
    bases = cls.node.bases if isinstance(cls.node, cst.ClassDef) else ()
    return any(dotted(base.value).endswith("LRScheduler") for base in bases)


def _is_rate(node: cst.Subscript, module: ModuleInfo) -> bool:
    return key(node) == "lr" and module.value(node).name == "param_group_item"
