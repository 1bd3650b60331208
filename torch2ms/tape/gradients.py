"""Reads and writes of gradients between backward and step: clipping, loops over `p.grad`, leaves."""

from __future__ import annotations

from torch2ms.analysis.project import ModuleInfo
from torch2ms.tape.events import Event
from torch2ms.tape.forms import Writer
from torch2ms.tape.ledger import Owner
from torch2ms.tape.plan import Plan


def plan(events: list[Event], owners: list[Owner], module: ModuleInfo, plan: Plan, writer: Writer) -> None:
    """Rewrite what uses the gradients of the owners."""
