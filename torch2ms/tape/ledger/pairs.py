"""Loops over parameters: which iterable gives them, and which name holds each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

PARAMETERS = ("params", "list", "tuple")
COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)


@dataclass(frozen=True)
class Pairing:
    """`params` gives the parameters, `target` takes each; `name` takes its name, `index` its number.

    `zipped` is the argument of the `zip` in which the parameters are one of several.
    """

    params: cst.BaseExpression
    target: cst.BaseExpression
    name: str = ""
    index: str = ""
    zipped: cst.Arg | None = None
    wrapped: bool = False  # the loop runs over more than the parameters


def paired(
    given: cst.BaseExpression, target: cst.BaseExpression, names: Collection[str], module: ModuleInfo
) -> Pairing | None:
    """The parameters among what a loop runs over, whose `.grad` is used under one of these names."""
    value = module.value(given)
    if isinstance(target, cst.Name):
        if target.value not in names:
            return None
        if isinstance(given, cst.Call) and dotted(given.func) in ("list", "tuple", "iter") and len(given.args) == 1:
            return paired(given.args[0].value, target, names, module)
        grouped = value.name.startswith("param_group")
        return Pairing(given, target) if value.kind in PARAMETERS or grouped else None
    if not isinstance(target, cst.Tuple):
        return None
    parts = [e.value for e in target.elements]
    if value.kind == "named_params" and len(parts) == 2 and dotted(parts[1]) in names:
        return Pairing(given, parts[1], name=dotted(parts[0]))
    if not isinstance(given, cst.Call) or any(a.star or a.keyword is not None for a in given.args):
        return None
    if dotted(given.func) == "enumerate" and len(parts) == 2 and given.args:
        found = paired(given.args[0].value, parts[1], names, module)
        counted = dotted(parts[0]) if len(given.args) == 1 else ""
        return None if found is None else replace(found, index=counted or found.index, wrapped=True)
    if dotted(given.func) == "zip" and len(given.args) == len(parts):
        for arg, part in zip(given.args, parts, strict=True):
            if (found := paired(arg.value, part, names, module)) is not None:
                return replace(found, zipped=arg, wrapped=True)
    return None


def clause_of(grad: cst.CSTNode, node: cst.CSTNode) -> cst.CompFor | None:
    """The clause of a comprehension in `node` that gives the parameters, of which `grad` reads the gradients."""
    if not isinstance(grad, cst.Attribute) or not isinstance(grad.value, cst.Name):
        return None
    for outer in descend(node):
        if (
            type(outer) in COMPREHENSIONS
            and isinstance(outer, COMPREHENSIONS)
            and any(n is grad for n in descend(outer))
        ):
            found = next((c for c in clauses(outer.for_in) if grad.value.value in bound(c)), None)
            if found is not None:
                return found
    return None


def clauses(clause: cst.CompFor) -> Iterator[cst.CompFor]:
    """The clauses of a comprehension from the first."""
    while True:
        yield clause
        if clause.inner_for_in is None:
            return
        clause = clause.inner_for_in


def bound(clause: cst.CompFor) -> set[str]:
    """The names that a clause binds."""
    return {n.value for n in descend(clause.target) if isinstance(n, cst.Name)}


def kept_under(given: cst.BaseExpression) -> str:
    """What the object calls the list or the module whose parameters these are: elsewhere it has another name."""
    if isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and not given.args:
        given = given.func.value  # `self.net.parameters()`
    return dotted(given) if dotted(given).startswith("self.") else ""
