"""What is a Parameter in MindSpore."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import PART, Value
from torch2ms.tape.plan import Plan


def is_parameter(target: cst.CSTNode, value: Value, module: ModuleInfo, plan: Plan) -> bool:
    """Whether the place holds a MindSpore Parameter in the output."""
    if value.kind == "param" or value.name in ("module_param", "parameter", "buffer"):
        return True
    if id(target) in plan.weights:
        return True
    if value.place and (value.place in plan.leaves or value.leaf and value.place.partition(PART)[0] in plan.leaves):
        return True
    place = dotted(target)
    if type(target) is cst.Attribute:
        owner = module.value(target.value)
        if owner.kind == "module" and target.attr.value in ("weight", "bias"):
            return True
    return place in plan.leaves and (value.leaf or value.kind in ("unknown", "param"))  # what the name means here
