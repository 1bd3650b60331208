"""A function that may give way to its body, with the calls of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import CALL, Site
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.inlining.folding import specialised


@dataclass(eq=False)
class Candidate:
    """A function of the project whose calls can be written out, as its statements."""

    info: FunctionInfo
    body: list[cst.BaseStatement]  # without its docstring
    sites: list[Site] = field(default_factory=list)
    line: int = 0  # of its gradient call
    goes: bool = False  # nothing but the calls names it
    shared: bool = False  # the program has several files: it may be a part of what others import
    declared: list[FunctionInfo] = field(default_factory=list)  # the abstract methods above it, which go along

    @property
    def node(self) -> cst.FunctionDef:
        assert isinstance(self.info.scope.node, cst.FunctionDef)
        return self.info.scope.node

    def at(self, bound: dict[str, cst.BaseExpression]) -> list[cst.BaseStatement] | None:
        """Its statements as they run with these arguments, None where that is not known."""
        return specialised(self.body, {n: v for n, v in bound.items() if constant(v) is not ...})

    def calls_itself(self, lines: list[cst.BaseStatement]) -> bool:
        """The statements call it again."""
        own = {id(s.call) for s in self.sites}
        return any(id(n) in own for line in lines for n in descend(line))

    def changes(self, value: cst.BaseExpression) -> bool:
        """The body may give an attribute of an object, which an argument names, another value."""
        _, dot, attribute = dotted(value).rpartition(".")
        return bool(dot) and any(d.endswith(dot + attribute) for s in self.info.scope.body.walk() for d in s.defs)

    def mentions(self, name: str, bound: dict[str, cst.BaseExpression]) -> int:
        """How often the statements name a parameter."""
        lines = self.at(bound) or []
        return sum(type(n) is cst.Name and n.value == name for line in lines for n in descend(line))

    @property
    def known_outside(self) -> bool:
        """Files that are not converted could call it: it is shared, under a name that is not private."""
        around = self.info.scope.parent
        nested = around is not None and around.is_function
        return self.shared and not nested and (self.info.name == CALL or not self.info.name.startswith("_"))

    @property
    def rebound(self) -> set[str]:
        """Its parameters that get other values."""
        return {d for s in self.info.scope.body.walk() for d in s.defs} & set(self.info.scope.params)
