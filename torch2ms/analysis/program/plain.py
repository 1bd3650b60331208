"""A module as it was written plainly before anything was planned."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.findings import Finding


@dataclass(eq=False)
class Plain:
    """A module without wrappers around training; `reasons` say of nodes why a wrapper is still around them."""

    tree: cst.Module
    lines: list[tuple[int, int]]  # of its statements, in the source
    findings: list[Finding]
    reasons: dict[int, str]
    brought: str = ""  # what was written elsewhere: the source says it from now on
