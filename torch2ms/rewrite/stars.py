"""`f(x, **options)` where the keys of the dictionary are seen: each becomes an argument of its own."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.api import Rule


def written_out(
    original: cst.Call, updated: cst.Call, rule: Rule, module: ModuleInfo
) -> tuple[cst.Call, cst.Call] | None:
    """The call before and after its translation with every key as `key=options['key']`, None if not known."""
    pairs: list[tuple[cst.Arg, cst.Arg]] = []
    for before, after in zip(original.args, updated.args, strict=True):
        if before.star != "**":
            pairs.append((before, after))
            continue
        keys = module.value(before.value).keys
        place = dotted(after.value)
        if keys is None or not place:
            return None
        for key, sure in keys:
            default = next((p.default for p in rule.params if p.name == key), None)
            if not sure and default is None:
                return None
            text = f"{place}[{key!r}]" if sure else f"{place}.get({key!r}, {default})"
            arg = cst.Arg(cst.parse_expression(text), cst.Name(key), equal=_TIGHT, comma=_COMMA)
            pairs.append((arg, arg))
    if pairs:
        pairs[-1] = tuple(a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in pairs[-1])  # type: ignore[assignment]
    return original.with_changes(args=[a for a, _ in pairs]), updated.with_changes(args=[b for _, b in pairs])


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
