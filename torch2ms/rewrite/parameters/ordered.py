"""Whether a program sees in which order the parameters of a network are listed.

MindSpore lists those of a recurrent layer kind by kind (all `weight_ih`, then all `weight_hh`), torch layer by layer.
An optimizer, a sum or clipping does not care; a list of gradients does.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, code

LISTS = {"parameters", "named_parameters", "state_dict", "_flat_weights", "all_weights"}
MENTION = re.compile(rf"\b({'|'.join(sorted(LISTS))})\b")
ALIKE = {"len", "sum", "any", "all", "max", "min", "set", "next", "clip_grad_norm_", "clip_grad_norm",
         "clip_grad_value_", "load_state_dict", "save", "isinstance", "hasattr", "AveragedModel"}  # fmt: skip
TELLS = re.compile(
    r"\b(print|append|extend|insert|yield|return|write|info|debug|log\w*|format|zip|enumerate|normal_|uniform_|kaiming\w*"
    r"|xavier\w*|orthogonal_|trunc_normal_|rand\w*|cat|stack)\b|\]\s*=[^=]"
)


@once
def ordered(project: Project) -> bool:
    """Some module of the project sees the order; every recurrent layer asks."""
    return any(map(_sees_order, project.modules.values()))


def _sees_order(module: ModuleInfo) -> bool:
    """Some statement of the module goes through parameters in their order and keeps, prints or draws one by one."""
    if not module.says(MENTION):
        return False
    stack: list[tuple[cst.CSTNode, bool]] = [(module.tree, False)]  # a node, and whether its order is of no account
    while stack:
        node, alike = stack.pop()
        if isinstance(node, cst.Attribute) and node.attr.value in LISTS and not alike:
            return True
        if isinstance(node, cst.For):
            stack += [(node.iter, alike or _each_alike(node)), (node.body, False)]
            stack += [(node.orelse, False)] if node.orelse is not None else []
            continue
        if isinstance(node, cst.Call):
            alike = alike or _takes_any(node, module)
        alike = alike or isinstance(node, cst.Comparison) or _by_name(node)
        stack += [(child, alike) for child in children(node)]
    return False


def _each_alike(loop: cst.For) -> bool:
    """Each parameter has its turn in the loop, and nothing tells which came first."""
    return not TELLS.search(code(loop.body)) and not code(loop.iter).startswith("enumerate")


def _takes_any(call: cst.Call, module: ModuleInfo) -> bool:
    """What takes parameters in whatever order: an optimizer, a sum, a file that is read by name."""
    return dotted(call.func).rpartition(".")[2] in ALIKE or module.value(call).kind == "optimizer"


def _by_name(node: cst.CSTNode) -> bool:
    """`state["encoder.weight"]`"""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    return isinstance(node.slice[0].slice.value, (cst.SimpleString, cst.FormattedString))
