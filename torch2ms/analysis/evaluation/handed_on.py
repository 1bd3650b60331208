"""Functions and methods that are values: what they read from around them goes along, wherever they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.arguments import Given
from torch2ms.analysis.evaluation.bound_later import bound_later
from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.values import NO_DEPS, UNKNOWN, Value, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator


def read_around(stmt: Stmt, ev: Evaluator) -> frozenset[str]:
    """What a function that is defined in another one gives depends on, besides its arguments: `solve(x, dynamics)`."""
    scope = next((child for child in stmt.block.scope.children if child.node is stmt.node), None)
    info = ev.module.functions.get(id(scope))
    if info is None or not _reads(info.scope) or (returns := ev.exchange.returned(info)) is None:
        return NO_DEPS
    own = {*info.scope.params, *info.scope.locals}
    return frozenset(d for d in returns.deps if d[0] not in "@^" and root(d) not in own)


def _reads(scope: Scope) -> bool:
    """It reads what a scope around it binds, other functions and classes left out: most do not."""
    free = {use.partition(".")[0] for use in free_uses(scope)}
    around = scope.parent
    while around is not None:
        named = free & around.locals
        if not named.isdisjoint(around.params) or not named <= {child.name for child in around.children}:
            return True
        around = around.parent
    return False


def with_functions(given: Given, ev: Evaluator) -> Given:
    """A call that is handed functions, or methods of objects: `solve(x, self.dynamics)`."""
    bound_later(given, ev)
    for one in given.args:
        if one.kind == "method":
            break
    else:
        return given
    args = list(_known(given, ev))
    return Given(given.node, args, given.deps.union(*(a.deps for a in args)))


def _known(given: Given, ev: Evaluator) -> Iterator[Value]:
    for arg, value in zip(given.node.args, given.args, strict=True):
        if value.kind != "method" or not isinstance(arg.value, cst.Attribute):
            yield value
            continue
        base = ev.memo.get(id(arg.value.value), UNKNOWN)
        cls = class_of(base, ev.module, ev.project)
        method = cls.method(value.name) if cls is not None else None
        returns = ev.exchange.returned(method) if method is not None else None
        deps = rebase(returns, "self", base.place).deps if returns is not None else NO_DEPS
        yield replace(value, deps=value.deps | frozenset(d for d in deps if d[0] not in "@^"))


def of_functions(given: Given) -> frozenset[str]:
    """What the functions read that the constructor of a network is given, whatever it keeps them as."""
    found = NO_DEPS
    for one in given.args:
        if one.kind in ("function", "method"):
            found |= one.deps
    return found
