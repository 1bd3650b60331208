"""Classes of networks that something else makes than a call of their name: `for make in (NetA, NetB): net = make()`.

Which of them a network is of that is made so is not seen: it may be any of them.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.tree import descend

NEAR = 2  # imports that are followed
ASKING = ("isinstance", "issubclass", "super")


def made_by_others(module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """Those that a module and what it imports register, keep in tables or hand on."""
    found: list[ClassInfo] = []
    for home in _near(module, project):
        networks = [c for c in home.classes.values() if c.kind == "module" and c.method("forward") is not None]
        handed = _handed_on(home) if networks else set()
        found += [c for c in networks if c.scope.name in handed or c.scope.node.decorators]  # type: ignore[union-attr]
    return found


def _near(module: ModuleInfo, project: Project) -> list[ModuleInfo]:
    near = {module.name: module}
    for _ in range(NEAR):
        targets = {t for home in near.values() for t in home.imports.table.values()}
        named = {t for target in targets for t in (target, target.rpartition(".")[0])}
        near |= {name: project.modules[name] for name in named & project.modules.keys()}
    return list(near.values())


def _handed_on(module: ModuleInfo) -> set[str]:
    """The classes of a module that are items, arguments or what is assigned; not those that are only called."""
    names = {c.scope.name for c in module.classes.values()}
    found: set[str] = set()
    for stmt in (s for scope in module.scope.walk() for s in scope.body.walk()):
        if isinstance(stmt.node, (cst.ClassDef, cst.FunctionDef)) or not stmt.uses & names - found:
            continue
        called = {id(c.func) for c in stmt.calls}
        asking = [c for c in stmt.calls if isinstance(c.func, cst.Name) and c.func.value in ASKING]
        called |= {id(n) for c in asking for n in descend(c)}
        found |= {n.value for n in stmt.nodes if type(n) is cst.Name and n.value in names and id(n) not in called}
    return found
