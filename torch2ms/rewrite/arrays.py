"""What NumPy holds beside tensors: to the left of an operator it would take the tensor over, and its gradient."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation


def beside_tensor(original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """`np.sqrt(2) * x`: NumPy makes an array of a MindSpore tensor, where torch keeps the tensor."""
    left, right = work.module.value(original.left), work.module.value(original.right)
    if left.kind != "numpy" or right.kind not in ("tensor", "param") or left.rank != 0 and not right.deps:
        return updated
    bare = updated.left.with_changes(lpar=[], rpar=[]) if "\n" not in code(updated.left) else updated.left
    made = cst.Call(cst.Name("float"), [cst.Arg(bare)])  # torch takes no arrays there
    tier = Tier.ASSUMED if right.likely and not right.deps else Tier.EXACT
    why = "NumPy would make an array of the tensor, and lose its gradient: converted"
    work.notes.findings.append(Finding("T2M613", tier, f"{code(original.left)} beside a tensor", why))
    return updated.with_changes(left=made)
