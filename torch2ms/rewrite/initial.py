"""`nn.init.xavier_uniform_(torch.empty(n, m))`: an initialiser that is given a tensor as it is made.

Nobody else has that tensor: what the initialiser draws stands for it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import Outcome, Rule, apply_call
from torch2ms.rewrite.facts import ModuleFacts

_FACTORIES = {
    f"torch.{name}" for name in ("empty", "zeros", "ones", "rand", "randn", "full", "Tensor", "FloatTensor", "tensor",
                                 "empty_like", "zeros_like", "ones_like", "rand_like", "randn_like")
}  # fmt: skip
_MADE = "_made"  # stands for the tensor until its shape takes its place
_MAKER = re.compile(r"(?:\w+\.)*ops\.(?:zeros|ones|rand|randn|full)")
_DRAWN = re.compile(r"initializer\(.*\)", re.DOTALL)


def is_unheld(rule: Rule, original: cst.Call, module: ModuleInfo) -> bool:
    """Whether the call fills a tensor that is made in its own argument."""
    if not rule.name.startswith("torch.nn.init.") or not rule.name.endswith("_"):
        return False
    made = tensor(original)
    return made is not None and type(made.value) is cst.Call and module.value(made.value.func).name in _FACTORIES


def sized(rule: Rule, original: cst.Call, updated: cst.Call, facts: ModuleFacts) -> Outcome | None:
    """The values themselves, of the shape that stands in the argument; None where it does not."""
    made = tensor(updated)
    shape, dtype = _sizes(made.value) if made is not None else ("", "")
    if made is None or not shape:
        return None
    args = [arg.with_changes(value=cst.Name(_MADE)) if arg is made else arg for arg in updated.args]
    outcome = values(apply_call(rule, original, updated.with_changes(args=args), facts))
    if outcome.node is None:
        return outcome
    text = code(outcome.node)
    whole = shape if shape.startswith("(") else f"({shape},)"
    if f"{_MADE}.shape[" in text or not (_DRAWN.match(text) or whole == shape or shape.isdecimal()):
        return None
    text = text.replace(f"{_MADE}.shape", shape if _DRAWN.match(text) else whole)
    text = text.replace(f", {_MADE}.dtype).init_data", ").init_data" if not dtype else f", {dtype}).init_data")
    text = text.replace(f"{_MADE}.dtype", dtype or "ms.float32")
    return replace(outcome, node=cst.parse_expression(text), needs=outcome.needs | ({"ms"} if "ms." in text else set()))


def of_view(rule: Rule, original: cst.Call, updated: cst.Call, facts: ModuleFacts) -> Outcome | None:
    """`init.xavier_uniform_(w.view(n, -1))`: MindSpore's view has memory of its own, so that the weight takes the
    values in, in its own shape; None for anything else."""
    made, shown = tensor(updated), tensor(original)
    view = made.value if made is not None else None
    filled = rule.name.startswith("torch.nn.init.") and rule.name.endswith("_") and shown is not None
    if not filled or view is None or not viewed(view) or not (place := dotted(view.func.value)):  # type: ignore[attr-defined]
        return None
    args = [arg.with_changes(value=cst.Name(_MADE)) if arg is made else arg for arg in updated.args]
    outcome = apply_call(rule, original, updated.with_changes(args=args), facts)
    content = put_in(outcome.node)
    if content is None:
        return outcome if outcome.node is None else None
    text = code(content).replace(f"{_MADE}.shape", f"{code(view)}.shape").replace(_MADE, place)
    return replace(outcome, node=cst.parse_expression(f"{place}.set_data({text}.reshape({place}.shape))"))


def viewed(node: cst.CSTNode) -> bool:
    """`w.view(n, -1)`, whose elements are those of `w`."""
    method = node.func if type(node) is cst.Call else None
    return type(method) is cst.Attribute and method.attr.value in ("view", "reshape", "flatten")


def values(outcome: Outcome) -> Outcome:
    """`w.set_data(values)` as the values alone."""
    content = put_in(outcome.node)
    return outcome if content is None else replace(outcome, node=content)


def put_in(node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """The values in `w.set_data(values)` or `ops.assign(w, values)`; None for something else."""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute:
        return None
    if node.func.attr.value == "assign":
        return node.args[-1].value
    if node.func.attr.value != "set_data":
        return None
    content = node.args[0].value
    drawn = type(content) is cst.Call and dotted(content.func).rpartition(".")[2] == "initializer"
    return cst.Call(cst.Attribute(content, cst.Name("init_data"))) if drawn else content


def assigned(outcome: Outcome, ops: str) -> Outcome:
    """`ops.assign(w, values)` for `w.set_data(values)`: what an optimizer that has made a step goes on with."""
    content = put_in(outcome.node)
    if content is None:
        return outcome
    assert type(outcome.node) is cst.Call and type(outcome.node.func) is cst.Attribute
    made = cst.parse_expression(f"{ops}.assign({code(outcome.node.func.value)}, {code(content)})")
    return replace(outcome, node=made, needs=outcome.needs | {"ops"})


def in_parameter(outcome: Outcome) -> Outcome:
    """`ms.Parameter(initializer(...).init_data())`: a Parameter takes the initializer itself."""
    node = outcome.node
    if type(node) is not cst.Call or not node.args or type(node.args[0].value) is not cst.Call:
        return outcome
    func = node.args[0].value.func
    if type(func) is not cst.Attribute or func.attr.value != "init_data" or not _DRAWN.match(code(func.value)):
        return outcome
    first = node.args[0].with_changes(value=func.value)
    return replace(outcome, node=node.with_changes(args=[first, *node.args[1:]]))


def tensor(call: cst.Call) -> cst.Arg | None:
    named = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "tensor"]
    return next((arg for arg in (*named, *call.args[:1]) if not arg.star), None)


def _sizes(made: cst.BaseExpression) -> tuple[str, str]:
    """The shape and the element type that are written in `ops.zeros((2, 3), dtype=ms.float64)`; "" where none is."""
    if type(made) is not cst.Call or not _MAKER.fullmatch(code(made.func)):
        return "", ""
    given = {arg.keyword.value: arg.value for arg in made.args if arg.keyword is not None}
    first = [arg.value for arg in made.args if arg.keyword is None and not arg.star]
    several = len(first) > 1 and code(made.func).rpartition(".")[2] in ("rand", "randn")  # `ops.randn(3, 4)`
    whole = cst.Tuple([cst.Element(size) for size in first]) if several else first[0] if first else None
    shape = given.get("size", given.get("shape", whole))
    known = shape is not None and "\n" not in code(shape) and given.keys() <= {"size", "shape", "dtype"}
    dtype = code(given["dtype"]) if "dtype" in given else ""
    return (code(shape), "" if dtype == "ms.float32" else dtype) if known and shape is not None else ("", "")
