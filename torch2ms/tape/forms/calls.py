"""One gradient call to write, and what leaves its function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.forward.region import Region
from torch2ms.tape.model import Event, Owner


class Repeats(Protocol):
    """A forward that stands elsewhere than its gradient is taken, or serves another one: `why` tells of it."""

    @property
    def why(self) -> str: ...

    @property
    def assumed(self) -> set[str]: ...

    def function(self, given: list[str]) -> tuple[str, list[str]]:
        """Write a function that runs it again; its name and what it is called with, `given` first."""

    def idle(self) -> list[Stmt]:
        """Statements that stand in the function, and have nobody else who looks at their results."""


@dataclass(eq=False)
class Call:
    """One gradient call to write. `accumulate`: places of owners that add up, and whether something is surely there."""

    event: Event
    region: Region
    owners: list[Owner]
    accumulate: dict[str, bool] = field(default_factory=dict)
    several: bool = False
    form: str = ""
    compiled: str = ""  # what --jit made of it
    assumed: set[str] = field(default_factory=set)
    delayed: set[str] = field(default_factory=set)  # owners whose gradient is looked at before backward runs
    inputs: list[str] = field(default_factory=list)  # the parameter whose graph is played back
    deferred: bool = False  # the forward runs where its loss is handed on
    beside: list[Stmt] = field(default_factory=list)  # of other calls, which make by themselves what they share
    keep: bool = False  # the statement of the event stays, behind the gradient call
    played: str = ""  # the parameter that plays back what callers recorded
    turns: Repeats | None = None  # of loops that its forward is not in
    weights: cst.BaseExpression | None = None  # an expression that lists the weights, of the source


@dataclass
class Outputs:
    """What leaves the function: `root` (a name or ""), names through aux, and names written through the closure."""

    root: str
    aux: list[str]
    shared: list[str]
    wrapped: bool

    @property
    def returned(self) -> str:
        if not self.aux:
            return ""
        inner = ", ".join(self.aux)
        if self.wrapped:
            return f", ({inner},)" if len(self.aux) == 1 else f", ({inner})"
        return f", {inner}"

    def target(self) -> str:
        head = self.root or "_"
        return f"({head}{self.returned})" if self.aux else head


def all_ones(node: cst.BaseExpression, scope: Scope | None = None) -> bool:
    """The cotangent that MindSpore's gradient takes by itself; with a scope, also under its only name there."""
    if type(node) is cst.Name and scope is not None and node.value not in scope.params:
        made = [s for s in scope.body.walk() if node.value in s.defs | s.muts]
        only = made[0].node if len(made) == 1 else None
        return isinstance(only, cst.Assign) and dotted(only.targets[0].target) == node.value and all_ones(only.value)
    if not isinstance(node, cst.Call):
        return False
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
    if name in ("Variable", "to", "cuda", "type", "type_as", "requires_grad_", "detach", "float", "double"):
        inner = node.args[0].value if name == "Variable" and node.args else getattr(node.func, "value", None)
        return inner is not None and all_ones(inner)
    if name in ("fill_", "full_like", "full", "new_full"):
        position = 0 if name == "fill_" else 1
        return len(node.args) > position and constant(node.args[position].value) == 1
    return name in ("ones_like", "ones", "new_ones")
