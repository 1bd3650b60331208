"""Classes of optimizers that a program asks for: MindSpore's AdamW, or a class below it, stands for torch's Adam.

Torch's AdamW is an Adam, so whoever asks for an Adam is answered alike; who asks for an AdamW may be told of an Adam.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.values import Value
from torch2ms.rewrite.translation import Translation

ADAMS = ADAM, ADAMW = "torch.optim.Adam", "torch.optim.AdamW"
WHY = "MindSpore's AdamW stands for torch's Adam as well"
TODO = "keep under a name of your own which of the two it is"
_MADE = re.compile(r"\bAdam\(|\boptim\.Adam\b|\bimport\b[^\n]*\bAdam\b|\bgetattr\(\s*(?:torch\.)?optim\b")
_EITHER = re.compile(r"isinstance\([^()]*\([^()]*\bAdam\b")  # (Adam, AdamW): whichever it is


def asked_for(name: str, exactly: bool, left: cst.BaseExpression, work: Translation) -> cst.BaseExpression | None:
    """What `isinstance` and a comparison with `type(...)` ask for; None where the class of the rules is meant."""
    told = not exactly and (name == ADAM or work.project.says(_EITHER))
    if work.project.says(_MADE) and not told:
        work.refuse("T2M608", name, WHY, TODO)
        return left
    if name == ADAMW or exactly:
        return None
    work.notes.needs.add("optim")
    work.tell("T2M601", name, "its class, or that of one with decay, is an AdamW")
    return cst.Attribute(cst.Name(work.alias("optim")), cst.Name("AdamW"))


def name_of(value: Value, updated: cst.Attribute, work: Translation) -> cst.BaseExpression | None:
    """`type(optimizer).__name__`, None where it stays as it is."""
    if not work.project.says(_MADE) or value.name.startswith("torch.optim.") and value.name != ADAM:
        return None
    if value.name == ADAM and not value.likely:
        work.tell("T2M508", "the name of an optimizer's class", "as torch has it")
        return cst.SimpleString('"Adam"')
    if work.stmt is None or isinstance(work.stmt.node, cst.Expr):
        return None  # what is printed is for people
    work.refuse("T2M605", "the name of an optimizer's class", WHY, TODO)
    return updated
