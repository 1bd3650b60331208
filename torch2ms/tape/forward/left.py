"""What a step has no gradient of: layers that a call leaves out."""

from __future__ import annotations

from dataclasses import dataclass

DEPENDING = "parameters get no gradient depending on `{}`: MindSpore's optimizer would move them then"


@dataclass
class Skipped:
    """Layers that a call of a network leaves out, and under which condition; "" for those that nothing runs."""

    place: str
    test: str = ""
    changes: bool = False  # the condition is another one from step to step
    code: str = ""  # what names them, or what they belong to, where the gradient is taken
    ever: bool = False  # it leaves them out at every step, if it does
    once: bool = False  # the condition is an item that is picked once and for all: the others are never run
    reason: str = ""  # in so many words

    @property
    def why(self) -> str:
        if self.reason:
            return self.reason
        if self.test:
            return DEPENDING.format(self.test)
        return f"nothing runs `{self.place}`: torch leaves it alone, MindSpore's optimizer would let it decay"
