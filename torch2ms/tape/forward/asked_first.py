"""Conditions that can be asked before the forward that stands in front of them."""

from __future__ import annotations

from collections.abc import Iterable

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.values import overlaps
from torch2ms.tape.forward.region import Region


def invariant(guard: Stmt, region: Region) -> bool:
    """The condition can be asked before the forward: nothing of the forward changes it, and it has no effects."""
    return unchanged(guard.uses, guard, region) and not guard.calls


def unchanged(uses: Iterable[str], guard: Stmt, region: Region) -> bool:
    """What a condition reads is the same before the forward."""
    block = region.block.stmts
    start = block.index(region.stmts[-1]) + 1 if region.stmts else 0
    between = block[start : block.index(guard)] if region.stmts else []
    writes = {d for s in [*region.stmts, *between] for d in s.all_defs | s.all_muts}
    return not any(overlaps(read, write) for read in uses for write in writes)
