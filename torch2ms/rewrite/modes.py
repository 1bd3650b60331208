"""Which modules behave differently in training and evaluation."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.tree import descend
from torch2ms.analysis.values import Value

SENSITIVE = (
    "BatchNorm",
    "Dropout",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "InstanceNorm",
    "RReLU",
    "Transformer",
    "MultiheadAttention",
    "SyncBatchNorm",
    "LSTM",
    "GRU",
    "RNN",
)
_READ = re.compile(r"(?<!\bself)\.training\b")  # a program that asks a module for its mode
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")


def mode_sensitive(value: Value, project: Project, module: ModuleInfo) -> bool:
    """Whether training mode can matter to a module; True where its parts are not seen."""
    if not value.name:
        return True
    last = value.name.rpartition(".")[2]
    read = any(_READ.search(other.source) for other in project.modules.values())
    if read and (not value.name.startswith("torch.") or last.startswith((*CONTAINERS, "Linear", "Conv"))):
        return True
    if value.name.startswith("torch."):
        if "." in value.name and value.name.startswith("torch.nn."):
            return last.startswith(SENSITIVE) or last in CONTAINERS and _mentions(module)
        found = project.find(value.name, module)
        if not isinstance(found, ClassInfo):
            return True
    found = project.find(value.name, module)
    if not isinstance(found, ClassInfo):
        home, _, name = value.name.rpartition(".")
        owner = project.modules.get(home)
        found = owner.classes.get(name) if owner is not None else None
    if not isinstance(found, ClassInfo):
        return True
    return _class_sensitive(found, project, frozenset())


def _class_sensitive(cls: ClassInfo, project: Project, seen: frozenset[int]) -> bool:
    if id(cls) in seen:
        return False
    for part in cls.lineage():
        for node in descend(part.scope.node):
            if isinstance(node, (cst.Name, cst.Attribute)):
                name = node.value if isinstance(node, cst.Name) else node.attr.value
                if isinstance(name, str) and (
                    name.startswith(SENSITIVE) or name in ("dropout", "training", "alpha_dropout")
                ):
                    return True
                value = part.module.value(node)
                if value.kind == "api" and value.name.startswith("torchvision.models"):
                    return True
                if value.kind == "class" and isinstance(node, cst.Name):
                    other = project.find(value.name.rpartition(".")[2], part.module)
                    if (
                        isinstance(other, ClassInfo)
                        and other is not cls
                        and _class_sensitive(other, project, seen | {id(cls)})
                    ):
                        return True
                if value.kind == "function":
                    return True
    return False


def _mentions(module: ModuleInfo) -> bool:
    """Whether a mode-sensitive layer is named anywhere in the module."""
    return any(
        value.kind == "api" and value.name.rpartition(".")[2].startswith(SENSITIVE) for value in module.values.values()
    )
