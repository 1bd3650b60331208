"""Containers with two names: `kept = losses`. What is put into the one, or taken out, is so in the other."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.assign import remember
from torch2ms.analysis.evaluation.containers import picked
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import MIXED, UNKNOWN, Value, is_row, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

CHANGED = {"list", "dict", "params", "named_params"}  # kinds that are changed in place


def note(stmt: Stmt, node: cst.Assign, ev: Evaluator) -> None:
    """An assignment gives a container a name: the one it had, if any, means the same from now on."""
    targets = [dotted(t.target) for t in node.targets]
    for place in targets:
        for other in [o for o, block in ev.twins.get(place, {}).items() if block is stmt.block]:
            del ev.twins[place][other], ev.twins[other][place]
    source = dotted(node.value)
    for one, other in pairwise([*targets, *([source] if source else [])]):
        if one and other and one != other:
            stmt.block.scope.twins = True
            ev.twins.setdefault(one, {})[other] = stmt.block
            ev.twins.setdefault(other, {})[one] = stmt.block


def follow(changed: set[str], stmt: Stmt, ev: Evaluator) -> None:
    """What a statement made of a container, its other names mean too."""
    for place in sorted(changed & ev.twins.keys()):
        now = ev.env.get(place)
        found, waiting = {place}, [place]
        while waiting and now is not None and now.kind in CHANGED:
            for other in sorted(ev.twins[waiting.pop()].keys() - found):
                found.add(other)
                waiting.append(other)
                held = ev.env.get(other)
                if held is not None and held.kind in CHANGED and held != now:
                    ev.env[other] = now
                    remember(other, now, ev, stmt.node)


def handed(call: cst.Call, func: Value, ev: Evaluator) -> None:
    """A function that takes parameters out of the list it is given, or puts some in, changes that of its caller."""
    rows = [(i, arg) for i, arg in enumerate(call.args) if is_row(ev.memo.get(id(arg.value), UNKNOWN))]
    info = ev.project.find(func.name, ev.module) if rows else None
    if not isinstance(info, FunctionInfo):
        return
    params = info.scope.params
    for i, arg in rows:
        place = dotted(arg.value)
        name = arg.keyword.value if arg.keyword is not None else params[i] if i < len(params) else ""
        if place in ev.env and any(name in s.muts for s in info.scope.body.walk()):
            held = ev.env[place]
            ev.env[place] = picked(replace(held, odd=MIXED) if held.kind == "params" else held, "left")
