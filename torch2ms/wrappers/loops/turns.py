"""`for net, opt in ((net_d, opt_d), (net_g, opt_g)): ...`, whose turns train different networks, written out.

What a turn differentiates depends on which networks the names stand for, and so does the branch it takes. Where the
items are written down in the loop's head, or in a list that is never changed, every turn becomes statements of its own:
names stand for the items, and questions of which item it is are answered.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.inlining.folding import Substituted
from torch2ms.wrappers.passes import each_module

MOST = 4  # turns that are written out
LONGEST = 60  # statements that they may become
KINDS = ("optimizer", "module")
Turn = dict[str, cst.BaseExpression]  # what each name of the loop stands for


@each_module
def written_out(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such loops."""
    if not module.has(".step"):
        return None
    loops = _loops(module)
    return _Turns(module, loops).plain() if loops else None


class _Turns(Suites):
    """One module, with the loops to write out."""

    def __init__(self, module: ModuleInfo, loops: dict[int, list[Turn]]) -> None:
        super().__init__(module)
        self.loops = loops

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        turns = self.loops.get(id(original))
        if turns is None or type(updated) is not cst.For or not isinstance(updated.body, cst.IndentedBlock):
            return super().compound(original, updated)
        made: list[cst.BaseStatement] = []
        items = [(dotted(item), self.module.value(item)) for turn in turns for item in turn.values()]
        places = {text: v.place for text, v in items if text and v.kind in KINDS}
        said: layout.Lines = ()
        for turn in turns:
            writer = _Turn(self, turn, places)
            body, waiting = writer.suite(self.copied(updated.body).body)
            told = {n for s in body for n in _names(s)}
            given = [_bound(n, turn[n]) for n in turn if not dotted(turn[n]) and n in told]
            for line in given:
                self.number(line.body[0], original)
            if body and said:
                body[0] = self.renumbered(body[0], leading_lines=[*said, *layout.strip_blank(layout.leading(body[0]))])
            made += [*given, *body]
            said = waiting
        if made:
            told = {str(c.comment and c.comment.value) for s in made for c in layout.inner_comments(s)}
            bare = updated.with_changes(leading_lines=(), body=updated.body.with_changes(footer=()))
            inner = layout.inner_comments(bare)
            gone = [c for c in inner if c.comment is not None and c.comment.value not in told]
            lines = [*updated.leading_lines, *gone, *layout.strip_blank(layout.leading(made[0]))]
            made[0] = self.renumbered(made[0], leading_lines=lines)
        return made, (*said, *layout.comments_only(updated.body.footer))


class _Turn(Substituted, Suites):
    """The statements of one turn."""

    def __init__(self, around: Suites, turn: Turn, places: dict[str, str]) -> None:
        super().__init__({name: item for name, item in turn.items() if dotted(item)})
        self.numbers, self.held, self.off = around.numbers, around.held, around.off
        self.findings, self.line, self.module = around.findings, around.line, around.module
        self.turn, self.places = turn, places

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if type(original) is not cst.If or type(updated) is not cst.If:
            return super().compound(original, updated)
        answer, other = answered(original.test, self.turn, self.places), updated.orelse
        if answer is None:
            return super().compound(original, updated)
        if answer:
            return self.opened(updated.with_changes(orelse=None))
        if other is None:
            return [], layout.comments_only(updated.leading_lines)
        lines = [*updated.leading_lines, *layout.comments_only(other.leading_lines)]
        if isinstance(other, cst.If):
            assert original.orelse is not None
            return self.compound(original.orelse, other.with_changes(leading_lines=lines))
        return self.opened(updated.with_changes(body=other.body, orelse=None, leading_lines=lines))

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        answer = answered(original.test, self.turn, self.places)
        return updated if answer is None else updated.body if answer else updated.orelse


def _bound(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value.deep_clone())])


def _names(node: cst.CSTNode) -> Iterator[str]:
    return (n.value for n in descend(node) if type(n) is cst.Name)


def answered(test: cst.BaseExpression, turn: Turn, places: dict[str, str]) -> bool | None:
    """What the test says in the turn, None where the items do not tell."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = answered(test.expression, turn, places)
        return None if inner is None else not inner
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    operator, right = test.comparisons[0].operator, test.comparisons[0].comparator
    sides = [turn.get(dotted(s), s) for s in (test.left, right)]
    if not {dotted(test.left), dotted(right)} & turn.keys():
        return None
    same = isinstance(operator, (cst.Is, cst.Equal))
    if not same and not isinstance(operator, (cst.IsNot, cst.NotEqual)):
        return None
    values = [constant(s) for s in sides]
    if ... not in values:
        return (values[0] == values[1]) is same
    if all(dotted(s) for s in sides) and dotted(sides[0]) == dotted(sides[1]):
        return same
    found = [places.get(dotted(s), "") for s in sides]
    return not same if all(found) and found[0] != found[1] else None


# --- which loops


def _loops(module: ModuleInfo) -> dict[int, list[Turn]]:
    found: dict[int, list[Turn]] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if type(stmt.node) is cst.For and not stmt.off and (turns := _turns(stmt, module)):
                found[id(stmt.node)] = turns
    return found


def _turns(stmt: Stmt, module: ModuleInfo) -> list[Turn]:
    """What the names of a loop stand for in each turn; nothing where it is not such a loop."""
    node = stmt.node
    assert isinstance(node, cst.For)
    names = _targets(node.target)
    rows = _rows(node.iter, type(node.target) is cst.Tuple)
    if not names or len(set(names)) != len(names) or any(len(r) != len(names) for r in rows):
        return []
    body = list(stmt.blocks[0].walk())
    if not 1 < len(rows) <= MOST or len(rows) * len(body) > LONGEST:
        return []
    if len(stmt.blocks) > 1 or not _trains(body) or _jumps(node.body):
        return []
    items = [item for row in rows for item in row]
    if not any(module.value(i).kind == "optimizer" for i in items) or not all(_lasting(i, body) for i in items):
        return []
    read = set(names) & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
    if read or any(root(d) in names for s in body for d in s.defs) or _captured(node.body, set(names)):
        return []
    return [dict(zip(names, row, strict=True)) for row in rows]


def _targets(target: cst.BaseAssignTargetExpression) -> list[str]:
    parts = [e.value for e in target.elements] if type(target) is cst.Tuple else [target]
    names = [p.value for p in parts if isinstance(p, cst.Name)]
    return names if len(names) == len(parts) else []


def _rows(node: cst.BaseExpression, several: bool) -> list[list[cst.BaseExpression]]:
    """The items of every turn, as they are written in the loop's head."""
    if type(node) is cst.List or type(node) is cst.Tuple:
        turns = [e.value for e in node.elements if isinstance(e, cst.Element)]
        if len(turns) < len(node.elements):
            return []
        return [_elements(t) for t in turns] if several else [[t] for t in turns]
    if several and isinstance(node, cst.Call) and dotted(node.func) == "zip" and all(not a.star for a in node.args):
        lists = [_elements(a.value) for a in node.args if a.keyword is None]
        return [list(row) for row in zip(*lists, strict=True)] if len({len(i) for i in lists}) == 1 else []
    return []


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    written = isinstance(node, (cst.List, cst.Tuple)) and all(isinstance(e, cst.Element) for e in node.elements)
    return [e.value for e in node.elements] if written else []  # type: ignore[attr-defined]


def _trains(body: list[Stmt]) -> bool:
    """More than calls of optimizers: a backward call, or a gradient."""
    text = {c.func.attr.value for s in body for c in s.calls if isinstance(c.func, cst.Attribute)}
    return "backward" in text


def _lasting(item: cst.BaseExpression, body: list[Stmt]) -> bool:
    """The expression is in every turn what it is when the loop begins."""
    place = dotted(item)
    if not place:
        return constant(item) is not ...
    return not any(overlaps(d, place) for s in body for d in s.defs)


def _jumps(body: cst.BaseSuite) -> bool:
    """The loop may end a turn early, or the function."""
    waiting: list[tuple[cst.CSTNode, bool]] = [(body, False)]
    while waiting:
        node, inner = waiting.pop()
        if node.__class__ in (cst.Return, cst.Yield, cst.Await, cst.FunctionDef, cst.ClassDef):
            return True
        if (type(node) is cst.Break or type(node) is cst.Continue) and not inner:
            return True
        waiting += [(c, inner or type(node) is cst.For or type(node) is cst.While) for c in children(node)]
    return False


def _captured(body: cst.BaseSuite, names: set[str]) -> bool:
    """A function or a comprehension inside has the names, or binds them anew."""
    for node in descend(body):
        if type(node) is cst.Lambda and names & set(_names(node)):
            return True
        if type(node) is cst.CompFor and names & set(_names(node.target)):
            return True
    return False
