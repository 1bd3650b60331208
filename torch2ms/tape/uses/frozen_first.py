"""Programs that freeze before they train: what is frozen when an optimizer is made stays so.

The gradients of a network are those of its trainable parameters then, whenever somebody asks, in whichever function.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.tape.project import called_as, callers, flags, switched


def frozen_first(project: Project) -> bool:
    """Nothing is frozen or thawed once an optimizer was made; functions are told by their names."""
    scopes = [(scope, module) for module in project.modules.values() for scope in module.scope.walk()]
    functions = [(scope, module) for scope, module in scopes if scope.is_function]
    direct = {called_as(s) for s, m in functions if flags(m) and any(switched(stmt, m) for stmt in s.body.walk())}
    freezing = callers(set(direct), project)
    making = callers({called_as(s) for s, _ in functions if any(map(_makes, s.body.walk()))}, project)
    mentioned = {use.rpartition(".")[2] for s, _ in scopes for stmt in s.body.walk() for use in stmt.uses}
    if direct - making - mentioned:  # whoever calls these is not seen
        return False
    return all(_before(scope, module, freezing, making) for scope, module in scopes)


def _before(scope: Scope, module: ModuleInfo, freezing: set[str], making: set[str]) -> bool:
    """What a scope freezes itself, or lets others freeze, comes in front of the optimizers, once."""
    stmts = [s for s in scope.body.walk() if s.is_small]
    made = [s.number for s in stmts if _makes(s) or _mentions(s, making)]
    frozen = [s for s in stmts if switched(s, module) or _mentions(s, freezing)] if made else []
    return all(s.number <= made[0] and not _repeated(s, made) for s in frozen)


def _repeated(stmt: Stmt, made: list[int]) -> bool:
    """A loop around the statement comes back to it when optimizers were made."""
    return any(inner.number in made for loop in stmt.ancestors() if loop.is_loop for inner in loop.walk())


def _makes(stmt: Stmt) -> bool:
    return not stmt.blocks and any(v.kind == "optimizer" for v in stmt.out.values())


def _mentions(stmt: Stmt, names: set[str]) -> bool:
    return any(use.rpartition(".")[2] in names for use in stmt.uses)
