"""Optimizers around another one that are none themselves: `class Lookahead(Optimizer)` without `super().__init__()`.

The base is there so that checks let the object pass. torch's constructor never runs, so the class keeps what it sets
itself, and steps the optimizer it was given. MindSpore's base has to be set up before anything is kept; without a base
the class does what it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

BASES = ("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer")
INHERITED = {
    "state_dict", "load_state_dict", "add_param_group", "zero_grad", "register_step_pre_hook",
    "register_step_post_hook", "register_state_dict_pre_hook", "register_state_dict_post_hook",
}  # fmt: skip
UNREAD = "nobody asks for what the optimizer remembers under this name: dropped"
BARE = "its constructor never sets up the base: the class does without it"


@each_module
def unbased(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that defines such classes."""
    if not module.has("ptimizer"):
        return None
    optimizers = [cls for cls in module.classes.values() if cls.kind == "optimizer"]
    found = {id(cls.scope.node) for cls in optimizers if _bare(cls, project)}
    unread = {key for cls in optimizers if id(cls.scope.node) in found for key in _unread(cls, project)}
    return Unbased(module, found, unread).plain() if found else None


def _bare(cls: ClassInfo, project: Project) -> bool:
    """Nothing of the base is set up, asked for or told from other types."""
    init, node = cls.methods.get("__init__"), cls.scope.node
    if init is None or "step" not in cls.methods or not isinstance(node, cst.ClassDef) or list(cls.below()):
        return False
    if len(node.bases) != 1 or node.keywords or cls.module.value(node.bases[0].value).name not in BASES:
        return False
    nodes = [n for s in cls.scope.walk() for stmt in s.body.walk() for n in stmt.nodes]
    if any(type(n) is cst.Name and n.value == "super" for n in nodes):
        return False
    if any(type(n) is cst.Attribute and n.attr.value == "__init__" for n in nodes):
        return False
    asked = set(_asked(cls, project))
    return None not in asked and not asked & INHERITED - cls.methods.keys()


def _unread(cls: ClassInfo, project: Project) -> Iterator[int]:
    """`self.fast_state = self.optimizer.state`, by id, under a name that stands nowhere else."""
    for stmt in cls.methods["__init__"].scope.body.walk():
        node = stmt.node
        if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.value) is not cst.Attribute:
            continue
        name = dotted(node.targets[0].target)
        of = cls.module.value(node.value.value) if node.value.attr.value == "state" else None
        if of is None or of.kind != "optimizer" or not name.startswith("self.") or name.count(".") != 1:
            continue
        if sum(len(re.findall(rf"\b{name[5:]}\b", m.source)) for m in project.modules.values()) == 1:
            yield id(node)


def _asked(cls: ClassInfo, project: Project) -> Iterator[str | None]:
    """Attributes read of its objects; None: one goes to a function of torch, or its type is asked."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    func = call.func
                    if isinstance(func, cst.Attribute) and _is(func.value, cls, scope.cls, module):
                        yield func.attr.value
                    called = module.value(func)
                    if dotted(func) == "isinstance" or called.kind == "api" and is_foreign(called.name):
                        if any(_is(a.value, cls, scope.cls, module) for a in call.args):
                            yield None


def _is(node: cst.BaseExpression, cls: ClassInfo, around: object, module: ModuleInfo) -> bool:
    if isinstance(node, cst.Name) and node.value == "self":
        return around is cls.scope
    return module.value(node).name == cls.qualified


class Unbased(Suites):
    """One module whose classes do without the base."""

    def __init__(self, module: ModuleInfo, classes: set[int], unread: set[int]) -> None:
        super().__init__(module)
        self.classes, self.unread = classes, unread

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.unread:
            return super().small(node)
        self.findings.append(Finding("T2M517", Tier.EXACT, "torch.optim.Optimizer.state", UNREAD, line=self.line))
        return []

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.classes or not isinstance(updated, cst.ClassDef):
            return super().compound(original, updated)
        self.findings.append(Finding("T2M517", Tier.EXACT, f"class {updated.name.value}", BARE, line=self.line))
        bare = updated.with_changes(bases=[], lpar=cst.MaybeSentinel.DEFAULT, rpar=cst.MaybeSentinel.DEFAULT)
        self.number(bare, original)
        return [bare], ()
