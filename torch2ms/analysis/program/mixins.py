"""Plain classes from which modules take methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ClassInfo, Project


def completes_modules(cls: ClassInfo, project: Project) -> bool:
    """Every object that has the class among its bases is a module: a mixin, of which itself none are made."""
    last = [heir for heir in cls.below() if not heir.children]
    if not last or any(heir.kind != "module" for heir in last):
        return False
    return not any(cls.scope.name in module.called for module in project.modules.values())
