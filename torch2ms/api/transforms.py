"""Named changes of an argument: literals are folded, other expressions are written out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import definitions

CELL = "FunctionCell"  # the definition that makes a function a layer

Value = cst.BaseExpression | Sequence[cst.Arg]


def _single(value: Value) -> cst.BaseExpression:
    if not isinstance(value, (list, tuple)):
        return value  # type: ignore[return-value]
    return tuple_of(value)


def tuple_of(value: Value) -> cst.BaseExpression:
    """The arguments of a variadic parameter as one tuple; one plain argument is a tuple or an int already."""
    if not isinstance(value, (list, tuple)):
        return value  # type: ignore[return-value]
    if len(value) == 1 and not value[0].star:
        return value[0].value
    if len(value) == 1 and isinstance(value[0].value, cst.Attribute) and value[0].value.attr.value == "shape":
        return value[0].value  # *x.shape: a tuple already
    elements: list[cst.BaseElement] = []
    for place, arg in enumerate(value):
        comma = arg.comma if place < len(value) - 1 else cst.MaybeSentinel.DEFAULT
        one = cst.StarredElement(parenthesised(arg.value)) if arg.star else cst.Element(arg.value)
        elements.append(one.with_changes(comma=comma))
    return cst.Tuple(elements, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def first(value: Value) -> cst.BaseExpression:
    """The first argument of a variadic parameter, or of the list that stands for all of them."""
    return value if isinstance(value, cst.BaseExpression) else _each(value)[0]


def second(value: Value) -> cst.BaseExpression:
    """The second argument of a variadic parameter, or of the list that stands for all of them."""
    return value if isinstance(value, cst.BaseExpression) else _each(value)[1]


def _each(bounds: Sequence[cst.Arg]) -> list[cst.BaseExpression]:
    values = [bound.value for bound in bounds]
    if len(values) == 1 and isinstance(values[0], (cst.List, cst.Tuple)):
        return [element.value for element in values[0].elements]
    if len(values) == 1 and isinstance(values[0], cst.Subscript):  # `args[1]` of a list that is seen
        return [_at(values[0], 0), _at(values[0], 1)]
    return values


def _at(held: cst.Subscript, place: int) -> cst.BaseExpression:
    index = cst.SubscriptElement(cst.Index(cst.Integer(str(place))))
    return cst.Subscript(held, [index])


def wrapped(value: Value) -> cst.BaseExpression:
    """As `tuple`, but a single number becomes `(number,)`."""
    node = tuple_of(value)
    if isinstance(node, (cst.Integer, cst.UnaryOperation)):
        return cst.Tuple([cst.Element(node, comma=cst.Comma())], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


def one_minus(value: Value) -> cst.BaseExpression:
    """`1 - x`: momentum of batch normalisation."""
    node = _single(value)
    if isinstance(node, (cst.Float, cst.Integer)):
        return cst.parse_expression(str(Decimal(1) - Decimal(node.value.replace("_", ""))))
    return cst.BinaryOperation(cst.Integer("1"), cst.Subtract(), parenthesised(node))


def as_int(value: Value) -> cst.BaseExpression:
    """A flag as 0 or 1, a whole number that is a float as an integer."""
    node = _single(value)
    if isinstance(node, cst.Call) and dotted(node.func) == "float" and len(node.args) == 1 and not node.args[0].star:
        node = node.args[0].value
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return cst.Integer("1" if node.value == "True" else "0")
    return cst.Call(cst.Name("int"), [cst.Arg(node)])


def flag(value: Value) -> cst.BaseExpression:
    """A flag that may be written as None or as a number, which MindSpore's layers take for no flag."""
    node = _single(value)
    if isinstance(node, cst.Integer):
        return cst.Name(str(bool(node.evaluated_value)))
    return cst.Name("False") if isinstance(node, cst.Name) and node.value == "None" else node


def negated(value: Value) -> cst.BaseExpression:
    """A flag the other way round."""
    node = _single(value)
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return cst.Name("False" if node.value == "True" else "True")
    return cst.UnaryOperation(cst.Not(), parenthesised(node))


def as_float(value: Value) -> cst.BaseExpression:
    """An integer literal as a float literal; other expressions through float()."""
    node = _single(value)
    if isinstance(node, cst.Integer):
        return cst.Float(f"{node.value}.0") if node.value.isdigit() else cst.Call(cst.Name("float"), [cst.Arg(node)])
    if isinstance(node, cst.Float):
        return node
    if isinstance(node, cst.UnaryOperation) and isinstance(node.expression, (cst.Integer, cst.Float)):
        return node.with_changes(expression=as_float(node.expression))
    return cst.Call(cst.Name("float"), [cst.Arg(node)])


def or_float32(value: Value) -> cst.BaseExpression:
    """An element type that may be None, which MindSpore's layers do not take for the default."""
    node = _single(value)
    text = code(node)
    if text == "None":
        return cst.parse_expression("ms.float32")
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) or text.startswith("ms."):
        return node
    return cst.parse_expression(f"{text} or ms.float32")


def axes(value: Value) -> cst.BaseExpression:
    """A list of dimensions as a tuple, which is what most MindSpore functions take."""
    node = _single(value)
    if isinstance(node, cst.ListComp):
        return cst.Call(cst.Name("tuple"), [cst.Arg(cst.GeneratorExp(node.elt, node.for_in, lpar=[], rpar=[]))])
    if type(node) is not cst.List:
        return node
    elements = list(node.elements)
    if len(elements) == 1 and not isinstance(elements[0].comma, cst.Comma):
        elements = [elements[0].with_changes(comma=cst.Comma())]
    return cst.Tuple(elements, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def listed(value: Value) -> cst.BaseExpression:
    """A generator expression as a list comprehension: CellList takes lists only."""
    node = _single(value)
    if isinstance(node, cst.GeneratorExp):
        return cst.ListComp(node.elt, node.for_in)
    return node


def as_list(value: Value) -> cst.BaseExpression:
    """What some schedulers take no tuple for."""
    node = _single(value)
    if not isinstance(node, cst.Tuple):
        return cst.Call(cst.Name("list"), [cst.Arg(node)])
    *before, last = node.elements
    return cst.List([*before, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def list_if_given(value: Value) -> cst.BaseExpression:
    """What a caller may leave out, which is None then: torch's containers are empty."""
    return cst.parse_expression(f"list({code(_single(value))} or ())")


def celled(value: Value) -> cst.BaseExpression:
    """Functions that stand for layers in a list or dict, as cells: what MindSpore's containers take."""
    return _celled(_single(value))


def _celled(node: cst.BaseExpression) -> cst.BaseExpression:
    if is_function(node):
        return cst.Call(cst.Name(CELL), [cst.Arg(node.with_changes(lpar=[], rpar=[]))])
    if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
        parts = [e.with_changes(value=_celled(e.value)) for e in node.elements]
        return node.with_changes(elements=parts)
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        return node.with_changes(elt=_celled(node.elt))
    if isinstance(node, cst.DictComp):
        return node.with_changes(value=_celled(node.value))
    if isinstance(node, cst.Call) and code(node.func).rpartition(".")[2] in ("OrderedDict", "dict", "list", "tuple"):
        return node.with_changes(args=[arg.with_changes(value=_celled(arg.value)) for arg in node.args])
    return node


def each_celled(value: Value) -> cst.BaseExpression:
    """A list or dict of losses that have names: whether a name stands for a function or a cell, this is a cell."""
    node = _single(value)
    if not isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
        return node
    named = (cst.Name, cst.Attribute)
    parts = [e.with_changes(value=cst.Call(cst.Name(CELL), [cst.Arg(e.value)])) if isinstance(e.value, named) else e
             for e in node.elements]  # fmt: skip
    return node.with_changes(elements=parts)


def as_cell(value: Value) -> cst.BaseExpression:
    """The name of a function, as a cell that calls it."""
    node = _single(value)
    return cst.Call(cst.Name(CELL), [cst.Arg(node)]) if isinstance(node, (cst.Name, cst.Attribute)) else node


def is_function(node: cst.CSTNode) -> bool:
    """What a rule wrote for a layer is a function: `ops.cross_entropy`, a partial, a lambda, a definition."""
    if type(node) is cst.Lambda:
        return True
    if isinstance(node, cst.Call):
        return code(node.func) == "partial"
    text = code(node)
    if text.startswith("ops."):
        return text[4:].isidentifier() and text.islower()
    return text in definitions.table() and text.islower()


def sequence(value: Value) -> cst.BaseExpression:
    """A `range` as a list: MindSpore makes no tensor of a range."""
    node = _single(value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "range":
        return cst.Call(cst.Name("list"), [cst.Arg(node)])
    return node


class _Suffix(cst.CSTTransformer):
    """Gives file names the ending that load_checkpoint asks for."""

    def _renamed(self, text: str) -> str:
        return re.sub(r"(\.pth\.tar|\.pth|\.pt|\.tar|\.bin)(?=['\"]*$)", ".ckpt", text)

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        return updated_node.with_changes(value=self._renamed(updated_node.value))

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self._renamed(updated_node.value))


def ckpt(value: Value) -> cst.BaseExpression:
    """A path whose literal ending is PyTorch's gets MindSpore's."""
    changed = _single(value).visit(_Suffix())
    assert isinstance(changed, cst.BaseExpression)
    return changed


def only(value: Value) -> cst.BaseExpression:
    """The element of a literal tuple of one; anything else as it is."""
    node = _single(value)
    if isinstance(node, (cst.Tuple, cst.List)) and len(node.elements) == 1:
        return node.elements[0].value
    return node


def inner(value: Value) -> cst.BaseExpression:
    """The first argument of a call, the call itself being written another way."""
    node = _single(value)
    return node.args[0].value if isinstance(node, cst.Call) and node.args else node


TRANSFORMS: dict[str, Callable[[Value], cst.BaseExpression]] = {
    "listed": listed,
    "as_list": as_list,
    "list_if_given": list_if_given,
    "celled": celled,
    "each_celled": each_celled,
    "as_cell": as_cell,
    "sequence": sequence,
    "inner": inner,
    "ckpt": ckpt,
    "only": only,
    "tuple": tuple_of,
    "wrapped": wrapped,
    "one_minus": one_minus,
    "as_int": as_int,
    "flag": flag,
    "as_float": as_float,
    "negated": negated,
    "or_float32": or_float32,
    "axes": axes,
    "first": first,
    "second": second,
}


def run(names: tuple[str, ...], value: Value) -> cst.BaseExpression:
    """Apply transforms in order."""
    for name in names:
        value = TRANSFORMS[name](value)
    return _single(value)
