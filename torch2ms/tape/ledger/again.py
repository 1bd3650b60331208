"""Leaves that come again with what their gradients hold: out of a list, or when a function is called once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.sources import feeding
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.ledger.ledger import Ledger
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import ENTRY, Owner

CONTAINERS = ("list", "tuple", "dict")
CALLERS = 2  # callers of callers that are asked
THROUGH = ("enumerate", "zip", "reversed", "sorted", "tqdm")


def comes_again(owner: Owner, scope: Scope, module: ModuleInfo) -> str:
    """The container out of which a leaf comes more than once, while its gradient is not cleared, "" if none."""
    if owner.kind != "leaf" or not owner.left:
        return ""
    for stmt in scope.body.walk():
        bound_anew = any(owner.place in s.defs for b in stmt.blocks for s in b.stmts)  # `x = x.to(device)`
        if owner.place in stmt.defs and not bound_anew:
            for source in _sources(stmt):
                if module.value(source).kind in CONTAINERS and _again(source, stmt, scope):
                    return code(source)
    return ""


def _sources(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What a statement takes items out of."""
    node = stmt.node
    if isinstance(node, cst.For):
        yield from _walked(node.iter)
    elif isinstance(node, cst.Assign) and isinstance(node.value, cst.Subscript):
        yield node.value.value


def _walked(source: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if not isinstance(source, cst.Call):
        yield source
    elif isinstance(source.func, cst.Attribute) and source.func.attr.value in ("items", "values"):
        yield source.func.value
    elif dotted(source.func).rpartition(".")[2] in THROUGH:
        for arg in source.args:
            yield from _walked(arg.value)


def _again(source: cst.BaseExpression, stmt: Stmt, scope: Scope) -> bool:
    """The items are taken more than once: in a loop around, or by another call of the function."""
    name = root(dotted(source))
    if not name:
        return False  # it is written where it stands: new each time
    made = [s for s in scope.body.walk() if name in s.defs]
    loops = [a for a in stmt.ancestors() if a.is_loop and not any(a in m.ancestors() for m in made)]
    picked = isinstance(stmt.node, cst.Assign)
    if picked and loops and isinstance(loops[0].node, cst.For) and _index(stmt) in loops[0].defs:
        loops = loops[1:]  # one item per turn
    return bool(loops) or not made and scope.is_function


def _index(stmt: Stmt) -> str:
    assert isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Subscript)
    index = stmt.node.value.slice[0].slice
    return dotted(index.value) if isinstance(index, cst.Index) else ""


def left_over(owner: Owner, records: Records, project: Project) -> bool:
    """A call of the function leaves gradients in a leaf from outside, and the next call uses them."""
    outside = root(owner.place) in records.outside
    if owner.kind != "leaf" or not outside or not {n for n, _ in owner.exit.held} - {ENTRY}:
        return False
    again = replace(owner, before={}, assumed=set())
    Ledger(records.scope, records.events, [again], records.outside, entered=[again])
    loads = (e for e in records.events if e.kind in LOADS and concerns(e, again, records.owners))
    states = (again.before.get(records.number[id(e)]) for e in loads)
    used = any(state is not None and (ENTRY, True) in state.held for state in states)
    return used and _called_again(records.scope, owner, project)


def _called_again(scope: Scope, owner: Owner, project: Project) -> bool:
    """The function is called for the same leaf in a loop, or from several places."""
    sites = list(called_from(scope, project))
    given = root(owner.place) in scope.params and root(owner.place) != "self"
    if given:
        handed = [(s, dotted(dict(_bound(call, scope)).get(root(owner.place), cst.Name("")))) for s, call in sites]
        sites = [(s, call) for (s, name), (_, call) in zip(handed, sites, strict=True) if name]
        looped = (s for s, name in handed if name and root(name) not in bound_in_loops(s))
        if len({(id(s.block.scope), name) for s, name in handed if name}) == len(sites):
            return any(a.is_loop for s in looped for a in s.ancestors())
    return len(sites) > 1 or any(a.is_loop for s, _ in sites for a in (s, *s.ancestors()))


def bound_in_loops(stmt: Stmt) -> set[str]:
    """The names that may be others in each turn of the loops around a statement."""
    return {root(d) for a in stmt.ancestors() if a.is_loop for s in a.walk() for d in s.defs}


def given_by_loops(scope: Scope, project: Project, callers: int = CALLERS) -> set[str]:
    """The parameters of a function that calls of it give other values in each turn of a loop, or in each call of the
    function where such a call stands."""
    known, asked = _given_by_loops(project), (scope, callers)
    if asked in known:
        return known[asked]
    found = known[asked] = set()
    for stmt, call in called_from(scope, project):
        changing, home = bound_in_loops(stmt), stmt.block.scope
        given = {name: {root(u) for u in feeding(value, stmt)[1]} for name, value in _bound(call, scope)}
        passed = set().union(*given.values()) & set(home.params) - {"self"}
        if passed and callers and home is not scope:
            changing |= given_by_loops(home, project, callers - 1)
        found |= {name for name, names in given.items() if changing & names}
    return found


@once
def _given_by_loops(project: Project) -> dict[tuple[Scope, int], set[str]]:
    """What was found, by function and how many callers of callers were asked: programs have many calls of one name."""
    return {}


def _bound(call: cst.Call, scope: Scope) -> Iterator[tuple[str, cst.BaseExpression]]:
    """What a call gives the parameters of a function, where nothing is spread over them."""
    free = iter(scope.params[1:] if scope.cls is not None else scope.params)
    for arg in call.args if not any(a.star for a in call.args) else ():
        yield arg.keyword.value if arg.keyword is not None else next(free, ""), arg.value


def called_from(scope: Scope, project: Project) -> list[tuple[Stmt, cst.Call]]:
    """The calls that seem to be of a function."""
    return _by_name(project).get(scope.name, [])


@once
def _by_name(project: Project) -> dict[str, list[tuple[Stmt, cst.Call]]]:
    """The calls of a project, by the name that each of them has last; of other names than these none is asked."""
    found: dict[str, list[tuple[Stmt, cst.Call]]] = {}
    for scope in (s for m in project.modules.values() for s in m.scope.walk()):
        for stmt in scope.body.walk():
            for call in stmt.calls:
                found.setdefault(name_called(call), []).append((stmt, call))
    return found
