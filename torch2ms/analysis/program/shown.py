"""Names that show a part of another tensor, or what a loop takes out of one: a change of the one changes the other."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted

PARTS = frozenset(
    {"view", "reshape", "t", "transpose", "permute", "select", "narrow", "unsqueeze", "squeeze", "flatten"}
)
CUTTING = frozenset({"chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes"})


def containers(name: str, stmt: Stmt) -> set[str]:
    """What a loop around the statement takes `name` out of: a change of the one is a change of the other."""
    for owner in stmt.ancestors():
        if type(owner.node) is cst.For and name in target_places(owner.node.target):
            given = taken(owner.node.target, owner.node.iter, name)
            return {dotted(given)} - {""} if given is not None else set()
    shown, found = stmt.block.scope.shown, set[str]()
    while name in shown and shown[name] not in found:
        name = shown[name]
        found.add(name)
    return found


def note_parts(node: cst.Assign, stmt: Stmt) -> None:
    """`row = x[1]`, `flat = x.view(-1)`: what changes the one in place changes the other."""
    for target in node.targets:
        if type(target.target) is cst.Name:
            _note_name(target.target.value, node.value, stmt)
        elif type(target.target) is cst.Tuple and type(node.value) is cst.Tuple:
            for name, value in zip(target.target.elements, node.value.elements, strict=False):
                if type(name.value) is cst.Name:
                    _note_name(name.value.value, value.value, stmt)
        elif type(target.target) is cst.Tuple and (whole := _cut_up(node.value)) is not None:
            for name in target.target.elements:
                if type(name.value) is cst.Name:
                    _note_name(name.value.value, whole, stmt)


def _cut_up(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x[0]` for `x.chunk(2)` and `torch.split(x, 3)`, whose parts show the memory of `x`."""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute or node.func.attr.value not in CUTTING:
        return None
    of_torch = type(node.func.value) is cst.Name and node.func.value.value == "torch"
    if of_torch and not node.args:
        return None
    whole = node.args[0].value if of_torch else node.func.value
    return cst.Subscript(whole, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])


def _note_name(name: str, value: cst.BaseExpression, stmt: Stmt) -> None:
    """One name, and what it is bound to."""
    whole = value
    while True:
        if type(whole) is cst.Subscript:
            if any(type(e.slice) is cst.Index and type(e.slice.value) is cst.SimpleString for e in whole.slice):
                break
            whole = whole.value
        elif type(whole) is cst.Call and type(whole.func) is cst.Attribute and whole.func.attr.value in PARTS:
            whole = whole.func.value
        else:
            break
    shown, held = stmt.block.scope.shown, stmt.block.scope.held
    if whole is not value and type(whole) is cst.Name and whole.value == name:  # `whole = x; x = x[1:]`
        if name in held:
            shown[name] = held[name]
        return
    shown.pop(name, None)
    held.pop(name, None)
    if whole is not value and type(whole) is cst.Name:
        shown[name] = whole.value
    parts = [e.value for e in value.elements] if type(value) is cst.List or type(value) is cst.Tuple else [value]
    held.update({part.value: name for part in parts if type(part) is cst.Name})


def taken(target: cst.BaseExpression, iterated: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """What gives `name` its values, of what a loop runs over: `xs` in `for i, (x, y) in enumerate(zip(xs, ys))`."""
    called = iterated.func if isinstance(iterated, cst.Call) else None
    args = [a.value for a in iterated.args] if isinstance(iterated, cst.Call) else []
    if isinstance(target, cst.Name):
        if isinstance(called, cst.Attribute) and called.attr.value == "values":
            return called.value if target.value == name else None
        return iterated if target.value == name and called is None else None
    if not isinstance(target, cst.Tuple) or called is None:
        return None
    parts = [e.value for e in target.elements]
    if isinstance(called, cst.Attribute):
        items = called.attr.value == "items" and len(parts) == 2 and dotted(parts[1]) == name
        return called.value if items else None
    if dotted(called) == "enumerate" and len(parts) == 2 and args:
        return taken(parts[1], args[0], name)
    if dotted(called) == "zip" and len(args) == len(parts):
        found = (taken(part, arg, name) for part, arg in zip(parts, args, strict=True))
        return next((node for node in found if node is not None), None)
    return None


def target_places(node: cst.CSTNode) -> set[str]:
    """The places that a target of an assignment, of a loop or of `del` names."""
    if type(node) is cst.Tuple or type(node) is cst.List:
        return set().union(*(target_places(e.value) for e in node.elements))
    place = dotted(node)
    return {place} if place else set()
