"""`size_average` and `reduce`, the old words for a loss's `reduction`, which they override where they are given."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.api.signature import UNKNOWN, Binding, Bound

_OLD = ("size_average", "reduce")


def modern(binding: Binding) -> Binding:
    """The same arguments in today's words; as they are where the old ones are not literal."""
    if not {*_OLD, "reduction"} <= binding.signature.by_name.keys():
        return binding
    values = [binding.value(name) for name in _OLD]
    if all(value is None for value in values) or UNKNOWN in values:
        return binding
    average, reduce = (value is None or bool(value) for value in values)
    word = "none" if not reduce else "mean" if average else "sum"
    arg = cst.Arg(cst.SimpleString(f"'{word}'"), cst.Name("reduction"))
    index = min(binding.single[name].index for name in _OLD if name in binding.single)
    kept = {name: bound for name, bound in binding.single.items() if name not in _OLD}
    return replace(binding, single={**kept, "reduction": Bound(index, arg, arg)})
