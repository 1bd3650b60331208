"""Networks that a backward call may find in evaluation mode: what they run only in training is idle then."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import overlaps
from torch2ms.tape.ledger.again import called_from, given_by_loops

ASKED = re.compile(r"\bself\.training\b")  # by a forward
EVALUATING = re.compile(r"\.eval\(\)|\.train\(\s*[^)\s]")
CALLERS = 3  # callers of callers that are asked
Modes = list[tuple[Stmt, bool]]  # statements that set the mode, and whether they leave the training mode


def evaluating(stmt: Stmt, wanted: frozenset[str], module: ModuleInfo, project: Project, depth: int = 0) -> bool:
    """Whether a statement that goes backward may run while one of the wanted networks is in evaluation mode."""
    if not (project.says(ASKED) and project.says(EVALUATING)):
        return False
    scope = stmt.block.scope
    found = _modes(scope, wanted, module, project)
    loops = [a for a in stmt.ancestors() if a.is_loop]
    if any(leaves and _reaches(setting, stmt, loops, found) for setting, leaves in found):
        return True
    if depth == CALLERS or not scope.is_function or any(_before(s, stmt) for s, leaves in found if not leaves):
        return False
    sites = [s for s, _ in called_from(scope, project) if s.block.scope is not scope]
    homes = {id(s): m for m in project.modules.values() for s in m.scope.walk()}
    return any(evaluating(s, frozenset(), homes[id(s.block.scope)], project, depth + 1) for s in sites)


def _modes(scope: Scope, wanted: frozenset[str], module: ModuleInfo, project: Project) -> Modes:
    found: Modes = []
    for stmt in scope.body.walk():
        for call in stmt.calls if not isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)) else ():
            leaves = _of_call(call, stmt, wanted, module, project)
            if leaves is not None:
                found.append((stmt, leaves))
    return found


def _of_call(
    call: cst.Call, stmt: Stmt, wanted: frozenset[str], module: ModuleInfo, project: Project, inner: bool = False
) -> bool | None:
    """Whether a call leaves the training mode of a network; None for one that has nothing to do with modes."""
    if type(call.func) is cst.Attribute and call.func.attr.value in ("train", "eval"):
        value = module.value(call.func.value)
        known = value.kind == "module" and bool(value.place) and "@" not in value.place
        if known and wanted and not any(overlaps(value.place, w) for w in wanted):
            return None
        if call.func.attr.value == "eval" and not call.args:
            return True
        flag = constant(call.args[0].value) if call.args else True
        return not flag if isinstance(flag, bool) else _moves(call.args[0].value, stmt, project)
    info = None if inner else _called(call, stmt, module, project)
    if info is None:
        return None
    last = [
        leaves
        for s in info.scope.body.walk()
        for c in s.calls
        if (leaves := _of_call(c, s, frozenset(), info.module, project, inner=True)) is not None
    ]
    return True if last and last[-1] else None  # one that trains says so itself, before its own backward call


def _moves(flag: cst.BaseExpression, stmt: Stmt, project: Project) -> bool:
    """A flag is False at some steps: `net.train(step < 3)`."""
    names = {root(u) for u in expression_uses(flag, stmt)}
    given = names & set(stmt.block.scope.params)
    return not given or bool(given & given_by_loops(stmt.block.scope, project))


def _called(call: cst.Call, stmt: Stmt, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The function or method of the project that a call runs."""
    name = dotted(call.func)
    scope = stmt.block.scope.cls
    if name.startswith("self.") and name.count(".") == 1 and scope is not None:
        cls = next((c for c in module.classes.values() if c.scope is scope), None)
        return cls.method(name[5:]) if cls is not None else None
    value = module.value(call.func)
    found = project.find(value.name, module) if value.kind == "function" and value.name else None
    return found if isinstance(found, FunctionInfo) else None


def _reaches(setting: Stmt, stmt: Stmt, loops: list[Stmt], found: Modes) -> bool:
    """On some way from one statement to another nothing puts the networks into training mode again."""
    if setting.excludes(stmt) and not any(a in loops for a in setting.ancestors()) or _apart(setting, stmt):
        return False
    trains = [s for s, leaves in found if not leaves]
    if setting.number < stmt.number and not setting.excludes(stmt):
        return not any(setting.number < s.number and _before(s, stmt) for s in trains)
    around = [a for a in setting.ancestors() if a in loops]  # the next turn of a loop around both
    again = bool(around) and not any(_before(s, stmt) for s in trains if around[0] in s.ancestors())
    return again and not any(s.number > setting.number and s.block is setting.block for s in trains)


def _before(setting: Stmt, stmt: Stmt) -> bool:
    """A statement runs before another whenever that runs."""
    return setting.number < stmt.number and (setting.block is stmt.block or setting.block.owner is None
                                             or setting.block.owner in stmt.ancestors()) \
        and not setting.excludes(stmt)  # fmt: skip


def _apart(setting: Stmt, stmt: Stmt) -> bool:
    """What is asked before the mode is set is asked before the backward call as well: `if phase == "train":`."""
    around = [*stmt.ancestors()]
    mine = [a for a in setting.ancestors() if isinstance(a.node, cst.If) and a not in around]
    asked = {u for a in mine for u in expression_uses(a.node.test, a)}  # type: ignore[union-attr]
    flags = {u for c in setting.calls for arg in c.args for u in expression_uses(arg, setting)}
    theirs = {u for a in around if isinstance(a.node, cst.If) and a not in setting.ancestors()
              for u in expression_uses(a.node.test, a)}  # fmt: skip
    return bool((asked | flags) & theirs)
