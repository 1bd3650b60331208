"""In-place methods of tensors that are not called by their name: `halve = h.mul_`, `getattr(h, "mul_")(0.5)`.

MindSpore's do nothing on CPU, and no store can be written where it is not seen which tensor changes when.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.rewrite.translation import Translation

OPERATORS = ("iadd", "isub", "imul", "itruediv", "ipow", "ifloordiv", "imod", "iand", "ior", "ixor")
TENSORS = ("tensor", "param")


def in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def bound(original: cst.Attribute, work: Translation) -> bool:
    """Refuse an in-place method that is used as a value."""
    name = original.attr.value
    found = in_place(name) and work.module.value(original.value).kind in TENSORS
    found = found and work.rules.find(f"torch.Tensor.{name[:-1]}") is not None
    if found:
        _refuse(f"Tensor.{name}", work)
    return found


def called(original: cst.Call, work: Translation) -> None:
    """Refuse a call of one that a text names, or that `operator` stands for."""
    if not original.args or work.module.value(original.args[0].value).kind not in TENSORS:
        return
    name = dotted(original.func)
    if name == "getattr" and len(original.args) > 1:
        text = constant(original.args[1].value)
        if isinstance(text, str) and in_place(text):
            _refuse(f"Tensor.{text}", work)
        return
    head, _, rest = name.partition(".")
    target = f"{work.module.imports.table.get(head, '')}{'.' if rest else ''}{rest}"
    home, _, last = target.rpartition(".")
    if home == "operator" and last in OPERATORS:
        _refuse(target, work)


def _refuse(what: str, work: Translation) -> None:
    why, todo = "an in-place change that is not called by its name", "call the method on the tensor, as a statement"
    work.refuse("T2M610", what, why, todo)
