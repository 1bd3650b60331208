"""What a rule may ask about the call in front of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import libcst as cst

from torch2ms.analysis.syntax.operands import simple
from torch2ms.analysis.syntax.tree import code
from torch2ms.api.signature import UNKNOWN, Binding, Shape, Signature, literal


class Facts:
    """What an analysis knows about expressions of the source; these are the answers of one that knows nothing."""

    def kind(self, node: cst.BaseExpression) -> str:
        return "unknown"

    def cls(self, node: cst.BaseExpression) -> str:
        """The qualified class of a module or a distribution."""
        return ""

    def rank(self, node: cst.BaseExpression) -> int | None:
        return None

    def dtype(self, node: cst.BaseExpression) -> str:
        return ""

    def types_held(self, node: cst.BaseExpression) -> list[str] | None:
        """The element types of the tensors that a list or a tuple under a name holds."""
        return None

    def weights_among(self, node: cst.BaseExpression) -> bool:
        """Whether a list holds Parameters beside other tensors, or may."""
        return False

    def number(self, node: cst.BaseExpression) -> bool:
        """A number of NumPy, which is no array."""
        return False

    def odd(self, node: cst.BaseExpression) -> str:
        """What the source shows of a tensor's elements: that there are none, or NaN among them."""
        return ""

    def hollow(self, node: cst.BaseExpression) -> bool:
        """Whether something binds a place to a tensor of one dimension without elements."""
        return False

    def cast_after(self, node: cst.BaseExpression) -> bool:
        """Whether a list of tensors is joined to one whose type is changed at once: `torch.cat(parts).long()`."""
        return False

    def of_array(self, node: cst.BaseExpression) -> bool:
        """Whether a tensor is one of an array of NumPy's whose type is not seen: float64 beside float32, often."""
        return False

    def guessed(self, node: cst.BaseExpression) -> bool:
        """Whether the kind of an expression is a guess."""
        return False

    def whole(self, node: cst.BaseExpression) -> bool:
        """Whether a number may be an integer where torch has a share: `dropout=0`."""
        return False

    def untyped(self, node: cst.BaseExpression) -> bool:
        """Whether an element type may be None."""
        return False

    def nothing(self, node: cst.BaseExpression) -> bool:
        """Whether a place may hold None."""
        return False

    def left_empty(self, node: cst.Name) -> bool:
        """Whether something binds a name to None."""
        return False

    def varied(self, node: cst.BaseExpression) -> bool:
        """Whether a gradient flows into it, or may."""
        return False

    def varied_targets(self, criterion: str) -> bool:
        """Whether a gradient flows into what a criterion of this class is given second."""
        return False

    def weight(self, node: cst.BaseExpression) -> bool:
        """Whether the expression may be a Parameter itself."""
        return False

    def fresh(self, node: cst.BaseExpression) -> bool:
        """Whether a layer of torch's own has not been used since it was made."""
        return True

    def sequential(self, node: cst.BaseExpression) -> bool | None:
        """Whether a module runs a list of its layers, None where that is not seen."""
        return None

    def looked_up(self, name: object) -> bool:
        """Whether the project asks for a layer by its name."""
        return False

    def decays(self, node: cst.BaseExpression) -> bool:
        """Whether an optimizer may be given groups of parameters with a weight decay of their own."""
        return False

    def ranged(self, node: cst.BaseExpression) -> bool:
        """A name for a `range`, of which MindSpore makes no tensor."""
        return False

    def columns(self, node: cst.BaseExpression) -> int | None:
        """How many values a sample of a dataset has, 0 for one that is no tuple, None where it is not seen."""
        return None

    def iterable(self, node: cst.BaseExpression) -> bool:
        """A dataset that is iterated, and has no samples to ask for by number."""
        return False

    def goes_on(self, node: cst.BaseExpression) -> bool:
        """A dataset that is iterated and remembers how far it came."""
        return False

    def regrown(self, node: cst.BaseExpression) -> bool:
        """A list of samples that gets more, or loses some, once there is a loader of it."""
        return False

    def changed_meanwhile(self, node: cst.BaseExpression) -> bool:
        """A dataset that the program changes while it goes through a loader of it."""
        return False

    def computed(self, node: cst.BaseExpression) -> bool:
        """A dataset whose samples are computed with tensors."""
        return False

    def called_with_more(self, name: str, signature: Signature) -> bool:
        """Whether something calls what may be this class or function with arguments it could leave out."""
        return False

    def called_with_type(self, name: str, signature: Signature) -> bool:
        """Whether a device or an element type may be among those."""
        return False

    def called_with(self, name: str, signatures: tuple[Signature, ...]) -> Shape | None:
        """How many arguments what may be this function gets by place, and which by name."""
        return None

    @property
    def other_types(self) -> bool:
        """Something of the project may be given another type than float32."""
        return True

    @property
    def single_precision(self) -> bool:
        """The project names layers that MindSpore does not compute in float64."""
        return False

    @property
    def leaves_tensors(self) -> bool:
        """No source writes into the tensors that a dataset was made of."""
        return True

    @property
    def padding_words(self) -> bool:
        """Somewhere a padding is a word."""
        return False

    @property
    def lists_dicts(self) -> bool:
        """Dicts of layers may be items of other containers."""
        return False

    @property
    def differentiates_twice(self) -> bool:
        """Some source differentiates a gradient."""
        return False

    @property
    def copies_layers(self) -> bool:
        """Whether layers of the project may be copied."""
        return False

    @property
    def pickles(self) -> bool:
        """The project saves more than the parameters of one cell."""
        return False


_QUESTIONS = (
    "untyped",
    "passed",
    "given",
    "value",
    "known",
    "named",
    "text",
    "count",
    "starred",
    "kind",
    "cls",
    "rank",
    "dtype",
    "dimensionless",
    "odd",
    "varied",
    "guessed",
    "simple",
    "whole",
    "fresh",
    "asks",
)
_LITERAL_KINDS = {bool: "bool", int: "int", float: "float", str: "str", list: "list", tuple: "tuple", dict: "dict"}


@dataclass(frozen=True)
class Use:
    """One call: its arguments by parameter, its receiver, and the facts about them."""

    binding: Binding
    facts: Facts
    receiver: cst.BaseExpression | None = None
    name: str = ""

    @property
    def short(self) -> str:
        """The last part of the rule's name."""
        return self.name.rpartition(".")[2]

    @property
    def written(self) -> tuple[str, ...]:
        """The parameters that stand in the call, and `self`."""
        return ("self", *self.binding.single, *self.binding.variadic)

    def node(self, name: str) -> cst.BaseExpression | None:
        """The argument as the user wrote it; the first one of a variadic parameter."""
        if name == "self":
            return self.receiver
        if name in self.binding.single:
            return self.binding.single[name].original.value
        bounds = self.binding.variadic.get(name, ())
        return bounds[0].original.value if bounds else None

    def passed(self, name: str) -> bool:
        """True where the call has the argument at all."""
        return self.binding.passed(name)

    def given(self, name: str) -> bool:
        """True where the call has the argument and it is not torch's default."""
        return self.binding.given(name)

    def value(self, name: str) -> Any:
        """The literal value (or torch's default), UNKNOWN (equal to nothing) otherwise."""
        return self.binding.value(name)

    def known(self, name: str) -> bool:
        """True where the value is a literal."""
        return self.binding.value(name) is not UNKNOWN

    def named(self, name: str) -> bool:
        """True where the call gives the argument by keyword."""
        return name in self.binding.single and not self.binding.single[name].positional

    def text(self, name: str) -> str:
        """The source text of an argument, empty where left out."""
        node = self.node(name)
        return code(node) if node is not None else ""

    def count(self, name: str) -> int:
        """How many arguments a variadic parameter got."""
        return len(self.binding.variadic.get(name, ()))

    def starred(self, name: str) -> bool:
        """True where a variadic parameter got a `*something`."""
        return any(bound.original.star for bound in self.binding.variadic.get(name, ()))

    def kind(self, name: str) -> str:
        """The kind of an argument; of torch's default where it is left out."""
        node = self.node(name)
        if node is None and name not in self.binding.signature.by_name:  # a method's receiver, of a function
            return "unknown"
        value = literal(node) if node is not None else self.binding.value(name)
        if value is None:
            return "none"
        if type(value) in _LITERAL_KINDS:
            return _LITERAL_KINDS[type(value)]
        if node is None:
            return "unknown"
        if type(node) is cst.List or type(node) is cst.ListComp:
            return "list"
        if type(node) is cst.Tuple:
            return "tuple"
        return self.facts.kind(node)

    def cls(self, name: str) -> str:
        """The full name of an argument's class, empty where the analysis does not tell."""
        node = self.node(name)
        return self.facts.cls(node) if node is not None else ""

    def rank(self, name: str) -> int | None:
        """The number of dimensions of a tensor argument, None where unknown."""
        node = self.node(name)
        return self.facts.rank(node) if node is not None else None

    def dtype(self, name: str) -> str:
        """The element type of a tensor argument, empty where unknown."""
        node = self.node(name)
        return self.facts.dtype(node) if node is not None else ""

    def dimensionless(self, name: str) -> bool:
        """True where an argument is the shape of a tensor without dimensions: `x.shape`, `x.size()`."""
        node = self.node(name)
        node = node.func if isinstance(node, cst.Call) and not node.args else node
        sized = isinstance(node, cst.Attribute) and node.attr.value in ("shape", "size")
        return sized and self.facts.rank(node.value) == 0  # type: ignore[union-attr]

    def number(self, name: str) -> bool:
        """True where an argument is a number of NumPy."""
        node = self.node(name)
        return node is not None and self.facts.number(node)

    def odd(self, name: str) -> str:
        """What is known of a tensor's elements: `empty`, `one`, `nan` or `below zero`; empty text where nothing is."""
        node = self.node(name)
        return self.facts.odd(node) if node is not None else ""

    def varied(self, name: str) -> bool:
        """True where a gradient is known to flow into the argument."""
        node = self.node(name)
        return node is not None and self.facts.varied(node)

    def guessed(self, name: str) -> bool:
        """True where the kind of an argument is a guess from its name or use."""
        node = self.node(name)
        return node is not None and self.facts.guessed(node)

    def whole(self, name: str) -> bool:
        """True where an argument may be an integer, by what the program writes for its name."""
        node = self.node(name)
        return node is not None and self.facts.whole(node)

    def untyped(self, name: str) -> bool:
        """True where an argument is an element type that may be None."""
        node = self.node(name)
        return node is not None and self.facts.untyped(node)

    def simple(self, name: str) -> bool:
        """True where an argument may as well be evaluated twice, or is not there."""
        node = self.node(name)
        return node is None or simple(node)

    def fresh(self, name: str) -> bool:
        """True where an argument is a layer of torch's own that nothing has used since it was made."""
        node = self.node(name)
        return node is not None and self.facts.fresh(node)

    def asks(self, name: str) -> bool:
        """A question about the whole project; true where nobody knows."""
        return bool(getattr(self.facts, name, True))

    def holds(self, condition: str) -> bool:
        """Evaluate the condition of a form."""
        if not condition:
            return True
        compiled, asked = _compiled(condition)
        names: dict[str, Callable[..., Any]] = {name: getattr(self, name) for name in asked}
        # the text comes from this package's own tables; without builtins it can only ask the questions above
        return bool(eval(compiled, {"__builtins__": {}, "len": len, **names}))


@cache
def _compiled(condition: str) -> tuple[CodeType, tuple[str, ...]]:
    """The condition, and the questions in it."""
    words = set(re.findall(r"\w+", condition))
    return compile(condition, "<rule>", "eval"), tuple(name for name in _QUESTIONS if name in words)
