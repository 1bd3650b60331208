"""Gradients that are differentiated again by backward calls which different optimizers step behind.

MindSpore compiles the derivative of a compiled gradient for the weights that are asked for first; whoever asks for
others afterwards gets zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.derivatives.closed import owned_weights

WHY = "backward calls that different optimizers step behind go through it: MindSpore gives all but the first zeros"
DEPTH = 4  # callers of callers


def two_askers(networks: Iterable[str], scope: Scope, project: Project) -> bool:
    """Optimizers that each train some of the networks, and not the same, step behind what goes through the scope."""
    if not scope.is_function or scope.name == "forward" or len(owned_weights(project)) < 2:
        return False
    asking = _asking(scope, project)
    if len(asking) < 2:
        return False
    places = frozenset().union(*(_resolved(place, scope, project, DEPTH) for place in networks))
    asking = {owned for owned in asking if any_overlap(owned, places)}
    return any(one != other for one in asking for other in asking)


def _calls(name: str, project: Project) -> Iterator[tuple[cst.Call, Scope, ModuleInfo]]:
    for module in project.modules.values():
        for scope in module.scope.walk() if module.has(f"{name}(") else ():
            for stmt in scope.body.walk():
                for call in stmt.calls:  # loops: every call of a module is looked at
                    func = call.func
                    if name == (func.attr.value if type(func) is cst.Attribute else getattr(func, "value", "")):
                        yield call, scope, module


def _given(place: str, scope: Scope, project: Project) -> Iterator[tuple[cst.BaseExpression, Scope, ModuleInfo]]:
    """What callers hand over under the name of a parameter."""
    bound = scope.params[:1] == ["self"]
    at = scope.params.index(place) - bound
    for call, home, module in _calls(scope.name, project):
        for i, arg in enumerate(call.args):
            if arg.keyword.value == place if arg.keyword is not None else i == at:
                yield arg.value, home, module


def _resolved(place: str, scope: Scope, project: Project, depth: int) -> frozenset[str]:
    """The names that a network has where it is made."""
    if place not in scope.params or not depth:
        return frozenset({place})
    given = [_resolved(dotted(node), home, project, depth - 1) for node, home, _ in _given(place, scope, project)]
    return frozenset().union(*given) - {""}


def _asking(scope: Scope, project: Project) -> set[frozenset[str]]:
    """The weights of each optimizer that steps behind a backward call through what the function gives."""
    names, found, waiting = {scope.name}, set[frozenset[str]](), [scope.name]
    while waiting:
        name = waiting.pop()
        for home, module in {id(h): (h, m) for _, h, m in _calls(name, project)}.values():
            backwards = [(s, c) for s in home.body.walk() if s.calls for c in s.calls if name_called(c) == "backward"]
            if not backwards and home.is_function and home.name not in names:
                names.add(home.name)
                waiting.append(home.name)
            for stmt, call in backwards:
                if _reaches(call, stmt, {name}):
                    later = [s.number for s, _ in backwards if s.number > stmt.number]
                    found |= _stepped(stmt, min(later, default=None), module, project)
    return found


def _reaches(call: cst.Call, stmt: Stmt, names: set[str]) -> bool:
    """What goes backward depends on a call of one of these functions."""
    if type(call.func) is not cst.Attribute:
        return False
    if any(name_called(c) in names for c in stmt.calls):
        return True
    wanted = {root(use) for use in expression_uses(call.func.value, stmt)}
    certain = [s.block for s in (stmt, *stmt.ancestors())]
    before = [s for s in stmt.block.scope.body.walk() if s.number < stmt.number and not s.blocks]
    for other in reversed(before):
        bound = {root(d) for d in other.defs} & wanted
        if bound and any(name_called(c) in names for c in other.calls):
            return True
        if bound:
            anew = type(other.node) is not cst.AugAssign and other.block in certain
            wanted = (wanted - bound if anew else wanted) | {root(u) for u in other.uses}
    return False


def _stepped(stmt: Stmt, until: int | None, module: ModuleInfo, project: Project) -> set[frozenset[str]]:
    """The weights that are trained by what a backward call gives, up to the next one: those of all optimizers that step
    then; several sets where callers hand over one optimizer or another."""
    scope, together, handed = stmt.block.scope, frozenset[str](), set[frozenset[str]]()
    for other in scope.body.walk():
        if other.number < stmt.number or until is not None and other.number > until:
            continue
        for call in other.calls:
            if name_called(call) == "step" and type(call.func) is cst.Attribute:
                owned = _owned(call.func.value, scope, module, project, DEPTH)
                together = together.union(*owned) if len(owned) == 1 else together
                handed |= owned if len(owned) > 1 else set()
    return {together | each for each in handed} or ({together} if together else set())


def _owned(
    node: cst.BaseExpression, scope: Scope, module: ModuleInfo, project: Project, depth: int
) -> set[frozenset[str]]:
    """The weights of an optimizer, as they are called where it is made."""
    if dotted(node) in scope.params and depth:
        given = (_owned(n, home, m, project, depth - 1) for n, home, m in _given(dotted(node), scope, project))
        return set().union(*given)
    value = module.value(node)
    owns = frozenset(own.lstrip("^") for own in value.owns or ())
    return {owns} if value.kind == "optimizer" and owns else set()
