"""Strings: names of checkpoint files and of classes, and tensors that are formatted."""

from __future__ import annotations

import re
from typing import cast

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import EITHER
from torch2ms.rewrite.layers import class_names
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
CHECKPOINT = re.compile(r"(\.pth\.tar|\.pt\.tar|\.pth|\.pt)(?=['\"]*$)")
NUMERIC = re.compile(r"[deEfFgG%]$")  # a specification that numbers alone take
PICKLE = re.compile(r"\.pkl(?=['\"]*$)")
CLASS = re.compile(r"torch\.(?:\w+\.)+[A-Z]\w*")
LOOKED_UP = re.compile(r"\bimport_module\b|\b__import__\b|\bpydoc\b|\bhydra\b|\b_target_\b")
UNBIASED = re.compile(r"\bbias\s*=\s*(?!True)")  # layers whose bias is None
PICKLERS = re.compile(r"pickle|joblib|dill|\bmsgpack\b")  # others that write files with that ending


def plain(
    original: cst.SimpleString, updated: cst.SimpleString, work: Translation, where: Positions
) -> cst.SimpleString:
    """A string literal: the name of a checkpoint, or of a class that `type(m).__name__` is compared with."""
    if (text := checkpoint(updated.value, work)) != updated.value:
        return updated.with_changes(value=text)
    named = str(constant(original))
    if CLASS.fullmatch(named) and not work.mixed and work.project.says(LOOKED_UP):
        why, todo = "the program looks it up by its name", "write the name of MindSpore's class and its arguments"
        work.refuse("T2M608", f"name of {named} in a text", why, todo)
        return updated
    name = class_names.CLASSES.get(named) if id(original) in where.class_names and not work.mixed else None
    if name is None:
        compared = id(original) in where.class_names and not work.mixed and bool(named)
        if compared and not class_names.told_alike(named, work) and class_names.written_out(work):
            why, todo = "names of MindSpore's classes have it elsewhere", "write the whole name of the class"
            work.refuse("T2M608", f"part of the name of a class: {original.value}", why, todo)
        return updated
    work.tell("T2M508", f"the class name {original.value}", f"{name!r} in MindSpore")
    return updated.with_changes(value=original.value.replace(named, name))


def checkpoint(text: str, work: Translation) -> str:
    """`path = "best.pth"`: load_checkpoint asks for its own ending, wherever the name of the file is written."""
    made = CHECKPOINT.sub(".ckpt", text) if work.project.checkpoints and not work.mixed else text
    if PICKLE.search(text) and work.project.checkpoints and not work.mixed:
        made = text if work.project.says(PICKLERS) else PICKLE.sub(".ckpt", text)
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
    spec = "".join(part.value for part in original.format_spec if isinstance(part, cst.FormattedStringText))
    if not formats_badly(original.expression, work, spec):
        return updated
    work.tell("T2M612", "formatted tensor", "formatted as a number")
    return updated.with_changes(expression=_number(updated.expression, spec))


def template(node: cst.BaseExpression, work: Translation) -> object:
    """The text that is filled: a literal, or a name that is bound to one, and to nothing else."""
    if type(node) is not cst.Name or work.stmt is None:
        return written(node)
    scope = work.stmt.block.scope
    bound = [s.node for s in scope.body.walk() if node.value in s.all_defs] if node.value in scope.locals else []
    only = bound[0] if len(bound) == 1 else None
    return written(only.value) if type(only) is cst.Assign and dotted(only.targets[0].target) == node.value else None


def written(node: cst.BaseExpression) -> object:
    """The text of a literal, which may stand in several pieces."""
    return node.evaluated_value if isinstance(node, cst.ConcatenatedString) else constant(node)


def formatted(original: cst.Call, text: str, updated: cst.Call, work: Translation) -> cst.BaseExpression:
    """`"{:.4f}".format(loss)`: as in f-strings."""
    asked = _specified(text)
    args = []
    for i, (old, new) in enumerate(zip(original.args, updated.args, strict=False)):
        key = old.keyword.value if old.keyword is not None else str(i)
        if key in asked and not old.star and formats_badly(old.value, work, asked[key]):
            work.tell("T2M612", "formatted tensor", "formatted as a number")
            new = new.with_changes(value=_number(new.value, asked[key]))
        args.append(new)
    return _attributes(original, text, updated.with_changes(args=args), work)


def _attributes(original: cst.Call, text: str, updated: cst.Call, work: Translation) -> cst.Call:
    """`"{top1.avg:.2f}".format(top1=top1)`: attributes that may be tensors become arguments of their own."""
    given = {a.keyword.value: a.value for a in original.args if a.keyword is not None}
    own: dict[str, list[str]] = {}  # by argument: its attributes that take its place
    for key in _fields(text):
        head, dot, attr = key.partition(".")
        cls = work.class_of(work.module.value(given[head])) if dot and head in given and dotted(given[head]) else None
        value = cls.attrs.get(attr) if cls is not None else None
        free = f"{head}_{attr}" not in given and f"{head}_{attr}" not in text
        if key in _specified(text) and value is not None and (value.kind == "tensor" or value.name == EITHER) and free:
            own.setdefault(head, []).append(attr)
    if not own or not isinstance(updated.func, cst.Attribute) or type(updated.func.value) is cst.Name:
        return updated
    work.tell("T2M612", "formatted tensor", "formatted as a number")
    names = {f"{head}.{attr}": f"{head}_{attr}" for head, attrs in own.items() for attr in attrs}
    still = {root(key) for key in _fields(text) if key not in names}
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args: list[cst.Arg] = []
    for old, new in zip(original.args, updated.args, strict=True):
        head = old.keyword.value if old.keyword is not None else ""
        made = [
            cst.Arg(_number(cst.Attribute(new.value, cst.Name(attr))), cst.Name(f"{head}_{attr}"), TIGHT)
            for attr in own.get(head, ())
        ]
        made = [new, *made] if not made or head in still else made
        args += [a.with_changes(comma=comma) for a in made[:-1]] + [made[-1].with_changes(comma=new.comma)]
    filled = cast(cst.BaseExpression, updated.func.value.visit(_Fields(names)))
    return updated.with_changes(func=updated.func.with_changes(value=filled), args=args)


class _Fields(cst.CSTTransformer):
    """Other names for fields of a template."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        text = updated_node.value
        for old, new in self.names.items():
            text = re.sub(rf"\{{{re.escape(old)}(?=:)", f"{{{new}", text)
        return updated_node.with_changes(value=text)


def _fields(text: str) -> list[str]:
    """All that a template names, by number or name, once and in order."""
    fields = enumerate(re.findall(r"\{([^{}]*)\}", text))
    return list(dict.fromkeys(re.split(r"[:!]", field)[0] or str(i) for i, field in fields))


def _specified(text: str) -> dict[str, str]:
    """The arguments of `format`, by number or name, to which a format specification is applied, with this."""
    found: dict[str, str] = {}
    for i, field in enumerate(re.findall(r"\{([^{}]*)\}", text)):
        key, colon, spec = field.partition(":")
        if colon and spec:
            found[key or str(i)] = spec
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
    while type(original) is cst.Attribute and original.attr.value == "data":
        original = original.value
    if not isinstance(original, (cst.Name, cst.Attribute, cst.Subscript)) or code(updated).endswith(")"):
        return updated
    if not is_parameter(original, work.module.value(original), work.module, work.plan):
        return updated
    work.tell("T2M612", "printed parameter", "its value: a Parameter prints its name and shape")
    held = cst.Call(cst.Attribute(updated, cst.Name("value")))
    if type(original) is cst.Attribute and original.attr.value == "bias" and work.project.says(UNBIASED):
        return cst.parse_expression(f"None if {code(updated)} is None else {code(held)}")
    return held


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


def formats_badly(node: cst.BaseExpression, work: Translation, spec: str) -> bool:
    """Whether a format specification may meet a tensor."""
    value = work.module.value(node)
    if value.kind == "unknown" and NUMERIC.search(spec) and any(not dep.startswith("@") for dep in value.deps):
        given = {value.place} if value.place else {dep[1:] for dep in value.deps if dep.startswith("@")}
        if value.place in ("", dotted(node)) and any(_is_given(name, work) for name in given):
            return True  # what a caller made of weights, formatted as one number: that of a tensor, if not one already
    if value.kind == "unknown" and NUMERIC.search(spec) and not value.place and work.stmt is not None:
        if any((work.stmt.block.scope.name, dep[1:]) in handed_tensors(work.project) for dep in value.deps):
            return True
    if value.kind == "unknown" and isinstance(node, cst.Name) and work.stmt is not None:
        calls = (c for s in work.stmt.block.scope.body.walk() for c in s.calls)
        if any(dotted(c.func) in (f"{node.value}.item", f"{node.value}.detach") for c in calls):
            return True  # the program asks for its number itself
    if value.kind == "unknown" and isinstance(node, cst.Attribute) and NUMERIC.search(spec):
        return node.attr.value in _properties(work.project)  # `{meter.value:.3f}` of objects that are not seen
    return value.kind == "tensor" or value.name == EITHER


@once
def _properties(project: Project) -> frozenset[str]:
    """The names of properties that give tensors."""
    functions = (info for module in project.modules.values() for info in module.functions.values() if info.getter)
    return frozenset(f.name for f in functions if f.returns is not None and f.returns.kind == "tensor")


@once
def handed_tensors(project: Project) -> frozenset[tuple[str, str]]:
    """The functions, by name, that somebody hands a container with tensors, and under which names."""
    params: dict[str, list[list[str]]] = {}
    for scope in (s for module in project.modules.values() for s in module.scope.walk() if s.is_function):
        params.setdefault(scope.name, []).append(scope.params[scope.params[:1] in (["self"], ["cls"]) :])
    found: set[tuple[str, str]] = set()
    for module in project.modules.values():
        for call in (c for c in module.of_kind(cst.Call) if name_called(c) in params):
            for i, arg in enumerate(call.args):
                held = module.value(arg.value)
                inside = held.name == "of tensor" or any(part.kind == "tensor" for part in held.parts)
                if held.kind in ("list", "tuple", "dict") and inside:
                    names = [p[i] for p in params[name_called(call)] if i < len(p)] if not arg.keyword else []
                    found |= {(name_called(call), n) for n in names or [arg.keyword.value if arg.keyword else ""]}
    return frozenset(found)


def _is_given(name: str, work: Translation) -> bool:
    """The name is that of a parameter of the function."""
    return work.stmt is not None and name in work.stmt.block.scope.params


def _number(node: cst.BaseExpression, spec: str = "") -> cst.Call:
    return cst.Call(cst.Name("int" if spec.endswith("d") else "float"), [cst.Arg(node)])


def quoted(node: cst.FormattedString) -> cst.FormattedString:
    """An f-string whose expressions hold no quotation mark of its own: Python takes that from 3.12 on alone."""
    own = node.end
    inner = [n for part in node.parts if isinstance(part, cst.FormattedStringExpression) for n in descend(part)]
    alike = [n for n in inner if isinstance(n, (cst.SimpleString, cst.FormattedString)) and _quote(n) == own]
    other = '"' if own == "'" else "'"
    if len(own) > 1 or not alike or any(set(_between(n)) & {own, other, "\\"} for n in alike):
        return node
    made: dict[cst.CSTNode, cst.BaseExpression] = {n: _requoted(n, other) for n in alike}
    changed = node.visit(_Replaced(made))
    assert isinstance(changed, cst.FormattedString)
    return changed


def _quote(node: cst.SimpleString | cst.FormattedString) -> str:
    return node.quote if isinstance(node, cst.SimpleString) else node.end


def _between(node: cst.SimpleString | cst.FormattedString) -> str:
    """What stands between the quotation marks of a string."""
    return node.raw_value if isinstance(node, cst.SimpleString) else "".join(code(part) for part in node.parts)


def _requoted(node: cst.SimpleString | cst.FormattedString, quote: str) -> cst.BaseExpression:
    if isinstance(node, cst.SimpleString):
        return node.with_changes(value=f"{node.prefix}{quote}{node.raw_value}{quote}")
    return node.with_changes(start=f"{node.prefix}{quote}", end=quote)


class _Replaced(cst.CSTTransformer):
    def __init__(self, made: dict[cst.CSTNode, cst.BaseExpression]) -> None:
        super().__init__()
        self.made = made

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        return self.made.get(original_node, updated_node)

    def leave_FormattedString(
        self, original_node: cst.FormattedString, updated_node: cst.FormattedString
    ) -> cst.BaseExpression:
        return self.made.get(original_node, updated_node)
