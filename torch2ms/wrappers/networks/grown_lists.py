"""`self.vars = nn.ParameterList()` that a constructor fills with `self.vars.append(w)`: gathered in a list first.

MindSpore's ParameterTuple does not grow: it is made of the whole list, behind what fills it.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.boxes import parts
from torch2ms.wrappers.passes import each_module

MENTIONS = re.compile(r"\bParameterList\((?:\[ *\])?\)")
GROW = ("append", "extend")


@each_module
def gathered_first(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with lists that grow."""
    if module.directives.off or not module.says(MENTIONS):
        return None
    writer = _Writer(module)
    for scope in module.scope.walk():
        if scope.name == "__init__" and scope.cls is not None:
            for stmt in scope.body.stmts:
                _list(stmt, scope, module, writer)
    return writer.plain() if writer.names else None


def _list(stmt: Stmt, scope: Scope, module: ModuleInfo, writer: _Writer) -> None:
    """An empty list of parameters that the statements behind it do nothing with but to fill it."""
    both = parts(stmt.node)
    call = both[1] if both is not None else None
    if both is None or not isinstance(call, cst.Call) or module.value(call.func).name != "torch.nn.ParameterList":
        return
    place = dotted(both[0])
    empty = not call.args or isinstance(call.args[0].value, cst.List) and not call.args[0].value.elements
    if not isinstance(both[0], cst.Attribute) or not place.startswith("self.") or "." in place[5:] or not empty:
        return
    behind = [s for s in scope.body.stmts if s.number > stmt.number]
    mentions = {id(s): [n for n in descend(s.node) if dotted(n) == place] for s in behind}
    filled = [s for s in behind if mentions[id(s)]]
    calls = [
        c.func for s in filled for inner in s.walk() for c in inner.calls
        if isinstance(inner.node, cst.Expr) and inner.node.value is c and isinstance(c.func, cst.Attribute)
        and dotted(c.func.value) == place and c.func.attr.value in GROW
    ]  # fmt: skip
    if not calls or len(calls) != sum(map(len, mentions.values())) or _others(stmt, filled[-1], scope, writer):
        return
    used = {n.value for n in descend(scope.node) if isinstance(n, cst.Name)} | {"self"}
    name = place[5:] if place[5:] not in used - _attributes(scope.node) else f"{place[5:]}_list"
    if name in used and name != place[5:]:
        return
    writer.names[id(stmt.node)] = name
    writer.grown |= {id(func): name for func in calls}
    last = filled[-1].line if filled[-1].line is not None else filled[-1].node
    made = both[0].with_changes(value=cst.Name("self"))
    writer.made.setdefault(id(last), []).append((made, call, name))


def _attributes(node: cst.CSTNode) -> set[str]:
    """Names that stand for attributes and keywords alone."""
    parts_ = [n.attr for n in descend(node) if isinstance(n, cst.Attribute)]
    parts_ += [n.keyword for n in descend(node) if isinstance(n, cst.Arg) and n.keyword is not None]
    own = {id(n) for n in parts_}
    every = [n for n in descend(node) if isinstance(n, cst.Name)]
    return {n.value for n in parts_} - {n.value for n in every if id(n) not in own}


def _others(stmt: Stmt, last: Stmt, scope: Scope, writer: _Writer) -> bool:
    """Something else that has parameters is made meanwhile, which would come before the list then."""
    between = [s for top in scope.body.stmts if stmt.number < top.number <= last.number for s in top.walk()]
    made = [s for s in between if id(s.node) not in writer.names and any(d.startswith("self.") for d in s.defs)]
    kinds = [s.out[d] for s in made for d in s.defs if d.startswith("self.") and d in s.out]
    others = (v for v in kinds if v.name != "parameter list")
    return any(v.kind in ("module", "param", "params", "unknown") or v.leaf for v in others)


class _Writer(Suites):
    """One module, with the lists made first."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.names: dict[int, str] = {}  # by id of the statement that makes an empty list
        self.grown: dict[int, str] = {}  # by id of the function of a call
        self.made: dict[int, list[tuple[cst.Attribute, cst.Call, str]]] = {}  # by id of the last statement

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        name = self.names.get(id(node))
        if name is None:
            return [self.rewrite(node)]
        return [cst.Assign([cst.AssignTarget(cst.Name(name))], cst.List([]))]

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        name = self.grown.get(id(original))
        return updated if name is None else updated.with_changes(value=cst.Name(name))

    def statement(self, stmt: cst.CSTNode) -> Made:
        lines, pending = super().statement(stmt)
        for target, call, name in self.made.get(id(stmt), ()):
            value = call.with_changes(args=[cst.Arg(cst.Name(name))])
            new = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)])
            self.number(new.body[0], stmt)
            self.number(new, stmt)
            lines = [*lines, new]
        return lines, pending
