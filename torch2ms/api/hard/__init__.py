"""Rules whose target depends on the kinds of the arguments in ways a condition does not say well."""

from __future__ import annotations

from collections.abc import Callable

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use
from torch2ms.api.hard import shape, tensor

FUNCTIONS: dict[str, Callable[[Use], Choice]] = {
    "roll": shape.roll,
    "to": tensor.to,
    "view": tensor.view,
    "type": tensor.type_,
}
