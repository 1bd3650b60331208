"""Functions that differentiate what their callers made, written out where they are called.

`def gradient(y, x): return autograd.grad(y, x, ...)[0]` has no graph of its own: which function of `x` the tensor `y`
is, only its caller knows. Written out there, with the arguments in place of the parameters, each call is the gradient
call that it is, and forms and regions need to know nothing of functions. The definition goes where nothing else names
it. Lines of findings are those of the calls.
"""

from __future__ import annotations

from collections.abc import Callable

from torch2ms.analysis.infer import rewritten
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.tree import code
from torch2ms.inlining.brought_down import brought_down
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import candidates
from torch2ms.inlining.expand import Inliner
from torch2ms.inlining.handed_on import handed_on
from torch2ms.inlining.importing import lacking
from torch2ms.inlining.leaf_makers import leaf_makers
from torch2ms.inlining.parts import brought, parts

ROUNDS = 6  # functions that differentiate may call others that do


def inlined(project: Project, wanted: Callable[[Project], dict[int, Candidate]] = candidates) -> Project:
    """The project without calls of such functions, or of others that are `wanted`; its values are inferred."""
    for _ in range(ROUNDS):
        found = wanted(project)
        if found and (imports := lacking(project, found)):
            project = rewritten(project, imports)
            found = wanted(project)
        if not found:
            return project
        project = _without(project, found)
    return project


def in_parts(project: Project) -> bool:
    """Whether functions of the project do a part of a training step and can be written out."""
    return bool(brought(project)) or bool(parts(project)) or bool(brought_down(project))


def whole_steps(project: Project) -> Project:
    """The project without calls of functions that do a part of a training step; its values are inferred."""
    project = rewritten(project, brought_down(project))
    for _ in range(ROUNDS):
        imports = brought(project)
        found = parts(project) if not imports else {}
        if not imports and not found:
            return project
        project = rewritten(project, imports)
        project = _without(project, found or parts(project))
    return project


def _without(project: Project, found: dict[int, Candidate]) -> Project:
    """The project with the bodies of functions where they are called, by id of the call."""
    changed: dict[str, Plain] = {}
    for module in _concerned(project, found):
        inliner = Inliner(module, found)
        tree = inliner.whole()
        if tree is not module.tree:
            changed[module.name] = inliner.of_tree(tree, brought="".join(sorted(_texts(module, found))))
    return rewritten(project, changed)


def _concerned(project: Project, found: dict[int, Candidate]) -> list[ModuleInfo]:
    """The modules with such calls, and those that define or import what goes."""
    names = {site.module.name for made in found.values() for site in made.sites}
    gone = {made.info.name for made in found.values() if made.goes}
    return [m for m in project.modules.values() if m.name in names or any(m.has(name) for name in gone)]


def _texts(module: ModuleInfo, found: dict[int, Candidate]) -> set[str]:
    """The functions of other modules whose bodies stand here now."""
    here = (m for m in found.values() if any(s.module is module for s in m.sites) and m.info.module is not module)
    return {f"\n{code(made.node)}" for made in here}


__all__ = ["handed_on", "in_parts", "inlined", "leaf_makers", "whole_steps"]
