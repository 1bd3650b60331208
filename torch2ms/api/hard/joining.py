"""Joining tensors of several element types, which MindSpore does not promote."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use
from torch2ms.api.promotion import promoted

_NOTHING = re.compile(r"(torch\.)?\w*Tensor\(\)")
_JOINED = {"concat": "cat", "concatenate": "cat"}


def joined(use: Use) -> Choice:
    """`cat`, `stack`, `hstack` and the like of a list whose elements are known to differ in type."""
    name = _JOINED.get(use.short, use.short)
    axis = ", {dim:axis}" if name in ("cat", "stack") else ""
    node = use.node("tensors")
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple)) else ()
    types = _types(use)
    common = promoted(set(types)) if all(types) and len(set(types)) > 1 else ""
    ranks = {use.facts.rank(e.value) for e in elements if isinstance(e, cst.Element)}
    if name == "cat" and ranks != {1} and any(_hollow(e, use) for e in elements):
        return Choice("joined({tensors}, {dim:axis})")
    if name == "cat" and _may_differ(use, node, types):
        return Choice("joined({tensors}, {dim:axis})")
    if name == "stack" and types and set(types) == {"bfloat16"}:  # of which MindSpore makes no stack on CPU
        return Choice(f"ops.stack([part.astype(ms.float32) for part in {{tensors}}]{axis}).astype(ms.bfloat16)")
    if name == "stack" and not common and node is not None and use.facts.weights_among(node):
        return Choice(f"ops.stack([part.value() for part in {{tensors}}]{axis})")  # no Parameter beside a tensor
    parts = f"[part.astype(ms.{common}) for part in {{tensors}}]" if common else "{tensors}"
    return Choice(f"ops.{name}({parts}{axis})")


def _hollow(element: cst.BaseElement, use: Use) -> bool:
    """Whether it may be a tensor of one dimension without elements, which torch leaves out beside any others."""
    empty = use.facts.odd(element.value) == "empty" and use.facts.rank(element.value) == 1
    return empty or use.facts.hollow(element.value) or bool(_NOTHING.fullmatch(code(element.value)))


def _may_differ(use: Use, node: cst.BaseExpression | None, types: list[str]) -> bool:
    """Whether other types are to be expected where they are not seen: the result is cast, or part of it is an array."""
    if all(types) or node is None:
        return False
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple)) else ()
    arrays = [use.facts.of_array(e.value) for e, kind in zip(elements, types, strict=False) if not kind]
    return any(types) and use.facts.cast_after(node) or any(arrays) and (any(types) or not all(arrays))


def _types(use: Use) -> list[str]:
    """The element types of the tensors in a list, "" where one is not seen."""
    node = use.node("tensors")
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple)) else ()
    if isinstance(node, cst.Name) and (held := use.facts.types_held(node)) is not None:
        return held
    return [use.facts.dtype(e.value) if isinstance(e, cst.Element) else "" for e in elements]


def chained(use: Use) -> Choice:
    """`multi_dot`, whose matrices MindSpore multiplies in few types on CPU."""
    if "bfloat16" in _types(use):
        return Choice(refuse="MindSpore's form takes no tensors of bfloat16", todo="convert them to float32")
    return Choice("multi_dot({tensors})", evidence="pass")


def block_diagonal(use: Use) -> Choice:
    """`block_diag`, whose blocks MindSpore takes of one type, and more than one of them."""
    blocks = [bound.original for bound in use.binding.variadic.get("tensors", ())]
    if len(blocks) == 1 and not blocks[0].star:
        return Choice("ops.atleast_2d({tensors|first})")
    types = [use.facts.dtype(block.value) if not block.star else "" for block in blocks]
    common = promoted(set(types)) if all(types) and len(set(types)) > 1 else ""
    if common:
        return Choice(f"ops.block_diag(*[block.astype(ms.{common}) for block in {{tensors}}])")
    return Choice("ops.block_diag({*tensors})")
