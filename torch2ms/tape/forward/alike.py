"""Names that share what they hold with others: `old = replace(stats)`, `kept = dict(state)`, `slot = pool.next()`.

A tensor that is changed in place under the one name is another under the other, too: their statements keep their order.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.handed_out import hands_out
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.shown import target_places
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.values import UNKNOWN, overlaps
from torch2ms.tape.forward.captured import captured

SHALLOW = ("copy.copy", "dataclasses.replace", "dict", "collections.OrderedDict")
METHODS = ("copy", "_replace")
ELSEWHERE = ("api", "lossfn", "module", "builtin", "class", "dataset", "loader")
TENSORS = ("tensor", "param", "numpy")
HOLDERS = ("object", "dict", "list", "tuple", "unknown")


Pairs = list[tuple[str, str]]


class Alike:
    """Names and what they share with, in the scopes of a module."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.known: dict[int, Pairs] = {}

    def of(self, scope: Scope) -> Pairs:
        if id(scope) not in self.known:
            stmts = list(scope.body.walk())
            made = [(s, s.node) for s in stmts if type(s.node) is cst.Assign and type(s.node.value) is cst.Call]
            one = [n for _, n in made if len(n.targets) == 1]
            pairs = ((dotted(n.targets[0].target), _shares(n.value, self.module)) for n in one)
            known = [(name, place) for name, place in pairs if name and place and name != place]
            self.known[id(scope)] = known + self.handed_out(made, set().union(*[s.muts for s in stmts]))
        return self.known[id(scope)]

    def handed_out(self, made: list[tuple[Stmt, cst.Assign]], changed: set[str]) -> Pairs:
        """Names that are changed in place, and what gave them their tensors: `key = memory.newest()`, `key += h`."""
        found: Pairs = []
        for stmt, node in made:
            if not changed.isdisjoint(stmt.defs) and len(node.targets) == 1:
                names = target_places(node.targets[0].target) & changed
                places = self.owners(node.value) if names else ()  # type: ignore[arg-type]
                found += [(name, place) for place in places for name in names if "." not in name and name != place]
        return found

    def owners(self, call: cst.Call) -> set[str]:
        """The object whose method, or what a function was given that, gives what it keeps."""
        func, method = self.module.value(call.func), type(call.func) is cst.Attribute
        owner = self.module.value(call.func.value) if method else UNKNOWN  # type: ignore[attr-defined]
        if func.kind in ELSEWHERE or owner.kind in TENSORS or self.module.value(call).deps:
            return set()
        named = captured(self.module).by_name.get(name_called(call), ())
        if not any(hands_out(inner) for inner in named):
            return set()
        given = [call.func.value] if method else [arg.value for arg in call.args]  # type: ignore[attr-defined]
        return {dotted(node) for node in given} - {""}


@once
def alike(module: ModuleInfo) -> Alike:
    return Alike(module)


def shared_too(changed: set[str], pairs: Pairs) -> set[str]:
    """The names that hold what is `changed` under others."""
    found = set[str]()
    for name, place in pairs if changed else ():
        for one, other in ((name, place), (place, name)):
            if any(overlaps(one, m) for m in changed):
                found.add(root(other))
    return found


def _shares(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """The place of what an expression makes a shallow copy of."""
    if not isinstance(node, cst.Call):
        return ""
    copied: cst.BaseExpression | None = None
    if qualified(node.func, module.imports) in SHALLOW:
        copied = node.args[0].value if node.args and not node.args[0].star else None
    elif type(node.func) is cst.Attribute and name_called(node) in METHODS:
        copied = node.func.value
    return dotted(copied) if copied is not None and module.value(copied).kind in HOLDERS else ""
