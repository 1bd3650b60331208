"""The mapping of single torch APIs, as data with evidence, and the engine that applies it."""

from __future__ import annotations

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.apply import MISFIT, Outcome, apply_call, binding_of, returns
from torch2ms.api.facts import Facts, Use
from torch2ms.api.named import (
    apply_attribute,
    apply_class,
    apply_partial,
    apply_value,
    apply_whole,
    full_value,
)
from torch2ms.api.rules import Form, Rule, RuleError, Rules
from torch2ms.api.signature import literal

__all__ = [
    "MISFIT",
    "Facts",
    "Form",
    "Outcome",
    "Rule",
    "RuleError",
    "Rules",
    "Use",
    "apply_attribute",
    "apply_call",
    "apply_class",
    "apply_partial",
    "apply_value",
    "apply_whole",
    "binding_of",
    "code",
    "full_value",
    "literal",
    "returns",
]
