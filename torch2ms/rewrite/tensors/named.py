"""Names of element types and of devices, where a program compares or spells them: MindSpore spells them otherwise."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.api.stars import bound_once
from torch2ms.rewrite.facts import TYPE
from torch2ms.rewrite.layers import either
from torch2ms.rewrite.layers.held_types import of_held
from torch2ms.rewrite.tensors import arrays
from torch2ms.rewrite.translation import Translation

_WRITTEN_OTHERWISE = {"module": "layer", "tensor": "tensor", "size": "shape", "device": "device"}
_SIMPLE = (cst.Name, cst.Attribute, cst.Subscript)


def compared(original: cst.Comparison, updated: cst.Comparison, work: Translation) -> cst.Comparison:
    """`x.device == torch.device("cpu")`: MindSpore writes the device of a tensor in capitals."""
    left = _lower(original.left, updated.left, work)
    parts = [
        new.with_changes(comparator=_lower(old.comparator, new.comparator, work))
        for old, new in zip(original.comparisons, updated.comparisons, strict=True)
    ]
    same = left is updated.left and all(
        a.comparator is b.comparator for a, b in zip(parts, updated.comparisons, strict=True)
    )
    return updated if same else updated.with_changes(left=left, comparisons=parts)


def asked(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`str(x.dtype)`, `str(x.device)` and `isinstance(x, torch.FloatTensor)`; nothing for any other call."""
    called = dotted(original.func)
    if called in ("str", "repr") and (what := _text_kept(original, work)):
        if what == "shape":
            work.tell("T2M601", f"{called} of a shape", "as torch writes it")
            shown = f"list({code(updated.args[0].value)})"
            simple = isinstance(original.args[0].value, _SIMPLE) and not set(shown) & set('"\\')
            written = f'f"torch.Size({{{shown}}})"' if simple else f'"torch.Size({{}})".format({shown})'
            return cst.parse_expression(written)
        if what == "device" and called == "str":
            return _spelled(original.args[0].value, updated, work) or updated
        why = f"MindSpore writes {what}s in another way"
        work.refuse("T2M605", f"{called} of a {what}", why, "print it, or write the text yourself")
        return updated
    if called in ("str", "repr") and len(original.args) == 1:
        return _spelled(original.args[0].value, updated, work)
    if called == "isinstance" and len(original.args) == 2:
        return _of_type(original, updated, work)
    if called == "slice" and work.module.has("numpy"):
        return arrays.whole_bounds(original, updated, work)
    return either.asked(original, updated, work)


def _text_kept(original: cst.Call, work: Translation) -> str:
    """What it is of which the text is bound to a name, where the frameworks write it differently; what is printed or
    logged is for people."""
    stmt = work.stmt.node if work.stmt is not None else None
    if len(original.args) != 1 or not isinstance(stmt, cst.Assign) or not _part_of(stmt.value, original):
        return ""
    value = work.module.value(original.args[0].value)
    if value.kind == "object" and value.name.startswith("torch.distributions."):
        return "distribution"
    return _WRITTEN_OTHERWISE.get(value.kind, "") if not value.likely else ""


def _part_of(value: cst.BaseExpression, text: cst.Call) -> bool:
    """What a name is bound to is the text, or is put together of it: `"shape " + str(x.shape)`."""
    if value is text:
        return True
    if isinstance(value, cst.IfExp):
        return _part_of(value.body, text) or _part_of(value.orelse, text)
    if isinstance(value, cst.BinaryOperation):
        return _part_of(value.left, text) or _part_of(value.right, text)
    return isinstance(value, (cst.Tuple, cst.List)) and any(_part_of(e.value, text) for e in value.elements)


def in_text(original: cst.FormattedString, updated: cst.FormattedString, work: Translation) -> cst.FormattedString:
    """`name = f"{x.shape}"`: shapes, element types and devices as torch writes them; what is printed is for people."""
    stmt = work.stmt.node if work.stmt is not None else None
    if work.mixed or type(stmt) is not cst.Assign or stmt.value is not original:
        return updated
    parts: list[cst.BaseFormattedStringContent] = []
    for old, new in zip(original.parts, updated.parts, strict=True):
        if isinstance(old, cst.FormattedStringExpression) and isinstance(new, cst.FormattedStringExpression):
            bare = old.format_spec is None and old.conversion is None and old.equal is None
            parts += _inserted(old, new, work) if bare else [new]
        else:
            parts.append(new)
    same = all(a is b for a, b in zip(parts, updated.parts, strict=False)) and len(parts) == len(updated.parts)
    return updated if same else updated.with_changes(parts=parts)


def _inserted(
    old: cst.FormattedStringExpression, new: cst.FormattedStringExpression, work: Translation
) -> list[cst.BaseFormattedStringContent]:
    value, text = work.module.value(old.expression), code(new.expression)
    if _device_of_tensor(old.expression, work):
        work.tell("T2M601", "device of a tensor", "MindSpore writes it in capitals")
        return [new.with_changes(expression=cst.parse_expression(f"{text}.lower()"))]
    if value.likely:
        return [new]
    if value.kind == "size":
        work.tell("T2M601", "shape in a text", "as torch writes it")
        listed = new.with_changes(expression=cst.parse_expression(f"list({text})"))
        return [cst.FormattedStringText("torch.Size("), listed, cst.FormattedStringText(")")]
    if value.kind == "dtype":
        work.tell("T2M601", "name of an element type", "as torch spells it")
        spelled = new.with_changes(expression=cst.parse_expression(f"str({text}).lower()"))
        return [cst.FormattedStringText("torch."), spelled]
    return [new]


def _lower(original: cst.BaseExpression, updated: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    if not _device_of_tensor(original, work):
        return updated
    work.tell("T2M601", "device of a tensor", "MindSpore writes it in capitals")
    return cst.parse_expression(f"{code(updated)}.lower()")


def _device_of_tensor(node: cst.BaseExpression, work: Translation) -> bool:
    if type(node) is cst.Name and work.module.value(node).kind == "device":
        node = bound_once(node.value, work.stmt, work.module) or node
    if type(node) is not cst.Attribute or node.attr.value != "device":
        return False
    return work.module.value(node.value).kind in ("tensor", "param")


def _spelled(asked_for: cst.BaseExpression, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    value = work.module.value(asked_for)
    if _device_of_tensor(asked_for, work):
        work.tell("T2M601", "device of a tensor", "MindSpore writes it in capitals")
        return cst.parse_expression(f"{code(updated)}.lower()")
    if value.kind != "dtype" or value.likely or not isinstance(asked_for, _SIMPLE):
        return None
    text = code(updated.args[0].value)
    if '"' in text:
        return None
    work.tell("T2M601", "name of an element type", "as torch spells it")
    return cst.parse_expression(f'f"torch.{{{text}}}".lower()')


def _also_optimizer(asked: str, original: cst.Call, work: Translation) -> bool:
    """What nobody sees is asked elsewhere in the function whether it is an optimizer."""
    if work.module.value(original.args[0].value).kind != "unknown":
        return False
    calls = (c for s in work.scope.body.walk() for c in s.calls if dotted(c.func) == "isinstance")
    others = (c.args[1].value for c in calls if len(c.args) == 2 and code(c.args[0].value) == asked)
    return any(work.module.value(kind).name.endswith("optim.Optimizer") for kind in others)


def _of_type(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """Types that stand for the element type of a tensor, perhaps beside others in a tuple."""
    asked_for, made, tensor = original.args[1].value, updated.args[1].value, code(updated.args[0].value)
    pairs = [(asked_for, made)]
    if isinstance(asked_for, cst.Tuple) and isinstance(made, cst.Tuple):
        pairs = [(old.value, new.value) for old, new in zip(asked_for.elements, made.elements, strict=True)]
    named = [work.module.value(old) for old, _ in pairs]
    typed = [value.kind == "api" and TYPE.fullmatch(value.name) is not None for value in named]
    if len(named) == 1 and named[0].name == "torch.nn.Module" and _also_optimizer(tensor, original, work):
        work.notes.needs.add("optim")
        work.tell("T2M601", "isinstance", "MindSpore's optimizers are cells, too")
        made_too = f"isinstance({tensor}, {work.alias('optim')}.Optimizer)"
        return cst.parse_expression(f"({code(updated)} and not {made_too})")
    if not any(typed):
        return of_held(original, updated, work)
    if not isinstance(updated.args[0].value, _SIMPLE):
        why = "the element type stands in another attribute"
        work.refuse("T2M605", "isinstance of a type of tensors", why, "give the tensor a name first")
        return updated
    ms = work.alias("ms")
    work.notes.needs.add("ms")
    name = next(value.name for value, of_tensor in zip(named, typed, strict=True) if of_tensor)
    work.tell("T2M601", name, "a tensor with elements of this type")
    kinds = list(dict.fromkeys(code(new) for (_, new), of_tensor in zip(pairs, typed, strict=True) if of_tensor))
    others = [code(new) for (_, new), of_tensor in zip(pairs, typed, strict=True) if not of_tensor]
    same = f"{tensor}.dtype == {kinds[0]}" if len(kinds) == 1 else f"{tensor}.dtype in ({', '.join(kinds)})"
    text = f"isinstance({tensor}, {ms}.Tensor) and {same}"
    if others:
        classes = others[0] if len(others) == 1 else f"({', '.join(others)})"
        text = f"isinstance({tensor}, {classes}) or {text}"
    return cst.parse_expression(f"({text})")
