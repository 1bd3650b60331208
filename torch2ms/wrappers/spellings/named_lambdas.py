"""`crit = lambda p, t: -(t * p.log()).sum()` as a function, where gradients are differentiated again.

Such a gradient runs compiled, and what compiled code calls has to be seen. A name that is bound once, in a scope of
statements, to a lambda is a definition.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

AGAIN = re.compile(r"\bcreate_graph\b|\b(?:hessian|jacobian|hvp|vhp|jvp|vjp|jacrev|jacfwd)\(")
BOUND = re.compile(r"=\s*\(?lambda\b")


@each_module
def named_lambdas(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such lambdas."""
    if module.directives.off or not module.says(BOUND) or not module.says(AGAIN):
        return None
    found = {key for scope in module.scope.walk() if type(scope.node) is not cst.ClassDef for key in _bound(scope)}
    return _Writer(module, found).plain() if found else None


def _bound(scope: Scope) -> list[int]:
    """The ids of assignments of lambdas to names that a scope binds once, and calls."""
    stmts = list(scope.body.walk())
    found = []
    for stmt in stmts:
        node = stmt.node
        if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.value) is not cst.Lambda:
            continue
        name = dotted(node.targets[0].target)
        once = sum(name in s.defs for inner in scope.walk() for s in inner.body.walk()) == 1
        called = any(dotted(c.func) == name for inner in scope.walk() for s in inner.body.walk() for c in s.calls)
        if name.isidentifier() and once and called and not stmt.off:
            found.append(id(node))
    return found


class _Writer(Suites):
    """One module with definitions in place of the lambdas."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.found:
            return super().small(node)
        assert isinstance(node, cst.Assign) and isinstance(node.value, cst.Lambda)
        target, made = node.targets[0].target, node.value
        assert isinstance(target, cst.Name)
        returned = cst.Return(made.body)
        self.number(returned, node)
        body = cst.IndentedBlock([cst.SimpleStatementLine([returned])])
        return [cst.FunctionDef(cst.Name(target.value), made.params, body)]
