"""`grad(y.sum(), x, create_graph=True)` next to `grad(y, t, torch.ones_like(y), create_graph=True)`: both with ones.

The derivatives of one output share its forward, and so do those of derivatives. A sum of it is another output, whose
forward would go through the first: it says the same as ones for every row.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import name_called
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

GRAD = "torch.autograd.grad"


@each_module
def one_output(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such derivatives."""
    if not module.has("create_graph") or module.directives.off:
        return None
    torch = next((name for name, target in module.imports.table.items() if target == "torch"), "")
    sums = {id(c): n for s in module.scope.walk() for c, n in _sums(s, module)} if torch else {}
    return _Outputs(module, sums, torch).plain() if sums else None


def _sums(scope: Scope, module: ModuleInfo) -> list[tuple[cst.Call, str]]:
    """Derivatives of the sum of something, and its name, in a turn that has others with weights."""
    found: list[tuple[cst.Call, str]] = []
    turns: dict[int, list[cst.Call]] = {}
    for stmt in scope.body.walk():
        loop = next((a for a in stmt.ancestors() if a.is_loop), None)
        turns.setdefault(id(loop), []).extend(c for c in stmt.calls if module.value(c.func).name == GRAD)
    for calls in turns.values():
        outputs = [(c, argument(c, 0, "outputs")) for c in calls]
        weighted = {o.value for c, o in outputs if isinstance(o, cst.Name) and argument(c, 2, "grad_outputs")}
        named = [(c, _summed(o)) for c, o in outputs if argument(c, 2, "grad_outputs") is None]
        found += [(c, name) for c, name in named if name] if weighted else []
    return found


def _summed(node: cst.BaseExpression | None) -> str:
    """The name in `y.sum()` and `torch.sum(y)`."""
    if not isinstance(node, cst.Call) or name_called(node) != "sum" or not isinstance(node.func, cst.Attribute):
        return ""
    given = node.args[0].value if len(node.args) == 1 else node.func.value if not node.args else None
    return given.value if isinstance(given, cst.Name) else ""


class _Outputs(Suites):
    """One module: derivatives of sums as derivatives with ones for every row."""

    def __init__(self, module: ModuleInfo, sums: dict[int, str], torch: str) -> None:
        super().__init__(module)
        self.sums = sums
        self.torch = torch

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if (name := self.sums.get(id(original))) is None:
            return updated
        named = (n for n, a in enumerate(updated.args) if a.keyword is not None and a.keyword.value == "outputs")
        place = next(named, 0)
        args = [a.with_changes(value=cst.Name(name)) if n == place else a for n, a in enumerate(updated.args)]
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        ones = cst.parse_expression(f"{self.torch}.ones_like({name})")
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return updated.with_changes(args=[*args, cst.Arg(ones, cst.Name("grad_outputs"), equal)])
