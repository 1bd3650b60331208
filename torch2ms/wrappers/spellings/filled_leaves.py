"""`w = init.xavier_uniform_(torch.empty(4, 5, requires_grad=True))`: a function that fills a leaf gives the leaf.

Written plainly: `init.xavier_uniform_(torch.empty(4, 5)).requires_grad_()`, a parameter like others.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.tree import constant
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

FILLED = re.compile(r"_\(\s*torch\.\w+\([^\n]*requires_grad")


@each_module
def filled_leaves(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such calls."""
    found = {id(c) for c in module.of_kind(cst.Call) if _fills(c, module)} if module.says(FILLED) else set()
    return _Writer(module, found).plain() if found else None


def _fills(call: cst.Call, module: ModuleInfo) -> bool:
    """A function of `torch.nn.init` that is given a leaf which is made in the call."""
    if not module.value(call.func).name.startswith("torch.nn.init.") or not call.args or call.args[0].keyword:
        return False
    made = call.args[0].value
    if not isinstance(made, cst.Call) or not module.value(made.func).name.startswith("torch."):
        return False
    asked = argument(made, 99, "requires_grad")
    return asked is not None and constant(asked) is True


class _Writer(Suites):
    """One module with leaves that are leaves once they are filled."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if id(original) not in self.found:
            return updated
        first, *others = updated.args
        made = cst.ensure_type(first.value, cst.Call)
        kept = [a for a in made.args if a.keyword is None or a.keyword.value != "requires_grad"]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=made.args[-1].comma)
        tensor = first.with_changes(value=made.with_changes(args=kept))
        return cst.Call(cst.Attribute(updated.with_changes(args=[tensor, *others]), cst.Name("requires_grad_")))
