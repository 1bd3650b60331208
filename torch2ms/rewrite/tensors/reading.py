"""An attribute that the program reads or sets, and what a rule makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.values import Value
from torch2ms.api import apply_attribute
from torch2ms.api.rules import Rule
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation


@dataclass(slots=True)
class Read:
    """The attribute as it was, and with what it is of translated already; `receiver` is what is known of that."""

    original: cst.Attribute
    updated: cst.Attribute
    work: Translation
    where: Positions
    receiver: Value
    attr: str
    stored: bool  # it is set, not read

    def refuse(self, name: str, why: str, todo: str, code: str = "T2M605") -> cst.BaseExpression:
        """Mark the statement; the attribute stays."""
        self.work.refuse(code, name, why, todo)
        return self.updated


def by_rule(rule: Rule, read: Read) -> cst.BaseExpression:
    """The form of a rule; what MindSpore computes takes no value."""
    outcome = apply_attribute(rule, read.original, read.updated, read.work.facts)
    if read.stored and not isinstance(outcome.node, (cst.Attribute, cst.Subscript, type(None))):
        if read.receiver.likely:  # PyTorch's object takes none either: it is something else
            return read.updated
        why, todo = "what MindSpore has in its place is computed, and takes no value", "set it where the object is made"
        return read.refuse(rule.name, why, todo)
    return read.work.take(outcome, read.updated)
