"""`self.parameters()` of an object whose only network is `self.net`, written as `self.net.parameters()`.

Continual learners are modules around a backbone, a loss and the optimizer of the backbone: what their steps clear, clip
and store are then the gradients of what the optimizer moves.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.classes import ClassInfo
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier

MENTIONS = re.compile(r"\(self\.\w+\.parameters\(\)")
WHOLE = {"self.parameters", "self.zero_grad"}
ADDS = {"setattr", "add_module", "register_module", "register_parameter"}
WHY = "its only network; assumed: what else the object keeps has no parameters"


def only_networks(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such classes, by name."""
    plain: dict[str, Plain] = {}
    modules = [m for m in project.modules.values() if not m.uses_mindspore and not m.directives.off]
    if not any(m.says(MENTIONS) and m.has("backward") for m in modules):
        return plain
    for module in modules:
        found = {id(node): net for cls in module.classes.values() if (net := _network(cls)) for node in _whole(cls)}
        if found:
            plain[module.name] = _Writer(module, found).plain()
    return plain


def _network(cls: ClassInfo) -> str:
    """`self.net`, if the object trains it with an optimizer and has no other layers that are seen; else ""."""
    family = [*cls.lineage(), *cls.below()]
    if cls.kind != "module" or not all(c.kind in ("module", "object") for c in family):
        return ""
    held = {name for c in family for name, v in c.attrs.items() if _weighted(v.kind, v.name, v.leaf)}
    held |= {name for c in family for name, v in c.attrs.items() if any(p.kind == "module" or p.leaf for p in v.parts)}
    if len(held) != 1:
        return ""
    (name,) = held
    infos = [info for c in family for info in c.methods.values()]
    nodes = [n for info in infos for s in info.scope.body.walk() if s.is_small for n in s.nodes]
    if any(isinstance(n, cst.Call) and dotted(n.func).rpartition(".")[2] in ADDS for n in nodes):
        return ""
    stepped = {dotted(c.args[0].value.func)
               for info in infos for s in info.scope.body.walk() for c in s.calls
               if info.module.value(c).kind == "optimizer" and c.args and isinstance(c.args[0].value, cst.Call)
    }  # fmt: skip
    return f"self.{name}" if stepped == {f"self.{name}.parameters"} else ""


def _weighted(kind: str, name: str, leaf: bool) -> bool:
    loss = name.startswith("torch.nn.") and name.endswith("Loss")
    return (kind == "module" and not loss) or kind == "param" or leaf


def _whole(cls: ClassInfo) -> list[cst.CSTNode]:
    """Where its methods that go backward name all its parameters."""
    found: list[cst.CSTNode] = []
    for info in cls.methods.values():
        nodes = list(descend(info.scope.node))
        if any(type(n) is cst.Attribute and n.attr.value == "backward" for n in nodes):
            found += [n for n in nodes if type(n) is cst.Attribute and dotted(n) in WHOLE]
    return found


class _Writer(Suites):
    """One module, with the network named."""

    def __init__(self, module: ModuleInfo, found: dict[int, str]) -> None:
        super().__init__(module)
        self.found = found

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        net = self.found.get(id(original))
        if net is None:
            return updated
        self.findings.append(Finding("T2M512", Tier.ASSUMED, dotted(original), WHY, line=self.line))
        return updated.with_changes(value=cst.parse_expression(net))
