"""Networks of unseen classes that a forward asks for what they kept of an earlier part of it."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.guess import of_settings
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import Value

NOTHING = {"str", "int", "float", "bool", "none"}  # arguments that no network is run on
PARAMETERS = ("params", "named_params")


def asked_again(early: list[Stmt], late: list[Stmt], module: ModuleInfo) -> str:
    """What the second part reads there; "" if nothing.

    `policy.act(x)`, and `policy.get_entropy()` or `policy.distribution.entropy()` behind: given nothing to run on, it
    has that from the first part.
    """
    ran = {held.place for call in _calls(early) if (held := _network(call, module)) is not None}
    called = {id(call.func): call for call in _calls(late)}
    for node in (n for stmt in late for inner in stmt.walk() for n in inner.nodes) if ran else ():
        if type(node) is not cst.Attribute or module.value(node).kind != "unknown":
            continue
        held = module.value(node.value)
        if held.kind == "module" and held.place in ran and _kept(node, called.get(id(node)), module):
            return code(node)
    return ""


def _kept(node: cst.Attribute, call: cst.Call | None, module: ModuleInfo) -> bool:
    """What is read is nothing that the call itself makes of its arguments."""
    if call is None:
        return not of_settings(dotted(node))
    made = module.value(call)
    nothing = all(module.value(a.value).kind in NOTHING for a in call.args)
    return nothing and bool(made.deps) and made.kind not in PARAMETERS


def _calls(stmts: list[Stmt]) -> list[cst.Call]:
    return [call for stmt in stmts for inner in stmt.walk() for call in inner.calls]


def _network(call: cst.Call, module: ModuleInfo) -> Value | None:
    """The network that is called, or one of whose methods is."""
    parts = [call.func, *([call.func.value] if isinstance(call.func, cst.Attribute) else [])]
    return next((v for v in map(module.value, parts) if v.kind == "module" and v.place), None)
