"""Layers that are put in the place of others by name: `setattr(parent, name, layer)`, `parent._modules[name] = layer`.

A SequentialCell runs a list of its cells that such a statement does not reach, and goes on with the layer it had.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.rewrite.layers.modes import starts_in_training
from torch2ms.rewrite.writer import Writer

SEQUENTIAL = "torch.nn.Sequential"
WALKS = {"named_children", "named_modules", "children", "modules", "get_submodule", "_modules"}  # what finds the parent


def set_by_name(stmt: Stmt, call: cst.Call, writer: Writer) -> list[cst.BaseStatement] | None:
    """`setattr(parent, name, layer)`, where the parent may be a Sequential."""
    if dotted(call.func) != "setattr" or len(call.args) != 3 or any(a.star or a.keyword for a in call.args):
        return None
    owner, name, layer = (a.value for a in call.args)
    if _is_attribute(name) and not _is_sequential(owner, writer) or not _sets_layer(owner, layer, stmt, writer):
        return None
    return _set(owner, name, layer, writer)


def set_among(target: cst.BaseExpression, layer: cst.BaseExpression, writer: Writer) -> list[cst.BaseStatement] | None:
    """`parent._modules[name] = layer`, and `block.act = layer` where the block is a Sequential."""
    if type(target) is cst.Attribute and _is_sequential(target.value, writer):
        named = cst.SimpleString(f'"{target.attr.value}"')
        return _set(target.value, named, layer, writer) if writer.module.value(layer).kind == "module" else None
    if type(target) is not cst.Subscript or len(target.slice) != 1:
        return None
    held, index = target.value, target.slice[0].slice
    if type(held) is not cst.Attribute or held.attr.value != "_modules":
        return None
    return _set(held.value, index.value, layer, writer) if type(index) is cst.Index else None


def _set(
    owner: cst.BaseExpression, name: cst.BaseExpression, layer: cst.BaseExpression, writer: Writer
) -> list[cst.BaseStatement]:
    writer.needs.add("set_cell")
    writer.tell("T2M505", "layer set by its name", "a SequentialCell is told to run it: set_cell")
    begun = ".set_train()" if starts_in_training(layer, writer.module, writer.project) else ""
    return writer.text(f"set_cell({{0}}, {{1}}, {{2}}{begun})", owner, name, layer)


def _is_attribute(name: cst.BaseExpression) -> bool:
    """The name is written out, and one that attributes have: most parents are no Sequentials then."""
    text = constant(name)
    return isinstance(text, str) and text.isidentifier()


def _is_sequential(owner: cst.BaseExpression, writer: Writer) -> bool:
    value = writer.module.value(owner)
    cls = class_of(value, writer.module, writer.project) if value.kind == "module" else None
    return value.name == SEQUENTIAL or cls is not None and any(SEQUENTIAL in c.bases for c in cls.lineage())


def _sets_layer(owner: cst.BaseExpression, layer: cst.BaseExpression, stmt: Stmt, writer: Writer) -> bool:
    """A layer is set as far as is seen, or the scope looks through the layers of a network for the place."""
    value, holder = writer.module.value(layer), writer.module.value(owner)
    if dotted(owner) == "self" and not _is_sequential(owner, writer):
        return False
    if value.kind != "unknown" or holder.kind == "module":
        return value.kind in ("module", "unknown")
    node = stmt.block.scope.node
    return holder.kind == "unknown" and any(type(n) is cst.Attribute and n.attr.value in WALKS for n in descend(node))
