"""Record what the statements of the program give during one step, to find the first that differs.

A difference is reported at an optimizer step; between two of them lie hundreds of operations. This run notes every
tensor that a statement of the program binds, every layer's output and, when the step is played back, the gradient that
arrives at each of them. Both sides keep the user's names, so the k-th `hidden` here is the k-th `hidden` there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch2ms.verify.entry import start
from torch2ms.verify.sides.session import Session
from torch2ms.verify.trace import Array

LIMIT = 4000  # records of one step
ToArray = Callable[[Any], Array | None]
Hook = Callable[[Any, Callable[[Any], None]], None]


class Statements:
    """Watches the files beside the program while the wanted step runs."""

    def __init__(self, session: Session, to_array: ToArray, hook: Hook) -> None:
        self.session, self.trace = session, session.trace
        self.to_array, self.hook = to_array, hook
        self.step = int(session.options["locate"])
        self.root = str(start(Path(session.options["program"]))[0])
        self.known: dict[CodeType, bool] = {}
        self.seen: dict[int, dict[str, int]] = {}  # frame -> what its names were bound to at the last line
        self.alive: list[Any] = []  # what was recorded: an identity must not come back while the step runs
        self.count = 0

    def start(self) -> None:
        """Watch from now on."""
        sys.settrace(self._called)

    @property
    def wanted(self) -> bool:
        """Whether the program is in the step that is to be recorded."""
        return self.count < LIMIT and (not self.step or self.session.done == self.step - 1)

    def layer(self, identity: str, name: str, value: Any) -> None:
        """Record the output of a layer."""
        if self.wanted:
            self._record(f"<{identity}>", value, name, "", 0)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        known = self.known.get(code)
        if known is None:
            name = code.co_filename
            known = self.known[code] = name.startswith(self.root) and "site-packages" not in name
        return _Frame(self, frame).traced if known else None

    def _record(self, name: str, value: Any, text: str, file: str, line: int) -> None:
        array = self.to_array(value)
        if array is None or array.dtype.kind not in "fciub":
            return
        self.count += 1
        event = self.trace.add("statement", name=name, text=text, file=file, line=line, value=self.trace.sample(array))
        event["gradients"] = []
        self.alive.append(value)
        try:
            self.hook(value, lambda g: event["gradients"].append(self.trace.sample(self.to_array(g))))
        except Exception:
            event["gradients"] = None


class _Frame:
    """One call of a function of the program."""

    def __init__(self, statements: Statements, frame: FrameType) -> None:
        self.statements = statements
        self.line = frame.f_lineno
        self.bound = self._bindings(frame)

    def traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        statements = self.statements
        bound = self._bindings(frame)
        if statements.wanted and event in ("line", "return"):
            for name, place in bound.items():
                if self.bound.get(name) != place:
                    value = frame.f_locals[name]
                    statements._record(name, value, "", frame.f_code.co_filename, self.line)
            if event == "return" and argument is not None:
                statements._record("return", argument, frame.f_code.co_name, frame.f_code.co_filename, self.line)
        self.bound, self.line = bound, frame.f_lineno
        return self.traced

    def _bindings(self, frame: FrameType) -> dict[str, int]:
        return {
            name: id(value)
            for name, value in frame.f_locals.items()
            if name != "self" and not name.startswith("__") and hasattr(value, "dtype") and hasattr(value, "shape")
        }
