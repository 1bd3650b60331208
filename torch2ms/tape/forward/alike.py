"""Names that share what they hold with others: `old = replace(stats, step=1)`, `kept = dict(state)`.

A tensor that is changed in place under the one name is another under the other, too: their statements keep their order.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.values import overlaps

SHALLOW = ("copy.copy", "dataclasses.replace", "dict", "collections.OrderedDict")
METHODS = ("copy", "_replace")
SHARING = re.compile(r"\b(?:copy|replace|_replace)\(|\b(?:dict|OrderedDict)\(\w+\)")
HOLDERS = ("object", "dict", "list", "tuple", "unknown")


Pairs = list[tuple[str, str]]


class Alike:
    """Names and what they share with, in the scopes of a module."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.known: dict[int, Pairs] = {}

    def of(self, scope: Scope) -> Pairs:
        if id(scope) not in self.known:
            made = (s.node for s in scope.body.walk() if type(s.node) is cst.Assign)
            pairs = ((dotted(n.targets[0].target), _shares(n.value, self.module)) for n in made if len(n.targets) == 1)
            self.known[id(scope)] = [(name, place) for name, place in pairs if name and place and name != place]
        return self.known[id(scope)]


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
