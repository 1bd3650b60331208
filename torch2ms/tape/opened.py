"""Functions that code may run inside of a gradient function without being seen to.

A library's entries are called by training code that is not here; what a decorator registers, a table holds or a trainer
is given, by a value that may be any of them; operators and properties by no name at all. A gradient may flow through
what they are given, and forms that would stop it, or get it wrong at zero, are none for them.
"""

from __future__ import annotations

import re

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.tape.entries import CALLED, TRAINS, called_by
from torch2ms.tape.project import callees

MENTIONED = re.compile(r"\b(\w+)\b(?!\()")  # without being called there


@once
def opened_functions(project: Project) -> frozenset[int]:
    """Such functions, and what they call, by id."""
    sources = [module.source for module in project.modules.values()]
    called = {name for source in sources for name in CALLED.findall(source)}
    values = {name for source in sources for name in MENTIONED.findall(source)}
    work = [info for module in project.modules.values() for info in module.functions.values()]
    work = [i for i in work if (i.name not in called or i.name in values) and not _trains(i)]
    found: dict[int, FunctionInfo] = {}
    while work:
        info = work.pop()
        if id(info) not in found:
            found[id(info)] = info
            work += callees(info, project)
    return frozenset(found)


def _trains(info: FunctionInfo) -> bool:
    """It takes gradients itself, or makes or moves what others train: nobody differentiates it."""
    makes = info.name == "__init__" or info.cls is not None and info.cls.kind == "optimizer"
    return makes or bool(TRAINS & set(called_by(info)))
