"""Losses whose gradient is differentiated again, in functions that are called: definitions with second derivatives."""

from __future__ import annotations

import libcst as cst

from torch2ms.rewrite.translation import Translation
from torch2ms.tape.derivatives.written import DEFAULTS, PLACES, parts

NAMES = {
    "cross_entropy": "smooth_cross_entropy",
    "likelihood": "smooth_likelihood",
    "logits": "smooth_logits_loss",
    "log_softmax": "smooth_log_softmax",
}
WHY = "a definition: MindSpore has no second derivative of it; assumed: scores are (batch, classes), no label is -100"


def smooth(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression:
    """The call of the definition."""
    kind = work.plan.smooth[id(original)]
    args = list(updated.args)
    if isinstance(updated.func, cst.Attribute) and work.module.value(original.func).kind not in ("api", "lossfn"):
        args.insert(0, cst.Arg(updated.func.value))
    elif any(a.keyword is not None and a.keyword.value in ("input", "target") for a in args):
        rest = [a for a in args if a.keyword is not None and a.keyword.value not in PLACES]
        args = [*(cst.Arg(part, comma=cst.MaybeSentinel.DEFAULT) for part in parts(updated)), *rest]
    args = [a for a in args if a.keyword is None or a.keyword.value not in DEFAULTS]  # which are left at their defaults
    args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    work.notes.needs.add(NAMES[kind])
    work.tell("T2M205", kind.replace("_", " "), WHY)
    return updated.with_changes(func=cst.Name(NAMES[kind]), args=args)
