"""`p.grad.zero_()`, then `p.grad.add_(d)`, in a loop over parameters, as the one `p.grad = d` that they come to.

Whether a gradient was there before does not matter to such a loop; MindSpore has none to ask.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

WRITES = (".grad.copy_(", ".grad.data.copy_(", ".grad.add_(", ".grad.data.add_(")


@each_module
def stored(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that stores gradients so."""
    if not any(module.has(text) for text in WRITES):
        return None
    writer = Stored(module)
    made = writer.plain()
    return made if writer.changed else None


class Stored(Suites):
    """One module, with what is stored in the end."""

    changed = False

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if isinstance(updated, cst.For) and isinstance(updated.body, cst.IndentedBlock) and "#" not in code(original):
            made = _short(updated.body.body)
            if made is not None:
                self.changed = True
                for line in made:
                    self.number(line, original)
                updated = updated.with_changes(body=updated.body.with_changes(body=made))
                self.number(updated, original)
        return [updated], ()  # type: ignore[list-item]


def _short(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement] | None:
    """The statements with one that stores in the place of those that come to it; None where there are none."""
    for last, line in enumerate(body):
        name, method, value = _change(line)
        if method == "either":
            return [*body[:last], _assigned(name, value), *body[last + 1 :]]
        if method not in ("copy_", "add_"):
            continue
        first = last
        empty = False
        while first and (before := _prepares(body[first - 1], name)):
            empty |= before == "zero_"
            first -= 1
        if method == "add_" and not empty or method == "copy_" and first == last:
            continue
        return [*body[:first], _assigned(name, value), *body[last + 1 :]]
    return None


def _assigned(name: str, value: cst.BaseExpression | None) -> cst.BaseStatement:
    assert value is not None
    kept = f"{code(value)}.clone()" if dotted(value) else code(value)
    return cst.parse_statement(f"{name}.grad = {kept}")


def _change(line: cst.BaseStatement) -> tuple[str, str, cst.BaseExpression | None]:
    """The parameter, the method and its argument, of a statement that changes a gradient in place."""
    if isinstance(line, cst.If):
        return _either(line)
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return "", "", None
    place = dotted(call.func.value).removesuffix(".data")
    name, dot, grad = place.rpartition(".")
    if grad != "grad" or not dot or "." in name or any(a.keyword is not None or a.star for a in call.args):
        return "", "", None
    return name, call.func.attr.value, call.args[0].value if len(call.args) == 1 else None


def _either(line: cst.If) -> tuple[str, str, cst.BaseExpression | None]:
    """`if p.grad is None: p.grad = d`, `else: p.grad.copy_(d)`"""
    name = _asks(line.test)
    other = line.orelse.body.body if isinstance(line.orelse, cst.Else) else []
    if not name or len(other) != 1 or len(line.body.body) != 1:
        return "", "", None
    again, method, value = _change(other[0])  # type: ignore[arg-type]
    first = _set(line.body.body[0], name)
    same = first is not None and value is not None and code(first).replace(".clone()", "") == code(value)
    return (name, "either", value) if again == name and method == "copy_" and same else ("", "", None)


def _prepares(line: cst.BaseStatement, name: str) -> str:
    """What a statement before does to the same gradient: it is made, where it is not there, or emptied."""
    if isinstance(line, cst.If) and line.orelse is None and _asks(line.test) == name and len(line.body.body) == 1:
        return "made" if _set(line.body.body[0], name) is not None else ""
    again, method, _ = _change(line)
    return "zero_" if again == name and method == "zero_" else ""


def _asks(test: cst.BaseExpression) -> str:
    """The name in `p.grad is None`."""
    text = code(test)
    return text.removesuffix(".grad is None") if text.endswith(".grad is None") and text.count(" ") == 2 else ""


def _set(line: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """The value in `p.grad = value`."""
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    return node.value if dotted(node.targets[0].target) == f"{name}.grad" else None
