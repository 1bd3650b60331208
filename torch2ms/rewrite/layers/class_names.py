"""Names of layers' classes that a program keeps: `type(layer).__name__`, `layer.__class__.__name__`."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.values import UNKNOWN
from torch2ms.rewrite.optimizer_classes import name_of
from torch2ms.rewrite.translation import Translation

CLASSES = {"Linear": "Dense", "ConvTranspose": "Transpose", "Sequential": "SequentialCell", "ModuleList": "CellList",
           "ModuleDict": "CellDict", "Module": "Cell"} | {
               f"ConvTranspose{n}d": f"Conv{n}dTranspose" for n in (1, 2, 3)}  # fmt: skip
# classes of torch whose MindSpore classes have other names
RENAMED = CLASSES | {"Bilinear": "BiDense", "Hardshrink": "HShrink", "Hardsigmoid": "HSigmoid", "Hardswish": "HSwish",
                     "Softshrink": "SoftShrink"}  # fmt: skip
# what a name is asked for: `name.find("Conv")`, `"Norm" in name`, `name == "Linear"`
_ASKED = re.compile(
    r"""\.(?:find|startswith|endswith|count|index)\(\s*["'](\w+)["']"""
    r"""|["'](\w+)["']\s+(?:not\s+)?in\b|[!=]=\s*["'](\w+)["']"""
)
_WRITTEN = re.compile(rf"""["'](?:{"|".join(RENAMED)})["']""")  # which takes the names of MindSpore's classes


def class_name(original: cst.Attribute, updated: cst.Attribute, work: Translation) -> cst.BaseExpression | None:
    """The name as torch has it, of a layer that may be MindSpore's; None where the name stays the same."""
    held = _object(original.value)
    if held is None or work.mixed or written_out(work):
        return None
    value = work.module.value(held)
    if value.kind == "optimizer":
        return name_of(value, updated, work)
    owner = work.module.value(held.value) if isinstance(held, cst.Attribute) else UNKNOWN
    part = value.kind == "unknown" and owner.kind == "module"
    asked = ["".join(found) for found in _ASKED.findall(work.module.source)]
    if asked and all(told_alike(text, work) for text in asked) and not value.name:
        return None
    part = part or bool(asked) and value.kind == "unknown"
    if value.kind != "module" and not part or work.class_of(value) is not None:
        return None
    if value.name.startswith("torch.nn.") and value.name.rpartition(".")[2] not in RENAMED:
        return None
    cell = _object(updated.value)
    assert cell is not None
    work.notes.needs.add("layer_name")
    work.tell("T2M508", "the name of a layer's class", "as torch has it")
    return cst.Call(cst.Name("layer_name"), [cst.Arg(cell)])


def written_out(work: Translation) -> bool:
    """Whether the program writes names of torch's classes: they are MindSpore's then, as those of the cells are."""
    return work.project.says(_WRITTEN)


def told_alike(text: str, work: Translation) -> bool:
    """Whether the names of MindSpore's classes have the text exactly where torch's have it, of those that are used."""
    differing = [name for name, other in RENAMED.items() if (text in name) != (text in other)]
    return not any(_used(name, work) for name in differing if name != "ConvTranspose")


def _used(name: str, work: Translation) -> bool:
    """A class is named somewhere, other than in a question for a part of a name."""
    sources = [module.source for module in work.project.modules.values() if name in module.source]
    return any(s.count(name) > sum(name in "".join(found) for found in _ASKED.findall(s)) for s in sources)


def _object(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The `x` of `type(x)` and of `x.__class__`."""
    if isinstance(node, cst.Attribute) and node.attr.value == "__class__":
        return node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "type":
        return node.args[0].value if len(node.args) == 1 else None
    return None
