"""`for name in "anchors", "nc": setattr(self, name, getattr(head, name))`, written out: one assignment for each name.

An object whose attributes have names that are computed may hold anything it was given, parameters too.
"""

from __future__ import annotations

import keyword

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

MOST = 8  # names of one loop


@each_module
def settings_written_out(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such loops."""
    if not module.has("setattr("):
        return None
    stmts = [s for scope in module.scope.walk() for s in scope.body.walk() if type(s.node) is cst.For and not s.off]
    loops = {id(s.node): names for s in stmts if (names := _names(s))}
    return _Settings(module, loops).plain() if loops else None


class _Settings(Suites):
    """One module, with the loops to write out."""

    def __init__(self, module: ModuleInfo, loops: dict[int, list[str]]) -> None:
        super().__init__(module)
        self.loops = loops

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.loops:
            return super().compound(original, updated)
        assert isinstance(original, cst.For)
        call = _setting(original)
        assert call is not None
        made: list[cst.BaseStatement] = []
        for name in self.loops[id(original)]:
            value = call.args[2].value.visit(_Asked(dotted(original.target), name))
            assert isinstance(value, cst.BaseExpression)
            target = cst.Attribute(call.args[0].value, cst.Name(name))
            line = cst.Assign([cst.AssignTarget(target)], value)
            self.number(line, original)
            made.append(cst.SimpleStatementLine([line]))
        inner = layout.inner_comments(original.with_changes(leading_lines=()))
        comments = [line for line in inner if line.comment is not None]
        made[0] = made[0].with_changes(leading_lines=[*original.leading_lines, *comments])
        return made, ()


class _Asked(cst.CSTTransformer):
    """`getattr(head, name)` as `head.anchors`."""

    def __init__(self, variable: str, name: str) -> None:
        super().__init__()
        self.variable, self.name = variable, name

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if not _asks(original, self.variable):
            return updated
        return cst.Attribute(updated.args[0].value, cst.Name(self.name))


def _names(stmt: Stmt) -> list[str]:
    """The names that the loop sets, if that is all it does."""
    node = stmt.node
    assert isinstance(node, cst.For)
    if type(node.iter) not in (cst.Tuple, cst.List) or type(node.target) is not cst.Name or node.orelse is not None:
        return []
    names = [constant(e.value) for e in node.iter.elements]  # type: ignore[attr-defined]
    if not 0 < len(names) <= MOST or not all(isinstance(n, str) and _plain(n) for n in names):
        return []
    variable, call = node.target.value, _setting(node)
    if call is None or {variable} & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)):
        return []
    asked = {id(c.args[1].value) for c in descend(call.args[2].value) if isinstance(c, cst.Call) and _asks(c, variable)}
    rest = [n for a in (call.args[0], call.args[2]) for n in descend(a.value)]
    if any(type(n) is cst.Name and n.value == variable and id(n) not in asked for n in rest):
        return []
    return [str(n) for n in names]


def _plain(name: str) -> bool:
    """A name that a program may write behind a dot, and that means the same inside of a class."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _setting(node: cst.For) -> cst.Call | None:
    """`setattr(self, name, value)`, the only statement of the loop."""
    lines = [node.body] if type(node.body) is cst.SimpleStatementSuite else list(node.body.body)
    only = lines[0] if len(lines) == 1 else None
    small = list(only.body) if isinstance(only, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else []
    call = small[0].value if len(small) == 1 and isinstance(small[0], cst.Expr) else None
    if not isinstance(call, cst.Call) or dotted(call.func) != "setattr" or len(call.args) != 3:
        return None
    plain = not any(a.star or a.keyword for a in call.args) and bool(dotted(call.args[0].value))
    return call if plain and dotted(call.args[1].value) == dotted(node.target) else None


def _asks(call: cst.Call, variable: str) -> bool:
    """`getattr(head, name)` of something that has a name."""
    if dotted(call.func) != "getattr" or len(call.args) != 2 or any(a.star or a.keyword for a in call.args):
        return False
    return dotted(call.args[1].value) == variable
