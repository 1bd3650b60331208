"""`train()` and `eval()` of a class of the program that is no network: a trainer, an agent, a model around networks."""

from __future__ import annotations

from collections import defaultdict

import libcst as cst

from torch2ms.analysis.evaluation import guess
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.families import COMMON
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.rewrite.translation import Translation

MODES = ("train", "eval")


def of_another(original: cst.Call, work: Translation) -> bool:
    """Whether a call on something that is not seen, or has the name of a network, means such a method.

    It does where the program calls other methods of such classes there, which no network has; and where the name is
    that of such a class: `trainer` of a `SimpleTrainer`.
    """
    assert isinstance(original.func, cst.Attribute)
    name, place = original.func.attr.value, dotted(original.func.value)
    own, networks, classes = _having(work.project)
    if not own[name] or held(original.func.value):
        return False
    unseen = work.module.value(original.func.value).kind == "unknown"
    if not place:
        return unseen
    called = _called(work.module)[place] - {name} - COMMON
    if called - networks:
        return bool(called & own[name])
    last = place.rpartition(".")[2].replace("_", "").lower()
    return not called and unseen and any(cls.endswith(last) for cls in classes)


def held(receiver: cst.BaseExpression) -> bool:
    """`getattr(self, "net" + name)`: something of an object whose name begins as those of networks do."""
    if type(receiver) is not cst.Call or dotted(receiver.func) != "getattr" or len(receiver.args) < 2:
        return False
    name = receiver.args[1].value
    first = constant(name.left) if type(name) is cst.BinaryOperation and type(name.operator) is cst.Add else ""
    return isinstance(first, str) and guess.by_name(f"{first}G").kind == "module"


@once
def _having(project: Project) -> tuple[dict[str, set[str]], set[str], set[str]]:
    """By the name of a mode, all methods of classes that have one of this name; those of networks; their names."""
    own: dict[str, set[str]] = defaultdict(set)
    networks: set[str] = set()
    classes: set[str] = set()
    for cls in (c for m in project.modules.values() for c in m.classes.values()):
        if cls.kind == "module":
            networks |= cls.methods.keys()
        elif cls.kind == "object":
            related = {n for c in [*cls.lineage(), *cls.below()] for n in c.methods}
            for name in cls.methods.keys() & set(MODES):
                own[name] |= related
                classes.add(cls.scope.name.lower())
    return own, networks, classes


@once
def _called(module: ModuleInfo) -> dict[str, set[str]]:
    """The methods that are called on what a file has under each name."""
    found: dict[str, set[str]] = defaultdict(set)
    for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls):
        if type(call.func) is cst.Attribute and (place := dotted(call.func.value)):
            found[place].add(call.func.attr.value)
    return found
