"""What is asked of a gradient and is the same of its tensor: `p.grad.shape` is `p.shape`.

MindSpore has no `.grad` to ask. A function that only asks such things needs no gradients.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

SAME = {"shape", "dtype", "device", "ndim", "size", "numel", "dim", "is_cuda", "layout", "element_size"}
ASKED = re.compile(rf"\.grad[\s\\)]*(?:\.\s*data[\s\\)]*)?\.\s*(?:{'|'.join(sorted(SAME))})\b|_like\b")
LIKE = {f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn")}


@each_module
def alike(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks gradients for such things."""
    if not module.has(".grad") or not module.says(ASKED):
        return None
    writer = Alike(module)
    if not writer.asks():
        return None
    made = writer.plain()
    return made if writer.changed else None


class Alike(Suites):
    """One module in which the tensors are asked."""

    changed = False

    def asks(self) -> bool:
        """Somewhere stands what may be asked so."""
        asked = [n.value for n in self.module.of_kind(cst.Attribute) if n.attr.value in SAME]
        asked += [c.args[0].value for c in self.module.of_kind(cst.Call) if c.args]
        return any(self.behind(node) is not None for node in asked)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        if original.attr.value not in SAME or (tensor := self.behind(original.value)) is None:
            return updated
        self.changed = True
        return updated.with_changes(value=tensor)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if len(original.args) == 0 or qualified(original.func, self.module.imports) not in LIKE:
            return updated
        tensor = self.behind(original.args[0].value)
        if tensor is None or original.args[0].keyword is not None or original.args[0].star:
            return updated
        self.changed = True
        return updated.with_changes(args=[updated.args[0].with_changes(value=tensor), *updated.args[1:]])

    def behind(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The tensor whose gradient an expression is: `p.grad`, `p.grad.data`."""
        if type(node) is cst.Attribute and node.attr.value == "data":
            node = node.value
        if type(node) is not cst.Attribute or node.attr.value != "grad" or dotted(node) == "torch.autograd.grad":
            return None
        tensor = node.value
        inner = isinstance(tensor, cst.Attribute) and tensor.attr.value == "data"
        known = self.module.value(tensor).kind in ("tensor", "param", "unknown")
        return tensor if known and not inner and self.module.value(node).kind != "api" else None
