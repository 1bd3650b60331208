"""Weights of layers whose kind is asked for by their attributes: `hasattr(m, "bias") and isinstance(m.bias, ...)`.

A normalisation of MindSpore has a gamma and a beta, an embedding a table: layers of any kind are asked for all of them.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.rewrite.translation import Translation

NAMES = {"weight": ("weight", "gamma", "embedding_table"), "bias": ("bias", "beta")}
WHY = "layers of MindSpore have it under several names"


def asked(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`hasattr(m, "weight")` of a layer of any kind."""
    if dotted(original.func) != "hasattr" or len(original.args) != 2:
        return None
    name = constant(original.args[1].value)
    if not isinstance(name, str) or not _any_kind(work.module.value(original.args[0].value), name, work):
        return None
    work.tell("T2M505", f"Module.{name}", WHY)
    layer = code(updated.args[0].value)
    return cst.parse_expression(f"any(hasattr({layer}, name) for name in {NAMES[name]!r})")


def read(receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """`m.weight` where the module asks whether `m` has one."""
    name, layer = original.attr.value, dotted(original.value)
    if not layer or not _any_kind(receiver, name, work):
        return updated
    if not re.search(rf"hasattr\({re.escape(layer)}, *['\"]{name}['\"]\)", work.module.source):
        return updated
    work.tell("T2M505", f"Module.{name}", WHY)
    made = "None"
    for other in reversed(NAMES[name]):
        made = f'getattr({code(updated.value)}, "{other}", {made})'
    return cst.parse_expression(made)


def _any_kind(receiver: Value, name: str, work: Translation) -> bool:
    return receiver.kind == "module" and not receiver.name and name in NAMES and work.project.renames
