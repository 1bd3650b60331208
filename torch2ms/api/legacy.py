"""Arguments that torch keeps for old code: `size_average` and `reduce` of losses say what `reduction` says."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.signature import literal

_OLD = ("size_average", "reduce")


def modern(original: cst.Call, updated: cst.Call) -> tuple[cst.Call, cst.Call]:
    """The call, before and after its translation, with the `reduction` that literal old arguments mean."""
    given = {a.keyword.value: literal(a.value) for a in original.args if a.keyword is not None}
    values = [given[name] for name in _OLD if name in given]
    if not values or "reduction" in given or any(not isinstance(v, bool) and v is not None for v in values):
        return original, updated
    each = given.get("reduce") is False
    text = "'none'" if each else "'sum'" if given.get("size_average") is False else "'mean'"
    return _replaced(original, text), _replaced(updated, text)


def _replaced(call: cst.Call, text: str) -> cst.Call:
    """The call with one argument `reduction` in the place of the first old one."""
    args: list[cst.Arg] = []
    written = False
    for arg in call.args:
        if arg.keyword is None or arg.keyword.value not in _OLD:
            args.append(arg)
        elif not written:
            written = True
            args.append(arg.with_changes(keyword=cst.Name("reduction"), value=cst.SimpleString(text)))
    if args and args[-1].comma is not cst.MaybeSentinel.DEFAULT and call.args[-1] is not args[-1]:
        args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return call.with_changes(args=args)
