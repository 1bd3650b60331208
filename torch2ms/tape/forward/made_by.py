"""Networks whose class is not seen: `for make in (NetA, NetB): net = make()`, `MODELS[name]()`, branches of a factory.

They may be of any class of networks that their module knows, or what it imports.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project

NEAR = 2  # imports that are followed


def made_by_others(module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The classes that such a network may be of."""
    near = {module.name: module}
    for _ in range(NEAR):
        targets = {t for home in near.values() for t in home.imports.table.values()}
        named = {t for target in targets for t in (target, target.rpartition(".")[0])}
        near |= {name: project.modules[name] for name in named & project.modules.keys()}
    classes = (c for home in near.values() for c in home.classes.values())
    return [c for c in classes if c.kind == "module" and c.method("forward") is not None]
