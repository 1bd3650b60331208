"""Initialisers that meet layers under `weight_norm` or `spectral_norm`, as those do that are given a whole network.

The weight of such a layer is computed of others whenever it runs: what is written into it is lost in torch, without a
word, and MindSpore's tensors take no such write.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing import layout
from torch2ms.rewrite.writer import Writer

NORMED = re.compile(r"\b(?:weight_norm|spectral_norm|register_parametrization)\b")


def where_it_is_kept(made: list[cst.BaseStatement], writer: Writer) -> list[cst.BaseStatement]:
    """`m.weight.set_data(...)` under the question whether the layer keeps its weight, where some do not."""
    place = _written(made)
    if not place.endswith(".weight") or root(place) == "self" or not writer.project.says(NORMED):
        return made
    if writer.module.uses_mindspore:  # who wrote `set_data` has asked
        return made
    writer.needs.add("ms")
    writer.tell("T2M611", place, "the weights of layers under weight_norm are computed: what is written there is lost")
    (test,) = layout.parse(f"if isinstance({place}, ms.Parameter):\n    pass")
    return [cst.ensure_type(test, cst.If).with_changes(body=cst.IndentedBlock(made))]


def _written(made: list[cst.BaseStatement]) -> str:
    """The place whose values a statement alone sets."""
    line = made[0] if len(made) == 1 else None
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    call = node.value if isinstance(node, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    is_set = isinstance(func, cst.Attribute) and func.attr.value == "set_data"
    return dotted(func.value) if is_set else ""  # type: ignore[union-attr]
