"""Forwards in which nothing can use a parameter: the graph of their loss was made elsewhere, by the caller.

`loss = output.loss.mean()` of an argument is arithmetic on what a model gave back somewhere else. A function of it
would have gradients, all of them zero.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.forward.properties import getter_of
from torch2ms.tape.forward.region import Region

# what is asked of a tensor, a dictionary, a list or a module that holds a loss, and computes nothing with parameters
DATA = frozenset(
    "abs add append argmax argmin chunk clamp clip clone contiguous copy cpu cuda detach dim div double exp "
    "expand extend flatten float gather get half index_select item items keys log long masked_fill max mean min "
    "mul neg new_tensor numel permute pop pow prod relu repeat reshape select sigmoid size softmax split sqrt "
    "square squeeze std sub sum t to tolist transpose type type_as unsqueeze update values var view".split()
)
PARAMETERS = frozenset({"param", "params", "named_params", "module"})


def computes(region: Region, module: ModuleInfo, project: Project) -> bool:
    """Whether something in the forward may use parameters: one of them, or a call that is no function of data alone."""
    if region.event.lifted or region.event.episode is not None or region.event.handing is not None:
        return True
    sources = [n for stmt in region.all for n in stmt.nodes]
    sources += [n for r in region.event.roots for n in descend(r)]
    return any(_may_use(node, module) or _by_property(node, module, project) for node in sources)


def _by_property(node: cst.CSTNode, module: ModuleInfo, project: Project) -> bool:
    """Reading the attribute runs a method of the project that may use parameters."""
    getter = getter_of(node, module, project) if type(node) is cst.Attribute else None
    if getter is None:
        return False
    return any(_may_use(part, getter.module) for s in getter.scope.body.walk() for part in s.nodes)


def _may_use(node: cst.CSTNode, module: ModuleInfo) -> bool:
    if type(node) is cst.FunctionDef or type(node) is cst.Lambda:
        return True
    if type(node) is cst.Call:
        target = module.value(node.func)
        if target.kind in ("api", "builtin"):
            return False
        if type(node.func) is not cst.Attribute or node.func.attr.value not in DATA:
            return True
        own = type(node.func.value) is cst.Name and node.func.value.value == "self"
        return own or module.value(node.func.value).kind == "object"  # a method of the user's own
    if type(node) is cst.Name or type(node) is cst.Attribute or type(node) is cst.Subscript:
        value = module.value(node)
        leaf = value.leaf or any(part.leaf for part in value.parts)
        return leaf or value.kind in PARAMETERS or value.name in ("module_param", "parameter")
    return False
