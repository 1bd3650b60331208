"""Weights of one-dimensional convolutions: MindSpore computes them as images of one row, with an axis more."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.rewrite.inplace.sharing import is_data

ROWS = ("torch.nn.Conv1d", "torch.nn.ConvTranspose1d")
_WRITING = ("torch.nn.init.", "torch.nn.utils.", "torch.optim.", "torch.autograd.")
_OF_ITSELF = ("register_hook", "numel", "nelement", "item", "is_contiguous", "data_ptr")  # whatever its shape
_KEEPING = ("torch.nn.Parameter", "torch.numel", "torch.is_tensor", "torch.typename")


def of_rows(target: cst.CSTNode, module: ModuleInfo) -> bool:
    """`conv.weight` of such a layer."""
    named = type(target) is cst.Attribute and target.attr.value == "weight"
    return named and module.value(target.value).name in ROWS  # type: ignore[attr-defined]


def without_axis(node: cst.CSTNode, made: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression:
    """What is read of such a weight: `conv.weight.squeeze(2)` for `conv.weight` and `conv.weight.data`."""
    while is_data(node, module):
        node = node.value  # type: ignore[attr-defined]
    if not of_rows(node, module):
        return made
    return cst.Call(cst.Attribute(made, cst.Name("squeeze")), [cst.Arg(cst.Integer("2"))])


def asked_rows(asked: cst.Attribute, updated: cst.Call, module: ModuleInfo) -> cst.Call:
    """A call of a method, `conv.weight.sum(0)`, of the weight as torch has it."""
    name, func = asked.attr.value, updated.func
    if name in _OF_ITSELF or name.endswith("_") or type(func) is not cst.Attribute:
        return updated
    shown = without_axis(asked.value, func.value, module)
    return updated if shown is func.value else updated.with_changes(func=func.with_changes(value=shown))


def given_rows(name: str, original: cst.Call, updated: cst.Call, module: ModuleInfo) -> cst.Call:
    """A call of a function of torch, `F.conv1d(x, conv.weight)`, with the weights that it reads as torch has them."""
    if name.startswith(_WRITING) or name in _KEEPING or name.endswith("_"):
        return updated
    args = [
        new.with_changes(value=without_axis(old.value, new.value, module)) if type(old.value) is cst.Attribute else new
        for old, new in zip(original.args, updated.args, strict=False)
    ]
    kept = len(args) != len(updated.args) or all(a is b for a, b in zip(args, updated.args, strict=True))
    return updated if kept else updated.with_changes(args=args)
