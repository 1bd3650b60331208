"""Tensors in which some elements are infinite: `scores.masked_fill(mask, float('-inf'))`, and what keeps them so."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import Value

MASKED = "with infinite elements"  # the name of such a tensor
INFINITE = re.compile(r"""(?:^|[.\s('"-])inf(?:inity)?['")]*$""", re.IGNORECASE)
FILLING = {"masked_fill", "masked_fill_", "where", "fill_diagonal_", "index_fill", "index_fill_", "scatter", "scatter_"}
KEEPING = {"view", "reshape", "contiguous", "float", "squeeze", "unsqueeze", "flatten", "div", "mul", "div_", "mul_",
           "add", "sub", "to", "log_softmax", "t", "transpose", "permute"}  # fmt: skip


def infinite(node: cst.BaseExpression) -> bool:
    """`float('-inf')`, `-float("inf")`, `-torch.inf`, `math.inf`"""
    return INFINITE.search(code(node)) is not None


def called(name: str, node: cst.Call, made: Value, given: Value) -> Value:
    """What a call makes of `given`, the tensor it is called on or given first."""
    if made.kind != "tensor" or made.name:
        return made
    filled = name in FILLING and any(infinite(a.value) for a in node.args)
    kept = given.name == MASKED and name in KEEPING | FILLING
    return replace(made, name=MASKED) if filled or kept else made
