"""Lists of parameters that an object keeps beside the optimizer which it made of them.

`self.params = list(params)`, `self.inner = Adam(self.params)`: what a method does to the gradients of `self.params` it
does to those of `self.inner`, whatever callers handed in.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.ledger.pairs import kept_under


def made_of(scope: Scope, module: ModuleInfo) -> dict[str, str]:
    """The optimizers of the object whose method a scope is, by the attribute that holds their parameters."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is None:
        return {}
    family = {id(c): c for c in (*cls.lineage(), *cls.below())}.values()
    found: dict[str, set[str]] = {}
    for member in family:
        for held, optimizer in _made(member):
            found.setdefault(held, set()).add(optimizer)
    return {held: next(iter(places)) for held, places in found.items() if len(places) == 1}


def list_of(node: cst.CSTNode) -> str:
    """The attribute whose parameters a loop or a call goes over."""
    given = node.iter if isinstance(node, cst.For) else None
    if isinstance(node, cst.Call) and node.args:
        given = node.args[0].value
    if isinstance(given, cst.Call) and len(given.args) == 1 and dotted(given.func) in ("list", "tuple", "iter"):
        given = given.args[0].value
    return dotted(given) if given is not None and kept_under(given) else ""


def _made(cls: ClassInfo) -> list[tuple[str, str]]:
    """Attributes with parameters, and the attributes with the optimizers that were made of all of them."""
    found = []
    for info in cls.methods.values():
        for stmt in info.scope.body.walk():
            node = stmt.node
            call = node.value if type(node) is cst.Assign and len(node.targets) == 1 else None
            if type(call) is not cst.Call or cls.module.value(call).kind != "optimizer" or not call.args:
                continue
            place = dotted(node.targets[0].target)  # type: ignore[union-attr]
            held = dotted(call.args[0].value)
            if place.startswith("self.") and held.startswith("self.") and call.args[0].keyword is None:
                found.append((held, place))
    return found
