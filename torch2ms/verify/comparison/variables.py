"""Compare what the programs leave at top level: RESULT in full, other names where both sides have them."""

from __future__ import annotations

from typing import Any

from torch2ms.verify.comparison.judging import Comparison
from torch2ms.verify.comparison.numbers import judge
from torch2ms.verify.sides.layers import fit
from torch2ms.verify.trace import Trace, flatten_result

RESULT = "RESULT"
LEAVES = 1000  # of one variable; a longer list is data, not a result


def keep_variables(namespace: dict[str, Any], to_array: Any, trace: Trace) -> None:
    """Record the numbers behind every public name of the program's top level."""
    for name, value in list(namespace.items()):
        if name.startswith("_") or isinstance(value, type) or callable(value):
            continue
        try:
            leaves = flatten_result(value, to_array)
        except (TypeError, RecursionError) as error:
            if name == RESULT:
                trace.meta.setdefault("notes", []).append(str(error))
            continue
        tensor = any(to_array(part) is not None for part in (value, *_parts(value)))
        if name == RESULT or 0 < len(leaves) <= LEAVES:
            kept = [[where, trace.sample(array)] for where, array in leaves]
            trace.add("result" if name == RESULT else "variable", name=name, tensor=tensor, leaves=kept)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def compare_result(comparison: Comparison) -> None:
    """RESULT, where a program has one: every entry must be there on both sides."""
    left, right = comparison.torch.of("result"), comparison.mindspore.of("result")
    if bool(left) != bool(right):
        comparison.problem(RESULT, f"only the {'torch' if left else 'mindspore'} side has one")
    if not left or not right:
        return
    a, b = (dict(event["leaves"]) for event in (left[0], right[0]))
    for where in a:
        if where not in b:
            comparison.problem(f"RESULT{where}", "is missing on the mindspore side")
        else:
            arrays = comparison.torch.arrays[a[where]], comparison.mindspore.arrays[b[where]]
            comparison.check("result", f"RESULT{where}", *arrays)
    for where in b.keys() - a.keys():
        comparison.problem(f"RESULT{where}", "is missing on the torch side")


def compare_variables(comparison: Comparison) -> None:
    """Names both sides have.

    A difference is only suspected here: torch must give the same twice (verification.py), and a name may mean a local
    variable of a function in the translation. It counts for names the user asked for, and where nothing else is there.
    """
    report = comparison.report
    asked = report.asked
    other = {event["name"]: event for event in comparison.mindspore.of("variable")}
    for event in comparison.torch.of("variable"):
        mine = other.get(event["name"])
        if mine is not None:
            worst = differing(comparison, event, mine)
            if worst:
                report.suspected[event["name"]] = worst
            if event["name"] in asked:
                report.count("result")
            elif event["tensor"] and mine["tensor"]:
                report.count("variable")
    found = {event["name"] for event in comparison.torch.of("variable")} & other.keys()
    for name in asked:
        if name not in found:
            comparison.problem(f"variable {name}", "is not there, or not a number or tensor, on both sides")


def differing(comparison: Comparison, left: dict[str, Any], right: dict[str, Any]) -> str:
    """Where the values of one name differ, and how; "" if they do not."""
    a, b = dict(left["leaves"]), dict(right["leaves"])
    named = any("['" in where for where in (*a, *b))  # dictionaries of the frameworks have keys of their own
    if a.keys() != b.keys() and not named:
        return f"{len(a)} values in torch, {len(b)} in mindspore"
    for where in (w for w in a if w in b):
        x, y = comparison.torch.arrays[a[where]], comparison.mindspore.arrays[b[where]]
        fitted = fit(y, x.shape)
        result = judge(x, y if fitted is None else fitted, comparison.tolerance)
        if not result.equal:
            return f"{where} {result.why or f'max abs {result.max_abs:.3g}'}".strip()
    return ""
