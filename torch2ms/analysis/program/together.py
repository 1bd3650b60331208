"""Which modules of a project belong together: a folder of scripts is many programs."""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo, Project


def together(project: Project) -> list[list[ModuleInfo]]:
    """The modules in groups: those of a group import each other, directly or through others."""
    group = {name: {name} for name in project.modules}
    for name, module in project.modules.items():
        for target in {*module.imports.table.values(), *module.imports.stars}:
            if (other := _module(target, project)) and group[other] is not group[name]:
                joined = group[name] | group[other]
                group |= dict.fromkeys(joined, joined)
    groups = {id(names): names for names in group.values()}
    return [[project.modules[name] for name in project.modules if name in names] for names in groups.values()]


def _module(target: str, project: Project) -> str:
    """The module of the project that holds what is imported, "" where none does."""
    while target and target not in project.modules:
        target = target.rpartition(".")[0]
    return target
