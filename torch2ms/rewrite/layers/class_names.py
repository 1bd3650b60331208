"""Names of layers' classes that a program keeps: `type(layer).__name__`, `layer.__class__.__name__`."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.values import UNKNOWN
from torch2ms.rewrite.tensors.strings import CLASSES
from torch2ms.rewrite.translation import Translation

# classes of torch whose MindSpore classes have other names
RENAMED = CLASSES | {"Bilinear": "BiDense", "Hardshrink": "HShrink", "Hardsigmoid": "HSigmoid", "Hardswish": "HSwish",
                     "Softshrink": "SoftShrink"}  # fmt: skip
_WRITTEN = re.compile(rf"""["'](?:{"|".join(RENAMED)})["']""")  # which takes the names of MindSpore's classes


def class_name(original: cst.Attribute, updated: cst.Attribute, work: Translation) -> cst.BaseExpression | None:
    """The name as torch has it, of a layer that may be MindSpore's; None where the name stays the same."""
    held = _object(original.value)
    if held is None or work.mixed or work.project.says(_WRITTEN):
        return None
    value = work.module.value(held)
    owner = work.module.value(held.value) if isinstance(held, cst.Attribute) else UNKNOWN
    part = value.kind == "unknown" and owner.kind == "module"
    if value.kind != "module" and not part or work.class_of(value) is not None:
        return None
    if value.name.startswith("torch.nn.") and value.name.rpartition(".")[2] not in RENAMED:
        return None
    cell = _object(updated.value)
    assert cell is not None
    work.notes.needs.add("layer_name")
    work.tell("T2M508", "the name of a layer's class", "as torch has it")
    return cst.Call(cst.Name("layer_name"), [cst.Arg(cell)])


def _object(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The `x` of `type(x)` and of `x.__class__`."""
    if isinstance(node, cst.Attribute) and node.attr.value == "__class__":
        return node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "type":
        return node.args[0].value if len(node.args) == 1 else None
    return None
