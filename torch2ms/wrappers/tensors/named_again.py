"""`other = x`, and then `other.grad`: the gradient is read under the name that the tensor had first."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

NAMED_AGAIN = re.compile(r"^[ \t]*(\w+) *= *([A-Za-z_]\w*) *(?:#.*)?$", re.M)


@each_module
def named_again(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that reads gradients so."""
    if not module.has(".grad") or not module.has("backward("):
        return None
    if not any(f"{name}.grad" in module.source for name, _ in NAMED_AGAIN.findall(module.source)):
        return None
    writer = _Aliased(module)
    return writer.plain() if writer.reads else None


class _Aliased(Suites):
    """One module: by id, the names of tensors whose gradients are read, and what they were called first."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        scopes = (s for s in module.scope.walk() if s.is_function or s.is_module)
        self.reads = {id(node): first for scope in scopes for node, first in _reads(scope)}

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        first = self.reads.get(id(original))
        return updated if first is None else updated.with_changes(value=cst.Name(first))


def _reads(scope: Scope) -> Iterator[tuple[cst.Attribute, str]]:
    stmts = list(scope.body.walk())
    for made in stmts:
        name, first = _alias(made)
        binding = [s for s in stmts if name in s.defs]
        if not name or len(binding) != 1 or name in scope.params:
            continue
        if any(first in s.defs and s.number > made.number for s in stmts):
            continue  # the first name is another tensor's later
        for stmt in (s for s in stmts if s.number > made.number):
            if made.block in [stmt.block, *(a.block for a in stmt.ancestors())]:
                yield from ((n, first) for n in stmt.nodes if isinstance(n, cst.Attribute) and _gradient(n, name))


def _alias(stmt: Stmt) -> tuple[str, str]:
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Name):
        return "", ""
    target = node.targets[0].target
    return (target.value, node.value.value) if isinstance(target, cst.Name) else ("", "")


def _gradient(node: cst.Attribute, name: str) -> bool:
    return (
        node.attr.value == "grad"
        and isinstance(node.value, cst.Name) and node.value.value == name
    )  # fmt: skip
