"""`x.grad = g` for the only tensor of an optimizer, written as the loop that fills the gradients of its list.

The ledger knows such loops: what they store is what the optimizer is called with, and nothing is left of what was
there before.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

NAMES = (("p", "param", "tensor"), ("g", "grad", "gradient"))


@each_module
def filled(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such statements."""
    if not module.has(".grad = ") or module.directives.off:
        return None
    found = {key: names for scope in module.scope.walk() for key, names in _found(scope).items()}
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope) -> dict[int, tuple[str, str]]:
    """By id of a statement that stores such a gradient: the names of the tensor and of the gradient in the loop."""
    alone = _alone(scope)
    found = {}
    taken = {n.value for n in descend(scope.node) if type(n) is cst.Name} if alone else set()
    one, grad = (next((n for n in names if n not in taken), "") for names in NAMES)
    for stmt in scope.body.walk() if one and grad else ():
        node = stmt.node
        if type(node) is cst.Assign and stmt.line is not None and _stored(node) in alone:
            found[id(node)] = one, grad
    return found


def _alone(scope: Scope) -> set[str]:
    """The tensors, by name, that are all that an optimizer of the scope is made with, and that it alone has."""
    steps = {dotted(c.func.value) for s in scope.body.walk() for c in s.calls
             if isinstance(c.func, cst.Attribute) and c.func.attr.value == "step"}  # fmt: skip
    own = list(scope.body.walk())
    stmts = [*own, *_kept(scope)]
    made = [s for s in stmts if type(s.node) is cst.Assign and s.defs & steps]
    found: list[str] = []
    others: list[str] = []
    for stmt in made:
        call = stmt.node.value  # type: ignore[union-attr]
        given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
        names = [dotted(e.value) for e in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else []
        once = sum(bool(s.defs & stmt.defs) for s in made) == 1
        lasting = stmt in own or all(sum(name in s.defs for s in stmts) == 1 for name in names)
        (found if len(names) == 1 and once and lasting else others).extend(names)
    return {name for name in found if name and found.count(name) == 1 and name not in others}


def _kept(scope: Scope) -> list[Stmt]:
    """What the other methods of the object bind its attributes to."""
    methods = [m for m in scope.cls.children if m is not scope] if scope.cls is not None else []
    return [s for m in methods for s in m.body.walk() if any(d.startswith("self.") for d in s.defs)]


def _stored(node: cst.Assign) -> str:
    """The tensor whose gradient the statement stores."""
    if len(node.targets) != 1 or dotted(node.value) == "None":
        return ""
    target = node.targets[0].target
    return dotted(target.value) if type(target) is cst.Attribute and target.attr.value == "grad" else ""


class _Writer(Suites):
    """One module with loops in place of such statements."""

    def __init__(self, module: ModuleInfo, found: dict[int, tuple[str, str]]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.found:
            return [self.rewrite(node)]
        assert isinstance(node, cst.Assign)
        one, grad = self.found[id(node)]
        text = f"for {one}, {grad} in zip([{_stored(node)}], [{code(node.value)}]):\n    {one}.grad = {grad}"
        return [cst.parse_statement(text, self.module.tree.config_for_parsing)]
