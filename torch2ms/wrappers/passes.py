"""What a pass is: it writes one of the ways in which people train plainly, and leaves other modules alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project

Pass = Callable[[Project], dict[str, Plain]]  # what becomes of the modules that change, by name


def each_module(written: Callable[[ModuleInfo, Project], Plain | None]) -> Pass:
    """The pass that asks for one module after the other; None where it stays, as modules with MindSpore code do."""

    @wraps(written)
    def found(project: Project) -> dict[str, Plain]:
        plain: dict[str, Plain] = {}
        for module in project.modules.values():
            if not module.uses_mindspore and (made := written(module, project)) is not None:
                plain[module.name] = made
        return plain

    return found
