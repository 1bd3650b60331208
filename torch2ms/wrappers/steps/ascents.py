"""Sharpness-aware steps and their closures, written out where they are called.

`optimizer.step(closure)` of an optimizer of the program that takes a step, goes backward through the closure, and takes
another one: the gradients of both belong to the caller's loop, and so do the statements.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.program.sites import Site, calls_of
from torch2ms.analysis.syntax.tree import descend
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import fits, movable, plain
from torch2ms.wrappers.steps.own_steps import ascends


def ascents(project: Project) -> dict[int, Candidate]:
    """By id of the call: steps of this kind, and closures that such a step has been written out around."""
    steps = [i for m in project.modules.values() if not m.uses_mindspore for i in m.functions.values() if ascends(i)]
    if not steps:
        return {}
    sites = calls_of(project, project.modules.values())
    classes = {id(i.cls) for i in steps}
    around = {
        id(site.scope)
        for info, own in sites.values() if id(info.cls) in classes and info not in steps
        for site in own if id(site.scope.cls) != id(info.cls)
    }  # fmt: skip
    found: dict[int, Candidate] = {}
    for info, own in sites.values():
        if info in steps:
            made = _step(info, [s for s in own if s.call.args])
        elif len(own) == 1 and id(own[0].scope) in around and _closes_over(info, own[0]):
            made = plain(info, own, info.scope.body.stmts[0].lineno, ends=True)
        else:
            continue
        if made is not None and movable(info) and all(fits(made, site) for site in made.sites):
            made.goes = info not in steps and _named(info) == len(own)
            found |= {id(site.call): made for site in made.sites}
    return found


def _step(info: FunctionInfo, sites: list[Site]) -> Candidate | None:
    """The step, which every one of these calls gives a closure."""
    made = plain(info, sites, info.scope.body.stmts[0].lineno, ends=True)
    if made is not None:
        made.body = [line for line in made.body if not _asserts(line)]
    return made


def _asserts(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and all(isinstance(s, cst.Assert) for s in line.body)


def _closes_over(info: FunctionInfo, site: Site) -> bool:
    """A closure of the function that calls it, which goes backward and is given nothing."""
    if info.scope.parent is not site.scope or info.scope.params:
        return False
    calls = (c.func for s in info.scope.body.walk() for c in s.calls)
    return any(type(f) is cst.Attribute and f.attr.value == "backward" for f in calls)


def _named(info: FunctionInfo) -> int:
    """How often the function around a closure names it."""
    around = info.scope.parent
    names = [n for n in descend(around.node) if type(n) is cst.Name and n.value == info.name] if around else []
    return len(names) - 1
