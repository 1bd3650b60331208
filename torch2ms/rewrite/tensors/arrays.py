"""What NumPy holds beside tensors: to the left of an operator it would take the tensor over, and its gradient."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.arrays import made_plain
from torch2ms.analysis.program.project import ClassInfo
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.api.promotion import narrowed, promoted
from torch2ms.rewrite.tensors import taken_over
from torch2ms.rewrite.translation import Translation

BITS = frozenset({cst.BitAnd, cst.BitOr, cst.BitXor})
SHIFTS: dict[type, str] = {
    cst.LeftShift: "bitwise_left_shift",
    cst.LeftShiftAssign: "bitwise_left_shift",
    cst.RightShift: "bitwise_right_shift",
    cst.RightShiftAssign: "bitwise_right_shift",
}
MODULES, LAYERS = "torch.nn.ModuleList", "torch.nn.Sequential"
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
PARTED: dict[type, str] = {
    cst.Multiply: "complex_product", cst.Divide: "complex_quotient", cst.Power: "complex_power",
}  # fmt: skip
COMPLEX = {"float64": "complex128", "complex128": "complex128", "float32": "complex64", "complex64": "complex64"}


def beside_tensor(original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """`np.sqrt(2) * x`: NumPy makes an array of a MindSpore tensor, where torch keeps the tensor."""
    left, right = work.module.value(original.left), work.module.value(original.right)
    if (shift := SHIFTS.get(type(original.operator))) and "tensor" in (left.kind, right.kind):
        work.notes.needs.add("ops")
        work.tell("T2M601", "shift of a tensor", f"ops.{shift}: MindSpore's tensors have no such operator")
        if left.kind == right.kind == "tensor" and left.dtype != right.dtype and left.dtype and right.dtype:
            made = _of_two_types(original, updated, work)
            updated = made if isinstance(made, cst.BinaryOperation) else updated
        shifted = updated.left
        if left.dtype == "bool" and right.dtype in ("bool", ""):  # torch counts with whole numbers
            ms = work.alias("ms")
            shifted = cst.parse_expression(f"{code(parenthesised(updated.left))}.astype({ms}.int64)")
        return cst.parse_expression(f"{work.alias('ops')}.{shift}({code(shifted)}, {code(updated.right)})")
    whole = left.dtype[:7] == "complex" or right.dtype[:7] == "complex"
    if whole and (parted := _in_parts(original, updated, work)) is not None:
        return parted
    bits = type(original.operator) in BITS
    if bits and left.kind in ("int", "bool") and right.kind == "tensor":
        why = "the tensor goes first: Python's numbers know none"
        work.tell("T2M613", f"{code(original.left)} beside a tensor", why)
        return updated.with_changes(left=parenthesised(updated.right), right=parenthesised(updated.left))
    chained = left.kind == right.kind and left.kind in ("module", "dataset") and left.name != MODULES
    if type(original.operator) is cst.Add and chained:
        return _chained(left.kind, {left.name, right.name}, updated, work)
    if left.kind == "module" and left.name in (MODULES, LAYERS):
        return _of_layers(left.name, right.kind, updated, work)
    if "complex" in (left.kind, right.kind):
        return _complex(original, updated, work)
    if left.kind == right.kind == "tensor" and left.dtype != right.dtype and left.dtype and right.dtype:
        return _of_two_types(original, updated, work)
    return taken_over.beside(original, updated, work)


def compared(original: cst.Comparison, updated: cst.Comparison, work: Translation) -> cst.Comparison:
    """`labels == np.unique(labels)[0]`: MindSpore finds a tensor and a number of NumPy's not equal as a whole."""
    only = original.comparisons[0]
    if len(original.comparisons) != 1 or type(only.operator) not in (cst.Equal, cst.NotEqual):
        return updated
    held = work.module.value(only.comparator)
    if work.module.value(original.left).kind != "tensor" or held.kind != "numpy" or (held.rank or 0) > 0:
        return updated  # with a whole array torch compares no better
    new = updated.comparisons[0]
    if held.rank == 0:
        text, why = f"{code(parenthesised(new.comparator))}.item()", "a number"
    else:
        work.notes.needs.add("ms")
        home = next((name for name, full in work.module.imports.table.items() if full == "numpy"), "")
        given = f"{home}.asarray({code(new.comparator)})" if home else code(new.comparator)
        text, why = f"{work.alias('ms')}.Tensor({given})", "a tensor"
    work.tell("T2M613", f"{code(only.comparator)} beside a tensor", f"{why}: == is False beside NumPy's")
    made = cst.parse_expression(text)
    return updated.with_changes(comparisons=[new.with_changes(comparator=made)])


def numbers_handed_on(original: cst.Tuple, updated: cst.Tuple, work: Translation) -> cst.Tuple:
    """The numbers of NumPy's in a tuple that are to be Python's."""
    made = list(updated.elements)
    for place, element in enumerate(original.elements) if work.module.has("numpy") else ():
        if type(element.value) is cst.Call and made_plain(element.value, work.module.value(element.value)):
            work.tell(
                "T2M613", f"{code(element.value)} in a tuple", "an integer: MindSpore takes no NumPy number as size"
            )
            made[place] = made[place].with_changes(value=cst.parse_expression(f"int({code(made[place].value)})"))
    return updated.with_changes(elements=made) if made != list(updated.elements) else updated


def whole_bounds(original: cst.Call, updated: cst.Call, work: Translation) -> cst.Call:
    """`rows = slice(max(0, shift), shift + height)` of numbers of NumPy's: MindSpore's tensors take Python's alone."""
    args = [
        new.with_changes(value=cst.parse_expression(f"int({code(new.value)})"))
        if any(work.module.value(n).kind == "numpy" for n in descend(old.value) if isinstance(n, cst.BaseExpression))
        else new
        for old, new in zip(original.args, updated.args, strict=True)
    ]  # fmt: skip
    if all(new is arg for new, arg in zip(updated.args, args, strict=True)):
        return updated
    work.tell("T2M613", "slice of numbers of NumPy", "integers: MindSpore takes no others as bounds")
    return updated.with_changes(args=args)


def _chained(kind: str, names: set[str], updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """Two containers of layers, or two datasets, one behind the other: MindSpore's have no `+`."""
    parts = f"*{code(parenthesised(updated.left))}, *{code(parenthesised(updated.right))}"
    if names == {LAYERS}:
        work.notes.needs.add("nn")
        work.tell("T2M601", "nn.Sequential + nn.Sequential", "a SequentialCell of the layers of both")
        return cst.parse_expression(f"{work.alias('nn')}.SequentialCell({parts})")
    if kind == "dataset":
        if any(_only_iterated(name, work) for name in names):
            why, todo = "nobody can ask for a sample of those by its place", "write itertools.chain(one, other)"
            work.refuse("T2M605", "IterableDataset + IterableDataset", why, todo)
            return updated
        parts = ", ".join(code(part) for part in (updated.left, updated.right))
        work.tell("T2M604", "Dataset + Dataset", "the samples of both, which are asked for as they are needed")
        work.notes.needs.add("ConcatDataset")
        return cst.parse_expression(f"ConcatDataset([{parts}])")
    work.refuse("T2M605", "sum of two modules", "MindSpore's cells have no +", "make one container of both")
    return updated


def _of_layers(name: str, other: str, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """A list of layers and more of them, and the layers of a Sequential several times over."""
    left, right = (code(parenthesised(part)) for part in (updated.left, updated.right))
    if name == MODULES and type(updated.operator) is cst.Add and other in ("list", "tuple", "module"):
        made, why = f"CellList([*{left}, *{right}])", "a CellList of both"
    elif name == LAYERS and type(updated.operator) is cst.Multiply and other == "int":
        made, why = f"SequentialCell(*list({code(updated.left)}) * {right})", "a SequentialCell of the same layers"
    else:
        return updated
    work.notes.needs.add("nn")
    work.tell("T2M601", f"{name[6:]} in an operator", why)
    return cst.parse_expression(f"{work.alias('nn')}.{made}")


def _only_iterated(name: str, work: Translation) -> bool:
    """The class of a dataset gives its samples one after the other."""
    cls = work.project.find(name, work.module) if name else None
    return isinstance(cls, ClassInfo) and cls.method("__iter__") is not None and cls.method("__getitem__") is None


def _complex(original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """`x * 1j`: MindSpore's operators take no complex numbers of Python beside a tensor."""
    first = work.module.value(original.left).kind == "complex"
    other = original.right if first else original.left
    if work.module.value(other).kind not in ("tensor", "param"):
        return updated
    wide = work.facts.dtype(other)
    name = "complex64" if wide.startswith(("int", "uint", "bool")) else COMPLEX.get(wide)
    if name is None and wide == "" and type(original.operator) in ARITHMETIC:
        return _beside_unknown(original, updated, first, work)
    if name is None:
        why = "MindSpore's operators take no complex number beside a tensor"
        work.refuse("T2M605", "complex number beside a tensor", why, "make a tensor of it, of the type of the result")
        return updated
    ms = work.alias("ms")
    work.notes.needs.add("ms")
    work.tell("T2M613", "complex number beside a tensor", "a tensor of the type of the result")
    number = updated.left if first else updated.right
    tensor = updated.right if first else updated.left
    made = cst.parse_expression(f"{ms}.tensor({code(number)}, dtype={ms}.{name})")
    if not wide.startswith("complex"):
        tensor = cst.parse_expression(f"{code(parenthesised(tensor))}.astype({ms}.{name})")
    return updated.with_changes(left=made if first else tensor, right=tensor if first else made)


def _beside_unknown(
    original: cst.BinaryOperation, updated: cst.BinaryOperation, first: bool, work: Translation
) -> cst.BaseExpression:
    """`1j * x` of an `x` whose type is not seen: sums find the common type, and products in parts do."""
    ms = work.alias("ms")
    work.notes.needs.add("ms")
    work.tell("T2M613", "complex number beside a tensor", "a complex tensor, beside which the other stays as precise")
    written_out = code(updated.left if first else updated.right)
    number = cst.parse_expression(f"{ms}.tensor({written_out}, dtype={ms}.complex64)")
    updated = updated.with_changes(**{"left" if first else "right": number})
    if (written := PARTED.get(type(original.operator))) is None:
        return updated
    work.notes.needs.add(written)
    return cst.parse_expression(f"{work.alias(written)}({code(updated.left)}, {code(updated.right)})")


def _in_parts(
    original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation
) -> cst.BaseExpression | None:
    """A product or quotient of complex tensors that is differentiated."""
    written, sides = PARTED.get(type(original.operator)), (original.left, original.right)
    left, right = (work.module.value(side).kind in ("int", "float") for side in sides)
    kinds = {work.module.value(side).kind for side in sides} - {"int", "float"}
    numbers = left and written != "complex_quotient" or right and written != "complex_power"
    if written is None or numbers or written == "complex_power" and not right:
        return None
    if not kinds <= {"tensor", "param", "unknown"}:
        return None
    mixed = len(kinds) == 1 and not all(map(work.facts.dtype, sides)) and not (left or right)
    if not mixed and not any(map(work.facts.varied, sides)):
        return None
    work.notes.needs.add(written)
    why = "in parts: MindSpore has no gradient of a product of complex tensors, and a wrong one of a quotient"
    work.tell("T2M601", "complex tensors under a gradient", why)
    return cst.parse_expression(f"{work.alias(written)}({code(updated.left)}, {code(updated.right)})")


def _of_two_types(original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """Tensors of two types, of which MindSpore's operator takes none together, or gives another than torch's."""
    parts = (original.left, original.right)
    types = [work.facts.dtype(part) for part in parts]
    common = narrowed(types, [work.facts.rank(part) for part in parts])
    if not common and any(t.startswith("complex") for t in types) and "" not in types:
        common = promoted(set(types)) if isinstance(original.operator, ARITHMETIC) else ""
    if type(original.operator) in SHIFTS and "" not in types:
        common = common or promoted(set(types))
    if not common:
        return updated
    ms = work.alias("ms")
    work.notes.needs.add("ms")
    work.tell("T2M613", "tensors of two types", "as torch gives their result: converted")
    for name, dtype in zip(("left", "right"), types, strict=True):
        if dtype != common:
            made = cst.parse_expression(f"{code(parenthesised(getattr(updated, name)))}.astype({ms}.{common})")
            updated = updated.with_changes(**{name: made})
    return updated
