"""Results of several layers that a loop goes through, and passes over: `if w is None: continue`, or `part = ...` in
each turn, of which only the last is used.

All layers ran, and those whose result is passed over have no gradient in torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.syntax.tree import code, constant, gathered
from torch2ms.tape.forward.choices import moving, own
from torch2ms.tape.forward.cut_short import CUTTING, beside, ends_before, taken_out
from torch2ms.tape.forward.differing import NOTHING, Lists, lists_of, real
from torch2ms.tape.forward.effects import leaves
from torch2ms.tape.forward.fixed import fixed
from torch2ms.tape.forward.left import Skipped
from torch2ms.tape.forward.watched import spelled

COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)
CHOOSING = ("min", "max", "choice", "choices", "sample", "sorted")
COLLECTING = frozenset({"append", "extend", "insert", "add", "update", "put"})
NUMBERS = ("int", "float", "str", "bool")


def guards(stmt: Stmt) -> Iterator[Stmt]:
    """The `if` statements before a statement that may end its turn of a loop."""
    for at in (stmt, *stmt.ancestors()):
        if at.is_loop and at is not stmt:
            return
        yield from (s for s in at.block.stmts if s.number < at.number and type(s.node) is cst.If and leaves(s))


def choosing(stmt: Stmt) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What an expression decides by which of many it takes, and what it takes them of: `[x for x in xs if x in kept]`,
    `min(losses)`, which decides by itself."""
    for node in gathered(own(stmt)):
        kind = type(node)  # cheaper than isinstance
        if kind in COMPREHENSIONS:
            clause: cst.CompFor | None = node.for_in  # type: ignore[attr-defined]
            while clause is not None:
                yield from ((i.test, node) for i in clause.ifs)  # type: ignore[misc]
                clause = clause.inner_for_in
        elif kind is cst.Call and isinstance(node, cst.Call) and name_called(node) in CHOOSING:
            named = [a.keyword.value for a in node.args if a.keyword is not None]
            if len(node.args) == len(named) + 1 and (name_called(node) != "sorted" or "key" in named):
                yield node, node


def guarded(
    stmts: list[Stmt], module: ModuleInfo, lists: Lists
) -> Iterator[tuple[cst.BaseExpression, Stmt, frozenset[str]]]:
    """What may end a turn of a loop over results, or leaves some of them out, and the layers behind them."""
    for loop in (s for s in stmts if type(s.node) is cst.For):
        ends = [s for b in loop.blocks for s in b.walk() if isinstance(s.node, cst.If) and leaves(s)]
        if ends and (places := _behind(loop, module, lists)):
            yield from ((s.node.test, s, places) for s in ends if isinstance(s.node, cst.If))
    for stmt in stmts:
        for test, source in choosing(stmt):
            if places := _of([n for n in gathered(source) if isinstance(n, cst.BaseExpression)], module, lists):
                yield test, stmt, places
    yield from cut_short(stmts, module, lists)


def cut_short(
    stmts: list[Stmt], module: ModuleInfo, lists: Lists
) -> Iterator[tuple[cst.BaseExpression, Stmt, frozenset[str]]]:
    """What decides which results a statement takes out of a container, or comes to beside a shorter list."""
    for stmt in stmts if module.says(CUTTING) else ():
        for holder in taken_out(stmt, stmts):
            if places := _several(holder, module, lists):
                tests = [a.node.test for a in stmt.ancestors() if isinstance(a.node, cst.If) and a in stmts]
                yield from ((asked, stmt, places) for asked in (holder, *tests))
        for one, others in beside(stmt):
            if places := _several(one, module, lists):
                yield from ((other, stmt, places) for other in others if ends_before(one, other, stmt, module))


def replaced(
    stmts: list[Stmt], module: ModuleInfo, lists: Lists
) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
    """What a loop goes through of which only the last counts, and the layers behind all of it."""
    for loop in (s for s in stmts if type(s.node) is cst.For):
        if only_last(loop, module) and (places := _behind(loop, module, lists)):
            yield loop.node.iter, places  # type: ignore[union-attr]


def of_items(stmts: list[Stmt], module: ModuleInfo, project: Project) -> Iterator[Skipped]:
    """The layers behind other items of what statements take items of."""
    lists = lists_of(stmts, module, project)
    for item, places in fixed(stmts, module, lists, project):
        yield from (Skipped(p, item, code=spelled(p, stmts, module), ever=True) for p in places)
    every = [*replaced(stmts, module, lists), *((t, places) for t, _, places in cut_short(stmts, module, lists))]
    for through, places in every:
        yield from (Skipped(p, code(through), code=spelled(p, stmts, module), ever=True) for p in sorted(places))


def only_last(loop: Stmt, module: ModuleInfo) -> bool:
    """No turn of the loop adds to what others made, and something behind it reads what the last one made."""
    body = [s for block in loop.blocks for s in block.walk() if s.is_small]
    if any(_adds_up(s, module) for s in body):
        return False
    made = {d for s in body for d in s.defs}
    every = loop.block.scope.body.walk()
    return any(made & s.uses for s in every if s.number > body[-1].number) if body else False


def _adds_up(stmt: Stmt, module: ModuleInfo) -> bool:
    node = stmt.node
    if type(node) is cst.Return or any(type(n) is cst.Yield for n in stmt.nodes):
        return True
    for call in stmt.calls:
        name = name_called(call)
        if name == "backward" or name in COLLECTING and not all(_number(a.value, module) for a in call.args):
            return True
    if isinstance(node, cst.AugAssign):
        return not _number(node.value, module)
    stored = isinstance(node, cst.Assign) and any(isinstance(t.target, cst.Subscript) for t in node.targets)
    return stored or bool({root(d) for d in stmt.defs} & {root(u) for u in stmt.uses})


def _number(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    item = isinstance(node, cst.Call) and name_called(node) in ("item", "len", "float", "int")
    return item or constant(node) is not ... or module.value(node).kind in NUMBERS


def _behind(loop: Stmt, module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """The layers of lists behind the results that a loop goes through, one by one or by their number."""
    assert isinstance(loop.node, cst.For)
    inside = (n for b in loop.blocks for s in b.walk() if s.is_small for n in s.nodes)
    taken = [n.value for n in inside if type(n) is cst.Subscript and moving(n)]
    return _of([*(n for n in gathered(loop.node.iter) if isinstance(n, cst.BaseExpression)), *taken], module, lists)


def _several(node: cst.BaseExpression, module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """The layers behind a container that are not behind all items of it."""
    value = module.value(node)
    if value.kind not in ("list", "tuple", "dict"):
        return NOTHING
    items = [real(item) for item in value.items or ()]
    whole = NOTHING.union(*items) if items else real(value)
    apart = whole - items[0].intersection(*items) if items else innermost(whole)
    return (apart if len(apart) > 1 else NOTHING) | frozenset(filter(lists, whole))


def innermost(places: frozenset[str]) -> frozenset[str]:
    """The layers, without what they are a part of."""
    return frozenset(p for p in places if not any(other.startswith(f"{p}.") for other in places))


def _of(nodes: list[cst.BaseExpression], module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """The layers of lists behind the containers among some expressions, or in these lists themselves."""
    values = list(map(module.value, nodes))
    found = NOTHING.union(*(real(value) for value in values if value.kind in ("list", "tuple", "dict")))
    return frozenset(d for d in found | {v.place for v in values if v.kind == "module" and v.place} if lists(d))
