"""Rules whose target depends on the kinds of the arguments in ways a condition does not say well.

A table names such a function as `code = "module.function"`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use


def function(name: str) -> Callable[[Use], Choice]:
    """The function that a table's `code` names."""
    module, _, attribute = name.partition(".")
    found: Callable[[Use], Choice] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found
