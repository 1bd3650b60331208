"""Strings: names of checkpoint files and of classes, and tensors that are formatted."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import EITHER
from torch2ms.rewrite.inplace.sharing import is_parameter
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

CLASSES = {"Linear": "Dense", "ConvTranspose": "Transpose", "Sequential": "SequentialCell", "ModuleList": "CellList",
           "ModuleDict": "CellDict", "Module": "Cell"} | {
               f"ConvTranspose{n}d": f"Conv{n}dTranspose" for n in (1, 2, 3)}  # fmt: skip
CHECKPOINT = re.compile(r"(\.pth\.tar|\.pt\.tar|\.pth|\.pt)(?=['\"]*$)")
PICKLE = re.compile(r"\.pkl(?=['\"]*$)")
PICKLERS = re.compile(r"pickle|joblib|dill|\bmsgpack\b")  # others that write files with that ending


def plain(
    original: cst.SimpleString, updated: cst.SimpleString, work: Translation, where: Positions
) -> cst.SimpleString:
    """A string literal: the name of a checkpoint, or of a class that `type(m).__name__` is compared with."""
    if (text := checkpoint(updated.value, work)) != updated.value:
        return updated.with_changes(value=text)
    named = str(constant(original))
    name = CLASSES.get(named) if id(original) in where.class_names and not work.mixed else None
    if name is None:
        return updated
    work.tell("T2M508", f"the class name {original.value}", f"{name!r} in MindSpore")
    return updated.with_changes(value=original.value.replace(named, name))


def checkpoint(text: str, work: Translation) -> str:
    """`path = "best.pth"`: load_checkpoint asks for its own ending, wherever the name of the file is written."""
    made = CHECKPOINT.sub(".ckpt", text) if work.project.checkpoints and not work.mixed else text
    if PICKLE.search(text) and work.project.checkpoints and not work.mixed:
        others = any(PICKLERS.search(module.source) for module in work.project.modules.values())
        made = text if others else PICKLE.sub(".ckpt", text)
    if made != text:
        work.tell("T2M513", f"file name {text}", "checkpoints of MindSpore end in .ckpt")
    return made


def inserted(
    original: cst.FormattedStringExpression, updated: cst.FormattedStringExpression, work: Translation
) -> cst.FormattedStringExpression:
    """`f"{loss:.4f}"`: a tensor takes no format specification in MindSpore, its number does."""
    if work.mixed:
        return updated
    if original.format_spec is None:
        made = shown(original.expression, updated.expression, work) if original.equal is None else updated.expression
        return updated if made is updated.expression else updated.with_changes(expression=made)
    if not formats_badly(original.expression, work):
        return updated
    work.tell("T2M612", "formatted tensor", "formatted as a number")
    return updated.with_changes(expression=_number(updated.expression))


def formatted(original: cst.Call, text: str, updated: cst.Call, work: Translation) -> cst.BaseExpression:
    """`"{:.4f}".format(loss)`: as in f-strings."""
    asked = _specified(text)
    args = []
    for i, (old, new) in enumerate(zip(original.args, updated.args, strict=False)):
        key = old.keyword.value if old.keyword is not None else str(i)
        if key in asked and formats_badly(old.value, work) and not old.star:
            work.tell("T2M612", "formatted tensor", "formatted as a number")
            new = new.with_changes(value=_number(new.value))
        args.append(new)
    return updated.with_changes(args=args)


def _specified(text: str) -> set[str]:
    """The arguments of `format`, by number or name, to which a format specification is applied."""
    found: set[str] = set()
    for i, field in enumerate(re.findall(r"\{([^{}]*)\}", text)):
        key, colon, spec = field.partition(":")
        if colon and spec:
            found.add(key or str(i))
    return found


def printed(original: cst.Call, updated: cst.Call, work: Translation) -> cst.Call:
    """`print(net.weight)`: a Parameter prints its name and shape in MindSpore, its value prints the numbers."""
    args = [
        new.with_changes(value=shown(old.value, new.value, work)) if not old.star and old.keyword is None else new
        for old, new in zip(original.args, updated.args, strict=False)
    ]
    same = all(made.value is new.value for made, new in zip(args, updated.args, strict=False))
    return updated if same or len(args) != len(updated.args) else updated.with_changes(args=args)


def shown(original: cst.BaseExpression, updated: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """A Parameter as the tensor that it holds."""
    while isinstance(original, cst.Attribute) and original.attr.value == "data":
        original = original.value
    if not isinstance(original, (cst.Name, cst.Attribute, cst.Subscript)) or code(updated).endswith(")"):
        return updated
    if not is_parameter(original, work.module.value(original), work.module, work.plan):
        return updated
    work.tell("T2M612", "printed parameter", "its value: a Parameter prints its name and shape")
    return cst.Call(cst.Attribute(updated, cst.Name("value")))


def attributes_formatted(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression:
    """`template.format(**self.__dict__)`: see holds_tensors."""
    args = []
    for old, new in zip(original.args, updated.args, strict=True):
        if holds_tensors(old, work):
            value = "value.item() if isinstance(value, ms.Tensor) else value"
            made = cst.parse_expression(f"{{key: {value} for key, value in {code(new.value)}.items()}}")
            new = new.with_changes(value=made)
            work.notes.needs.add("ms")
            work.tell("T2M612", "formatted attributes", "tensors among them are formatted as numbers")
        args.append(new)
    return updated.with_changes(args=args)


def holds_tensors(arg: cst.Arg, work: Translation) -> bool:
    """`**self.__dict__` of an object of which some attribute may be a tensor."""
    node = arg.value
    if arg.star != "**" or not isinstance(node, cst.Attribute) or node.attr.value != "__dict__":
        return False
    cls = work.class_of(work.module.value(node.value))
    return cls is not None and any(v.kind == "tensor" or v.name == EITHER for v in cls.attrs.values())


def formats_badly(node: cst.BaseExpression, work: Translation) -> bool:
    """Whether a format specification may meet a tensor."""
    value = work.module.value(node)
    return value.kind == "tensor" or value.name == EITHER


def _number(node: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.Name("float"), [cst.Arg(node)])
