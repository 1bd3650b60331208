"""`a.grad = b.grad = None` and `a.grad, b.grad = None, None`, written as one statement for each gradient.

The ledger knows statements that drop one gradient: what they empty is dropped, or kept under a name, one by one.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module


@each_module
def each_alone(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such statements."""
    if not module.has(".grad") or module.directives.off:
        return None
    stmts = (s for scope in module.scope.walk() for s in scope.body.walk() if s.line is not None)
    found = {id(s.node): _dropped(s.node) for s in stmts if type(s.node) is cst.Assign}
    return _Writer(module, found).plain() if any(found.values()) else None


def _dropped(node: cst.Assign) -> list[cst.Attribute]:
    """The gradients that the statement sets to None, where it does nothing else; none if there is only one."""
    targets: list[cst.CSTNode] = [t.target for t in node.targets]
    values: list[cst.CSTNode] = [node.value]
    if len(targets) == 1 and type(targets[0]) is cst.Tuple and type(node.value) is cst.Tuple:
        targets = [e.value for e in targets[0].elements]
        values = [e.value for e in node.value.elements]
    grads = [t for t in targets if type(t) is cst.Attribute and t.attr.value == "grad" and dotted(t)]
    alone = len(targets) > 1 and len(grads) == len(targets) and all(dotted(v) == "None" for v in values)
    return grads if alone else []


class _Writer(Suites):
    """One module with a statement for each of these gradients."""

    def __init__(self, module: ModuleInfo, found: dict[int, list[cst.Attribute]]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        grads = self.found.get(id(node))
        if not grads:
            return [self.rewrite(node)]
        return [cst.Assign([cst.AssignTarget(grad)], cst.Name("None")) for grad in grads]
