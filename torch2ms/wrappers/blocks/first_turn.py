"""`for i, x in enumerate(xs): if i > 0: total = total + f(x) else: total = f(x)`, which begins anew in the first turn.

Nothing of what the name stood for before the loop is read in it: a graph that ended there is no part of this one. The
name gives up its value in front of the loop, where everybody sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.liveness import exposed
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Made, Suites, line_of
from torch2ms.wrappers.passes import each_module

ASKED = re.compile(r"^[ \t]+if (?:not )?\w+(?: *(?:>|==|!=|>=) *[01])? *:", re.MULTILINE)
COUNTED = re.compile(r"\bin (?:enumerate|range)\(")
FIRST, LATER = ("{0} == 0", "not {0}", "{0} < 1", "0 == {0}"), ("{0} > 0", "{0} != 0", "{0} >= 1", "{0}", "0 < {0}")


@each_module
def begins_anew(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such loops."""
    if not module.has(".backward("):
        return None
    if not (module.says(COUNTED) and module.says(ASKED)):
        return None
    found = {id(loop.node): names for scope in module.scope.walk() for loop, names in _found(scope)}
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope) -> Iterator[tuple[Stmt, list[str]]]:
    for loop in scope.body.walk():
        index = _index(loop)
        if not index or loop.off or len(loop.blocks) != 1:
            continue
        if any(index in s.defs for s in loop.walk() if s is not loop):
            continue
        names: list[str] = []
        stmts = loop.blocks[0].stmts
        for position, stmt in enumerate(stmts):
            above = stmts[:position]
            if any(type(s.node) is cst.Continue for a in above for s in a.walk()):
                break  # the first turn may be another one
            seen = {*exposed(above)} | {d for a in above for d in a.all_defs}
            names += [n for n in sorted(_begun(stmt, index) - seen) if n in scope.locals and _held(n, loop, scope)]
        if names:
            yield loop, names


def _index(loop: Stmt) -> str:
    """The name that counts the turns of a loop from 0."""
    node = loop.node
    if type(node) is not cst.For or node.orelse is not None or type(node.iter) is not cst.Call:
        return ""
    call, target = node.iter, node.target
    given = [code(a.value) for a in call.args if not a.star and a.keyword is None]
    if len(given) != len(call.args):
        return ""
    if dotted(call.func) == "enumerate" and given[1:] in ([], ["0"]) and type(target) is cst.Tuple:
        return dotted(target.elements[0].value)
    from_zero = len(given) == 1 or len(given) == 2 and given[0] == "0"
    return dotted(target) if dotted(call.func) == "range" and from_zero and type(target) is cst.Name else ""


def _begun(stmt: Stmt, index: str) -> set[str]:
    """The names that a condition binds in the first turn, and that it goes on with in the others."""
    node = stmt.node
    if type(node) is not cst.If or type(node.orelse) is not cst.Else or len(stmt.blocks) != 2:
        return set()
    test = code(node.test)
    if test in [form.format(index) for form in FIRST]:
        first, later = stmt.blocks
    elif test in [form.format(index) for form in LATER]:
        later, first = stmt.blocks
    else:
        return set()
    bound = {d for s in first.stmts if s.is_small for d in s.defs if "." not in d}
    return bound.difference(exposed(first.stmts)).intersection(exposed(later.stmts))


def _held(name: str, loop: Stmt, scope: Scope) -> bool:
    """The name stands for something before the loop, and not for a number that it was given to begin with.

    Inside of another loop it stands for what the turn before left.
    """
    bound = [s for s in scope.body.walk() if s.number < loop.number and name in s.defs]
    node = bound[-1].node if bound else None
    if type(node) is not cst.Assign:
        return node is not None or any(a.is_loop for a in loop.ancestors())
    return not isinstance(constant(node.value), (int, float)) and code(node.value) != "None"


class _Writer(Suites):
    """One module, with the names given up in front of the loops."""

    def __init__(self, module: ModuleInfo, found: dict[int, list[str]]) -> None:
        super().__init__(module)
        self.found = found

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        names = self.found.get(id(original))
        if names is None:
            return super().compound(original, updated)
        assert isinstance(updated, cst.For)
        lines: list[cst.BaseStatement] = []
        for name in names:
            line = line_of(f"{name} = None")
            self.number(line.body[0], original)
            lines.append(line if lines else line.with_changes(leading_lines=updated.leading_lines))
        return [*lines, self.renumbered(updated, leading_lines=())], ()


__all__ = ["begins_anew"]
