"""Tensors that the source shows to be without elements, or to have one, NaN, or indices below zero: some of
MindSpore's functions err there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value

EMPTY, NAN, INFINITE, BELOW, SINGLE, PICKED = "empty", "nan", "infinite", "below zero", "one", "picked by a mask"

_WRITTEN = {"tensor", "as_tensor", "asarray", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor"}
_SIZED = {"zeros", "ones", "empty", "rand", "randn", "full", "new_zeros", "new_ones", "new_empty", "new_full"}
_FILLED = {"full", "new_full"}  # behind the size stands what they are filled with
_KEEPING = set(
    "reshape view flatten ravel t transpose permute unsqueeze squeeze clone detach contiguous to float double half "
    "requires_grad_ cpu cuda view_as reshape_as long int".split()
)
_BY_ELEMENT = set(
    "abs exp log sqrt square pow sigmoid relu tanh softplus logsigmoid clamp clamp_min clamp_max neg mul add sub div "
    "log1p expm1 softmax log_softmax float mul_ add_ sub_ div_ eq ne mse_loss l1_loss smooth_l1_loss huber_loss "
    "nll_loss cross_entropy binary_cross_entropy binary_cross_entropy_with_logits".split()
)  # which give as many as they are given, the losses where they are not reduced
_NAN = re.compile(r"""\bfloat\(\s*["']\+?nan["']\s*\)|\b(?:torch|math|np|numpy)\.(?:nan|NaN|NAN)\b""")

_INFINITE = re.compile(r"""(?<!-)(?:\bfloat\(\s*["']\+?inf["']\s*\)|\b(?:torch|math|np|numpy)\.inf\b)""")


def called(name: str, node: cst.Call, values: Sequence[Value], receiver: Value | None = None) -> str:
    """What is odd about the elements of what the function or method `name` gives; "" where nothing is known to be."""
    if receiver is None and name in _WRITTEN and len(node.args) and not node.args[0].star:
        named = (i for i, arg in enumerate(node.args) if arg.keyword is not None and arg.keyword.value == "data")
        place = next(named, 0)
        data = node.args[place].value
        if len(values) > place and values[place].kind == "tensor":
            return values[place].odd
        return EMPTY if _hollow(data) else _written(code(data)) or (BELOW if _below(data) else _single(data))
    if receiver is None and name.endswith("Tensor") and name in _WRITTEN and not node.args:
        return EMPTY
    if name in _SIZED and any(_zero(arg) for arg in (node.args[:1] if name in _FILLED else node.args)):
        return EMPTY
    first = receiver or (values[0] if values else Value())
    if name == "masked_select" or first.odd == PICKED and name in _BY_ELEMENT:
        return PICKED
    return first.odd if name in _KEEPING else ""


def sliced(base: Value, node: cst.Subscript, known: Mapping[int, Value]) -> str:
    """Nothing is left by `x[:0]` and `x[..., 1:1]`, nor by slices of what has no elements; by `x[mask]` perhaps."""
    parts = [element.slice for element in node.slice]
    chosen = [known.get(id(part.value)) for part in parts if type(part) is cst.Index]
    if any(value is not None and value.kind == "tensor" and value.dtype == "bool" for value in chosen):
        return PICKED
    if base.odd == EMPTY and all(type(part) is cst.Slice for part in parts):
        return EMPTY
    return EMPTY if any(type(part) is cst.Slice and _nothing(part) for part in parts) else ""


def _nothing(part: cst.Slice) -> bool:
    """`:0`, `2:2`."""
    if type(part.upper) is not cst.Integer or part.step is not None:
        return False
    start = constant(part.lower) if part.lower is not None else 0
    return type(start) is int and start >= int(part.upper.value)


def _written(data: str) -> str:
    """NaN, or a number above all others, among the elements as they are written."""
    return NAN if _NAN.search(data) else INFINITE if _INFINITE.search(data) else ""


def _hollow(data: cst.BaseExpression) -> bool:
    """`[]`, `[[], []]`: lists in which no number is."""
    if type(data) is not cst.List and type(data) is not cst.Tuple:
        return False
    return not data.elements or all(_hollow(element.value) for element in data.elements)


def _single(data: cst.BaseExpression) -> str:
    """`[[0.3]]`, `1.0`: one number."""
    while isinstance(data, (cst.List, cst.Tuple)):
        if len(data.elements) != 1:
            return ""
        data = data.elements[0].value
    return SINGLE if type(constant(data)) in (int, float) else ""


def _below(data: cst.BaseExpression) -> bool:
    """`[-1, 0]`, `[0, -n]`: whole numbers, one of them below zero."""
    if not isinstance(data, (cst.List, cst.Tuple)):
        return False
    numbers = [(element.value, constant(element.value)) for element in data.elements]
    return not any(type(n) is float for _, n in numbers) and any(
        n < 0 if type(n) is int else isinstance(part, cst.UnaryOperation) and isinstance(part.operator, cst.Minus)
        for part, n in numbers
    )


def _zero(arg: cst.Arg) -> bool:
    """Whether a size of nothing stands there: `0`, `(0, 3)`, `size=(2, 0)`."""
    if arg.keyword is not None and arg.keyword.value not in ("size", "shape"):
        return False
    sizes = arg.value
    parts = (
        [element.value for element in sizes.elements]
        if type(sizes) is cst.Tuple or type(sizes) is cst.List
        else [sizes]
    )
    return any(type(constant(part)) is int and constant(part) == 0 for part in parts)
