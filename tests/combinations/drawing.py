"""What is drawn for a program, by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent


@dataclass(frozen=True)
class Program:
    """What was drawn, and the program that comes of it: one file, or those of a project with a `main.py`."""

    seed: int
    drawn: dict[str, str] = field(hash=False)
    text: str
    files: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def sources(self) -> dict[str, str]:
        """The text of every file."""
        return self.files or {"main.py": self.text}

    @property
    def name(self) -> str:
        return f"{self.seed}: " + ", ".join(f"{kind} {choice}" for kind, choice in self.drawn.items())


class Drawn(dict[str, str]):
    """What was drawn of each kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, kind: str, choices: Sequence[str], plain: float = 0.0) -> str:
        """One of the choices, the first with a probability of at least `plain`."""
        self[kind] = choices[0] if self.random.random() < plain else self.random.choice(choices)
        return self[kind]


def block(*parts: str) -> str:
    """Statements one after the other."""
    return "\n".join(part for part in parts if part)


def under(head: str, *parts: str) -> str:
    """Statements under a head, `pass` where there are none."""
    return f"{head}\n{indent(block(*parts) or 'pass', '    ')}"
