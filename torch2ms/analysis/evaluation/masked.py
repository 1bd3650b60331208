"""Tensors in which some elements are infinite: `scores.masked_fill(mask, float('-inf'))`, and what keeps them so."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import ENDLESS, MASKED, UNKNOWN, Value, replace

FILLING = {"masked_fill", "masked_fill_", "where", "fill_diagonal_", "index_fill", "index_fill_", "scatter", "scatter_"}
# whose results are finite, whatever they are given
BOUNDING = {"softmax", "softmin", "gumbel_softmax", "sigmoid", "tanh", "exp", "exp2", "clamp", "clip", "clamp_min",
            "clamp_max", "nan_to_num", "relu", "relu6", "hardtanh", "scaled_dot_product_attention",
            "multi_head_attention_forward", "argmax", "argmin", "argsort", "multinomial", "bernoulli", "any", "all",
            "isinf", "isnan", "isfinite", "isneginf", "isposinf", "eq", "ne", "lt", "le", "gt", "ge", "allclose",
            "zeros_like", "ones_like", "rand_like", "randn_like", "empty_like", "full_like"}  # fmt: skip
ENDINGS = ("loss", "entropy", "softmax")


def infinite(node: cst.BaseExpression, value: Value) -> bool:
    """`float('-inf')`, `-math.inf`, names that hold one, and lists in which one stands."""
    if value.name == ENDLESS:
        return True
    while type(node) is cst.UnaryOperation:
        node = node.expression
    if type(node) is cst.Attribute:
        return node.attr.value in ("inf", "infty", "Infinity")
    if type(node) is cst.Call:
        text = constant(node.args[0].value) if type(node.func) is cst.Name and len(node.args) == 1 else None
        return isinstance(text, str) and node.func.value == "float" and "inf" in text.lower()  # type: ignore[attr-defined]
    if type(node) is cst.List or type(node) is cst.Tuple:
        held = value.items if value.items is not None and len(value.items) == len(node.elements) else None
        parts = zip(node.elements, held or [UNKNOWN] * len(node.elements), strict=True)
        return any(infinite(e.value, v) for e, v in parts)
    return False


def number(node: cst.BaseExpression, value: Value) -> Value:
    """The value of an expression that is assigned or passed: it is told of a number that it is infinite."""
    written = type(node) in (cst.Call, cst.Attribute, cst.UnaryOperation) and value.kind in ("float", "unknown", "api")
    return Value("float", name=ENDLESS) if written and infinite(node, value) else value


def called(name: str, node: cst.Call, made: Value, given: Value, args: Sequence[Value]) -> Value:
    """What a call makes of `given`, the tensor it is called on or given first."""
    if made.kind != "tensor" or made.name or name in BOUNDING or name.endswith(ENDINGS) and name != "log_softmax":
        return made
    touched = any(_has(v) or infinite(a.value, v) for a, v in zip(node.args, args, strict=False))
    return replace(made, name=MASKED) if touched or given.name == MASKED else made


def _has(value: Value) -> bool:
    """A tensor with infinite elements, or a row of tensors with one of these."""
    return value.name == MASKED or any(part.name == MASKED for part in value.items or ())
