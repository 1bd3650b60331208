"""Functions that write into what they are given, called where no name says which function it is.

`for f in (halve, clip): f(h)`, `table[key](h)`, `partial(scale, k=0.3)(h)`, `map(halve, [h, g])`: any of the functions
that are used as values may be the one that runs, so that each tensor within reach of such a call is written into.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.functions.foreign import change
from torch2ms.tape.functions.reach import Known, used_as_values

WRITTEN = ("tensor", "list", "dict", "tuple", "unknown", "object")


def spread_valued(known: Known) -> None:
    """Add to such calls what they may write into."""
    writing = {i.name for m in known.project.modules.values() for i in m.functions.values() if _writes(i)}
    names = writing & used_as_values(known.project) if writing else set()
    if not names:
        return
    for module in known.project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if id(call) not in known.callee and _may_run(call, names, scope, module):
                        for place in _within(call, names):
                            if module.value(call).kind != "module" and _held(place, scope):
                                change(stmt, place, scope)
                                known.project.written_as_values = frozenset(names)


def _writes(info: FunctionInfo) -> bool:
    """The function changes tensors that it is given, or that it finds in what it is given."""
    given = set(info.scope.params) - {"self", "cls"}
    return any(m in given for s in info.scope.body.walk() for m in s.muts)


def _may_run(call: cst.Call, names: set[str], scope: Scope, module: ModuleInfo) -> bool:
    """The call runs a function that is not seen, or is handed one of the names to run it."""
    if any(type(a.value) is cst.Name and a.value.value in names for a in call.args):
        return dotted(call.func).rpartition(".")[2] != "partial"
    func = call.func
    if type(func) is cst.Subscript:
        return module.value(func).kind in ("unknown", "function", "dict", "list")
    if type(func) is cst.Call:
        return any(type(n) is cst.Name and n.value in names for n in descend(func))
    if type(func) is not cst.Name or func.value not in scope.locals:
        return False
    if module.value(func).kind not in ("unknown", "function"):
        return False
    return not any(func.value == i.name for i in module.functions.values())


def _within(call: cst.Call, names: set[str]) -> Iterator[str]:
    """The places that a call is given, in containers and by themselves."""
    for arg in call.args:
        for node in descend(arg.value):
            if type(node) is cst.Name and node.value not in names:
                yield node.value
            elif type(node) is cst.Attribute and (place := dotted(node)):
                yield place


def _held(place: str, scope: Scope) -> bool:
    """Something in the scope makes a tensor, or what may hold one, under the place."""
    made = [s.out[place] for s in scope.body.walk() if place in s.out]
    return bool(made) and made[-1].kind in WRITTEN and bool(made[-1].deps)
