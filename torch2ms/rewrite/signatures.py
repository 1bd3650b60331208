"""Parameters and arguments that the plan adds beside those of the source."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torch2ms.tape.plan import Plan

SPACED = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def with_arguments(original: cst.Call, updated: cst.Call, plan: Plan) -> cst.Call:
    """The call with what the plan puts behind its arguments: `name=value`, by position where its neighbour is."""
    beside = plan.beside
    if not any(id(a) in beside for a in original.args):
        return updated
    args: list[cst.Arg] = []
    named = False
    for old, new in zip(original.args, updated.args, strict=True):
        named = named or new.keyword is not None
        if id(old) in plan.arguments:
            new = new.with_changes(value=cst.parse_expression(plan.arguments[id(old)]))
        args.append(new)
        if id(old) not in beside:
            continue
        name, _, value = beside[id(old)].partition("=")
        added = cst.Arg(cst.parse_expression(value), keyword=cst.Name(name) if named else None, comma=new.comma)
        if named:
            added = added.with_changes(equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
        args[-1] = new.with_changes(comma=new.comma if isinstance(new.comma, cst.Comma) else SPACED)
        args.append(added)
    return updated.with_changes(args=args)


def with_parameters(original: cst.Parameters, updated: cst.Parameters, beside: Mapping[int, str]) -> cst.Parameters:
    """The parameters with what the plan puts behind them; a neighbour with a default passes `None` on."""
    changes = {}
    for kind in ("posonly_params", "params", "kwonly_params"):
        params: list[cst.Param] = []
        for old, new in zip(getattr(original, kind), getattr(updated, kind), strict=True):
            params.append(new)
            if id(old) in beside:
                default = cst.Name("None") if new.default is not None else None
                added = cst.Param(cst.Name(beside[id(old)]), default=default, comma=new.comma)
                params[-1] = new.with_changes(comma=new.comma if isinstance(new.comma, cst.Comma) else SPACED)
                params.append(added)
        if len(params) != len(getattr(updated, kind)):
            changes[kind] = params
    return updated.with_changes(**changes) if changes else updated
