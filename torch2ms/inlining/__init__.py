"""Functions that differentiate what their callers made, written out where they are called.

`def gradient(y, x): return autograd.grad(y, x, ...)[0]` has no graph of its own: which function of `x` the tensor `y`
is, only its caller knows. Written out there, with the arguments in place of the parameters, each call is the gradient
call that it is, and forms and regions need to know nothing of functions. The definition goes where nothing else names
it. Lines of findings are those of the calls.
"""

from __future__ import annotations

from collections.abc import Callable

from torch2ms.analysis.infer import infer
from torch2ms.analysis.program.project import Plain, Project
from torch2ms.inlining.ascents import ascents
from torch2ms.inlining.candidates import Candidate, candidates
from torch2ms.inlining.expand import Inliner
from torch2ms.inlining.handed_on import handed_on

ROUNDS = 6  # functions that differentiate may call others that do


def inlined(project: Project, wanted: Callable[[Project], dict[int, Candidate]] = candidates) -> Project:
    """The project without calls of such functions, or of others that are `wanted`; its values are inferred."""
    for _ in range(ROUNDS):
        found = wanted(project)
        if not found:
            return project
        changed: dict[str, Plain] = {}
        for module in project.modules.values():
            inliner = Inliner(module, found)
            tree = inliner.whole()
            if tree is not module.tree:
                before = module.plain
                changed[module.name] = Plain(
                    tree,
                    inliner.lines_of(tree),
                    [*(before.findings if before is not None else []), *inliner.findings],
                    before.reasons if before is not None else {},
                )
        project = project.rewritten(changed)
        infer(project)
    return project


__all__ = ["ascents", "handed_on", "inlined"]
