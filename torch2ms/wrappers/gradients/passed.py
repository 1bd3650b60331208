"""The calls of a function in the project, and what they give to its parameters."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted

Caller = tuple[cst.Call, Scope, ModuleInfo]


def callers(called: str, project: Project) -> list[Caller]:
    """Every call under a name; nothing where the name is mentioned otherwise: who knows what is called then."""
    found: list[Caller] = []
    mentions = 0
    for module in project.modules.values():
        mentions += len(re.findall(rf"(?<!def )(?<!class )\b{called}\b", module.source))
        mentions -= len(re.findall(rf"^\s*(?:from|import)\b.*\b{called}\b", module.source, re.M))
        found += [
            (call, scope, module) for scope in module.scope.walk() for stmt in scope.body.walk() for call in stmt.calls
            if dotted(call.func).rpartition(".")[2] == called
        ]  # fmt: skip
    return found if mentions == len(found) else []


def argument(call: cst.Call, name: str, scope: Scope) -> cst.BaseExpression | None:
    """What a call gives to a parameter, None where that is not written in it."""
    if any(arg.star for arg in call.args):
        return None
    named = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == name), None)
    position = scope.params.index(name) - (scope.cls is not None and scope.params[0] == "self")
    if named is not None or not 0 <= position < len(call.args) or call.args[position].keyword is not None:
        return named
    return call.args[position].value
