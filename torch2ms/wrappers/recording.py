"""`if torch.is_grad_enabled(): optimizer.zero_grad()` and `if loss.requires_grad: loss.backward()` in a closure.

An optimizer calls the closure that its `step` is handed with gradients on: both conditions hold.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.suites import Made, Suites

ASKED = re.compile(r"^[ \t]*if (?:torch\.is_grad_enabled\(\)|is_grad_enabled\(\)|\w+\.requires_grad):", re.MULTILINE)
OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled")
WHY = "an optimizer calls its closure with gradients on"


def recording(project: Project) -> dict[str, Plain]:
    """What becomes of the modules whose closures ask so, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or ".step(" not in module.source or not ASKED.search(module.source):
            continue
        closures = _closures(module)
        writer = Recording(module, {id(n) for f in closures for n in _held(f, module)})
        if writer.known:
            plain[module.name] = writer.plain()
    return plain


class Recording(Suites):
    """One module, whose closures ask no more."""

    def __init__(self, module: ModuleInfo, known: set[int]) -> None:
        super().__init__(module)
        self.known = known

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.known or type(updated) is not cst.If or type(original) is not cst.If:
            return super().compound(original, updated)
        self.findings.append(Finding("T2M535", Tier.EXACT, code(original.test), WHY, line=self.line))
        return self.opened(updated)


def _closures(module: ModuleInfo) -> list[cst.FunctionDef]:
    """The functions that `step` is handed; where gradients are off somewhere in the module, nobody else has them."""
    given: dict[str, int] = {}
    mentions: dict[str, int] = {}
    found: list[cst.FunctionDef] = []
    for node in module.nodes:
        if type(node) is cst.FunctionDef:
            found.append(node)
            mentions[node.name.value] = mentions.get(node.name.value, 0) - 1
        elif type(node) is cst.Name:
            mentions[node.value] = mentions.get(node.value, 0) + 1
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "step":
            for arg in node.args:
                name = dotted(arg.value).rpartition(".")[2]
                given[name] = given.get(name, 0) + 1
    always = not OFF.search(module.source)
    return [f for f in found if (n := given.get(f.name.value, 0)) and (always or n == mentions[f.name.value])]


def _held(function: cst.FunctionDef, module: ModuleInfo) -> list[cst.If]:
    """The conditions in a closure that hold whenever the optimizer calls it."""
    return [n for n in descend(function.body) if type(n) is cst.If and n.orelse is None and _asks(n, module)]


def _asks(node: cst.If, module: ModuleInfo) -> bool:
    test = node.test
    if type(test) is cst.Call:
        return module.value(test.func).name == "torch.is_grad_enabled"
    if type(test) is not cst.Attribute or test.attr.value != "requires_grad" or type(test.value) is not cst.Name:
        return False
    calls = (dotted(n.func) for n in descend(node.body) if type(n) is cst.Call)
    return f"{test.value.value}.backward" in calls
