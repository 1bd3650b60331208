"""Names of callers that may hold weights: what was made of anything else brings no graph of theirs along.

What a function is given may be varied with whatever its callers made it of: `^labels` for a local name of one of them.
Of a name that is nowhere a network, an object or a leaf, and that nobody calls, none comes.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known import torchapi
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import holds_networks

HOLDING = ("module", "object", "params", "named_params", "param", "optimizer", "function", "method", "class", "lossfn")
OF_DATA = frozenset({"keys", "values", "items", "get", "pop", "copy", "append", "extend", "insert", "astype", "numpy"})
MOVED = torchapi.MODULES_TOO | {"to", "cpu"}


def may_hold(place: str, project: Project) -> bool:
    """A place of a caller may hold weights, or be a leaf, in one of the modules."""
    name, known = place.lstrip("^"), _known(project)
    if name not in known:
        known[name] = not name.isidentifier() or any(_holds(name, m) for m in project.modules.values() if m.has(name))
    return known[name]


@once
def _known(project: Project) -> dict[str, bool]:
    """The names that were asked for."""
    return {}


def _holds(name: str, module: ModuleInfo) -> bool:
    for node in module.of_kind(cst.Name):
        if node.value == name:
            value = module.value(node)
            if value.kind in HOLDING or value.leaf or value.of_leaves or holds_networks(value):
                return True
    return any(_named(call.func) == name and not _of_data(call) for call in module.of_kind(cst.Call))


def _named(node: cst.BaseExpression) -> str:
    """The name that what is called stands behind: `nets[0](x)`, `nets.first(x)`."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _of_data(call: cst.Call) -> bool:
    """A method that no network has, or that gives a network back; what one makes of an input it is given."""
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    alone = all(constant(arg.value) is not ... for arg in call.args)
    return method in OF_DATA or method in MOVED or alone and method in {"size", "dim", *torchapi.TENSOR_METHODS}
