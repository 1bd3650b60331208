"""apex: the backward of a scaled loss is that of the loss, as long as nothing runs in half precision."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, qualified


def name_of(node: cst.CSTNode, module: ModuleInfo) -> str:
    """The name in apex that a call calls, "" for other calls."""
    name = qualified(node.func, module.imports) if isinstance(node, cst.Call) else ""
    return name.removeprefix("apex.") if name.startswith("apex.") else ""


HALF = {"optimizers.FP16_Optimizer", "fp16_utils.FP16_Optimizer", "contrib.optimizers.FP16_Optimizer"}
BACKWARD = re.compile(r"opt(?:im\w*)?\.backward\(|FP16_Optimizer").search  # an optimizer goes backward by itself
REPLACED = {"apex.amp.scale_loss", "apex.amp.initialize", "apex.amp.master_params"}


def replaced(module: ModuleInfo) -> bool:
    """Whether nothing of apex.amp stays in the module."""
    used = {qualified(n, module.imports) for n in module.of_kind(cst.Attribute)}
    return all(name in REPLACED for name in used if name.startswith("apex.amp."))


def is_scaling(item: cst.WithItem, module: ModuleInfo) -> bool:
    """`with amp.scale_loss(loss, optimizer) as scaled_loss:`."""
    named = item.asname is None or isinstance(item.asname.name, cst.Name)
    return named and name_of(item.item, module) == "amp.scale_loss" and bool(item.item.args)  # type: ignore[attr-defined]


def scaled(node: cst.With, module: ModuleInfo) -> tuple[str, cst.BaseExpression] | None:
    """The name of the scaled loss, and the loss."""
    for item in node.items:
        if is_scaling(item, module):
            name = item.asname.name.value if item.asname is not None else ""  # type: ignore[union-attr]
            return name, item.item.args[0].value  # type: ignore[attr-defined]
    return None


def initialized(call: cst.Call) -> list[cst.BaseExpression]:
    """What `amp.initialize` gives back: models, and optimizers where it was given some."""
    named = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    given = [a.value for a in call.args if a.keyword is None and not a.star][:2]
    if not given and "models" in named:
        given.append(named["models"])
    if len(given) == 1 and "optimizers" in named:
        given.append(named["optimizers"])
    return given


def differentiated(call: cst.Call, module: ModuleInfo) -> bool:
    """`optimizer.backward(loss)`: what FP16_Optimizer scales, differentiates and scales back."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "backward" or not call.args or call.args[0].star:
        return False
    extra = [a.keyword.value if a.keyword is not None else "" for a in call.args[1:]]
    if call.args[0].keyword is not None or not set(extra) <= {"update_master_grads", "retain_graph"}:
        return False
    value = module.value(func.value)
    name = dotted(func.value).rpartition(".")[2].lower()
    return value.kind == "optimizer" or value.kind == "unknown" and name.endswith(("opt", "optim", "optimizer"))
