"""What statements say before planning adds what called functions do: a second attempt goes on from there."""

from __future__ import annotations

from typing import Any

from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt

COLLECTED = ("defs", "muts", "uses", "out", "refills", "sums", "shown")
PLAIN = ("rebinds", "trailing")
Snapshot = list[tuple[Stmt, list[Any], list[Any]]]


def snapshot(project: Project) -> Snapshot:
    """Of every statement of a project what later stages change."""
    return [
        (stmt, [getattr(stmt, name).copy() for name in COLLECTED], [getattr(stmt, name) for name in PLAIN])
        for module in project.modules.values() for scope in module.scope.walk() for stmt in scope.body.walk()
    ]  # fmt: skip


def restore(taken: Snapshot) -> None:
    """Every statement as it was; once."""
    for stmt, collected, plain in taken:
        for name, value in zip((*COLLECTED, *PLAIN), (*collected, *plain), strict=True):
            setattr(stmt, name, value)
