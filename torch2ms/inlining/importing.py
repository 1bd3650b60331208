"""Imports of other packages that a body brings along to the module where it is written out."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.editing.suites import Suites, line_of
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.meanings import free_names, missing


def lacking(project: Project, found: dict[int, Candidate]) -> dict[str, Plain]:
    """The modules of calls with what the bodies take from torch, Python and NumPy: imported from there, as here."""
    wanted: dict[str, dict[str, str]] = {}
    for made in {id(m): m for m in found.values()}.values():
        table = made.info.module.imports.table
        for module in {id(s.module): s.module for s in made.sites if s.module is not made.info.module}.values():
            wants = missing(made, module) | module.imports.supposed.intersection(free_names(made.info))
            if more := {n: table[n] for n in wants if _elsewhere(table.get(n, ""))}:
                wanted.setdefault(module.name, {}).update(more)
    return {name: Importing(project.modules[name], more).plain() for name, more in wanted.items()}


def _elsewhere(target: str) -> bool:
    """It is no part of the project: a module that needs it no longer stops importing what is torch's."""
    return is_foreign(target) or target.partition(".")[0] in (sys.stdlib_module_names | {"numpy"})


class Importing(Suites):
    """One module with further imports, below its first ones."""

    def __init__(self, module: ModuleInfo, names: dict[str, str]) -> None:
        super().__init__(module)
        self.names = names

    def whole(self) -> cst.Module:
        body = list(self.module.tree.body)
        at = next((i for i, stmt in enumerate(body) if _imports(stmt)), -1)
        made = list(_statements(self.names))
        if at < 0:  # below the text that says what the module is for
            at = 0 if body and _said(body[0]) else -1
        return self.module.tree.with_changes(body=[*body[: at + 1], *made, *body[at + 1 :]])


def _statements(names: dict[str, str]) -> Iterator[cst.SimpleStatementLine]:
    for name, full in sorted(names.items()):
        home, _, last = full.rpartition(".")
        given = "" if name == last or name == full else f" as {name}"
        text = f"from {home} import {last}{given}" if home and name != full else f"import {full}{given}"
        yield line_of(text)


def _imports(stmt: cst.CSTNode) -> bool:
    small = stmt.body if isinstance(stmt, cst.SimpleStatementLine) else ()
    kinds = (n for n in small if isinstance(n, (cst.Import, cst.ImportFrom)))
    return any(dotted(getattr(n, "module", None) or cst.Name("_")) != "__future__" for n in kinds)


def _said(stmt: cst.CSTNode) -> bool:
    only = stmt.body[0] if isinstance(stmt, cst.SimpleStatementLine) and len(stmt.body) == 1 else None
    return is_docstring(only)


__all__ = ["Importing", "lacking"]
