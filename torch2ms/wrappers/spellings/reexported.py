"""`from mypkg.common import torch, nn, F`: names of torch that come through a module of the project are imported here.

A translated module no longer has them; each importer says itself what it needs, so that it is seen and translated.
"""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.mentions import used_names
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.passes import each_module

# what the torch has that comes through a module that is not seen, if it is no backend of another library
TORCHS = re.compile(r"\btorch\.(?:autograd|func|nn|optim|no_grad|[Tt]ensor|as_tensor|device|manual_seed)\b")
DEPTH = 8  # how many modules may hand on a name, one to the other


@each_module
def reexported(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that gets names of torch from others."""
    writer = Reexported(module, project)
    if not (writer.asks and writer.brings):
        return None
    made = writer.plain()
    return made if writer.changed else None


def of_torch(name: str, module: ModuleInfo, project: Project, depth: int = DEPTH) -> str:
    """The full name of what a module has of torch under a name, through other modules too; "" if it has nothing."""
    if not depth or name in module.classes or name in module.named or _bound_anew(name, module):
        return ""
    if full := module.imports.table.get(name, ""):
        return full if is_foreign(full) else _origin(full, project, depth - 1)
    for star in module.imports.stars:
        owner = _of_project(star, project)
        if owner is not None and _public(name, owner) and (full := of_torch(name, owner, project, depth - 1)):
            return full
    return ""


def _bound_anew(name: str, module: ModuleInfo) -> bool:
    """Something else than an import gives the name: `SGD = partial(SGD, momentum=0.9)`."""
    binding = (s.node for s in module.scope.body.walk() if name in s.defs and not s.blocks)
    return any(not isinstance(node, (cst.Import, cst.ImportFrom)) for node in binding)


def _origin(full: str, project: Project, depth: int = DEPTH) -> str:
    """What of torch a name is that is imported from a module of the project, "" if nothing."""
    home, _, last = full.rpartition(".")
    owner = _of_project(home, project) if project.modules.get(full) is None else None
    return of_torch(last, owner, project, depth) if owner is not None else ""


def _of_project(name: str, project: Project) -> ModuleInfo | None:
    return project.modules.get(name) or project.by_suffix(name) if name else None


def _public(name: str, module: ModuleInfo) -> bool:
    """`from module import *` brings the name."""
    listed = [code(s.node) for s in module.scope.body.walk() if "__all__" in s.defs | s.muts]
    return any(f'"{name}"' in text or f"'{name}'" in text for text in listed) if listed else name[0] != "_"


def _import(local: str, full: str) -> cst.Import | cst.ImportFrom:
    """The statement that binds a name to something of torch."""
    home, _, last = full.rpartition(".")
    given = "" if local == last else f" as {local}"
    made = small_of(f"from {home} import {last}{given}" if home else f"import {last}{given}")
    assert isinstance(made, (cst.Import, cst.ImportFrom))
    return made


def _imports(stmt: cst.CSTNode) -> bool:
    small = stmt.body if isinstance(stmt, cst.SimpleStatementLine) else ()
    return any(isinstance(node, (cst.Import, cst.ImportFrom)) and not _of_future(node) for node in small)


def _of_future(node: cst.Import | cst.ImportFrom) -> bool:
    return isinstance(node, cst.ImportFrom) and node.module is not None and dotted(node.module) == "__future__"


class Reexported(Suites):
    """One module, with imports of its own."""

    def __init__(self, module: ModuleInfo, project: Project) -> None:
        super().__init__(module)
        self.project = project
        self.changed = False
        self.beside: dict[str, str] = {}  # what was an attribute of another module
        table = module.imports.table.values()
        sources = {full.rpartition(".")[0] for full in table if not is_foreign(full)} | set(module.imports.stars)
        homes = sources | {full for full in table if not is_foreign(full)}
        self.unseen = module.says(TORCHS) and module.imports.table.get("torch", "torch") != "torch"
        self.asks = self.unseen or any(_of_project(name, project) is not None for name in homes)

    @property
    def brings(self) -> bool:
        """Something of torch may come through another module: most that import others are not gone through."""
        if self.unseen or any(value.kind == "modulefile" for value in self.module.values.values()):
            return True
        for node in self.module.of_kind(cst.ImportFrom):
            home = self.module.imports.source(node)
            if is_foreign(home):
                continue
            names = () if isinstance(node.names, cst.ImportStar) else node.names
            if not names or any(_origin(f"{home}.{dotted(alias.name)}", self.project) for alias in names):
                return True
        return False

    def whole(self) -> cst.Module:
        tree = super().whole()
        if not self.beside:
            return tree
        self.changed = True
        body = list(tree.body)
        first = next(i for i, stmt in enumerate(body) if _imports(stmt))
        made = [cst.SimpleStatementLine([_import(name, full)]) for name, full in sorted(self.beside.items())]
        return tree.with_changes(body=[*body[: first + 1], *made, *body[first + 1 :]])

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        """`common.nn`, of `from . import common`."""
        owner = self.module.value(original.value)
        if owner.kind != "modulefile" or (module := self.project.modules.get(owner.name)) is None:
            return updated
        name = original.attr.value
        if not (full := of_torch(name, module, self.project)):
            return updated
        if self.module.imports.table.get(name, "" if name in self.own else full) != full:
            name = f"torch_{name}"  # the name is taken
        self.beside[name] = full
        return cst.Name(name, lpar=updated.lpar, rpar=updated.rpar)

    @cached_property
    def own(self) -> set[str]:
        """Names that the module and its functions bind for themselves."""
        return set().union(*(scope.locals | set(scope.params) for scope in self.module.scope.walk()))

    def small(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        if type(node) is not cst.ImportFrom or is_foreign(self.module.imports.source(node)):
            return [self.rewrite(node)]
        if isinstance(node.names, cst.ImportStar):
            return self.star(node)
        home = self.module.imports.source(node)
        moved = {}
        for alias in node.names:
            origin = _origin(full := f"{home}.{dotted(alias.name)}", self.project)
            if origin or self.unseen and alias.name.value == "torch" and self.from_elsewhere(home, full):
                origin = origin or "torch"
                local = dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name)
                moved[id(alias)] = _import(local, origin)
        if not moved:
            return [node]
        self.changed = True
        kept = [alias for alias in node.names if id(alias) not in moved]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return [node.with_changes(names=kept), *moved.values()]
        return list(moved.values())

    def from_elsewhere(self, home: str, full: str) -> bool:
        """No module of the project is seen to have something under the name torch."""
        owner = _of_project(home, self.project)
        return self.project.modules.get(full) is None and (owner is None or "torch" not in owner.bound)

    def star(self, node: cst.ImportFrom) -> list[cst.CSTNode]:
        """`from .common import *`, with what the module uses of torch."""
        owner = _of_project(self.module.imports.source(node), self.project)
        if owner is None:
            return [node]
        bound = {*self.module.scope.locals, *self.module.imports.table} - {"torch"}
        used = used_names(self.module.tree) - bound
        given = {name: of_torch(name, owner, self.project) for name in used if _public(name, owner)}
        brought = {name: full for name, full in given.items() if full}
        self.changed = self.changed or bool(brought)
        return [node, *(_import(name, full) for name, full in sorted(brought.items()))]
