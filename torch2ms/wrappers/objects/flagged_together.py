"""`params = [w, b]`, then `for p in params: p.requires_grad_(True)`: the flag is given to each tensor by its own name.

Tensors that have no name get it where the list or the dict is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.functions.flags import flag
from torch2ms.wrappers.passes import each_module

LOOP = re.compile(r"\bfor \w+ in [\w.]+(?:\.values\(\))?:\s+\w+\.requires_grad")


@dataclass
class Found:
    """Displays whose items get the flag there, values that are bound to names and get it, loops that go; by id."""

    displays: set[int] = field(default_factory=set)
    values: set[int] = field(default_factory=set)
    loops: set[int] = field(default_factory=set)


@each_module
def flagged_together(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such loops."""
    if module.directives.off or not module.says(LOOP):
        return None
    found = Found()
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if isinstance(stmt.node, cst.For) and not stmt.off:
                _look(stmt, stmt.node, scope, module, found)
    return _Writer(module, found).plain() if found.loops else None


def _look(stmt: Stmt, loop: cst.For, scope: Scope, module: ModuleInfo, found: Found) -> None:
    """Note a loop that gives each item of a list or a dict the flag, if it was made just before."""
    inner = [s for block in stmt.blocks for s in block.walk()]
    if len(inner) != 1 or loop.orelse is not None or dotted(loop.target) != dotted(flag(inner[0].node) or cst.Name("")):
        return
    name = _iterated(loop.iter)
    later = liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
    if not name or dotted(loop.target) in later:
        return
    before = stmt.block.stmts[: stmt.block.stmts.index(stmt)]
    made = [s for s in before if name in s.all_defs]
    if not made or not isinstance(made[-1].node, cst.Assign) or len(made[-1].node.targets) != 1:
        return
    display = made[-1].node.value
    items = _items(display)
    between = before[before.index(made[-1]) + 1 :]
    if not items or any(name in s.all_uses | s.all_muts for s in between):
        return
    if not any(dotted(i) for i in items):
        if all(_plain(i, module) for i in items):
            found.displays.add(id(display))
            found.loops.add(id(loop))
        return
    bound = [_bound(dotted(i), made[-1], stmt, scope) for i in items]
    values = [b for b in bound if b is not None and _plain(b, module)]
    if len(values) == len(items) == len(set(map(id, values))):
        found.values |= set(map(id, values))
        found.loops.add(id(loop))


def _plain(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A tensor without a graph, made where it stands by what torch has."""
    value = module.value(node)
    if any(isinstance(n, cst.Call) and module.value(n.func).kind == "function" for n in descend(node)):
        return False
    return value.kind == "tensor" and not value.deps and not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _bound(name: str, display: Stmt, loop: Stmt, scope: Scope) -> cst.BaseExpression | None:
    """What a name was bound to, once, which nothing uses but the display until the loop."""
    if not name or "." in name:
        return None
    made = [s for s in scope.body.walk() if name in s.defs]
    if len(made) != 1 or made[0].block is not loop.block or not isinstance(made[0].node, cst.Assign):
        return None
    between = [s for s in scope.body.walk() if made[0].number < s.number < loop.number and s is not display]
    alone = len(made[0].node.targets) == 1 and dotted(made[0].node.targets[0].target) == name
    used = any(name in s.uses | s.muts for s in between)
    return made[0].node.value if alone and not used and made[0].number < display.number else None


def _iterated(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        return dotted(node.func.value) if node.func.attr.value == "values" else ""
    return dotted(node)


def _items(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, (cst.List, cst.Tuple)):
        return [e.value for e in node.elements] if all(type(e) is cst.Element for e in node.elements) else []
    if isinstance(node, cst.Dict):
        return [e.value for e in node.elements] if all(type(e) is cst.DictElement for e in node.elements) else []
    return []


class _Writer(Suites):
    """One module with the flags at the tensors."""

    def __init__(self, module: ModuleInfo, found: Found) -> None:
        super().__init__(module)
        self.found = found

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.found.loops or not isinstance(original, cst.For):
            return [updated], ()  # type: ignore[list-item]
        inner = layout.inner_comments(original.with_changes(leading_lines=()))
        return [], (*original.leading_lines, *(line for line in inner if line.comment is not None))

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        made = self.rewrite(node)
        if isinstance(node, cst.Assign) and isinstance(made, cst.Assign) and id(node.value) in self.found.values:
            return [made.with_changes(value=_leaf(made.value))]
        return [made]

    def _display(self, original: cst.CSTNode, updated: cst.List | cst.Tuple | cst.Dict) -> cst.BaseExpression:
        if id(original) not in self.found.displays:
            return updated
        return updated.with_changes(elements=[e.with_changes(value=_leaf(e.value)) for e in updated.elements])

    def leave_List(self, original: cst.List, updated: cst.List) -> cst.BaseExpression:
        return self._display(original, updated)

    def leave_Tuple(self, original: cst.Tuple, updated: cst.Tuple) -> cst.BaseExpression:
        return self._display(original, updated)

    def leave_Dict(self, original: cst.Dict, updated: cst.Dict) -> cst.BaseExpression:
        return self._display(original, updated)


def _leaf(node: cst.BaseExpression) -> cst.Call:
    """The tensor with the flag."""
    plain = isinstance(node, (cst.Call, cst.Name, cst.Attribute, cst.Subscript)) or node.lpar
    held = node if plain else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(cst.Attribute(held, cst.Name("requires_grad_")), [cst.Arg(cst.Name("True"))])
