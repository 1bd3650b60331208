"""`with autocast("cuda") if cuda else nullcontext():` as the autocast that is enabled where the condition holds."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import canonical, dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

IDLE = ("contextlib.nullcontext", "contextlib.suppress")
METHODS = {"__init__", "__enter__", "__exit__"}


@each_module
def conditional(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such blocks."""
    if not module.has("autocast"):
        return None
    writer = Conditional(module, project)
    made = writer.plain()
    return made if writer.changed else None


class Conditional(Suites):
    """One module, with conditions as arguments."""

    changed = False

    def __init__(self, module: ModuleInfo, project: Project) -> None:
        super().__init__(module)
        self.project = project

    def leave_WithItem(self, original: cst.WithItem, updated: cst.WithItem) -> cst.WithItem:
        node = original.item
        if not isinstance(node, cst.IfExp) or original.asname is not None:
            return updated
        for cast, other, test in ((node.body, node.orelse, code(node.test)), (node.orelse, node.body, _not(node.test))):
            if isinstance(cast, cst.Call) and self.casts(cast) and self.idle(other):
                self.changed = True
                return updated.with_changes(item=_enabled(cast, test))
        return updated

    def casts(self, call: cst.Call) -> bool:
        name = canonical(qualified(call.func, self.module.imports))
        enabled = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "enabled"]
        given = not enabled or constant(enabled[0]) is True
        return name.startswith("torch.") and name.endswith(".autocast") and given and not any(a.star for a in call.args)

    def idle(self, node: cst.BaseExpression) -> bool:
        """The context does nothing."""
        if not isinstance(node, cst.Call) or node.args:
            return False
        if qualified(node.func, self.module.imports) in IDLE:
            return True
        found = self.project.find(dotted(node.func), self.module)
        return (
            isinstance(found, ClassInfo)
            and found.methods.keys() <= METHODS
            and all(
                isinstance(stmt.node, cst.Pass) for info in found.methods.values() for stmt in info.scope.body.walk()
            )
        )


def _not(test: cst.BaseExpression) -> str:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return code(test.expression)
    return f"not ({code(test)})"


def _enabled(call: cst.Call, test: str) -> cst.Call:
    args = [a for a in call.args if a.keyword is None or a.keyword.value != "enabled"]
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [a.with_changes(comma=comma) for a in args]
    return call.with_changes(args=[*args, cst.Arg(cst.parse_expression(test), cst.Name("enabled"), equal=equal)])
