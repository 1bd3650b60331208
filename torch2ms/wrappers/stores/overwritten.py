"""`if p.grad is None: p.grad = g`, and otherwise `p.grad.data.copy_(g)`, written as `p.grad = g`.

Both ways the gradient is `g` afterwards, whatever was there before. Architects of DARTS are written so, and what takes
the gradients of a copy over to the network that an optimizer has.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.gradients.added import asks_for, only
from torch2ms.wrappers.passes import each_module

HALF = re.compile(r"half\(|float16|bfloat16")  # `copy_` converts
WRAPPED = re.compile(r"(?:\w+\.)*Variable\((.*)\)|(.*?)(?:\.data|\.(?:clone|detach)\(\))")


@each_module
def overwritten(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that stores gradients so."""
    asks = module.has(".grad is N") and module.has(".copy_(") and not module.directives.off
    return _Writer(module).plain() if asks else None


def stored(node: cst.CSTNode) -> tuple[str, str]:
    """The tensor whose gradient becomes another one in either case, and that; ("", "") for other statements."""
    if not isinstance(node, cst.If) or not isinstance(node.orelse, cst.Else):
        return "", ""
    begun = only(node.body)
    target = dotted(begun.targets[0].target) if isinstance(begun, cst.Assign) and len(begun.targets) == 1 else ""
    if not target.endswith(".grad") or asks_for(node.test, one := target.removesuffix(".grad")) is not True:
        return "", ""
    assert isinstance(begun, cst.Assign)
    made = _bare(code(begun.value))
    return (one, made) if made == _bare(_copied(only(node.orelse.body), one)) else ("", "")


def _copied(node: cst.CSTNode | None, one: str) -> str:
    """What `p.grad.copy_(g)` and `p.grad.data.copy_(g)` copy."""
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].keyword is not None:
        return ""
    return code(call.args[0].value) if dotted(call.func) in (f"{one}.grad.copy_", f"{one}.grad.data.copy_") else ""


def _bare(text: str) -> str:
    """An expression without what gives it back as it is, or a copy of it."""
    while (found := WRAPPED.fullmatch(text)) is not None:
        text = found[1] or found[2]
    return text


class _Writer(Suites):
    """One module with plain statements in place of both."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.exact = HALF.search(module.source) is None

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        one, made = stored(original) if self.exact else ("", "")
        if not one:
            return [updated], ()  # type: ignore[list-item]
        line = cst.parse_statement(f"{one}.grad = {made}", self.module.tree.config_for_parsing)
        assert isinstance(original, cst.If) and isinstance(line, cst.SimpleStatementLine)
        self.number(line.body[0], original)
        return [line.with_changes(leading_lines=original.leading_lines)], ()
