"""Optimizers of the project that make their learning rates themselves, or have none: `Adafactor(params, lr=None)`.

MindSpore's optimizers have a rate from the beginning, a Parameter: it is zero until the step writes one.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

NONE = re.compile(r"\blr\b[^=,()\n]*=\s*None\b")
WRITTEN = re.compile(r"""\[\s*["']lr["']\s*\]\s*=[^=]""")
ASKED = re.compile(r"""\[\s*["']lr["']\s*\]\s+is\b|\blr\w*\s+is\b""")  # for None, under a name of its own as well
READ = re.compile(r"""\[\s*["']lr["']\s*\]|\bget\(\s*["']lr["']|\*\*\s*\w*group""")  # groups are handed on whole, too
WHY = "MindSpore's optimizers have a rate from the beginning: zero, until the step writes it"


@each_module
def unrated(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such optimizers."""
    if not module.says(NONE):
        return None
    found = {id(node) for cls in module.classes.values() for node in _rates(cls)}
    return _Writer(module, found).plain() if found else None


def _rates(cls: ClassInfo) -> list[cst.CSTNode]:
    """What gives `lr` its place among the defaults, where it may be None and the class writes it without asking, or
    never looks at it, as A2Grad has it."""
    init = cls.methods.get("__init__")
    if cls.kind != "optimizer" or init is None:
        return []
    text = code(cls.scope.node)
    if asks(cls.scope) or READ.search(text) and not WRITTEN.search(text):
        return []
    node = init.scope.node
    assert isinstance(node, cst.FunctionDef)
    params = [*node.params.params, *node.params.kwonly_params]
    if not any(p.name.value == "lr" and p.default is not None and constant(p.default) is None for p in params):
        return []
    return [n for n in descend(node.body) if _gives(n)]


def asks(cls: Scope) -> bool:
    """Some method of the class, the constructor apart, compares the rate with None."""
    return any(ASKED.search(code(method.node)) for method in cls.children if method.name != "__init__")


def _gives(node: cst.CSTNode) -> bool:
    """`lr=lr` in a call of dict, `"lr": lr` in a display."""
    if isinstance(node, cst.Arg):
        return node.keyword is not None and node.keyword.value == "lr" and dotted(node.value) == "lr"
    return isinstance(node, cst.DictElement) and constant(node.key) == "lr" and dotted(node.value) == "lr"


class _Writer(Suites):
    """One module whose optimizers have rates from the beginning."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(value=self.rate()) if id(original) in self.found else updated

    def leave_DictElement(self, original: cst.DictElement, updated: cst.DictElement) -> cst.DictElement:
        return updated.with_changes(value=self.rate()) if id(original) in self.found else updated

    def rate(self) -> cst.BaseExpression:
        self.findings.append(Finding("T2M502", Tier.EXACT, "learning rate of an optimizer", WHY, line=self.line))
        return cst.parse_expression("0.0 if lr is None else lr")
