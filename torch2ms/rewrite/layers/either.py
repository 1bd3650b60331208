"""Weights of layers whose kind is asked for by their attributes: `hasattr(m, "bias") and isinstance(m.bias, ...)`.

A normalisation of MindSpore has a gamma and a beta, an embedding a table: layers of any kind are asked for all of them.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.guess import of_settings
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

NAMES = {"weight": ("weight", "gamma", "embedding_table"), "bias": ("bias", "beta")}
OF = {"weight": "weight_of", "bias": "bias_of"}
SIZES = ("kernel_size", "stride", "dilation")
ONE_DIMENSION = re.compile(r"Conv(Transpose)?1d")
WHY = "layers of MindSpore have it under several names"


def asked(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`hasattr(m, "weight")` of a layer of any kind, and `getattr(m, "weight", None)`."""
    question, given = dotted(original.func), len(original.args)
    if (question, given) not in (("hasattr", 2), ("getattr", 3)):
        return None
    name = constant(original.args[1].value)
    receiver = work.module.value(original.args[0].value)
    if not isinstance(name, str) or not _any_kind(receiver, name, work, unseen=question == "getattr"):
        return None
    layer = code(updated.args[0].value)
    place = dotted(original.args[0].value)
    if receiver.kind == "unknown" and (not place or of_settings(f"{place}.")):
        return None
    _tell(receiver, name, work)
    if question == "getattr":
        return _first_of(layer, name, code(updated.args[2].value), receiver, work)
    return cst.parse_expression(f"any(hasattr({layer}, name) for name in {NAMES[name]!r})")


def read(receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """`m.weight` where the module asks whether `m` has one."""
    name, layer = original.attr.value, dotted(original.value)
    if not layer or not _any_kind(receiver, name, work, unseen=True):
        return updated
    question = "(?:hasattr|getattr)" if receiver.kind == "module" else "getattr"
    if not re.search(rf"{question}\({re.escape(layer)}, *['\"]{name}['\"][,)]", work.module.source):
        return updated
    _tell(receiver, name, work)
    return _first_of(code(updated.value), name, "None", receiver, work)


def of_unseen_class(
    receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation
) -> cst.BaseExpression:
    """`block.bn2.weight` of a layer whose class a caller has picked: its weight, whatever MindSpore calls it."""
    name = original.attr.value
    if name in SIZES and _perhaps_one_dimension(receiver, original.value, work):
        work.notes.needs.add("size_of")
        work.tell("T2M505", f"Module.{name}", "MindSpore's convolutions of one dimension are two-dimensional inside")
        asked = cst.Arg(cst.SimpleString(repr(name)))
        return cst.Call(cst.Name(work.alias("size_of")), [cst.Arg(updated.value), asked])
    if not _any_kind(receiver, name, work, unseen=_is_part(original.value, work)):
        return updated
    work.notes.needs.add(OF[name])
    _tell(receiver, name, work)
    return cst.Call(cst.Name(work.alias(OF[name])), [cst.Arg(updated.value)])


def set_of_unseen_class(receiver: Value, name: str, work: Translation) -> None:
    """`block.bn2.weight = w`, `del block.bn2.weight` of such a layer: what MindSpore calls it would stay as it is."""
    if _any_kind(receiver, name, work):
        work.refuse("T2M505", f"Module.{name}", WHY, "write the name that the layer has in MindSpore")


def _perhaps_one_dimension(receiver: Value, node: cst.BaseExpression, work: Translation) -> bool:
    """A layer whose class is not seen, told by its calls, of a project with convolutions of one dimension."""
    if receiver.name or receiver.kind not in ("module", "unknown") or not work.project.says(ONE_DIMENSION):
        return False
    stmts = work.stmt.block.scope.body.walk() if work.stmt is not None else ()
    called = any(code(c.func) == code(node) for s in stmts for c in s.calls)
    return receiver.kind == "module" or called or _is_part(node, work)


def _is_part(node: cst.BaseExpression, work: Translation) -> bool:
    """An attribute of a network that is none of its settings."""
    held = type(node) is cst.Attribute and work.module.value(node.value).kind == "module"
    return held and not of_settings(f"{dotted(node)}.")


def _tell(receiver: Value, name: str, work: Translation) -> None:
    unseen = receiver.kind == "unknown"
    why = f"{WHY}; assumed: it is one of them" if unseen else WHY
    work.notes.findings.append(Finding("T2M505", Tier.ASSUMED if unseen else Tier.EXACT, f"Module.{name}", why))


def _first_of(layer: str, name: str, default: str, receiver: Value, work: Translation) -> cst.BaseExpression:
    """The attribute under the first name that the layer has; what is not seen has others only if it is a layer."""
    own, *others = NAMES[name]
    made = default
    for other in reversed(others):
        made = f'getattr({layer}, "{other}", {made})'
    if receiver.kind == "unknown":
        work.notes.needs.add("nn")
        made = f"{made} if isinstance({layer}, {work.alias('nn')}.Cell) else {default}"
    return cst.parse_expression(f'getattr({layer}, "{own}", {made})')


def _any_kind(receiver: Value, name: str, work: Translation, unseen: bool = False) -> bool:
    """A layer, or with `unseen` what may be one: a part of a module that a caller chose the class of."""
    layer = receiver.kind == "module" or unseen and receiver.kind == "unknown"
    return layer and not receiver.name and name in NAMES and work.project.renames
