"""Element types that callers may leave out: torch takes None for the type that a tensor has, MindSpore's astype not."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.facts import Use

AS_TYPE = "as_type"
_TYPES = ("dtype", "target")  # parameters that take one


def guarded(node: cst.BaseExpression, use: Use) -> cst.BaseExpression:
    """The translated call with `as_type(x, dtype)` for `x.astype(dtype)` where the type may be None, else as it is."""
    open_types = {code(use.binding.single[name].updated.value) for name in _TYPES if use.untyped(name)}
    if not open_types:
        return node
    guard = _Guarded(open_types)
    made = node.visit(guard)
    assert isinstance(made, cst.BaseExpression)
    return made if guard.found else node


class _Guarded(cst.CSTTransformer):
    def __init__(self, open_types: set[str]) -> None:
        super().__init__()
        self.open_types = open_types
        self.found = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func, args = updated_node.func, updated_node.args
        if not isinstance(func, cst.Attribute) or func.attr.value != "astype" or len(args) != 1:
            return updated_node
        if args[0].keyword is not None or code(args[0].value) not in self.open_types:
            return updated_node
        self.found = True
        x = cst.Arg(func.value, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        return updated_node.with_changes(func=cst.Name(AS_TYPE), args=[x, args[0]])
