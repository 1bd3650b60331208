"""Networks and layers that a function is given and runs in one case alone: `maybe(layer, x, on)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.branching import decided_by, ways
from torch2ms.tape.forward.given import Given
from torch2ms.tape.forward.left import Skipped
from torch2ms.tape.forward.passed_over import guards
from torch2ms.tape.forward.unsteady import of_itself

Condition = tuple[cst.BaseExpression, Stmt]


def lent(
    call: cst.Call, stmt: Stmt, given: Given, info: FunctionInfo, nets: list[tuple[int, Value]]
) -> Iterator[Skipped]:
    """What a called function is given, by its positions, and may leave alone, and what decides about it."""
    inside = given.of(call, stmt, info.scope.params, info.scope.node)
    for number, net in nets:
        for test, at in _conditions(info.scope.params[number], info) if number < len(info.scope.params) else ():
            moves = inside.moves_test(test, at) or of_itself(test, at, info, inside)
            yield Skipped(net.place, code(test), moves, dotted(call.args[number].value))


def _conditions(param: str, info: FunctionInfo) -> list[Condition]:
    """What decides whether anything is done with a parameter; nothing where something is in any case."""
    users = [s for s in info.scope.body.walk() if not s.blocks and any(root(u) == param for u in s.uses)]
    found: list[Condition] = []
    for user in users:
        asked = [*_around(user, users), *_within(user, param)]
        if not asked:
            return []
        found += asked
    return found


def _around(user: Stmt, users: list[Stmt]) -> Iterator[Condition]:
    """The conditions that a statement stands under, or behind, where the other way has none like it."""
    for at in user.ancestors():
        if tests := decided_by(at):
            if not all(block is not None and any(s in users for s in block.walk()) for block in ways(at)):
                yield from ((test, at) for test in tests)
    for before in guards(user):
        if isinstance(before.node, cst.If) and not any(s in users for s in before.walk()):
            yield before.node.test, before


def _within(user: Stmt, param: str) -> Iterator[Condition]:
    """`layer(x) if on else x`"""
    choices = [n for n in user.nodes if isinstance(n, cst.IfExp)]
    for choice in choices:
        sides = [any(root(u) == param for u in expression_uses(n, user)) for n in (choice.body, choice.orelse)]
        inner = {id(n) for n in descend(choice)}
        outside = [n for n in user.nodes if type(n) is cst.Name and n.value == param and id(n) not in inner]
        if sides[0] != sides[1] and not outside:
            yield choice.test, user
