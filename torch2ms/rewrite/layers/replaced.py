"""Layers that are set or taken out by name: `setattr(parent, name, layer)`, `parent._modules.pop(name)`.

A SequentialCell runs a list of its cells that such a statement does not reach, and goes on with the layers it had.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.layer_modes import starts_in_training
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import Value
from torch2ms.rewrite.layers.sequentials import is_sequential
from torch2ms.rewrite.writer import Writer

WALKS = {"named_children", "named_modules", "children", "modules", "get_submodule", "_modules"}  # what finds the parent


def set_by_name(stmt: Stmt, call: cst.Call, writer: Writer) -> list[cst.BaseStatement] | None:
    """`setattr(parent, name, layer)`, where the parent may be a Sequential."""
    if dotted(call.func) != "setattr" or len(call.args) != 3 or any(a.star or a.keyword for a in call.args):
        return None
    owner, name, layer = (a.value for a in call.args)
    if _is_attribute(name) and not _is_sequential(owner, writer) or not _sets_layer(owner, layer, stmt, writer):
        return None
    return _set(owner, name, layer, writer)


def taken_by_name(stmt: Stmt, call: cst.Call, writer: Writer) -> list[cst.BaseStatement] | None:
    """`delattr(parent, name)`, where the parent may be a Sequential."""
    if dotted(call.func) != "delattr" or len(call.args) != 2 or any(a.star or a.keyword for a in call.args):
        return None
    owner, name = (a.value for a in call.args)
    holder, sure = writer.module.value(owner), _is_sequential(owner, writer)
    if not sure and (_is_attribute(name) or dotted(owner) == "self" or not _walks(holder, stmt)):
        return None
    return _take(owner, name, writer)


def taken_among(node: cst.Del, writer: Writer) -> list[cst.BaseStatement] | None:
    """`del parent._modules[name]`, and `del block.act` where the block is a Sequential."""
    target = node.target
    if type(target) is cst.Attribute and _is_sequential(target.value, writer):
        return _take(target.value, cst.SimpleString(f'"{target.attr.value}"'), writer)
    if (place := _among(target)) is None:
        return None
    return _take(*place, writer)


def _among(target: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The module and the name in `parent._modules[name]`."""
    if type(target) is not cst.Subscript or len(target.slice) != 1:
        return None
    held, index = target.value, target.slice[0].slice
    if type(held) is not cst.Attribute or held.attr.value != "_modules" or type(index) is not cst.Index:
        return None
    return held.value, index.value


def _take(owner: cst.BaseExpression, name: cst.BaseExpression, writer: Writer) -> list[cst.BaseStatement]:
    writer.needs.add("take_cell")
    writer.tell("T2M505", "layer taken out by its name", "a SequentialCell is told to run it no more: take_cell")
    return writer.text("take_cell({0}, {1})", owner, name)


def set_among(target: cst.BaseExpression, layer: cst.BaseExpression, writer: Writer) -> list[cst.BaseStatement] | None:
    """`parent._modules[name] = layer`, and `block.act = layer` where the block is a Sequential."""
    if type(target) is cst.Attribute and _is_sequential(target.value, writer):
        named = cst.SimpleString(f'"{target.attr.value}"')
        return _set(target.value, named, layer, writer) if writer.module.value(layer).kind == "module" else None
    if (place := _among(target)) is None:
        return None
    return _set(*place, layer, writer)


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
    return is_sequential(writer.module.value(owner), writer.module, writer.project) is True


def _sets_layer(owner: cst.BaseExpression, layer: cst.BaseExpression, stmt: Stmt, writer: Writer) -> bool:
    """A layer is set as far as is seen, or the scope looks through the layers of a network for the place."""
    value, holder = writer.module.value(layer), writer.module.value(owner)
    if dotted(owner) == "self" and not _is_sequential(owner, writer):
        return False
    if value.kind != "unknown" or holder.kind == "module":
        return value.kind in ("module", "unknown")
    return _walks(holder, stmt)


def _walks(holder: Value, stmt: Stmt) -> bool:
    """The parent is not seen, in a scope that looks through the layers of a network."""
    node = stmt.block.scope.node
    return holder.kind == "unknown" and any(type(n) is cst.Attribute and n.attr.value in WALKS for n in descend(node))
