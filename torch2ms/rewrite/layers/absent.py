"""`norm.weight is None`: norms that were made without parameters or statistics have stand-ins of them in MindSpore.

The stand-ins hold ones and zeros and do not train, so the layer is asked how it was made.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

BATCH = {f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3)}
GROUPS = {"torch.nn.GroupNorm", *(f"torch.nn.InstanceNorm{n}d" for n in (1, 2, 3))}
PARAMETERS = ("weight", "bias")
STATISTICS = ("running_mean", "running_var")


def missing(original: cst.Comparison, updated: cst.Comparison, work: Translation) -> cst.BaseExpression:
    """The comparison as a question about how the layer was made, where it is one about such a part."""
    asked, last = original.left, updated.comparisons[-1]
    if type(asked) is not cst.Attribute or len(updated.comparisons) != 1 or code(last.comparator) != "None":
        return updated
    if not isinstance(last.operator, (cst.Is, cst.IsNot)) or not isinstance(updated.left, cst.Attribute):
        return updated
    layer, part = work.module.value(asked.value), asked.attr.value
    if layer.kind != "module" or layer.name not in BATCH | GROUPS:
        return updated
    there = isinstance(last.operator, cst.IsNot)
    if part in PARAMETERS:
        # BatchNorm3d has its parameters one level further down, where the rule of the attribute has gone
        made = f"{code(updated.left)}.requires_grad" if layer.name in BATCH else f"{code(updated.left.value)}.affine"
        tier, why = Tier.EXACT, "asked of how it was made: MindSpore keeps ones and zeros in their place"
        if layer.name in BATCH:
            tier, why = Tier.ASSUMED, "MindSpore keeps one that does not train in its place; assumed: it is not frozen"
    elif part in STATISTICS and layer.name in BATCH:
        made, there = f"{code(updated.left.value)}.use_batch_statistics is {'not ' if there else ''}True", True
        tier, why = Tier.EXACT, "MindSpore keeps statistics that it does not use"
    else:
        return updated
    work.notes.findings.append(Finding("T2M604", tier, f"{layer.name}.{part}", why))
    return cst.parse_expression(made if there else f"not {made}").with_changes(lpar=updated.lpar, rpar=updated.rpar)


__all__ = ["missing"]
