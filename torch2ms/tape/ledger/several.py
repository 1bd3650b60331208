"""Objects of one kind that take turns: out of a list (`agent = self.agents[i]`), or as arguments of calls.

Each has networks and optimizers of its own. A function that takes one out trains it as if it were the only one, if it
clears the gradients itself: what was left in them may be of a time when another one was trained. Two names may mean
the same object.
"""

from __future__ import annotations

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.values import Value
from torch2ms.tape.model import Event, Owner

SAME = "two names here may mean the same object of a list"
LEFT = "one object of a list after the other is trained here, and its gradients are not cleared before"
TURNS = "it fills gradients of another one of its kind too, which nothing clears before that one is trained"


class Several:
    """What is known of such objects in one scope."""

    def __init__(self, scope: Scope, info: FunctionInfo | None) -> None:
        passed = info.args if info is not None else {}
        self.args = {k: v for k, v in passed.items() if v.kind in ("object", "module") and v.name}
        self.bound = _bound(scope, self.args)

    def problem(self, event: Event, owner: Owner, left: bool, takes: bool) -> str:
        """Why an event cannot be told from one of another object; `left`: gradients of earlier calls may be there."""
        if root(owner.place) in self.bound:
            return SAME if sum(self.bound.values()) > 1 else LEFT if left else ""
        return TURNS if left and takes and self.args and self._another(event, owner) else ""

    def _another(self, event: Event, owner: Owner) -> bool:
        """The loss comes from another argument of the class that the owner's networks are of, or belong to."""
        mine = {root(place) for place in owner.owns or ()} & self.args.keys()
        others = {root(place) for place in event.value.deps} & self.args.keys() - mine
        return any(self.args[m].name == self.args[o].name and _whole(o, event) for m in mine for o in others)


def _whole(name: str, event: Event) -> bool:
    """The loss is varied with the networks of the argument, not just handed it."""
    return any(root(place) == name and not place.startswith("@") for place in event.value.deps)


def _bound(scope: Scope, args: dict[str, Value]) -> dict[str, int]:
    """The local names that mean objects of a list, with how many statements bind them."""
    found = {name: 1 for name, value in args.items() if value.several}
    for stmt in scope.body.walk():
        for place, value in stmt.out.items():
            if value.several and place in stmt.defs and place == root(place):
                found[place] = found.get(place, 0) + 1
    return found
