"""Functions that nothing but code without gradients calls: `with torch.no_grad(): collect(teacher, x, feats)`.

What they put into containers that they are handed, into attributes or module-level tables keeps no graph in torch,
wherever that is read later.
"""

from __future__ import annotations

from collections import Counter

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.forward.dependents import silenced

Call = tuple[Scope, Stmt, ModuleInfo]


def silent(project: Project) -> frozenset[str]:
    """The names of such functions; a name counts where all functions and methods of that name are called so."""
    calls: dict[str, list[Call]] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    calls.setdefault(dotted(call.func).rpartition(".")[2], []).append((scope, stmt, module))
    infos: dict[str, list[FunctionInfo]] = {}
    for module in project.modules.values():
        for info in module.functions.values():
            if info.name in calls and not info.name.startswith("__") and info.name != "forward":
                infos.setdefault(info.name, []).append(info)
    possible = {n for n in infos if all(_off(*call, frozenset(infos)) for call in calls[n])}
    mentions = _mentions(project) if possible else Counter()
    named = {n for n, all_of in infos.items() if n in possible and mentions[n] == len(calls[n]) + len(all_of)}
    found: frozenset[str] = frozenset()
    while True:
        more = frozenset(n for n in named if all(_off(*call, found) for call in calls[n]))
        if more == found:
            return found
        found = more


def _mentions(project: Project) -> Counter[str]:
    """How often each name is written, where it is defined too; imports under the same name left out."""
    found: Counter[str] = Counter()
    for module in project.modules.values():
        for node in module.nodes:
            if type(node) is cst.Name:
                found[node.value] += 1
            elif type(node) is cst.ImportAlias and node.asname is None:
                found.subtract([dotted(node.name).rpartition(".")[2]])
    return found


def _off(scope: Scope, stmt: Stmt, module: ModuleInfo, known: frozenset[str]) -> bool:
    """The statement runs where gradients are off."""
    if silenced(stmt, module):
        return True
    node = scope.node
    if not isinstance(node, cst.FunctionDef):
        return False
    return scope.name in known or any(is_no_grad(each.decorator, module) for each in node.decorators)
