"""Gradients of the layers that a loop runs over, looked up by the parameter: `grad_of[m.weight]`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan


def plan_layers(event: Event, table: str, module: ModuleInfo, plan: Plan) -> None:
    """Write the gradients of a loop over layers with the dictionary of the gradients by parameter."""
    for inner, grad in event.layers:
        asked = [n for n in inner.nodes if type(n) is cst.Comparison and n.left is grad]
        none = any(constant(n.comparisons[0].comparator) is None for n in asked)
        flat = ".squeeze(2)" if one_dimensional(grad, inner, module) else ""
        plan.about[id(grad)] = f"{table}.get({{0}})" if none else f"{table}[{{0}}]{flat}"
        for found in inner.nodes:
            if type(found) is cst.Attribute and found.value is grad and found.attr.value == "data":
                plan.about[id(found)] = "{0}"
    why = "the gradient of each parameter is looked up"
    plan.findings.append(Finding("T2M512", Tier.EXACT, "loop over gradients", why, line=event.stmt.lineno))


def one_dimensional(grad: cst.CSTNode, stmt: Stmt, module: ModuleInfo) -> bool:
    """The weight of a one-dimensional convolution has an axis more in MindSpore; the weight itself may take it so."""
    weight = grad.value if isinstance(grad, cst.Attribute) else None
    if not isinstance(weight, cst.Attribute) or weight.attr.value != "weight":
        return False
    if module.value(weight.value).name not in ("torch.nn.Conv1d", "torch.nn.ConvTranspose1d"):
        return False
    own, node = dotted(weight), stmt.node
    changed = isinstance(node, cst.AugAssign) and dotted(node.target) == own
    used = {n.attr.value for n in descend(node) if isinstance(n, cst.Attribute) and dotted(n.value) == own}
    return not changed and used <= {"grad", "shape"}
