"""Weights that get new values while training goes on: `nn.init.normal_(net.head.weight)` between two steps.

An optimizer of MindSpore that has made a step is compiled, and keeps the storage that the weights had then: what is put
in by `set_data` it never moves again. Where weights get their first values no step was made, and `set_data` is right.
Compiled derivatives that have run keep the storage as well.
"""

from __future__ import annotations

from collections import defaultdict

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called

CALLERS = 4  # functions around functions that are looked at


def at_work(project: Project, stmt: Stmt) -> bool:
    """An optimizer may have made a step before the statement, and make another after it."""
    if not project.moving:
        return False
    level, seen = [(stmt, stmt.block.scope)], set[int]()  # methods of one name may all call one another
    for _ in range(CALLERS + 1):
        around: dict[int, tuple[Stmt, Scope]] = {}
        for at, scope in level:
            if steps := stepped(scope, project) or unseen(at, scope):
                if between(at, scope, steps, project) and not _new_optimizer(at, scope, steps):
                    return True
            elif scope.is_function and scope.name != "__init__" and id(scope) not in seen:
                seen.add(id(scope))
                around |= {id(s): (s, home) for s, home in _mentions(project).get(scope.name, ()) if home is not scope}
        level = [*around.values()]
    return False


def unseen(stmt: Stmt, scope: Scope) -> list[Stmt]:
    """Statements of a loop around that call what was put under a name, or in a table: it may step."""
    bound = {d for s in scope.body.walk() if isinstance(s.node, (cst.Assign, cst.AnnAssign, cst.For)) for d in s.defs}
    around = [a for a in stmt.ancestors() if a.is_loop]
    return [
        s for a in around for s in a.walk() if not s.blocks
        if any(type(c.func) is cst.Subscript or type(c.func) is cst.Name and c.func.value in bound for c in s.calls)
    ]  # fmt: skip


def _new_optimizer(stmt: Stmt, scope: Scope, steps: list[Stmt]) -> bool:
    """What steps after the statement is made after it: `for fold in folds: net.apply(init); opt = Adam(...)`."""
    around = [a for a in stmt.ancestors() if a.is_loop]
    if any(s.number < stmt.number and any(a in s.ancestors() for a in around) for s in steps):
        return False
    later = [s for s in steps if s.number > stmt.number]
    return bool(later) and all(_made_between(stmt, step, scope) for step in later)


def _made_between(stmt: Stmt, step: Stmt, scope: Scope) -> bool:
    """The optimizer of a step is bound between the statement and the step."""
    stepping = {dotted(c.func.value) for c in step.calls if isinstance(c.func, cst.Attribute)}
    between = (s for s in scope.body.walk() if stmt.number < s.number < step.number)
    return any(value.kind == "optimizer" and place in stepping for s in between for place, value in s.out.items())


@once
def _mentions(project: Project) -> dict[str, list[tuple[Stmt, Scope]]]:
    """The statements that call a function, or hand it on, by its name: `net.apply(init_weights)`."""
    found: dict[str, list[tuple[Stmt, Scope]]] = defaultdict(list)
    for module in project.modules.values():
        for home in module.scope.walk():
            for stmt in home.body.walk():
                named = (node for call in stmt.calls for node in (call.func, *(a.value for a in call.args)))
                for name in {dotted(node).rpartition(".")[2] for node in named} - {""}:
                    found[name].append((stmt, home))
    return found


def stepped(scope: Scope, project: Project) -> list[Stmt]:
    """The statements of a scope that let an optimizer step, or take compiled derivatives."""
    return [s for s in scope.body.walk() if not s.blocks and any(name_called(c) in project.moving for c in s.calls)]


def between(stmt: Stmt, scope: Scope, steps: list[Stmt], project: Project) -> bool:
    """One of the steps comes before the statement, and one again after it."""
    around = [a for a in stmt.ancestors() if a.is_loop]
    if any(a in s.ancestors() for a in around for s in steps):
        return True
    if any(s.number < stmt.number for s in steps) and any(s.number > stmt.number for s in steps):
        return True
    here = any(value.kind == "optimizer" for s in scope.body.walk() for value in s.out.values())
    return scope.is_function and not here and _runs_again(scope.name, project, 0)


@once
def _calling(project: Project) -> dict[str, list[tuple[Stmt, Scope]]]:
    """By name of what is called: the statements with such calls, once for each call, and their scopes."""
    found: dict[str, list[tuple[Stmt, Scope]]] = defaultdict(list)
    for scope in (s for m in project.modules.values() for s in m.scope.walk()):
        for stmt in scope.body.walk():
            for call in stmt.calls:
                found[name_called(call)].append((stmt, scope))
    return found


def _runs_again(name: str, project: Project, depth: int) -> bool:
    """A function is called in a loop, or at several places: what it does last comes before what it does first."""
    calls = _calling(project).get(name, [])
    if len(calls) > 1 or any(a.is_loop for s, _ in calls for a in s.ancestors()):
        return True
    return depth < CALLERS and any(f.is_function and _runs_again(f.name, project, depth + 1) for _, f in calls)
