"""What the names of a body mean in the module where it is written out."""

from __future__ import annotations

from collections.abc import Iterator

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.inlining.candidate import Candidate


def free_names(info: FunctionInfo) -> Iterator[str]:
    """What the body names that is not its own."""
    own = info.scope.locals
    for stmt in info.scope.body.walk():
        for use in stmt.uses | {dotted(c.func) for c in stmt.calls}:
            if use and root(use) not in own and root(use) not in ("True", "False", "None"):
                yield root(use)


def means(name: str, made: Candidate, module: ModuleInfo) -> str | None:
    """What the caller's module calls something that the body names; None if it has no name there."""
    home = made.info.module
    target = home.imports.table.get(name)
    if target is None:
        if name not in home.scope.locals:
            return name if name not in module.scope.locals else None
        target = f"{home.name}.{name}"
    return _imported(target, module) or (name if name in missing(made, module) else None)


def _imported(target: str, module: ModuleInfo) -> str:
    """What a module calls something by one of its imports, "" if by none."""
    for own, other in module.imports.table.items():
        if other == target:
            return own
        if target.startswith(other + "."):
            return own + target[len(other) :]
    return ""


def missing(made: Candidate, module: ModuleInfo) -> set[str]:
    """What the body names of its own module that the module of a call could import from there, and does not yet."""
    home = made.info.module
    table = module.imports.table
    if not any(target.rpartition(".")[0] == home.name for target in table.values()):
        return set()
    own = {name for name in free_names(made.info) if name in home.scope.locals}
    targets = {name: home.imports.table.get(name, f"{home.name}.{name}") for name in own}
    known = {name for name, target in targets.items() if _imported(target, module)}
    return {name for name in own - known if name not in module.scope.locals and name not in table}


def translated_names(made: Candidate, module: ModuleInfo) -> dict[str, str]:
    """What names of the body are called in the module of a call, where that differs."""
    if module is made.info.module:
        return {}
    meant = {name: means(name, made, module) for name in free_names(made.info)}
    return {name: other for name, other in meant.items() if other is not None and other != name}
