"""Names that share what they hold with others: `old = replace(stats)`, `kept = dict(state)`, `slot = pool.next()`.

A tensor that is changed in place under the one name is another under the other, too: their statements keep their order.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.handed_out import by_name, hands_out
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.shown import target_places
from torch2ms.analysis.program.sites import resolved, versions
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.values import UNKNOWN, overlaps

SHALLOW = ("copy.copy", "dataclasses.replace", "dict", "collections.OrderedDict")
METHODS = ("copy", "_replace")
ELSEWHERE = ("api", "lossfn", "module", "builtin", "class", "dataset", "loader")
TENSORS = ("tensor", "param", "numpy")
BINDING = (cst.Assign, cst.For)
HOLDERS = ("object", "dict", "list", "tuple", "unknown")


Pairs = list[tuple[str, str]]
Taken = tuple[Stmt, cst.BaseExpression, cst.Call]


class Alike:
    """Names and what they share with, in the scopes of a module."""

    def __init__(self, module: ModuleInfo, project: Project) -> None:
        self.module, self.project = module, project
        self.known: dict[int, Pairs] = {}

    def of(self, scope: Scope) -> Pairs:
        if id(scope) not in self.known:
            stmts = list(scope.body.walk())
            made = [(s, *taken) for s in stmts if type(s.node) in BINDING and (taken := _taken(s.node))]
            pairs = ((dotted(target), _shares(value, self.module)) for _, target, value in made)
            known = [(name, place) for name, place in pairs if name and place and name != place]
            self.known[id(scope)] = known + self.handed_out(made, set().union(*[s.muts for s in stmts]))
        return self.known[id(scope)]

    def handed_out(self, made: list[Taken], changed: set[str]) -> Pairs:
        """Names that are changed in place, and what gave them their tensors: `key = memory.newest()`, `key += h`."""
        found: Pairs = []
        for stmt, target, value in made:
            if not changed.isdisjoint(stmt.defs):
                names = target_places(target) & changed
                places = self.owners(value) if names else ()
                found += [(name, place) for place in places for name in names if "." not in name and name != place]
        return found

    def owners(self, call: cst.Call) -> set[str]:
        """The object whose method, or what a function was given that, gives what it keeps."""
        func, method = self.module.value(call.func), type(call.func) is cst.Attribute
        owner = self.module.value(call.func.value) if method else UNKNOWN  # type: ignore[attr-defined]
        unseen = id(call) not in resolved(self.project)
        if owner.kind in TENSORS or unseen and (func.kind in ELSEWHERE or self.module.value(call).deps):
            return set()
        if not any(hands_out(info, self.project) for info in self.reached(call)):
            return set()
        given = [arg.value for arg in call.args if self.module.value(arg.value).kind in (*HOLDERS, *TENSORS)]
        given += [call.func.value] if method and owner.kind != "modulefile" else []  # type: ignore[attr-defined]
        return {dotted(node) for node in given} - {""}

    def reached(self, call: cst.Call) -> list[FunctionInfo]:
        """The functions of the project that a call may run; all of that name where it is not known which."""
        info = resolved(self.project).get(id(call))
        return list(versions(info)) if info is not None else by_name(self.project).get(name_called(call), [])


@once
def _of_modules(_: Project) -> dict[str, Alike]:
    return {}


def alike(module: ModuleInfo, project: Project) -> Alike:
    known = _of_modules(project)
    if module.name not in known:
        known[module.name] = Alike(module, project)
    return known[module.name]


def shared_too(changed: set[str], pairs: Pairs) -> set[str]:
    """The names that hold what is `changed` under others."""
    found = set[str]()
    for name, place in pairs if changed else ():
        for one, other in ((name, place), (place, name)):
            if any(overlaps(one, m) for m in changed):
                found.add(root(other))
    return found


def _taken(node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.Call] | None:
    """What a statement binds to what a call gives, and the call: also `for key in memory.each()`."""
    if type(node) is cst.Assign and type(node.value) is cst.Call and len(node.targets) == 1:
        return node.targets[0].target, node.value
    return (node.target, node.iter) if type(node) is cst.For and type(node.iter) is cst.Call else None


def _shares(node: cst.Call, module: ModuleInfo) -> str:
    """The place of what an expression makes a shallow copy of."""
    copied: cst.BaseExpression | None = None
    if qualified(node.func, module.imports) in SHALLOW:
        copied = node.args[0].value if node.args and not node.args[0].star else None
    elif type(node.func) is cst.Attribute and name_called(node) in METHODS:
        copied = node.func.value
    return dotted(copied) if copied is not None and module.value(copied).kind in HOLDERS else ""
