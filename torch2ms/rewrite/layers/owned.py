"""Optimizers that a network holds: in torch an object like any other, in MindSpore a cell with parameters of its own.

As an attribute of a cell its moments would be among the parameters of the network, which are counted, clipped, averaged
and saved; `object.__setattr__` binds the attribute without taking the optimizer for a part of the cell.
"""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from torch2ms.analysis.layer_modes import in_module_class
from torch2ms.analysis.syntax.tree import code
from torch2ms.rewrite.writer import Writer

WHY = "MindSpore's optimizers are cells: as a part of the network its state would be among the network's parameters"


def bound_beside(node: cst.Assign, writer: Writer) -> list[cst.BaseStatement] | None:
    """`self.optimizer = Adam(self.parameters())` in a module, `net.optimizer = Adam(net.parameters())`."""
    pairs = _pairs(node)
    held = [target for target, value in pairs if _of_network(target, writer) and _optimizer(value, writer)]
    if not held:
        return None
    writer.tell("T2M516", "optimizer held by a network", WHY)
    if len(pairs) == 1:
        return writer.text(f'object.__setattr__({{0}}, "{held[0].attr.value}", {{1}})', held[0].value, node.value)
    places = [
        _name(t, writer) if isinstance(t, cst.Attribute) and t in held else code(writer.expression(t)) for t, _ in pairs
    ]
    same = next((t.value for t, _ in pairs if isinstance(t, cst.Name)), "") if len(node.targets) > 1 else ""
    if same:  # `optimizer = self.optimizer = Adam(self.parameters())`
        places = [place for (t, _), place in zip(pairs, places, strict=True) if t not in held]
    together = " = " if len(node.targets) > 1 else ", "
    lines = writer.text(f"{together.join(places)} = {{0}}", node.value)
    for target in held:
        text = f'object.__setattr__({{0}}, "{target.attr.value}", {same or _name(target, writer)})'
        lines += writer.text(text, target.value)
    return lines


def _name(target: cst.Attribute, writer: Writer) -> str:
    """What an optimizer is called before the network has it."""
    name = target.attr.value
    while name in writer.scope.locals or name in writer.scope.params:
        name += "_"
    return name


def _pairs(node: cst.Assign) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What is bound, with what it is bound to."""
    if len(node.targets) > 1:
        return [(t.target, node.value) for t in node.targets]
    target, value = node.targets[0].target, node.value
    if (type(target) is cst.Tuple or type(target) is cst.List) and (
        type(value) is cst.Tuple or type(value) is cst.List
    ):
        if len(target.elements) == len(value.elements):
            return [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True)]
    return [(target, value)]


def _of_network(target: cst.BaseExpression, writer: Writer) -> TypeGuard[cst.Attribute]:
    """An attribute of a network."""
    if type(target) is not cst.Attribute:
        return False
    own = isinstance(target.value, cst.Name) and target.value.value == "self"
    return own and in_module_class(writer.scope, writer.module) or writer.module.value(target.value).kind == "module"


def _optimizer(value: cst.BaseExpression, writer: Writer) -> bool:
    return writer.module.value(value).kind == "optimizer"
