"""Layers that get a second container: MindSpore names their parameters after it, and two may have one name then.

`self.layers[:2](x)` and `nn.Sequential(*list(net.children())[:-1])` make containers: a parameter of `net` is `0.weight`
from then on, and so may be another. `parameters_and_names()` goes by the places of the layers, as torch does, where
`parameters_dict()` and `ms.load_param_into_net` go by these names.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.tree import descend

CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
SLICED = re.compile(r"[\w\])]\[[^\[\],\n]*:[^\[\],\n]*\]")
MADE = re.compile(r"Sequential\(|ModuleList\(|ModuleDict\(")
LOADING = re.compile(r"state_dict\(")


@once
def second_names(project: Project) -> bool:
    """Whether some layer of the project may get a second container."""
    modules = project.modules.values()
    return any(module.says(LOADING) for module in modules) and any(_contains_again(module) for module in modules)


def _contains_again(module: ModuleInfo) -> bool:
    sliced = module.says(SLICED) and any(_slices(node, module) for node in module.of_kind(cst.Subscript))
    return sliced or module.says(MADE) and any(_holds_again(node, module) for node in module.of_kind(cst.Call))


def _slices(node: cst.Subscript, module: ModuleInfo) -> bool:
    return isinstance(node.slice[0].slice, cst.Slice) and module.value(node.value).kind == "module"


def _holds_again(call: cst.Call, module: ModuleInfo) -> bool:
    """`nn.Sequential(*list(net.children())[:-1])`, `nn.ModuleList([net.head, other])`: what has a place already."""
    if module.value(call.func).name not in CONTAINERS:
        return False
    for arg in call.args:
        if arg.star and any(_children(n) for n in descend(arg.value)):
            return True
        listed = arg.value.elements if isinstance(arg.value, (cst.List, cst.Tuple)) else [arg]
        if any(_has_a_place(e.value, module) for e in listed):
            return True
    return False


def _children(node: cst.CSTNode) -> bool:
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.attr.value in ("children", "named_children", "modules")


def _has_a_place(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A layer of another one, or one of which the program asks the state under its name."""
    if isinstance(node, cst.Name) and not module.says(re.compile(rf"\b{node.value}\.(?:load_)?state_dict\(")):
        return False
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) and module.value(node).kind == "module"
