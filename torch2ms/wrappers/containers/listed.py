"""`params = []`, then `for group in optimizer.param_groups: params += group["params"]`, as one comprehension.

The ledger knows whose parameters such a comprehension holds.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

NAMES = ("p", "param", "one")


@each_module
def listed(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that gathers parameters so."""
    if not module.has(".param_groups:") or not module.has("grad"):
        return None
    writer = Listed(module)
    made = writer.plain()
    return made if writer.changed else None


class Listed(Suites):
    """One module, with comprehensions."""

    changed = False

    def joined(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        made: list[cst.BaseStatement] = []
        for stmt in body:
            name = _begun(made[-1]) if made else ""
            given = _added(stmt, name) if name and isinstance(stmt, cst.For) else ""
            if given and isinstance(stmt, cst.For) and "#" not in code(stmt):
                own = next(n for n in NAMES if n not in (name, dotted(stmt.target)))
                text = f"[{own} for {dotted(stmt.target)} in {code(stmt.iter)} for {own} in {given}]"
                made[-1] = self.merged(made[-1], text)
                self.changed = True
            else:
                made.append(stmt)
        return made

    def merged(self, stmt: cst.BaseStatement, text: str) -> cst.BaseStatement:
        """The statement that begins the list, with all that is in it."""
        assert isinstance(stmt, cst.SimpleStatementLine) and isinstance(stmt.body[0], cst.Assign)
        small = stmt.body[0].with_changes(value=cst.parse_expression(text))
        self.number(small, stmt.body[0])
        return stmt.with_changes(body=[small])


def _begun(stmt: cst.BaseStatement) -> str:
    """The name of the list that the statement begins, empty."""
    node = stmt.body[0] if isinstance(stmt, cst.SimpleStatementLine) and len(stmt.body) == 1 else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0].target, cst.Name):
        return ""
    return node.targets[0].target.value if isinstance(node.value, cst.List) and not node.value.elements else ""


def _added(loop: cst.For, name: str) -> str:
    """What each turn of a loop over groups adds to the list, "" for any other loop."""
    over = isinstance(loop.iter, cst.Attribute) and loop.iter.attr.value == "param_groups" and bool(dotted(loop.iter))
    body = loop.body.body
    if not over or loop.orelse is not None or len(body) != 1 or not dotted(loop.target):
        return ""
    line = body[0]
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    given: cst.BaseExpression | None = None
    if isinstance(node, cst.AugAssign) and dotted(node.target) == name and isinstance(node.operator, cst.AddAssign):
        given = node.value
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        call = node.value
        given = call.args[0].value if dotted(call.func) == f"{name}.extend" and len(call.args) == 1 else None
    if not isinstance(given, cst.Subscript) or dotted(given.value) != dotted(loop.target):
        return ""
    keys = [constant(n.value) for n in descend(given.slice[0]) if isinstance(n, cst.Index)]
    return code(given) if keys == ["params"] else ""
