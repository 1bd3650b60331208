"""`p.data, kept[name] = kept[name], p.data`: the values change places, one after the other.

torch hands over the memory. MindSpore's parameters have no `.data` that a tuple could bind: names would be exchanged.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

MENTIONS = re.compile(r"\.data\b[^\n=]*=[^\n=]*\.data\b")
TENSORS = ("param", "tensor", "unknown")


@each_module
def exchanged(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such statements."""
    if module.directives.off or not module.says(MENTIONS):
        return None
    stmts = (s for scope in module.scope.walk() for s in scope.body.walk() if not s.off)
    found = {id(s.node): pair for s in stmts if (pair := _pair(s.node, module)) is not None}
    return _Writer(module, found).plain() if found else None


def _pair(node: cst.CSTNode, module: ModuleInfo) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The two places whose tensors are exchanged, first one that is the memory of a tensor."""
    if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.value) is not cst.Tuple:
        return None
    target = node.targets[0].target
    if type(target) is not cst.Tuple or len(target.elements) != 2 or len(node.value.elements) != 2:
        return None
    (one, two), (first, second) = ([e.value for e in t.elements] for t in (target, node.value))
    if code(one) != code(second) or code(two) != code(first):
        return None
    return (one, two) if _memory(one, module) else (two, one) if _memory(two, module) else None


def _memory(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    shown = type(node) is cst.Attribute and node.attr.value == "data"
    return shown and module.value(node.value).kind in TENSORS  # type: ignore[attr-defined]


class _Writer(Suites):
    """One module with three statements for each of them."""

    def __init__(self, module: ModuleInfo, found: dict[int, tuple[cst.BaseExpression, cst.BaseExpression]]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if (pair := self.found.get(id(node))) is None:
            return [self.rewrite(node)]
        one, two = pair
        name = "exchanged"
        while name in self.module.bound:
            name += "_"
        held = cst.Name(name)
        kept = cst.Assign([cst.AssignTarget(held)], cst.Call(cst.Attribute(one, cst.Name("clone"))))
        return [kept, self.stored(one, two), self.stored(two, held)]

    def stored(self, place: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseSmallStatement:
        """The values of the one are those of the other; a container gets the tensor itself."""
        if not _memory(place, self.module):
            return cst.Assign([cst.AssignTarget(place)], value)  # type: ignore[arg-type]
        return cst.Expr(cst.Call(cst.Attribute(place, cst.Name("copy_")), [cst.Arg(value)]))
