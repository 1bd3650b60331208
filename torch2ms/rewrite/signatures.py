"""Parameters and arguments that the plan adds beside those of the source."""

from __future__ import annotations

import libcst as cst

from torch2ms.tape.plan import Plan

SPACED = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def with_arguments(original: cst.Call, updated: cst.Call, plan: Plan) -> cst.Call:
    """The call with what the plan puts behind its arguments: `name=value`, by position where its neighbour is."""
    beside, given, last = plan.beside, plan.arguments, plan.added.get(id(original), [])
    first = plan.ahead.get(id(original))
    told = first is not None or bool(last)
    if not told and not ((beside or given) and any(id(a) in beside or id(a) in given for a in original.args)):
        return updated
    args: list[cst.Arg] = []
    named = False
    if first is not None:
        comma = SPACED if original.args else cst.MaybeSentinel.DEFAULT
        args.append(cst.Arg(cst.parse_expression(first), comma=comma))
    for old, new in zip(original.args, updated.args, strict=True):
        named = named or new.keyword is not None
        if id(old) in given:
            new = new.with_changes(value=cst.parse_expression(given[id(old)]))
        args.append(new)
        if id(old) not in beside:
            continue
        name, _, value = beside[id(old)].partition("=")
        added = cst.Arg(cst.parse_expression(value), keyword=cst.Name(name) if named else None, comma=new.comma)
        if named:
            added = added.with_changes(equal=TIGHT)
        args[-1] = new.with_changes(comma=new.comma if isinstance(new.comma, cst.Comma) else SPACED)
        args.append(added)
    for text in last:
        name, _, value = text.rpartition("=")
        if args and not isinstance(args[-1].comma, cst.Comma):
            args[-1] = args[-1].with_changes(comma=SPACED)
        keyword = cst.Name(name) if name else None
        args.append(cst.Arg(cst.parse_expression(value), keyword, TIGHT if name else cst.MaybeSentinel.DEFAULT))
    return updated.with_changes(args=args)


def with_parameters(node: cst.FunctionDef, updated: cst.Parameters, plan: Plan) -> cst.Parameters:
    """The parameters with what the plan puts behind them; behind one with a default, the new one has `None`."""
    changes: dict[str, list[cst.Param]] = {}
    for kind in ("posonly_params", "params", "kwonly_params"):
        params: list[cst.Param] = []
        for old, new in zip(getattr(node.params, kind), getattr(updated, kind), strict=True):
            params.append(new)
            if id(old) in plan.beside:
                params = _behind(params, plan.beside[id(old)])
        changes[kind] = params
    for name in plan.added.get(id(node), []):
        starred = isinstance(updated.star_arg, (cst.Param, cst.ParamStar))
        kind = "kwonly_params" if starred else "params"
        changes[kind] = _behind(changes[kind], name)
    changes = {kind: params for kind, params in changes.items() if len(params) != len(getattr(updated, kind))}
    return updated.with_changes(**changes) if changes else updated


def _behind(params: list[cst.Param], name: str) -> list[cst.Param]:
    if not params:
        return [cst.Param(cst.Name(name))]
    last = params[-1]
    default = cst.Name("None") if last.default is not None else None
    comma = last.comma if isinstance(last.comma, cst.Comma) else SPACED
    added = cst.Param(cst.Name(name), default=default, comma=last.comma)
    if default is not None:
        added = added.with_changes(equal=TIGHT)
    return [*params[:-1], last.with_changes(comma=comma), added]
