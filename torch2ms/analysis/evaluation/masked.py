"""Tensors in which some elements are infinite: `scores.masked_fill(mask, float('-inf'))`, and what keeps them so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import Value

MASKED = "with infinite elements"  # the name of such a tensor
ENDLESS = "infinite"  # ... and of such a number
INFINITE = re.compile(r"""(?:^|[.\s('"-])inf(?:inity)?['")]*$""", re.IGNORECASE)
FILLING = {"masked_fill", "masked_fill_", "where", "fill_diagonal_", "index_fill", "index_fill_", "scatter", "scatter_"}
KEEPING = {"view", "reshape", "contiguous", "float", "squeeze", "unsqueeze", "flatten", "div", "mul", "div_", "mul_",
           "add", "sub", "to", "log_softmax", "t", "transpose", "permute"}  # fmt: skip


def infinite(node: cst.BaseExpression, value: Value) -> bool:
    """`float('-inf')`, `-float("inf")`, `-torch.inf`, `math.inf`, and names that hold one."""
    return value.name == ENDLESS or INFINITE.search(code(node)) is not None


def number(node: cst.BaseExpression, value: Value) -> Value:
    """The value of an expression that is assigned: it is told of a number that it is infinite."""
    called = type(node) is cst.Call and dotted(node.func) == "float"
    written = called or type(node) in (cst.Attribute, cst.UnaryOperation)
    plain = written and value.kind in ("float", "unknown") and not value.name
    return Value("float", name=ENDLESS) if plain and infinite(node, value) else value


def called(name: str, node: cst.Call, made: Value, given: Value, args: Sequence[Value]) -> Value:
    """What a call makes of `given`, the tensor it is called on or given first."""
    if made.kind != "tensor" or made.name:
        return made
    filled = name in FILLING and any(infinite(a.value, v) for a, v in zip(node.args, args, strict=False))
    kept = given.name == MASKED and name in KEEPING | FILLING
    return replace(made, name=MASKED) if filled or kept else made
