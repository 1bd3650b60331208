"""Names of callers that may hold weights: what was made of anything else brings no graph of theirs along.

What a function is given may be varied with whatever its callers made it of: `^labels` for a local name of one of them.
Of a name that is nowhere a network, an object or a leaf, and that nobody calls, none comes.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known import torchapi
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project

HOLDING = ("module", "object", "params", "named_params", "param", "optimizer", "function", "method", "class", "lossfn")
OF_DATA = frozenset({"keys", "values", "items", "get", "pop", "update", "copy", "append", "extend", "insert", "astype"})
OF_WORLDS = frozenset({"step", "reset", "seed", "render", "close"})  # of an environment
BENIGN = torchapi.TENSOR_METHODS | torchapi.MODULES_TOO | OF_DATA | OF_WORLDS | {"to", "cpu", "numpy", "size", "dim"}


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
            if value.kind in HOLDING or value.leaf:
                return True
    for call in module.of_kind(cst.Call):
        func = call.func
        if type(func) is cst.Name and func.value == name:
            return True
        if type(func) is cst.Attribute and type(func.value) is cst.Name and func.value.value == name:
            if func.attr.value not in BENIGN:
                return True
    return False
