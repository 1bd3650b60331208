"""One run of a scope, which another may be spared by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch2ms.analysis.evaluation.env import Env
from torch2ms.analysis.evaluation.exchange import Exchange
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.values import Value


@dataclass
class Run:
    """What a run of a scope read, and what its places held in the end.

    In the same inference a run that would do the same is left out. In the next one, of a project of which some modules
    were rewritten, a run that would do the same is played: what it told others is told again, in the same order.
    """

    env: Env
    exchange: Exchange
    passed: dict[str, Value]  # what callers gave a function by then
    asked: dict[str, Value | None] = field(default_factory=dict)  # what it found in the scope around
    touched: set[str] | None = None  # names of the modules that it came across; None: it is not to be played

    def holds(self, outer: Env | None, info: FunctionInfo | None) -> bool:
        """Whether another run would do the same."""
        if info is not None and info.args != self.passed:
            return False
        return (outer is None or _same(outer, self.env.asked)) and self.exchange.hold()

    def again(
        self, outer: Env | None, info: FunctionInfo | None, project: Project, demand: Callable[[FunctionInfo], None]
    ) -> bool:
        """Play the run in another inference, up to the first answer that is not what it was; whether there is none."""
        if info is not None and info.args != self.passed:
            return False
        if outer is not None and not _same(outer, self.asked):
            return False
        self.env.outer = outer
        return self.exchange.repeated(project, demand)


def _same(outer: Env, asked: dict[str, Value | None]) -> bool:
    """The scope around still has what was found there."""
    for place, value in asked.items():
        if (found := outer.get(place)) is not value and found != value:
            return False
    return True
