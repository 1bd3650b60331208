"""Learning rates of groups, which are Parameters in MindSpore: where programs ask for them, and show them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.rewrite.inplace.callers import key
from torch2ms.wrappers.steps.unrated import asks

WHAT = "learning rate of a group"
_OWN_RATES = re.compile(r"\bdef get_last_lr\b")


def shown(target: cst.BaseExpression, given: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`self._last_lr = [g["lr"] for g in optimizer.param_groups]`: the rates of the groups."""
    if type(target) is not cst.Attribute or target.attr.value != "_last_lr":
        return False
    holder = module.value(target.value)
    cls = module.classes.get(holder.name.rpartition(".")[2]) if holder.kind == "object" else None
    if holder.kind != "scheduler" and (cls is None or not _schedules(cls.scope)):
        return False
    return isinstance(given, cst.ListComp) and isinstance(given.elt, cst.Subscript) and is_rate(given.elt, module)


def remembered(call: cst.Call, stmt: Stmt | None) -> bool:
    """A scheduler of the project asks another one: `self.after.get_last_lr()`."""
    func, cls = call.func, stmt.block.scope.cls if stmt is not None else None
    if type(func) is not cst.Attribute or func.attr.value != "get_last_lr" or cls is None:
        return False
    return _schedules(cls) and dotted(func.value) not in ("self", "super")


def wrapped(project: Project) -> bool:
    """A class of the project has this method, too, of which its callers get numbers by then."""
    return project.says(_OWN_RATES)


def overtaken(call: cst.Call, stmt: Stmt | None, module: ModuleInfo) -> bool:
    """`scheduler.get_last_lr()` where `group["lr"] = value` may stand between it and the step of the scheduler."""
    func = call.func
    if type(func) is not cst.Attribute or stmt is None:
        return False
    body = stmt.block.scope.body.walk()
    return any(
        _before_step(stmt, dotted(func.value), path)
        for written in (s for s in body if _writes_rate(s, module))
        for path in _behind(written, body)
    )


def _writes_rate(stmt: Stmt, module: ModuleInfo) -> bool:
    node = stmt.node
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    targets += [node.target] if isinstance(node, cst.AugAssign) else []
    return any(type(target) is cst.Subscript and is_rate(target, module) for target in targets)


def _behind(stmt: Stmt, body: list[Stmt]) -> Iterator[list[Stmt]]:
    """The statements that run behind one: to the end, and round each loop that it stands in."""
    yield [s for s in body if s.number > stmt.number]
    for loop in (a for a in stmt.ancestors() if a.is_loop):
        inside = loop.walk()
        yield [*(s for s in inside if s.number > stmt.number), *(s for s in inside if s.number < stmt.number)]


def _before_step(read: Stmt, scheduler: str, path: list[Stmt]) -> bool:
    """The way leads to the statement before the scheduler steps, or past a step that may not be taken."""
    around = {id(s.block) for s in (read, *read.ancestors())}
    for stmt in path:
        if stmt is read:
            return True
        if id(stmt.block) in around and any(dotted(call.func) == f"{scheduler}.step" for call in stmt.calls):
            return False
    return False


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


def _schedules(cls: Scope) -> bool:
    """A class that is made of torch's schedulers."""
    bases = cls.node.bases if isinstance(cls.node, cst.ClassDef) else ()
    return any(dotted(base.value).endswith("LRScheduler") for base in bases)


def is_rate(node: cst.Subscript, module: ModuleInfo) -> bool:
    return key(node) == "lr" and module.value(node).name == "param_group_item"
