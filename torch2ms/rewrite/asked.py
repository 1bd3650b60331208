"""`hasattr(x, 'name')`: whether torch has a function, and whether a layer has a parameter.

`setattr(Net, "forward", f)` and its kin mean the method by its name as well.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.api import apply_attribute
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.tensors.attributes import runs
from torch2ms.rewrite.translation import Translation

OF_KINDS = dict.fromkeys(("in_features", "out_features"), "Dense") | dict.fromkeys(
    ("num_embeddings", "embedding_dim"), "Embedding")  # fmt: skip
OTHERWISE = (
    "in_channels",
    "out_channels",
    "groups",
    "track_running_stats",
    "num_batches_tracked",
    "running_mean",
    "running_var",
)  # other layers of MindSpore have these than of torch, or none
OF_CELLS = {
    "parameters": "trainable_params",
    "named_parameters": "parameters_and_names",
    "buffers": "untrainable_params",
    "named_buffers": "parameters_and_names",
    "children": "cells",
    "named_children": "name_cells",
    "modules": "cells_and_names",
    "named_modules": "cells_and_names",
    "train": "set_train",
    "eval": "set_train",
}  # what MindSpore has for methods of torch.nn.Module whose names a cell does not know
BY_NAME = ("getattr", "setattr", "hasattr", "delattr")
# what programs know a tensor by
OF_TENSORS = ("detach", "backward", "requires_grad", "grad_fn", "is_cuda", "element_size", "cpu")


def answered(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """The question in MindSpore's form; nothing where it is none, or means the same there."""
    if len(original.args) > 1 and constant(original.args[1].value) == "forward" and dotted(original.func) in BY_NAME:
        return _construct(original, updated, work)
    name = constant(original.args[1].value) if dotted(original.func) == "hasattr" and len(original.args) == 2 else ...
    if not isinstance(name, str):
        return None
    owner = work.module.value(original.args[0].value)
    if owner.kind == "api" and is_foreign(owner.name):
        return _of_torch(f"{owner.name}.{name}", owner.name, work)
    if name == "reset_parameters":  # no cell of MindSpore has it
        work.notes.needs.add("has_reset_parameters")
        work.tell("T2M505", "hasattr(layer, 'reset_parameters')", "the layers that torch can reset")
        only = updated.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return cst.Call(cst.Name("has_reset_parameters"), [only])
    if name in OF_TENSORS and owner.kind in ("unknown", "tensor", "param", "float", "int"):
        tier = Tier.ASSUMED if owner.kind == "unknown" else Tier.EXACT
        why = "MindSpore's tensors have none: isinstance(..., ms.Tensor)"
        work.notes.needs.add("ms")
        work.notes.findings.append(Finding("T2M601", tier, f"hasattr(x, {name!r})", why))
        kind = cst.Attribute(cst.Name(work.alias("ms")), cst.Name("Tensor"))
        return cst.Call(cst.Name("isinstance"), [updated.args[0], updated.args[1].with_changes(value=kind)])
    if owner.kind == "module" and not owner.name and name not in OF_CELLS and not _of_the_project(name, work):
        return _of_any_layer(name, updated, work)
    if name in OF_CELLS and (answer := _of_cells(name, owner, updated, work)) is not None:
        return answer
    rule = work.rules.find(f"{owner.name}.{name}") if owner.kind == "module" else None
    if rule is None or not rule.attribute:
        return None
    read = cst.Attribute(original.args[0].value, cst.Name(name))
    made = apply_attribute(rule, read, read, work.facts).node
    if not isinstance(made, cst.Attribute) or made.attr.value == name:
        return None
    work.tell("T2M505", f"hasattr(layer, {name!r})", f"MindSpore calls it {made.attr.value}")
    renamed = updated.args[1].with_changes(value=cst.SimpleString(repr(made.attr.value)))
    return updated.with_changes(args=[updated.args[0], renamed])


def _construct(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`setattr(Net, "forward", f)`: what cells call is their `construct`."""
    if not runs(work.module.value(original.args[0].value), work):
        return None
    work.tell("T2M601", "Module.forward", "construct, which cells call")
    owner, name, *rest = updated.args
    return updated.with_changes(args=[owner, name.with_changes(value=cst.SimpleString('"construct"')), *rest])


def _of_cells(name: str, owner: Value, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`hasattr(x, "children")`: whether it is a layer, of which a cell tells by another name."""
    if owner.kind not in ("module", "unknown") or owner.kind == "unknown" and name in ("train", "eval"):
        return None  # of what is not seen, much can be trained
    work.tell("T2M505", f"hasattr(layer, {name!r})", f"MindSpore calls it {OF_CELLS[name]}")
    classes = (cls for m in work.project.modules.values() for cls in m.classes.values())
    if owner.kind == "unknown" and any(name in cls.methods for cls in classes if cls.kind != "module"):
        asked = f"any(hasattr({code(updated.args[0].value)}, name) for name in {(name, OF_CELLS[name])})"
        return cst.parse_expression(asked)
    renamed = updated.args[1].with_changes(value=cst.SimpleString(f'"{OF_CELLS[name]}"'))
    return updated.with_changes(args=[updated.args[0], renamed])


def _of_the_project(name: str, work: Translation) -> bool:
    return any(cls.attr(name) is not None for m in work.project.modules.values() for cls in m.classes.values())


def _of_any_layer(name: str, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """A layer of any kind is told by an attribute: by its class, where one alone has the attribute."""
    if name in OTHERWISE:
        why = "other layers of MindSpore have such an attribute than of torch"
        work.refuse("T2M605", f"hasattr(layer, {name!r})", why, "ask for its class with isinstance")
        return updated
    if name not in OF_KINDS:
        return None
    kind = OF_KINDS[name]
    work.notes.needs.add("nn")
    work.notes.findings.append(Finding("T2M505", Tier.ASSUMED, f"hasattr(layer, {name!r})", f"only nn.{kind} has it"))
    made = cst.Attribute(cst.Name(work.alias("nn")), cst.Name(kind))
    return cst.Call(cst.Name("isinstance"), [updated.args[0], updated.args[1].with_changes(value=made)])


def _of_torch(name: str, owner: str, work: Translation) -> cst.BaseExpression | None:
    """`hasattr(F, 'gelu')`: the version that programs are translated from has what the rules know."""
    if work.rules.find(name) is None:
        return None
    work.notes.findings = [f for f in work.notes.findings if f.what != owner]
    work.tell("T2M601", f"hasattr: {name}", "torch has it")
    return cst.Name("True")
