"""Functions that give back what they did not make: `return self.slots[-1]`, `return state["h"]`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.sharing import shows

DEPTH = 3  # names that stand for names


def hands_out(scope: Scope) -> bool:
    """What somebody else holds, an object, a caller or the module, is among what the function returns."""
    places = set[str]()
    for node in (s.node for s in scope.body.walk()):
        if type(node) is cst.Return and node.value is not None:
            parts = [e.value for e in node.value.elements] if type(node.value) is cst.Tuple else [node.value]
            places |= set[str]().union(*(shows(part) for part in parts))
    for _ in range(DEPTH):
        made = (s.node for s in scope.body.walk() if places & s.defs)
        places |= {p for n in made if type(n) is cst.Assign for p in shows(n.value)}
    bound = {name for s in scope.body.walk() for name in s.defs}
    own = {name for name in scope.locals if name not in scope.params or name in bound}
    return any(root(place) not in own for place in places)
