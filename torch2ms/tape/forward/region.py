"""What a forward region is: the statements of one differentiated function, and where they stood."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.tape.model import Event

TRIED = "it goes well: the handlers of the `try` around it no longer see it fail"


@dataclass(eq=False)
class Region:
    """The statements of one differentiated function, in order, and where they stood.

    `block` holds them; `guards` are the `if` statements between that block and the backward call, outermost first, and
    `guarded` the statements that stand under the innermost guard. `after` are statements that stood between and move
    behind the gradient call; `cut` is the number of leading statements that must run before something between them.
    `graphless` are names of unseen origin, made outside of a loop that goes backward each time without keeping graphs:
    had they graphs, the second time would fail. `handed_in` are those that such a loop takes from what it runs over.
    `each` are the last statements of a forward that stands in front of a loop: each turn ends it in its own way.
    """

    event: Event
    block: Block
    stmts: list[Stmt] = field(default_factory=list)
    guarded: list[Stmt] = field(default_factory=list)
    guards: list[Stmt] = field(default_factory=list)
    each: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    cut: int = 0
    graphless: set[str] = field(default_factory=set)
    handed_in: set[str] = field(default_factory=set)
    waiting: bool = False  # a part of the forward stands under the guard, and the call with it
    late: bool = False  # the guarded part needs what stands before the guard: the function is called there
    tried: bool = False  # only the backward call stands in a `try`
    idle: dict[str, str] = field(default_factory=dict)  # layers that may not run -> why that matters to a step
    problem: str = ""

    @property
    def assumed(self) -> set[str]:
        """What the choice of statements assumes, for the finding."""
        names = ", ".join(f"`{name}`" for name in sorted(self.graphless))
        found = {f"what is made outside of the loop brings no graph along ({names})"} if names else set()
        return found | {TRIED} if self.tried else found

    @property
    def all(self) -> list[Stmt]:
        return self.stmts + self.guarded + self.each
