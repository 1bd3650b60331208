"""Weights of one-dimensional convolutions: MindSpore computes them as images of one row, with an axis more."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known.torchapi import ROWS
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.sharing import is_data
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

_DERIVING = ("Conv1d)", "ConvTranspose1d)", "Conv1d,", "ConvTranspose1d,")
_WRITING = ("torch.nn.init.", "torch.nn.utils.", "torch.optim.", "torch.autograd.")
_OF_ITSELF = ("register_hook", "numel", "nelement", "item", "is_contiguous", "data_ptr")  # whatever its shape
_SETTINGS = ("data", "grad", "requires_grad", "requires_grad_")
_KEEPING = ("torch.nn.Parameter", "torch.numel", "torch.is_tensor", "torch.typename")


def of_rows(target: cst.CSTNode, module: ModuleInfo) -> bool:
    """`conv.weight` of such a layer, or of one that is derived from it."""
    if type(target) is not cst.Attribute or target.attr.value != "weight":
        return False
    name = module.value(target.value).name
    if name in ROWS or not any(module.has(word) for word in _DERIVING):
        return name in ROWS
    cls = module.classes.get(name.rpartition(".")[2])
    return cls is not None and any(base in ROWS for c in cls.lineage() for base in c.bases)


def without_axis(node: cst.CSTNode, made: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression:
    """What is read of such a weight: `conv.weight.squeeze(2)` for `conv.weight` and `conv.weight.data`."""
    while is_data(node, module):
        node = node.value  # type: ignore[attr-defined]
    if not of_rows(node, module):
        return made
    return cst.Call(cst.Attribute(made, cst.Name("squeeze")), [cst.Arg(cst.Integer("2"))])


def operated(original: cst.BinaryOperation, updated: cst.BinaryOperation, module: ModuleInfo) -> cst.BinaryOperation:
    """`conv.weight - mean`: what stands beside it has the dimensions of torch's."""
    left, right = (
        without_axis(old, new, module) if type(old) is cst.Attribute else new
        for old, new in ((original.left, updated.left), (original.right, updated.right))
    )
    kept = left is updated.left and right is updated.right
    return updated if kept else updated.with_changes(left=left, right=right)


def read_only(original: cst.Assign, updated: cst.Assign, scope: Scope, module: ModuleInfo) -> cst.Assign:
    """`w = self.weight` in a function that computes with `w` and changes neither it nor its settings."""
    target = original.targets[0].target
    if type(target) is not cst.Name or not scope.is_function or not of_rows(original.value, module):
        return updated
    stmts = list(scope.body.walk())
    given = [a.value for s in stmts for c in s.calls if module.value(c.func).name.startswith(_WRITING) for a in c.args]
    asked = [n for s in stmts if target.value in s.uses for n in descend(s.node) if type(n) is cst.Attribute]
    settings = any(dotted(n).startswith(f"{target.value}.") and n.attr.value in _SETTINGS for n in asked)
    if settings or any(target.value in s.muts for s in stmts) or any(dotted(g) == target.value for g in given):
        return updated
    return updated.with_changes(value=without_axis(original.value, updated.value, module))


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
