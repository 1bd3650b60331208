"""What is known of the functions of a project once they were looked through: the summaries that planning reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import Site
from torch2ms.tape.forward.stashes import Stash
from torch2ms.tape.functions.exported import Export
from torch2ms.tape.functions.spills import Spills
from torch2ms.tape.functions.stores import Stores
from torch2ms.tape.ledger.records import Read
from torch2ms.tape.model import Closure, Episode, Handed, Handing, Taken, Taking


@dataclass(eq=False)
class Lifting:
    """All exports of a project, by id of the function's scope, and what each method writes and reads of `self`."""

    exports: dict[int, Export] = field(default_factory=dict)
    sites: dict[int, list[Site]] = field(default_factory=dict)
    callee: dict[int, FunctionInfo] = field(default_factory=dict)  # id of a call -> the function it reaches
    functions: dict[int, FunctionInfo] = field(default_factory=dict)
    closures: dict[int, Closure] = field(default_factory=dict)  # by id of the scope
    taken: dict[int, Taken] = field(default_factory=dict)  # by id of the scope
    takings: dict[int, Taking] = field(default_factory=dict)  # by id of the call
    together: dict[int, set[int]] = field(default_factory=dict)  # by id of a scope taken: all versions of its method
    freezes: bool = False  # somewhere a parameter's requires_grad is written that may be trained
    frozen_first: bool = True  # ... but not once an optimizer was made
    handed: dict[int, Handed] = field(default_factory=dict)  # by id of the scope
    handings: dict[int, Handing] = field(default_factory=dict)  # by id of the call
    episodes: dict[int, Episode] = field(default_factory=dict)  # by id of the scope
    incomplete: dict[int, str] = field(default_factory=dict)  # by id of the scope: why it is no episode
    inside: list[FunctionInfo] = field(default_factory=list)  # what runs inside the episodes
    left: list[Stash] = field(default_factory=list)  # lists outside of functions that hold graphs
    without: set[int] = field(default_factory=set)  # ids of scopes that have no gradient events of their own
    meeting: set[int] = field(default_factory=set)  # ids of scopes with an optimizer in which others leave gradients
    changing: set[str] = field(default_factory=set)  # classes of optimizers whose own steps change gradients
    clearing: dict[int, bool] = field(default_factory=dict)  # by id of the scope: it clears gradients, and no more
    stores: Stores = field(default_factory=Stores)  # gradients that live longer than one call
    records: Read = field(default_factory=Read)
    spills: Spills | None = None  # calls that leave gradients in networks they do not train

    def give_up(self, key: int) -> None:
        """The function, and all versions of a method, are handed nothing by their callers."""
        for each in self.together.pop(key, {key}):
            self.together.pop(each, None)
            self.handed.pop(each, None)
            self.taken.pop(each, None)
            for site in self.sites.get(each, []):
                self.handings.pop(id(site.call), None)
                self.takings.pop(id(site.call), None)

    def exporting(self) -> list[FunctionInfo]:
        """The functions that became functions of the loss."""
        return [*(self.functions[key] for key in self.exports), *self.inside]
