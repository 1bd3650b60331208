"""`grad(loss, weights, create_graph=second_order)`: whether gradients have a graph is decided as the program runs.

The gradient is taken as one that has a graph, and loses it where the flag is off: `if not deep: g = g.detach()`.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument, decided
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

GRAD = "torch.autograd.grad"
FLAG = re.compile(r"create_graph\s*=\s*(?!True\b|False\b)")
NAMES = ("gradients", "taken_gradients")


@each_module
def perhaps_twice(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such gradients."""
    if not module.says(FLAG) or module.directives.off:
        return None
    writer = _Flagged(module)
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            writer.read(stmt, scope.locals)
    return writer.plain() if writer.made else None


class _Flagged(Suites):
    """One module: by id of a statement, the call in it, the flag, and what its value gets for a name."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.made: dict[int, tuple[cst.Call, cst.BaseExpression, str]] = {}
        self.on: set[int] = set()  # arguments

    def read(self, stmt: Stmt, names: set[str]) -> None:
        node = stmt.node
        for call in stmt.calls:
            flag = argument(call, 4, "create_graph") if self.module.value(call.func).name == GRAD else None
            if (
                flag is None
                or not decided(flag)
                or not dotted(_asked(flag))
                or not isinstance(node, (cst.Assign, cst.Return))
            ):
                continue
            first = isinstance(node.value, cst.Subscript) and node.value.value is call
            if node.value is not call and not first:
                continue
            fresh = next((n for n in NAMES if n not in names), "")
            target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
            name = fresh if isinstance(node, cst.Return) else dotted(target) if target is not None else ""
            several = isinstance(target, (cst.Tuple, cst.List)) and all(dotted(e.value) for e in target.elements)
            if name or several:
                self.made[id(node)] = call, flag, name

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.made:
            return [self.rewrite(node)]
        call, flag, name = self.made[id(node)]
        lines: list[cst.CSTNode]
        self.on |= {id(a) for a in call.args if a.value is flag}
        value = self.rewrite(node.value)  # type: ignore[attr-defined]
        assert isinstance(value, cst.BaseExpression)
        whole = isinstance(value, cst.Call)
        kept = cst.Assign([cst.AssignTarget(cst.Name(name))], value) if isinstance(node, cst.Return) else None
        lines = [
            kept or node.with_changes(value=value),
            cst.parse_statement(
                f"if {_off(flag)}:\n    {_cut(node, name, whole, argument(call, 5, 'allow_unused') is not None)}"
            ),
        ]
        return [*lines, cst.Return(cst.Name(name))] if kept is not None else lines

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(value=cst.Name("True")) if id(original) in self.on else updated


def _asked(flag: cst.BaseExpression) -> cst.BaseExpression:
    return flag.expression if isinstance(flag, cst.UnaryOperation) and isinstance(flag.operator, cst.Not) else flag


def _off(flag: cst.BaseExpression) -> str:
    return code(_asked(flag)) if _asked(flag) is not flag else f"not {code(flag)}"


def _cut(node: cst.BaseSmallStatement, name: str, whole: bool, unused: bool) -> str:
    """The statement that takes the graph from what the gradients are bound to; `unused`: some may be None."""

    def cut(one: str) -> str:
        return f"None if {one} is None else {one}.detach()" if unused else f"{one}.detach()"

    if name:
        return f"{name} = tuple({cut('g')} for g in {name})" if whole else f"{name} = {cut(name)}"
    names = [dotted(e.value) for e in node.targets[0].target.elements]  # type: ignore[attr-defined]
    comma = "," * (len(names) == 1)
    return f"{', '.join(names)}{comma} = {', '.join(map(cut, names))}{comma}"
