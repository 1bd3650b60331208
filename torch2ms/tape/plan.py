"""What is to become of the statements of a scope: the vocabulary between planner and writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.config import Config
from torch2ms.findings import Finding

RECOMPUTING = ("2.7", "2.8")  # targets whose ms.vjp runs the forward again when it is played back (measured)


@dataclass(eq=False)
class Text:
    """New statements. `{0}`, `{1}`... stand for translated expressions of the source."""

    template: str
    nodes: list[cst.CSTNode] = field(default_factory=list)
    expressions: dict[int, str] = field(default_factory=dict)  # (by id) that become this code here, and here alone
    inner: bool = False  # only where it runs inside a function that is differentiated


@dataclass(eq=False)
class Function:
    """A new function definition around statements of the source."""

    name: str
    params: list[str]
    body: list[Item]
    decorator: str = ""
    differentiated: bool = True
    comments: tuple[cst.EmptyLine, ...] = ()  # above its first statement


@dataclass(eq=False)
class Class:
    """A new class: its text down to the last method, which follows."""

    text: str
    method: Function


@dataclass(eq=False)
class Branch:
    """A new `if`: translated test, then either side."""

    test: cst.BaseExpression
    body: list[Item]
    orelse: list[Item]


@dataclass(eq=False)
class Copy:
    """A statement of the source in another function; `expressions` (by id) become this code there, and there alone."""

    stmt: Stmt
    expressions: dict[int, str]


Item = Text | Function | Class | Branch | Copy | Stmt


@dataclass(eq=False)
class Whole:
    """A block that became a function of its own: another function may take its statements and wrapping instead."""

    items: list[Item]
    above: Stmt
    wrap: Callable[[str], Text]


@dataclass(eq=False)
class Head:
    """A definition under another name, with other parameters; `dropped` decorators go."""

    name: str
    params: cst.Parameters
    dropped: frozenset[str] = frozenset()
    returns: bool = True


@dataclass(eq=False)
class Plan:
    """All edits of one module, by id of the statement or expression they belong to."""

    config: Config = field(default_factory=Config)
    replaced: dict[int, list[Item]] = field(
        default_factory=dict
    )  # the statement gives way to these ([]: it is dropped)
    before: dict[int, list[Item]] = field(default_factory=dict)  # put above the statement and its comments
    behind: dict[int, list[Item]] = field(default_factory=dict)  # put below what the statement became
    moved: set[int] = field(default_factory=set)  # statements that are emitted elsewhere, with their comments
    expressions: dict[int, str] = field(default_factory=dict)  # id of an expression -> the code it becomes
    about: dict[int, str] = field(default_factory=dict)  # id of an attribute -> code in which `{0}` is its object
    around: dict[int, str] = field(default_factory=dict)  # id of a call -> code in which `{0}` is what it becomes
    listed: set[int] = field(default_factory=set)  # `net.parameters()` that gradient functions get: a list, not once
    rows: set[int] = field(default_factory=set)  # subscripts of tensors that get an ellipsis: `losses[i, ...]`
    drawn: set[int] = field(default_factory=set)  # calls of initialisers of which the values alone are asked
    temporaries: set[int] = field(default_factory=set)  # in-place calls whose changed tensor nobody reads again
    picks: dict[int, str] = field(default_factory=dict)  # id of an expression -> the part of it that stays
    arguments: dict[int, str] = field(default_factory=dict)  # id of an argument -> the code its value becomes
    beside: dict[int, str] = field(default_factory=dict)  # id of an argument or parameter -> the one put behind it
    added: dict[int, list[str]] = field(default_factory=dict)  # id of a call or definition -> what is put at its end
    ahead: dict[int, str] = field(default_factory=dict)  # id of a call -> what comes before its arguments
    steps: set[int] = field(default_factory=set)  # definitions of `step` that become `construct`
    borrowed: set[int] = field(default_factory=set)  # ids of scopes that are handed gradients, and give none back
    weights: set[int] = field(default_factory=set)  # ids of names that surely hold Parameters
    # scope and name -> by id of the event, where gradients are put into the name and where they are used
    waiting: dict[tuple[int, str], dict[int, tuple[int, int]]] = field(default_factory=dict)
    given: dict[int, list[str]] = field(default_factory=dict)  # id of a call -> the gradients it gives back
    # id of a scope -> where gradient functions are called in it, and what these are given
    inputs: dict[int, list[tuple[int, list[str]]]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # what new definitions must not be called, once one is needed
    heads: dict[int, Head] = field(default_factory=dict)  # id of a function definition -> its new first line
    contexts: dict[int, list[Item]] = field(default_factory=dict)  # what a `with` becomes wherever it is put
    read: dict[int, set[str]] = field(default_factory=dict)  # id of a statement -> the names that what it became reads
    once: set[int] = field(default_factory=set)  # gradient calls whose forwards have compiled gradients for them alone
    inside: list[Stmt] = field(default_factory=list)  # statements that gradient functions contain or call from
    halved: dict[int, Callable[[str], Text]] = field(
        default_factory=dict
    )  # `with` around a backward call -> what wraps its function
    whole: dict[int, Whole] = field(default_factory=dict)  # blocks in `contexts` that may be all of a forward
    marks: dict[int, list[Finding]] = field(default_factory=dict)  # refusals, by statement
    findings: list[Finding] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)  # nodes that a mark above their statement speaks for
    leaves: dict[str, str] = field(default_factory=dict)  # places of leaves that are trained -> their names
    homes: set[tuple[int, str]] = field(default_factory=set)  # local names among them, with the id of their scope
    together: list[frozenset[str]] = field(default_factory=list)  # cells that one compiled function uses: their places
    smooth: dict[int, str] = field(default_factory=dict)  # losses that are differentiated twice -> which they are
    classes: set[str] = field(default_factory=set)  # names of new classes at the top of the module

    @property
    def records(self) -> bool:
        """On the target, ms.vjp plays back what it recorded; older ones run the forward again."""
        return self.config.target not in RECOMPUTING

    def saved(self) -> dict[str, Any]:
        """The plan as it is now, to come back to."""
        return {f.name: _copied(getattr(self, f.name)) for f in fields(self)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Forget what was planned since."""
        for name, value in saved.items():
            setattr(self, name, value)

    def refuse(self, stmt: Stmt, finding: Finding) -> None:
        self.findings.append(finding)
        self.marks.setdefault(id(stmt), []).append(finding)


def _copied(value: Any) -> Any:
    """A copy that later changes of the collection, or of the lists in it, do not reach."""
    if isinstance(value, dict) and isinstance(next(iter(value.values()), None), list):
        return {k: list(v) for k, v in value.items()}
    return value.copy() if isinstance(value, (dict, list, set)) else value
