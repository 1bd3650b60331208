"""What an event is: something that a statement does to gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from torch2ms.tape.functions.closures import Closure
    from torch2ms.tape.functions.episodes import Episode
    from torch2ms.tape.functions.handing import Handing
    from torch2ms.tape.functions.taking import Taking
    from torch2ms.tape.ledger.ledger import State


@dataclass(eq=False)
class Event:
    """Something a statement does to gradients.

    `kind`: backward, gradcall, clear, step, clip_norm, clip_value, grad_loop, fill, leaf_grad, scaler_step,
    scaler_update, unscale; handed, a call of a function that goes backward from its argument; taken, one that uses
    gradients; touch, one that may do anything to gradients that an optimizer keeps.
    `place` is the optimizer, module or leaf it happens to; `roots` are the differentiated expressions.
    """

    kind: str
    stmt: Stmt
    node: cst.CSTNode
    place: str = ""
    value: Value = UNKNOWN
    roots: list[cst.BaseExpression] = field(default_factory=list)
    cotangents: list[cst.BaseExpression | None] = field(default_factory=list)
    inputs: cst.BaseExpression | None = None
    create_graph: bool = False
    retain_graph: bool = False
    scaler: str = ""
    off: bool = False  # its scaler is switched off: it does nothing
    branches: list[Stmt] = field(
        default_factory=list
    )  # the two backward calls, where `stmt` is the `if` that holds them
    scaled: cst.BaseExpression | None = None  # ... its condition
    inverse: bool = False  # ... and the loss is scaled where it does not hold
    writes: bool = False
    lifted: bool = False  # it happens in a function that the statement calls
    called: bool = False  # ... which does nothing else to gradients
    partial: bool = False  # a clear that leaves gradients of other parameters of its place
    zeroed: bool = False  # a clear in a called function that leaves zeros, not nothing
    taking: Taking | None = None  # the call uses gradients
    handing: Handing | None = None  # the call hands a loss on
    closure: Closure | None = None  # the gradients leave with the value that the statement returns
    episode: Episode | None = None  # the call goes backward from what other calls kept, and steps
    beside: str = ""  # what takes the values that the called function returns beside the root
    through: str = ""  # the optimizer inside an optimizer of the program that takes its step
    told: Stmt | None = None  # the statement that findings name, where it stands inside of `stmt`
    name: str = ""  # the name that takes the value of the root, where the root is a call
    # of a lifted one: names that its function reads from outside, and what each of them is varied with
    captured: dict[str, frozenset[str]] = field(default_factory=dict)
    # of a touch: what it leaves, by place of the optimizer; None: what was there
    effects: dict[str, State | None] = field(default_factory=dict)
    absorbed: list[Event] = field(default_factory=list)  # other backward calls that happen together with this one
    problem: str = ""  # why the statement cannot be translated, whatever is around it
    # of a question which parameters have a gradient: the places that may have none; None where it does not matter
    without: frozenset[str] | None = None
    # of a loop over layers of a network: the gradients that it uses of each
    layers: list[tuple[Stmt, cst.Attribute]] = field(default_factory=list)

    @property
    def lineno(self) -> int:
        return (self.told or self.stmt).lineno
