"""Over how many batches the accelerators of a project accumulate, in words that hold where a loop asks."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import descend
from torch2ms.wrappers.trainers import accumulate, objects

KEPT = "self.gradient_accumulation_steps"  # what an accelerator was told, where its class needs it later


class Steps:
    """Over how many batches the accelerators of a project accumulate, as far as it is seen."""

    def __init__(self, modules: list[ModuleInfo]) -> None:
        calls = objects.constructors(modules)
        self.made = [(m, c, _scope_of(c, m)) for m, c in calls if objects.constructor(c, m) == "accelerate"]
        self.kept = {id(c): given for m, c, scope in self.made if (given := _to_keep(c, scope, m)) is not None}

    def of(self, module: ModuleInfo, around: list[cst.CSTNode]) -> str:
        """The number of steps as an expression: "1" where none is asked for, "" where it is not seen here."""
        found = {self.one(m, c, scope, module, around) for m, c, scope in self.made}
        return found.pop() if len(found) == 1 else "" if found else "1"

    def one(self, home: ModuleInfo, call: cst.Call, scope: Scope, module: ModuleInfo, around: list[cst.CSTNode]) -> str:
        given = _given(call)
        if given is None:
            return "" if objects.keyword(call, "gradient_accumulation_plugin") is not None else "1"
        if literal := accumulate.read_literal(given):
            return literal
        text = objects.text(given)
        own = scope.cls
        if own is not None and any(s.node is node for s in own.children for node in around):
            if id(call) in self.kept:
                return KEPT
            if text.startswith("self.") and text.count(".") == 1 and len(_binding(text, own)) == 1:
                return text
        names = {n.value for n in descend(given) if isinstance(n, cst.Name)}
        here = home is module and (scope.is_module or any(scope.node is node for node in around))
        bound = [s for s in scope.body.walk() if s.defs & names]
        return text if here and "(" not in text and len(bound) <= len(names) else ""


def _given(call: cst.Call) -> cst.BaseExpression | None:
    """What the accelerator is told to accumulate over."""
    if (given := objects.keyword(call, "gradient_accumulation_steps")) is not None:
        return given
    plain = len(call.args) > 3 and all(a.keyword is None and not a.star for a in call.args[:4])
    return call.args[3].value if plain else None


def _binding(place: str, cls: Scope) -> list[Stmt]:
    return [s for method in cls.children for s in method.body.walk() if place in s.defs]


def _to_keep(call: cst.Call, scope: Scope, module: ModuleInfo) -> cst.BaseExpression | None:
    """The number of steps that a method is given and its class forgets: other methods accumulate, and need it."""
    given = _given(call)
    if scope.cls is None or given is None or not module.has(".accumulate("):
        return None
    private = isinstance(given, cst.Name) and given.value in scope.locals or isinstance(given, cst.Attribute)
    if not private or objects.text(given).startswith("self.") or _binding(KEPT, scope.cls):
        return None
    return given


def _scope_of(call: cst.Call, module: ModuleInfo) -> Scope:
    for scope in module.scope.walk():
        if any(call is c for s in scope.body.walk() for c in s.calls):
            return scope
    return module.scope
