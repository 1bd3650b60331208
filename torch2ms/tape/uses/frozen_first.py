"""Programs that freeze before they train: what is frozen when an optimizer is made stays so.

The gradients of a network are those of its trainable parameters then, whenever somebody asks, in whichever function.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.tape.project import flags, switched
from torch2ms.tape.uses.call_graph import CallGraph, call_graph


def frozen_first(project: Project) -> bool:
    """Nothing is frozen or thawed once an optimizer was made."""
    scopes = [(scope, module) for module in project.modules.values() for scope in module.scope.walk()]
    functions = [(scope, module) for scope, module in scopes if scope.is_function]
    graph = call_graph(project)
    direct = {id(s) for s, m in functions if flags(m) and any(switched(stmt, m) for stmt in s.body.walk())}
    making = graph.leading(id(s) for s, _ in functions if any(map(_makes, s.body.walk())))
    if any(not graph.users.get(key) for key in direct - making):  # whoever calls these is not seen
        return False
    freezing = graph.leading(direct)
    return all(_before(scope, module, freezing, making, graph) for scope, module in scopes)


def _before(scope: Scope, module: ModuleInfo, freezing: set[int], making: set[int], graph: CallGraph) -> bool:
    """What a scope freezes itself, or lets others freeze, comes in front of the optimizers, once."""
    stmts = [(s, {id(i.scope) for i in graph.run_in(s, scope, module)}) for s in scope.body.walk() if s.is_small]
    made = [s.number for s, run in stmts if _makes(s) or run & making]
    frozen = [s for s, run in stmts if switched(s, module) or run & freezing] if made else []
    return all(s.number <= made[0] and not _repeated(s, made) for s in frozen)


def _repeated(stmt: Stmt, made: list[int]) -> bool:
    """A loop around the statement comes back to it when optimizers were made."""
    return any(inner.number in made for loop in stmt.ancestors() if loop.is_loop for inner in loop.walk())


def _makes(stmt: Stmt) -> bool:
    return not stmt.blocks and any(v.kind == "optimizer" for v in stmt.out.values())
