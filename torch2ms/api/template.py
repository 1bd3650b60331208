"""Targets written as Python with {placeholders}: parsing them, and filling them with a call's own arguments.

{p}       the argument for torch's parameter p, positional; left out where the user left it out
{p:kw}    positional where the user wrote it so and nothing before it is missing, else `kw=`
kw={p}    always by keyword
{p!}      written out with torch's default where the user left it out
{p|f}     passed through the transform f (transforms.py), also {p|f:kw}
{*p}      the arguments of a variadic parameter, spread; with their keywords where the signature has it as `**p`
{self}    the receiver of a method
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import is_not

import libcst as cst

from torch2ms.analysis.syntax.operands import parenthesised, simple
from torch2ms.analysis.syntax.tree import changed, children, code, code_fields, descend, is_node, replaced
from torch2ms.api import transforms
from torch2ms.api.signature import Binding, Bound, Signature
from torch2ms.parsing import constant

_PLACEHOLDER = re.compile(r"\{(\*?)(\w+)((?:\|\w+)*)(!?)(?::(\w+))?(!?)\}")
_MARK = "_placeholder_"
_NOTHING = cst.SimpleWhitespace("")
_TIGHT = cst.AssignEqual(_NOTHING, _NOTHING)
# where a placeholder that became an operator expression needs parentheses
_OPERANDS: dict[type, tuple[str, ...]] = {
    cst.BinaryOperation: ("left", "right"),
    cst.BooleanOperation: ("left", "right"),
    cst.UnaryOperation: ("expression",),
    cst.Comparison: ("left",),
    cst.ComparisonTarget: ("comparator",),
    cst.Call: ("func",),
    cst.Attribute: ("value",),
    cst.Subscript: ("value",),
    cst.Slice: ("lower", "upper", "step"),
    cst.IfExp: ("test", "body", "orelse"),
    cst.StarredElement: ("value",),
}
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


class TemplateError(Exception):
    """A template cannot be filled from these arguments; the message is for the finding."""


class TwiceError(TemplateError):
    """An argument that is more than a name stands in the template several times."""

    def __init__(self, param: str, count: int) -> None:
        super().__init__(f"{param} would be evaluated {count} times: give it a name first")
        self.param = param


@dataclass(frozen=True)
class Placeholder:
    """One {placeholder} of a template."""

    param: str
    spread: bool = False
    transform: tuple[str, ...] = ()
    keyword: str | None = None
    written: bool = False


@dataclass(frozen=True)
class Template:
    """A parsed target."""

    text: str
    root: cst.BaseExpression
    placeholders: dict[str, Placeholder]
    uses: Counter[str] = field(default_factory=Counter)
    marked: dict[int, tuple[Placeholder, ...]] = field(default_factory=dict)  # by id of an argument of a call in it
    open: dict[int, tuple[tuple[str, bool], ...] | None] = field(default_factory=dict)  # by id of a node in it

    @property
    def fixed_callee(self) -> bool:
        """True where the target is a call of something that no argument decides."""
        return isinstance(self.root, cst.Call) and _MARK not in code(self.root.func)

    @cached_property
    def params(self) -> set[str]:
        return {placeholder.param for placeholder in self.placeholders.values()}


@cache
def parse(text: str) -> Template:
    """Read a target once."""
    found: dict[str, Placeholder] = {}

    def note(match: re.Match[str]) -> str:
        star, name, pipes, early, keyword, late = match.groups()
        mark = f"{_MARK}{len(found)}"
        transform = tuple(pipe for pipe in pipes.split("|") if pipe)
        found[mark] = Placeholder(name, bool(star), transform, keyword, bool(early or late))
        return mark

    root = cst.parse_expression(_PLACEHOLDER.sub(note, text))
    return Template(text, root, found, Counter(placeholder.param for placeholder in found.values()))


class Filler:
    """Builds the translated expression for one call."""

    def __init__(
        self, template: Template, binding: Binding, receiver: cst.BaseExpression | None, call: cst.Call | None
    ) -> None:
        self.template = template
        self.binding = binding
        self.receiver = receiver
        self.call = call

    def fill(self) -> cst.BaseExpression:
        self._refuse_double_evaluation()
        return self._built(self.template.root, operand=False)  # type: ignore[return-value]

    def _built(self, node: cst.CSTNode, operand: bool) -> cst.CSTNode:
        """A node of the template with its placeholders filled; an `operand` may need parentheses."""
        kind = node.__class__
        if kind is cst.Name:
            return self._name(node, operand)  # type: ignore[arg-type]
        followed = _followed(node, self.template)
        if followed is None:
            return node
        if kind is cst.Call:
            func = self._built(node.func, True)  # type: ignore[attr-defined]
            return self._call(node, func)  # type: ignore[arg-type]
        changes: dict[str, object] = {}
        for name, operator in followed:
            value = getattr(node, name)
            if value.__class__ is tuple or value.__class__ is list:
                items = tuple([self._built(item, False) for item in value])
                if any(map(is_not, items, value)):
                    changes[name] = items
            elif (made := self._built(value, operator)) is not value:
                changes[name] = made
        built = replaced(node, **changes) if changes else node
        return _dotted_number(built) if type(built) is cst.Attribute else built

    def _refuse_double_evaluation(self) -> None:
        for name, count in self.template.uses.items():
            if count < 2:
                continue
            if name in self.binding.variadic:  # their uses take one argument each
                continue
            nodes = [self.receiver] if name == "self" else [b.updated.value for b in self._bounds(name)]
            if any(node is not None and not simple(node) for node in nodes):
                raise TwiceError(name, count)

    def _bounds(self, name: str) -> tuple[Bound, ...]:
        if name in self.binding.single:
            return (self.binding.single[name],)
        return self.binding.variadic.get(name, ())

    def _name(self, node: cst.Name, operand: bool) -> cst.BaseExpression:
        placeholder = self.template.placeholders.get(node.value)
        if placeholder is None:
            return node
        filled = self._node(placeholder, operand)
        return parenthesised(filled) if operand and not _bare_integer(filled) else filled

    def _node(self, placeholder: Placeholder, operand: bool) -> cst.BaseExpression:
        """The expression that takes a placeholder's place."""
        name = placeholder.param
        if name == "self":
            if self.receiver is None:
                raise TemplateError("the tensor it belongs to is not written at the call")
            if not operand:
                return transforms.run(placeholder.transform, _bare(self.receiver))
            return transforms.run(placeholder.transform, self.receiver)
        bounds = self._bounds(name)
        if name in self.binding.variadic:
            return transforms.run(placeholder.transform or ("tuple",), [bound.updated for bound in bounds])
        if bounds:
            return transforms.run(placeholder.transform, bounds[0].updated.value)
        default = self.binding.signature.by_name[name].default
        if default is None:
            if self.binding.signature.by_name[name].variadic:
                return transforms.run(placeholder.transform or ("tuple",), [])
            raise TemplateError(f"{name} is missing")
        return transforms.run(placeholder.transform, constant(default))

    def _omitted(self, node: cst.CSTNode) -> bool:
        """True where a template argument stands for something the user left out."""
        for placeholder in marks(node, self.template):
            if placeholder.param == "self" or placeholder.written:
                continue
            if not self.binding.passed(placeholder.param) or self._says_default(placeholder.param):
                return True
        return False

    def _says_default(self, name: str) -> bool:
        """True for `dim=None` where None is the default: not every MindSpore function takes a written None."""
        bound = self.binding.single.get(name)
        if bound is None or self.binding.signature.by_name[name].default != "None":
            return False
        return type(bound.original.value) is cst.Name and bound.original.value.value == "None"

    def _call(self, node: cst.Call, func: cst.BaseExpression) -> cst.Call:
        """A call of the template with what it calls filled already; arguments that the user left out go."""
        items: list[tuple[Bound | None, cst.Arg]] = []
        gap = empty = False  # a positional place was left empty: what follows goes by keyword
        for arg in node.args:
            placeholder = None
            if type(arg.value) is cst.Name:
                placeholder = self.template.placeholders.get(arg.value.value)
            if placeholder is None or placeholder.param == "self":
                if self._omitted(arg):
                    gap = gap or arg.keyword is None
                    empty = empty or arg.keyword is None
                else:
                    items.append((None, self._built(arg, False)))  # type: ignore[arg-type]
            elif placeholder.spread:
                named = placeholder.param == self.binding.signature.options
                bounds = self._bounds(placeholder.param)
                items += [(b, b.updated if named else _positional(b.updated)) for b in bounds]
            elif self._omitted(arg) and not self._needed_as_filler(node, arg, gap):
                gap = gap or arg.keyword is None
                empty = empty or arg.keyword is None
            else:
                items.append(self._argument(placeholder, arg, gap))
                gap = gap or items[-1][1].keyword is not None
        items = [(bound, arg) for bound, written in items for arg in _spread(written)]
        items = items if empty else _in_front(items)
        if node is self.template.root and self.call is not None:
            return self._laid_out(func, items)
        return replaced(node, func=func, args=_separated([(None, arg) for _, arg in items], []))

    def _needed_as_filler(self, call: cst.Call, arg: cst.Arg, gap: bool) -> bool:
        """A place left empty must be filled where a later argument can only be given by position."""
        if arg.keyword is not None or gap:
            return False
        later = list(call.args)[[a is arg for a in call.args].index(True) + 1 :]
        for other in later:
            placeholder = self.template.placeholders.get(getattr(other.value, "value", ""), None)
            by_position = other.keyword is None and (placeholder is None or placeholder.keyword is None)
            if by_position and not self._omitted(other):
                return True
        return False

    def _argument(self, placeholder: Placeholder, arg: cst.Arg, gap: bool) -> tuple[Bound | None, cst.Arg]:
        bounds = self._bounds(placeholder.param)
        bound = bounds[0] if bounds else None
        keyword = arg.keyword
        if keyword is None and placeholder.keyword is not None:
            by_position = bound.positional if bound else False
            if gap or not by_position:
                keyword = cst.Name(placeholder.keyword)
        base = bound.updated if bound is not None and len(bounds) == 1 else arg
        bound = bounds[-1] if bounds else None
        equal: cst.AssignEqual | cst.MaybeSentinel = cst.MaybeSentinel.DEFAULT
        if keyword is not None:
            equal = base.equal if isinstance(base.equal, cst.AssignEqual) else _TIGHT
        value = self._name(arg.value, False)  # type: ignore[arg-type]
        return bound, changed(base, keyword=keyword, equal=equal, value=value, star=arg.star)

    def _laid_out(self, func: cst.BaseExpression, items: list[tuple[Bound | None, cst.Arg]]) -> cst.Call:
        """The user's own call with another callee and other arguments: its line breaks and comments stay."""
        call = self.call
        assert call is not None
        root = self.template.root
        if type(root) is cst.Call and type(root.func) is cst.Attribute and type(call.func) is cst.Attribute:
            receiver = self.template.placeholders.get(getattr(root.func.value, "value", ""))
            if receiver is not None and receiver.param == "self" and type(func) is cst.Attribute:
                func = changed(call.func, value=func.value, attr=func.attr)
        args = _separated(items, list(call.args))
        kept = type(func) is cst.Attribute and type(call.func) is cst.Attribute and func.dot is call.func.dot
        if args and not kept and type(call.func) is cst.Attribute and _comment(call.func.dot):
            args[0] = _commented(args[0], call.func.dot.whitespace_before, len(args) > 1)
        return changed(call, func=func, args=args)


def _in_front(items: list[tuple[Bound | None, cst.Arg]]) -> list[tuple[Bound | None, cst.Arg]]:
    """Arguments by keyword that stand before one without: each is at its own place, so none of them needs it."""
    last = max((i for i, (_, arg) in enumerate(items) if arg.keyword is None and not arg.star), default=0)
    return [(bound, _positional(arg) if i < last else arg) for i, (bound, arg) in enumerate(items)]


def _spread(arg: cst.Arg) -> list[cst.Arg]:
    """`*(2, 3)` as `2, 3`."""
    node = arg.value
    if arg.star != "*" or type(node) is not cst.Tuple or "\n" in code(node):
        return [arg]
    if not all(type(element) is cst.Element for element in node.elements):
        return [arg]
    return [cst.Arg(element.value) for element in node.elements]


def _bare_integer(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Integer and not node.lpar


def _dotted_number(node: cst.Attribute) -> cst.Attribute:
    """`2.exp()` is not Python."""
    value = node.value
    if (type(value) is cst.Integer or type(value) is cst.Float) and not value.lpar:
        return node.with_changes(value=value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    return node


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """A receiver without the parentheses that only the method call needed."""
    if len(node.lpar) != 1 or isinstance(node, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield)):
        return node
    if "\n" in code(node):
        return node
    return node.with_changes(lpar=[], rpar=[])


def marks(node: cst.CSTNode, template: Template) -> tuple[Placeholder, ...]:
    """The placeholders that an argument cannot be written without; those of nested calls may go by themselves."""
    known = template.marked.get(id(node))
    if known is None:
        known = template.marked[id(node)] = tuple(_marks(node, template))
    return known


def _marks(node: cst.CSTNode, template: Template) -> Iterator[Placeholder]:
    stack: list[cst.CSTNode] = [node]
    while stack:
        current = stack.pop()
        if type(current) is cst.Name and current.value in template.placeholders:
            yield template.placeholders[current.value]
        stack += [current.func] if type(current) is cst.Call else children(current)


def _followed(node: cst.CSTNode, template: Template) -> tuple[tuple[str, bool], ...] | None:
    """The fields of a node in which there is something to fill, and whether an operator takes what they hold.

    None where a part of a template has no placeholder, and no call, whose arguments may go.
    """
    if id(node) not in template.open:
        kind = node.__class__
        fields = [name for name in code_fields(kind) if any(_is_open(n, template) for n in _held(node, name))]
        operands = _OPERANDS.get(kind, ())
        open_ = kind is cst.Call or bool(fields)
        template.open[id(node)] = tuple((name, name in operands) for name in fields) if open_ else None
    return template.open[id(node)]


def _held(node: cst.CSTNode, name: str) -> Sequence[cst.CSTNode]:
    value = getattr(node, name)
    if isinstance(value, (tuple, list)):
        return value
    return (value,) if is_node(type(value)) else ()


def _is_open(node: cst.CSTNode, template: Template) -> bool:
    return any(type(n) is cst.Call or type(n) is cst.Name and n.value in template.placeholders for n in descend(node))


def _commented(arg: cst.Arg, space: cst.BaseParenthesizableWhitespace, followed: bool) -> cst.Arg:
    """The comment that stood before the dot of a method goes behind the receiver, now an argument."""
    if followed:
        return arg.with_changes(comma=cst.Comma(whitespace_after=space))
    return arg.with_changes(whitespace_after_arg=space)


def _positional(arg: cst.Arg) -> cst.Arg:
    return arg if arg.keyword is None else arg.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)


def _separated(items: list[tuple[Bound | None, cst.Arg]], old: list[cst.Arg]) -> list[cst.Arg]:
    """Arguments with commas: a user's argument keeps its own, and with it the line break and the comment after it."""
    if not items:
        return []
    plain = next((a.comma for a in old[:-1] if isinstance(a.comma, cst.Comma) and not _comment(a.comma)), _COMMA)
    result = []
    for bound, arg in items[:-1]:
        own = old[bound.index].comma if bound is not None and bound.index < len(old) - 1 else None
        # the line break before the bracket goes to the argument that is last now
        result.append(changed(arg, comma=own if type(own) is cst.Comma else plain, whitespace_after_arg=_NOTHING))
    if old:
        result.append(changed(items[-1][1], comma=old[-1].comma, whitespace_after_arg=old[-1].whitespace_after_arg))
    else:
        result.append(changed(items[-1][1], comma=cst.MaybeSentinel.DEFAULT))
    if len(result) > 1:
        result = [
            arg.with_changes(value=parenthesised(arg.value)) if type(arg.value) is cst.GeneratorExp else arg
            for arg in result
        ]
    return _with_lost_comments(result, [-1 if bound is None else bound.index for bound, _ in items], old)


def _comment(node: cst.CSTNode | cst.MaybeSentinel) -> bool:
    if type(node) is cst.Comma and type(node.whitespace_after) is cst.SimpleWhitespace:
        return type(node.whitespace_before) is cst.ParenthesizedWhitespace and "#" in code(node)
    return not isinstance(node, cst.MaybeSentinel) and "#" in code(node)


def _with_lost_comments(args: list[cst.Arg], sources: list[int], old: list[cst.Arg]) -> list[cst.Arg]:
    """Comments after arguments that went away, or that came last, move to the argument before them."""
    for index, arg in enumerate(old[:-1]):
        if not isinstance(arg.comma, cst.Comma) or not _comment(arg.comma) or index in sources[:-1]:
            continue
        comment = code(arg.comma).partition("#")[2].partition("\n")[0]
        if any(comment in code(one) for one in args):  # within a tuple of sizes
            continue
        before = [place for place, source in enumerate(sources) if source <= index]
        for place in [*reversed(before), *range(len(args))]:
            if not _comment(args[place].comma):
                args[place] = args[place].with_changes(comma=arg.comma)
                break
    return args


def fill(
    template: Template, binding: Binding, receiver: cst.BaseExpression | None, call: cst.Call | None
) -> cst.BaseExpression:
    """The translated expression, with parentheses where it became an operator expression."""
    return parenthesised(Filler(template, binding, receiver, call).fill())


EMPTY = Binding(Signature(()), {}, {})
