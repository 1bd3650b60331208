"""Indices: MindSpore's tensors take integers, slices, lists and tensors, but nothing of NumPy's."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.arrays import NUMBERS, PLACES
from torch2ms.analysis.oddities import BELOW
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import atomic, parenthesised
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import ARRAY, Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.layers.rows import without_axis
from torch2ms.rewrite.tensors.picked import copied
from torch2ms.rewrite.tensors.separated import separated
from torch2ms.rewrite.tensors.strided import strided
from torch2ms.rewrite.translation import Translation

STATE = "state of an optimizer"  # the name of the dictionary that state_dict() gives
TAKEN = ("tensor", "param")
WHOLE = "()"  # the index under which a whole tensor is stored: `x[...] = y` gives x the memory of y in MindSpore
_NAMES = (cst.Name, cst.Attribute, cst.Subscript)
_NAMED = (cst.Name, cst.Attribute)
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_SHOWING = (cst.Integer, cst.Ellipsis, cst.SimpleString)  # indices that pick nothing


def indexed(original: cst.Subscript, updated: cst.Subscript, work: Translation, read: bool) -> cst.BaseExpression:
    """`x[idx]`, read or written, with indices that MindSpore takes."""
    if read:
        updated = updated.with_changes(value=without_axis(original.value, updated.value, work.module))
    made = _taken(original, updated, work, read)
    for element in original.slice:
        if type(element.slice) is cst.Index and type(element.slice.value) not in _SHOWING:
            return copied(original, made, work)
    return made


def _taken(original: cst.Subscript, updated: cst.Subscript, work: Translation, read: bool) -> cst.BaseExpression:
    receiver = work.module.value(original.value)
    sliced = len(original.slice) == 1 and type(original.slice[0].slice) is cst.Slice
    if receiver.name == "torch.utils.data.TensorDataset" and sliced:
        if not (work.facts.forgets_tensors and work.facts.leaves_tensors):
            return updated  # a class of its own, which takes slices
        work.notes.needs.add("ops")
        work.tell("T2M613", "slice of a TensorDataset", "its samples, put together column by column")
        return cst.parse_expression(f"tuple({work.alias('ops')}.stack(column) for column in zip(*{code(updated)}))")
    if receiver.kind == "dict" and receiver.name == STATE and read:
        why, todo = "MindSpore's state has names of parameters", "keep what you need yourself"
        work.refuse("T2M605", "torch.optim.Optimizer.state_dict", why, todo)
    if receiver.kind == "unknown" and not receiver.name:
        return _perhaps_of_tensor(original, updated, work)
    if receiver.kind not in TAKEN:
        return updated
    if any(type(e.slice) is cst.Index and _nothing(e.slice.value) for e in original.slice):
        work.refuse("T2M605", "index that picks nothing", "MindSpore fails on it", "make the empty tensor by its shape")
        return updated
    if read and (made := _by_truth(original, updated, work)) is not None:
        _tell(original, work, "MindSpore takes no mask without dimensions", receiver.likely)
        return made
    if (behind := _behind_dots(original, updated, work)) is not None:
        _tell(original, work, "MindSpore counts a mask behind `...` as one dimension", receiver.likely)
        return behind
    arrays = any(type(e.slice) is cst.Index and _array(work.module.value(e.slice.value)) for e in original.slice)
    elements = [
        new.with_changes(slice=_part(old.slice, new.slice, work, receiver.deps, arrays))
        for old, new in zip(original.slice, updated.slice, strict=True)
    ]
    changed = any(made.slice is not new.slice for made, new in zip(elements, updated.slice, strict=True))
    if changed:
        updated = updated.with_changes(slice=elements)
        _tell(original, work, "MindSpore's tensors take no index of this type: converted", receiver.likely)
    if (apart := separated(original, updated, work, read)) is not None:
        _tell(original, work, "torch picks with the numbers first: an index of their own", receiver.likely)
        return apart
    if not read or not receiver.deps:
        return updated
    if (made := strided(original, updated, work)) is not None:
        _tell(original, work, "the gradient of a step in the middle fails in MindSpore: gathered", receiver.likely)
        return made
    if (place := _perhaps_number(original, work)) is not None:
        _tell(original, work, "the gradient of a single element needs an index that is no number", receiver.likely)
        return _widened(updated, place)
    if _perhaps_numbers(original, work):
        _tell(original, work, "the gradient of a single element fails: one index after the other", receiver.likely)
        work.notes.needs.add("item_at")
        return _one_by_one(updated, work)
    if len(original.slice) == 1 and _negative(original.slice[0].slice, work):
        _tell(original, work, "the gradient of MindSpore's gather is lost for indices below zero", receiver.likely)
        return updated.with_changes(slice=[*_behind_comma(updated), _element(cst.Ellipsis())])
    return updated


def _by_truth(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.BaseExpression | None:
    """`x[s > 0]` with a tensor of one truth value: all of `x` in a new dimension, or nothing."""
    index, made = original.slice[0].slice, updated.slice[0].slice
    if len(original.slice) != 1 or not isinstance(index, cst.Index) or not isinstance(made, cst.Index):
        return None
    if type(index.value) is cst.Integer or work.module.value(index.value).kind != "tensor":
        return None
    if work.facts.rank(index.value) != 0 or work.facts.dtype(index.value) != "bool":
        return None
    held, mask = code(parenthesised(updated.value)), code(parenthesised(made.value))
    return cst.parse_expression(f"{held}.expand_dims(0)[{mask}.reshape(1)]")


def _behind_dots(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.BaseExpression | None:
    """`x[..., mask]` with a mask of several dimensions: the dimensions before it are written out."""
    given = [e.slice.value for e in original.slice if isinstance(e.slice, cst.Index)]
    if len(original.slice) != 2 or len(given) != 2:
        return None
    first, mask = given
    if type(first) is not cst.Ellipsis or work.module.value(mask).kind != "tensor" or work.facts.dtype(mask) != "bool":
        return None
    rank, length = work.facts.rank(original.value), work.facts.rank(mask)
    if length == 1:
        return None
    if rank is not None and length is not None:
        free = cst.SubscriptElement(cst.Slice(lower=None, upper=None), _COMMA)
        return updated.with_changes(slice=[*[free] * (rank - length), updated.slice[1]])
    if not isinstance(original.value, _NAMED) or not isinstance(mask, _NAMES):
        todo = "give the tensor and the mask names"
        work.refuse("T2M605", "mask behind an ellipsis", "MindSpore counts it as one dimension", todo)
        return None
    held, taken = code(updated.value), code(updated.slice[1].slice)
    return cst.parse_expression(f"{held}[(slice(None),) * ({held}.ndim - {taken}.ndim) + ({taken},)]")


def _nothing(index: cst.BaseExpression) -> bool:
    """`x[[]]`, `x[False]`"""
    return type(index) is cst.List and not index.elements or constant(index) is False


def _tell(original: cst.Subscript, work: Translation, why: str, likely: bool) -> None:
    why += f"; assumed: `{code(original.value)}` is a tensor" if likely else ""
    tier = Tier.ASSUMED if likely else Tier.EXACT
    work.notes.findings.append(Finding("T2M613", tier, f"index of {code(original.value)}", why))


def _perhaps_number(node: cst.Subscript, work: Translation) -> int | None:
    """The place of a tensor that may have no dimensions, among indices that may pick a single element.

    There MindSpore's gradient fails; a tensor known to be a number was made an int before. Something unknown beside
    an item of a tensor (`transitions[self.index[tag], tags[-1]]`) is taken for a number or a tensor as well.
    """
    if len(node.slice) == 1 or (work.facts.rank(node.value) or len(node.slice)) > len(node.slice):
        return None
    place, guessed = None, False
    for i, element in enumerate(node.slice):
        index = element.slice
        if not isinstance(index, cst.Index) or index.star is not None:
            return None
        value = work.module.value(index.value)
        if value.kind == "int" or isinstance(constant(index.value), int):
            continue
        if value.kind == "unknown" and isinstance(index.value, _NAMES) and not value.deps:
            guessed = True
            continue
        if value.kind != "tensor" or value.likely or value.dtype == "bool" or work.facts.rank(index.value):
            return None
        if work.facts.rank(index.value) is None:
            place = i
    if place is None or not guessed:
        return place
    index = node.slice[place].slice
    return place if isinstance(index, cst.Index) and isinstance(index.value, cst.Subscript) else None


def _perhaps_numbers(node: cst.Subscript, work: Translation) -> bool:
    """`transitions[tags[i - 1], tags[i]]` of tags that are not seen: numbers, or tensors with dimensions or without."""
    if len(node.slice) == 1 or (work.facts.rank(node.value) or len(node.slice)) > len(node.slice):
        return False
    unseen = False
    for element in node.slice:
        index = element.slice
        if not isinstance(index, cst.Index) or index.star is not None:
            return False
        value = work.module.value(index.value)
        tensor = value.kind == "tensor" and value.likely and value.dtype != "bool" and not work.facts.rank(index.value)
        if (value.kind == "unknown" or tensor) and isinstance(index.value, cst.Subscript):
            unseen = True
        elif value.kind not in ("int", "unknown") and not isinstance(constant(index.value), int):
            return False
        elif value.kind == "unknown" and not isinstance(index.value, _NAMES):
            return False
    return unseen


def _one_by_one(node: cst.Subscript, work: Translation) -> cst.Call:
    """`x[i, k]` as `item_at(x, i, k)`."""
    places = [element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [cst.Arg(value, comma=comma) for value in (node.value, *places[:-1])]
    return cst.Call(cst.Name(work.alias("item_at")), [*args, cst.Arg(places[-1])])


def _widened(node: cst.Subscript, place: int) -> cst.Subscript:
    """`x[i, k]` as `x[i, k[None]][0]`."""
    elements = list(node.slice)
    index = elements[place].slice
    assert isinstance(index, cst.Index)
    longer = cst.Subscript(parenthesised(index.value), [_element(cst.Name("None"))])
    elements[place] = elements[place].with_changes(slice=cst.Index(longer))
    return cst.Subscript(node.with_changes(slice=elements), [_element(cst.Integer("0"))])


def _negative(index: cst.BaseSlice, work: Translation) -> bool:
    """An index that is seen to be below zero: `x[-k]` of a tensor, or one written as such."""
    if not isinstance(index, cst.Index) or work.module.value(index.value).kind != "tensor":
        return False
    if work.facts.rank(index.value) == 0:
        return False
    node = index.value
    minus = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    return minus or work.module.value(node).odd == BELOW


def _behind_comma(node: cst.Subscript) -> list[cst.SubscriptElement]:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*node.slice[:-1], node.slice[-1].with_changes(comma=comma)]


def _element(value: cst.BaseExpression) -> cst.SubscriptElement:
    return cst.SubscriptElement(cst.Index(value))


def without_surplus(target: cst.Subscript, stored: cst.BaseExpression, module: ModuleInfo, named: bool = False) -> str:
    """A template of `stored` without the dimensions that its place lacks: torch drops them where their size is 1.

    Where its rank is not known, only a row of a matrix is worth the words: `attentions[i] = attention`. What is `named`
    in the same statement goes on with all of its dimensions: `advantages[t] = last = ...`.
    """
    receiver, value = module.value(target.value), module.value(stored)
    if receiver.kind != "tensor" or receiver.likely or value.kind != "tensor" or module.reshapes:
        return ""
    if receiver.rank is None or value.rank == 0:
        return ""
    place = receiver.rank
    for element in target.slice:
        if isinstance(element.slice, cst.Slice):
            continue
        assert isinstance(element.slice, cst.Index)
        if element.slice.star is not None or module.value(element.slice.value).kind != "int":
            return ""
        place -= 1
    if value.rank is None or value.likely:
        if named and place == 0:
            return "{1}.reshape(())"
        strided = isinstance(target.slice[0].slice, cst.Slice) and target.slice[0].slice.step is not None
        again = isinstance(stored, (cst.Name, cst.Attribute)) and len(target.slice) == place == 1
        again = again and not (value.likely and strided)  # `W.view(-1)[::n + 1] = weight`: a number, more often
        return "{1}.reshape({1}.shape[-1:])" if again else ""
    surplus = value.rank - place
    held = "{1}" if atomic(stored) else "({1})"
    if place == 0:
        return f"{held}.reshape(())" if surplus > 1 else ""
    return f"{held}.squeeze({0 if surplus == 1 else tuple(range(surplus))})" if surplus > 0 < place else ""


def whole(target: cst.Subscript, stored: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`x[...] = y`, for y a tensor or perhaps one."""
    kinds = module.value(target.value).kind, module.value(stored).kind
    index = target.slice[0].slice
    if len(target.slice) > 1 or not isinstance(index, cst.Index) or not isinstance(index.value, cst.Ellipsis):
        return False
    return kinds[0] in (*TAKEN, "unknown") and kinds[1] not in ("int", "float", "bool", "numpy")


def _perhaps_of_tensor(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.Subscript:
    """`self.examples[choice]`, with numbers of NumPy: a list of them serves tensors of MindSpore and arrays alike."""
    old, new = original.slice[0].slice, updated.slice[0].slice
    if len(original.slice) > 1 or isinstance(old, cst.Slice):  # `x[:, :size]`, `scores[0, order[k]]`
        pairs = zip(original.slice, updated.slice, strict=True)
        elements = [
            after.with_changes(slice=_part(before.slice, after.slice, work, frozenset(), False))
            if isinstance(before.slice, cst.Slice) or _number_of_array(before.slice, work)
            else after
            for before, after in pairs
        ]
        parts = any(a.slice is not b.slice for a, b in zip(elements, updated.slice, strict=True))
        return updated.with_changes(slice=elements) if parts else updated
    if not isinstance(old, cst.Index) or not isinstance(new, cst.Index) or not isinstance(old.value, cst.Name):
        return updated
    value = work.module.value(old.value)
    if value.kind != "numpy" or value.likely or value.rank == 0 or value.dtype == "bool":
        return updated
    _tell(original, work, "a list of numbers, which tensors and arrays take", likely=False)
    listed = cst.Call(cst.Attribute(new.value, cst.Name("tolist")))
    return updated.with_changes(slice=[updated.slice[0].with_changes(slice=cst.Index(listed))])


def _number_of_array(index: cst.BaseSlice, work: Translation) -> bool:
    """`order[k]`, of an array of places: what it is made into serves whatever is asked."""
    if not isinstance(index, cst.Index):
        return False
    value = work.module.value(index.value)
    return value.kind == "numpy" and (value.rank == 0 or value.dtype != "bool" and _picked(index.value, work.module))


def _part(
    old: cst.BaseSlice, new: cst.BaseSlice, work: Translation, varied: frozenset[str], arrays: bool
) -> cst.BaseSlice:
    if type(old) is cst.Slice and type(new) is cst.Slice:
        held = {name: bound for name in ("lower", "upper", "step") if (bound := getattr(old, name)) is not None}
        kinds = {name: work.module.value(bound).kind for name, bound in held.items()}
        if "numpy" not in kinds.values():
            return new
        # `x[start: start + count]`, and `start += count`: what a name holds may be NumPy's from the second turn on
        counted = [n for n, k in kinds.items() if k == "numpy" or k in ("int", "unknown") and dotted(held[n])]
        return new.with_changes(**{name: _called("int", getattr(new, name)) for name in counted})
    if not isinstance(old, cst.Index) or not isinstance(new, cst.Index) or old.star is not None:
        return new
    value = work.module.value(old.value)
    if value.kind == "tensor":
        # a number: among others the gradient of MindSpore's own form fails, alone it is wrong for one below zero
        number = work.facts.rank(old.value) == 0 and value.dtype != "bool"
        return new.with_changes(value=_called("int", new.value)) if number and varied else new
    if value.kind == "numpy" and value.rank == 0:
        return new.with_changes(value=_called("int", new.value))
    if value.kind == "numpy" and value.dtype != "bool" and _picked(old.value, work.module):
        return new.with_changes(value=cst.Call(cst.Attribute(new.value, cst.Name("tolist"))))  # a number, or a row
    if value.kind == "tuple" and value.name == PLACES:
        work.notes.needs.add("ms")
        each = cst.Call(
            cst.Name("map"), [cst.Arg(cst.parse_expression(f"{work.alias('ms')}.Tensor")), cst.Arg(new.value)]
        )
        return new.with_changes(value=_called("tuple", each))
    named = value.kind == "unknown" and isinstance(old.value, (cst.Name, cst.Attribute))
    if _array(value) or value.name == ARRAY or arrays and named:
        work.notes.needs.add("ms")  # what stands beside an array is one as well, or a number
        return new.with_changes(value=_called(f"{work.alias('ms')}.Tensor", new.value))
    if value.name == "range" and not code(old.value).startswith("list("):
        return new.with_changes(value=_called("list", new.value))
    return new


def _picked(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`order[0]`, `order[k]`: of a vector it is a number, which as a tensor has no gradient where it is an index."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    return module.value(node.slice[0].slice.value).kind == "int"


def _array(value: Value) -> bool:
    return value.kind == "numpy" or value.kind == "list" and value.name in ("of numpy", NUMBERS)


def _called(name: str, node: cst.BaseExpression) -> cst.BaseExpression:
    bare = node.with_changes(lpar=[], rpar=[]) if "\n" not in code(node) and not isinstance(node, cst.Tuple) else node
    return cst.Call(cst.parse_expression(name), [cst.Arg(bare)])
