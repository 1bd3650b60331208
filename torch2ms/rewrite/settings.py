"""Statements that set PyTorch itself up: they may go."""

from __future__ import annotations

from torch2ms.rewrite.writer import Writer


def steers(name: str, writer: Writer) -> bool:
    """The statement sets PyTorch itself up, and may go."""
    rule = writer.rules.find(name)
    if rule is None or not rule.setting:
        return False
    writer.tell("T2M901", name, "a setting of torch without counterpart: dropped")
    return True
