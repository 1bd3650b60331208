"""`for optimizer in (opt_g, opt_d): optimizer.step()`, written out: one statement for each optimizer.

The ledger keeps gradients by optimizer, and a loop variable is another one in each turn. Where the list is written down
in the program, its items say which.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

METHODS = {"step", "zero_grad", "unscale_"}
KINDS = {"optimizer", "scheduler"}
Turns = list[dict[str, str]]  # for every turn, what each name of the loop stands for


@each_module
def unrolled(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such loops."""
    loops = _loops(module)
    return Unroller(module, loops).plain() if loops else None


class Unroller(Suites):
    """One module, with the loops to write out."""

    def __init__(self, module: ModuleInfo, loops: dict[int, Turns]) -> None:
        super().__init__(module)
        self.loops = loops

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.loops:
            return [updated], ()  # type: ignore[list-item]
        assert isinstance(original, cst.For)
        made: list[cst.BaseStatement] = []
        for names in self.loops[id(original)]:
            for small in calls_of(original):
                named = small.visit(Named(names))
                assert isinstance(named, cst.Expr)
                self.number(named, small)
                made.append(cst.SimpleStatementLine([named]))
        if not isinstance(original.body, cst.IndentedBlock):
            return made, tuple(original.leading_lines)
        inner = layout.inner_comments(original.with_changes(leading_lines=()))
        comments = [line for line in inner if line.comment is not None]
        made[0] = made[0].with_changes(leading_lines=[*original.leading_lines, *comments])
        return made, ()


class Named(cst.CSTTransformer):
    """The names of a loop replaced by what they stand for."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        self.names, self.held = {}, self.names

    def leave_Attribute_attr(self, node: cst.Attribute) -> None:
        self.names = self.held

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        return cst.parse_expression(self.names[original.value]) if original.value in self.names else updated


def _loops(module: ModuleInfo) -> dict[int, Turns]:
    found: dict[int, Turns] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if type(stmt.node) is cst.For and not stmt.off and (turns := _turns(stmt, scope, module)):
                found[id(stmt.node)] = turns
    return found


def _turns(stmt: Stmt, scope: Scope, module: ModuleInfo) -> Turns:
    """What the names of a loop stand for in each turn; nothing where it is not such a loop."""
    node = stmt.node
    assert isinstance(node, cst.For)
    targets = [e.value for e in node.target.elements] if type(node.target) is cst.Tuple else [node.target]
    names = [t.value for t in targets if isinstance(t, cst.Name)]
    if len(names) != len(targets) or node.orelse is not None or not (calls := calls_of(node)):
        return []
    if not all(of_one(call, names, module) for call in calls):
        return []
    lists = [node.iter] if not isinstance(node.target, cst.Tuple) else zipped(node.iter)
    places = [_items(listed, scope, module) for listed in lists]
    if not any(i.kind == "optimizer" for listed in lists for i in _values(listed, module)):
        return []
    if len(places) != len(names) or not all(places) or len({len(p) for p in places}) != 1:
        return []
    if set(names) & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)):
        return []
    return [dict(zip(names, turn, strict=True)) for turn in zip(*places, strict=True)]


def calls_of(node: cst.For) -> list[cst.Expr]:
    """The statements of the loop's body, if they are calls and nothing else."""
    lines = [node.body] if type(node.body) is cst.SimpleStatementSuite else list(node.body.body)
    calls: list[cst.Expr] = []
    for line in lines:
        small = line.body if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else []
        plain = [s for s in small if type(s) is cst.Expr and type(s.value) is cst.Call]
        if not plain or len(plain) < len(small):
            return []
        calls += plain
    return calls


def of_one(statement: cst.Expr, names: list[str], module: ModuleInfo) -> bool:
    """Whether the call is one that an optimizer, its scheduler or its scaler answers to, for one of the names."""
    call = statement.value
    assert isinstance(call, cst.Call)
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in METHODS:
        return False
    scaler = module.value(call.func.value).kind == "scaler" and len(call.args) == 1
    meant = call.args[0].value if scaler else call.func.value
    return isinstance(meant, cst.Name) and meant.value in names


def zipped(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if not isinstance(node, cst.Call) or dotted(node.func) != "zip" or any(a.star or a.keyword for a in node.args):
        return []
    return [a.value for a in node.args]


def _items(node: cst.BaseExpression, scope: Scope, module: ModuleInfo) -> list[str]:
    """The places of optimizers or schedulers in a list that is written down, in the loop's head or before."""
    written = isinstance(node, (cst.List, cst.Tuple))
    items = _values(node, module)
    places = [dotted(e.value) for e in node.elements] if written else [i.place for i in items]  # type: ignore[attr-defined]
    if not all(places) or any(i.kind not in KINDS for i in items):
        return []
    owner = dotted(node).partition(".")[0]
    if written or owner in set(scope.params) - {"self"}:
        return places if written else []
    bound = [d for inner in module.scope.walk() for s in inner.body.walk() for d in s.defs]
    mine = all((place.partition(".")[0] == "self") == (owner == "self") for place in places)
    return places if mine and all(bound.count(place) == 1 for place in places) else []


def _values(node: cst.BaseExpression, module: ModuleInfo) -> list[Value]:
    if isinstance(node, (cst.List, cst.Tuple)):
        return [module.value(e.value) for e in node.elements]
    return list(module.value(node).items or ())
