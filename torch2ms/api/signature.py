"""Torch signatures as text, and the binding of a call's arguments to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import libcst as cst

from torch2ms.analysis.syntax.text import code
from torch2ms.analysis.syntax.tree import literal_value

COMPUTED = frozenset({cst.Call, cst.Attribute, cst.Subscript, cst.Lambda})  # no literals, and most of what is asked
# keywords that torch's argument parser accepts for NumPy's sake, on every function
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


class _Unknown:
    """The value of an expression that is not a literal; equal to nothing, false in conditions."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return False

    def __bool__(self) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


UNKNOWN = _Unknown()
Shape = tuple[int, frozenset[str]]  # how many arguments a call has by place, and which by name


class BindError(Exception):
    """The arguments of a call do not fit a signature; the message says which."""


class StarError(BindError):
    """A `*args` or `**kwargs` stands where the signature has named parameters."""


@dataclass(frozen=True)
class Param:
    """One parameter: `default` is Python text, None where the parameter is required."""

    name: str
    default: str | None = None
    keyword_only: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Signature:
    """The parameters of a torch function, without the receiver of a method."""

    params: tuple[Param, ...]

    @cached_property
    def options(self) -> str:
        """The parameter that takes keywords which no other has, "" if there is none."""
        return next((p.name for p in self.params if p.keyword_only and p.variadic), "")

    @cached_property
    def by_name(self) -> dict[str, Param]:
        return {param.name: param for param in self.params}

    def takes(self, shape: Shape) -> bool:
        """Whether a call of this shape is complete, and has nothing that no parameter stands for."""
        placed = [p.name for p in self.params if not p.keyword_only]
        given = {*placed[: shape[0]], *shape[1]}
        required = {p.name for p in self.params if p.default is None and not p.variadic}
        return shape[0] <= len(placed) and shape[1] <= self.by_name.keys() and required <= given

    def keyword(self, name: str) -> str | None:
        """The parameter that a keyword at a call means."""
        if name in self.by_name:
            return name
        alias = _NUMPY_NAMES.get(name, "A" if name == "input" else None)  # torch.linalg calls it either
        return alias if alias in self.by_name else None


@cache
def parse(text: str) -> Signature:
    """Read `input, dim=0, *sizes`, `input, *, out=None` or `*args, **options`."""
    arguments = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    params = []
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [ast.unparse(d) for d in arguments.defaults]
    params += [Param(arg.arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        params.append(Param(arguments.vararg.arg, variadic=True))
    for arg, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        params.append(Param(arg.arg, ast.unparse(node) if node else None, keyword_only=True))
    if arguments.kwarg:
        params.append(Param(arguments.kwarg.arg, keyword_only=True, variadic=True))
    return Signature(tuple(params))


@dataclass(frozen=True)
class Bound:
    """One argument at the call: its place, the node before and after its own translation."""

    index: int
    original: cst.Arg
    updated: cst.Arg

    @property
    def positional(self) -> bool:
        return self.original.keyword is None


@dataclass(frozen=True)
class Binding:
    """Which argument of the call belongs to which parameter."""

    signature: Signature
    single: dict[str, Bound]
    variadic: dict[str, tuple[Bound, ...]]

    def passed(self, name: str) -> bool:
        return name in self.single or bool(self.variadic.get(name))

    def all(self) -> Iterator[tuple[str, Bound]]:
        """Every argument with the parameter it fills, in the order of the call."""
        pairs = [*self.single.items(), *((n, b) for n, bs in self.variadic.items() for b in bs)]
        return iter(sorted(pairs, key=lambda pair: pair[1].index))

    def value(self, name: str) -> Any:
        """The literal given for a parameter, its default where omitted, UNKNOWN for any other expression."""
        if name in self.single:
            return literal(self.single[name].original.value)
        if self.variadic.get(name):
            values = tuple(literal(bound.original.value) for bound in self.variadic[name])
            return UNKNOWN if any(value is UNKNOWN for value in values) else values
        default = self.signature.by_name[name].default
        return literal_text(default) if default is not None else UNKNOWN

    def given(self, name: str) -> bool:
        """True where the call passes something that is not torch's default."""
        if self.variadic.get(name):
            return True
        if name not in self.single:
            return False
        default = self.signature.by_name[name].default
        if default is None:
            return True
        node = self.single[name].original.value
        same = code(node) == default
        value = literal(node)
        return not (same or (value is not UNKNOWN and _equal(value, literal_text(default))))


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def bind(signature: Signature, original: cst.Call, updated: cst.Call) -> Binding:
    """Assign the arguments of a call to parameters, as Python would."""
    single: dict[str, Bound] = {}
    variadic: dict[str, list[Bound]] = {}
    places = [param for param in signature.params if not param.keyword_only]
    position = 0
    for index, (before, after) in enumerate(zip(original.args, updated.args, strict=True)):
        bound = Bound(index, before, after)
        if before.star == "**" and not signature.options:
            raise StarError("**" + code(before.value))
        if before.star == "**":
            variadic.setdefault(signature.options, []).append(bound)
            continue
        if before.keyword is not None:
            name = signature.keyword(before.keyword.value) or signature.options or None
            if name is None or name in single:
                raise BindError(f"argument {before.keyword.value!r} is not known")
            if signature.by_name[name].variadic:
                variadic.setdefault(name, []).append(bound)
            else:
                single[name] = bound
            continue
        if position >= len(places):
            raise BindError(f"more than {len(places)} positional arguments")
        param = places[position]
        if param.variadic:
            variadic.setdefault(param.name, []).append(bound)
        elif before.star:
            raise StarError("*" + code(before.value))
        else:
            single[param.name] = bound
            position += 1
    for param in signature.params:
        if param.default is None and not param.variadic and param.name not in single:
            raise BindError(f"argument {param.name!r} is missing")
    return Binding(signature, single, {name: tuple(bounds) for name, bounds in variadic.items()})


def literal_text(text: str) -> Any:
    """The value of a Python literal given as text; nobody may change it."""
    try:
        return literal_value(text)
    except (ValueError, SyntaxError):
        return UNKNOWN


def literal(node: cst.BaseExpression) -> Any:
    """The value of a literal expression, else UNKNOWN."""
    if type(node) in COMPUTED:
        return UNKNOWN
    if type(node) is cst.Name and node.value not in ("None", "True", "False"):
        return UNKNOWN
    if (type(node) is cst.Integer or type(node) is cst.Float or type(node) is cst.Name) and not node.lpar:
        return literal_text(node.value)
    return literal_text(code(node).strip())
