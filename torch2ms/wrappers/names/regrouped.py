"""`optimizer.add_param_group({...})` of an optimizer that was just made, written as one more group of its constructor.

MindSpore's optimizers make the moments of their parameters when they are made: a group that comes later has none.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import overlaps
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

CALL = "add_param_group"
READS = ("len", "print", "range", "isinstance", "type", "max", "min", "str", "format")


@each_module
def regrouped(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that adds groups to new optimizers."""
    if not module.has(CALL) or module.directives.off:
        return None
    writer = _Groups(module)
    for scope in module.scope.walk():
        writer.read(scope)
    return writer.plain() if writer.gone else None


class _Groups(Suites):
    """One module: by id, the constructors with the groups that they get, and the statements that go."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.groups: dict[int, list[cst.BaseExpression]] = {}
        self.gone: set[int] = set()
        self.later: dict[int, cst.BaseSmallStatement] = {}  # by the first statement that adds: the making, in its place

    def read(self, scope: Scope) -> None:
        added = [(s, call) for s in scope.body.walk() if (call := _adds(s)) is not None]
        for place in {dotted(call.func.value) for _, call in added if isinstance(call.func, cst.Attribute)}:
            mine = [(s, c) for s, c in added if isinstance(c.func, cst.Attribute) and dotted(c.func.value) == place]
            made = [s for s in scope.body.walk() if place in s.defs and not s.blocks]
            calls = [c for s in made if (c := _constructor(s, self.module)) is not None]
            adds = [s for s, _ in mine]
            if not calls or len(calls) != len(made) or _within(made[0], adds[0].block) is None:
                continue
            late = len(made) == 1 and _waits(made[0], adds, place, self.module)
            if late or _behind(adds, made, place):
                for call in calls:
                    self.groups[id(call)] = [c.args[0].value for _, c in mine]
                self.gone |= {id(s.node) for s in adds}
            if late and isinstance(made[0].node, cst.BaseSmallStatement):
                self.gone.add(id(made[0].node))
                self.later[id(adds[0].node)] = made[0].node

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if (made := self.later.get(id(node))) is not None:
            return [self.rewrite(made)]
        return [] if id(node) in self.gone else [self.rewrite(node)]

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if (groups := self.groups.get(id(original))) is None:
            return updated
        first = updated.args[0]
        own = cst.Element(cst.Dict([cst.DictElement(_key(groups[0]), first.value)]))
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        elements = [e.with_changes(comma=comma) for e in [own, *map(cst.Element, groups)]]
        elements[-1] = elements[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated.with_changes(args=[first.with_changes(value=cst.List(elements)), *updated.args[1:]])


def _adds(stmt: Stmt) -> cst.Call | None:
    """The statement adds a group that is written there."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.func.attr.value != CALL:
        return None
    given = call.args[0] if len(call.args) == 1 else None
    named = given is not None and (given.keyword is None or given.keyword.value == "param_group")
    written = named and given is not None and not given.star and isinstance(given.value, cst.Dict)
    return call if written and dotted(call.func.value) else None


def _key(group: cst.BaseExpression) -> cst.BaseExpression:
    """The key of the parameters, in the program's own quotes."""
    assert isinstance(group, cst.Dict)
    keys = [e.key for e in group.elements if isinstance(e, cst.DictElement) and constant(e.key) == "params"]
    return keys[0].deep_clone() if keys else cst.SimpleString('"params"')


def _constructor(stmt: Stmt, module: ModuleInfo) -> cst.Call | None:
    """The constructor of an optimizer of torch that a statement binds; its first argument is what it trains."""
    call = stmt.node.value if isinstance(stmt.node, cst.Assign) and len(stmt.node.targets) == 1 else None
    if not isinstance(call, cst.Call) or not call.args or call.args[0].star:
        return None
    named = module.value(call.func).name.startswith("torch.optim.") or _looked_up(call.func, module)
    made = module.value(call).kind == "optimizer" and named
    keyword, given = call.args[0].keyword, module.value(call.args[0].value)
    listed = given.kind == "list" and given.name in ("of param", "of tensor") or _gathered(call.args[0].value)
    one = given.kind in ("params", "tensor", "param") or listed
    return call if made and one and (keyword is None or keyword.value == "params") else None


def _looked_up(func: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`getattr(optim, name, optim.Adam)`"""
    given = func.args[0].value if isinstance(func, cst.Call) and dotted(func.func) == "getattr" and func.args else None
    return given is not None and module.value(given).name == "torch.optim"


def _gathered(node: cst.BaseExpression) -> bool:
    """One of several lists that parameters were sorted into: `g[2]`."""
    return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name) and "group" not in node.value.value


def _behind(adds: list[Stmt], made: list[Stmt], place: str) -> bool:
    """All groups are added in one row right behind the making, and what they are made of is there before it."""
    block = adds[0].block
    tops = {id(top): top for s in made if (top := _within(s, block)) is not None}
    if len(tops) != 1 or any(s.block is not block for s in adds) or any(_within(s, block) is None for s in made):
        return False
    (top,) = tops.values()
    first, last = block.stmts.index(top), block.stmts.index(adds[-1])
    between = [s for s in block.stmts[first + 1 : last] if s not in adds]
    read = {u for s in adds for u in s.uses if not overlaps(u, place)}
    bound = {d for s in between for d in s.all_defs | s.all_muts}
    bound |= {d for s in top.walk() if s not in made for d in s.defs | s.muts}
    there = not any(overlaps(u, d) for u in read for d in bound)
    return block.stmts.index(adds[0]) > first and there and not any(_uses(s, place) for s in between)


def _waits(made: Stmt, adds: list[Stmt], place: str, module: ModuleInfo) -> bool:
    """What groups are made of is bound behind the making, which can stand there as well: nobody asks before."""
    block = adds[0].block
    if made.block is not block or any(s.block is not block for s in adds):
        return False
    first, last = block.stmts.index(made), block.stmts.index(adds[-1])
    between = [s for s in block.stmts[first + 1 : last] if s not in adds]
    row = adds[-1].number - adds[0].number == len(adds) - 1 or len(adds) == 1
    read, bound = {u for s in adds for u in s.uses}, {d for s in between for d in s.all_defs | s.all_muts}
    late = any(overlaps(u, d) for u in read for d in bound if not overlaps(u, place))
    changed = any(overlaps(u, d) for u in made.uses for d in bound)
    inner = [i for s in between for i in s.walk()]
    asked = any(u == place or u.startswith(f"{place}.") for i in inner for u in i.uses)
    asked = asked or any(module.value(c.func).kind in ("function", "method", "unknown") for i in inner for c in i.calls)
    return late and row and block.stmts.index(adds[0]) > first and not changed and not asked


def _within(stmt: Stmt, block: Block) -> Stmt | None:
    """The statement of a block that a statement is, or belongs to; none in a loop."""
    for outer in (stmt, *stmt.ancestors()):
        if outer.block is block:
            return outer
        if outer is not stmt and not isinstance(outer.node, cst.If):
            return None
    return None


def _uses(stmt: Stmt, place: str) -> bool:
    """A statement between may look at the groups, or let the optimizer step."""
    calls = [c for s in stmt.walk() for c in s.calls]
    unknown = [c for c in calls if dotted(c.func).rpartition(".")[2] not in READS]
    given = [n for c in calls for n in _parts(c) if dotted(n) == place]
    return any(u == place or u.startswith(f"{place}.") for s in stmt.walk() for u in s.uses) and bool(unknown or given)


def _parts(call: cst.Call) -> Iterator[cst.BaseExpression]:
    yield from (a.value for a in call.args)
