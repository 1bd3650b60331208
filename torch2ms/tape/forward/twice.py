"""Forwards that two backward calls share, and that may run for each of them.

`c_loss.backward(retain_graph=True); optimizer_g.zero_grad(); g_loss.backward()`: torch plays one graph back twice.
MindSpore records one for each gradient; nobody sees that where networks give the same values again.
"""

from __future__ import annotations

import re

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.tape.forward.effects import RUN
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.ledger.records import LOADS
from torch2ms.tape.model import Event

HOOKED = re.compile(r"\bregister_\w*hook\b")
SHOWING = ("print", "write", "log", "info", "append")


def both_run(one: Region, two: Region, events: list[Event], finder: Finder) -> bool:
    """Each of two forwards in a block may run what they share: it runs networks and does no more, and nothing that it
    uses changes between the two backward calls, where no gradient is looked at either."""
    first, second = one.event, two.event
    if one.cut or two.cut or one.guards or two.guards or first.stmt.block is not second.stmt.block:
        return False
    theirs = {id(s) for s in two.all}
    common = [s for s in one.all if id(s) in theirs]
    if not all(_runs(s, finder) for s in common):
        return False
    cleared = {id(e.stmt) for e in events if e.kind == "clear"}
    looked_at = {id(e.stmt) for e in events if e.kind in LOADS}
    read = {root(u) for s in common for u in s.all_uses}
    between = [s for s in first.stmt.block.stmts if first.stmt.number < s.number < second.stmt.number]
    for stmt in (s for s in between if id(s) not in cleared):
        if id(stmt) in looked_at or not _runs(stmt, finder, shows=True) or read & {root(d) for d in stmt.all_defs}:
            return False
    return True


def _runs(stmt: Stmt, finder: Finder, shows: bool = False) -> bool:
    """The statement computes, and runs networks; it may show something, if that is not run again."""
    effects = finder.effects(stmt) - ({"io"} if shows else set())
    return not stmt.blocks and not stmt.all_muts and all(effect.startswith(RUN) for effect in effects)


@once
def quiet(project: Project) -> bool:
    """Nobody sees how often networks run: those of the project write down nothing, show nothing, and have no hooks."""
    if project.says(HOOKED):
        return False
    for module in project.modules.values():
        for cls in (c for c in module.classes.values() if c.kind == "module"):
            for stmt in (s for name, i in cls.methods.items() if name != "__init__" for s in i.scope.body.walk()):
                writes = not stmt.blocks and any(place.startswith("self.") for place in stmt.defs | stmt.muts)
                if writes or any(name_called(call) in SHOWING for call in stmt.calls):
                    return False
    return True
