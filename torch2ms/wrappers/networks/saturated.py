"""`torch.log(1 - torch.tanh(u) ** 2 + eps)`, the density of squashed actions, with a tanh that stays below one.

MindSpore's tanh on CPU gives 1.0001 for 5: the logarithm of one minus its square is then that of a negative number, and
the whole program goes on with nan. `sigmoid(2 * u) - sigmoid(-2 * u)` is the same function, right to the last digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

MENTIONS = re.compile(r"\btanh\(")
LOGARITHM = re.compile(r"\blog(?:1p)?\(")
NAMES = ("torch.tanh", "torch.nn.functional.tanh")
WHY = "its logarithm is taken near one, where MindSpore's tanh on CPU is above one: written with sigmoid"


@each_module
def saturated(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that takes the logarithm of one minus the square of a tanh."""
    if not (module.says(MENTIONS) and module.says(LOGARITHM)):
        return None
    calls = {id(call) for scope in module.scope.walk() for call in _near_one(scope, module)}
    return Saturated(module, calls).plain() if calls else None


class Saturated(Suites):
    """One module, with the other form of the calls."""

    def __init__(self, module: ModuleInfo, calls: set[int]) -> None:
        super().__init__(module)
        self.calls = calls

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if id(original) not in self.calls:
            return updated
        assert isinstance(updated.func, cst.Attribute)
        self.findings.append(Finding("T2M615", Tier.EXACT, "torch.tanh", WHY, line=self.line))
        given = code(parenthesised(updated.args[0].value if updated.args else updated.func.value))
        one = f"{code(updated.func.value)}.sigmoid(2 * {given})" if updated.args else f"(2 * {given}).sigmoid()"
        text = f"2 * {one} - 1"
        if dotted(original.args[0].value if original.args else original.func):  # may be evaluated twice: a digit more
            text = f"{one} - {one.replace('(2 *', '(-2 *', 1)}"
        return cst.parse_expression(f"({text})" if self.inside(original) else text)

    def inside(self, call: cst.Call) -> bool:
        """The call is a part of an expression, which has to be told from its neighbours."""
        whole: list[cst.Assign | cst.Return] = [*self.module.of_kind(cst.Assign), *self.module.of_kind(cst.Return)]
        return all(s.value is not call for s in whole)


def _near_one(scope: Scope, module: ModuleInfo) -> Iterator[cst.Call]:
    """The calls of tanh in a function whose results go into such a logarithm there."""
    stmts = [s for s in scope.body.walk() if not s.blocks] if scope.is_function else []
    squares = [part for s in stmts for call in s.calls if _is_log(call) for part in _squared(call)]
    for part in squares:
        if isinstance(part, cst.Call) and _is_tanh(part, module):
            yield part
        names = dotted(part)
        for stmt in stmts if names else ():
            node = stmt.node
            if not isinstance(node, cst.Assign) or [dotted(t.target) for t in node.targets] != [names]:
                continue
            if isinstance(node.value, cst.Call) and _is_tanh(node.value, module):
                yield node.value


def _is_log(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("log", "log1p")


def _is_tanh(call: cst.Call, module: ModuleInfo) -> bool:
    """`torch.tanh(x)`, `x.tanh()`"""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "tanh" or any(a.keyword for a in call.args):
        return False
    if len(call.args) == 1:
        return module.value(call.func).name in NAMES
    return not call.args and module.value(call.func.value).kind == "tensor"


def _squared(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """What `1 - y ** 2` squares within a logarithm."""
    for node in descend(call):
        if (
            isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, cst.Subtract)
            and constant(node.left) in (1, 1.0)
        ):
            if (part := _square(node.right)) is not None:
                yield part
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):  # log1p(-y ** 2)
            if (part := _square(node.expression)) is not None:
                yield part


def _square(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor of `y ** 2`, `y * y`, `y.pow(2)`, `torch.pow(y, 2)`, `y.square()`."""
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Power) and constant(node.right) in (2, 2.0):
            return node.left
        twice = (
            isinstance(node.operator, cst.Multiply) and dotted(node.left) and dotted(node.left) == dotted(node.right)
        )
        return node.left if twice else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    name, given = node.func.attr.value, [a.value for a in node.args]
    if name == "pow" and given and constant(given[-1]) in (2, 2.0):
        return given[0] if len(given) == 2 else node.func.value
    if name == "square":
        return given[0] if given else node.func.value
    return None
