"""Comments by which people steer a conversion.

`# torch2ms: off` on a line of its own leaves everything up to `# torch2ms: on` as it is; behind a statement it speaks
of that statement. `# torch2ms: ignore[T2M603]` behind or above a statement acknowledges a finding: no report, no mark.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

OFF = re.compile(r"#\s*torch2ms:\s*off\b")
ON = re.compile(r"#\s*torch2ms:\s*on\b")
IGNORE = re.compile(r"#\s*torch2ms:\s*ignore(?:\[([^\]]*)\])?")
ASKED = re.compile(r"#\s*torch2ms:\s*(?:off\b|ignore)")  # marks of an earlier conversion ask for nothing
BETWEEN = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


@dataclass(frozen=True)
class Directives:
    """What the comments of one module ask for, by line."""

    off: frozenset[int] = frozenset()
    ignored: dict[int, frozenset[str]] = field(default_factory=dict)  # codes or their first digits; "" is all of them

    def ignores(self, code: str, line: int) -> bool:
        return any(code.startswith(prefix) for prefix in self.ignored.get(line, ()))

    def speaks_of(self, code: str, line: int) -> bool:
        """The finding is about code that is to be left alone, or it is acknowledged."""
        return line in self.off or self.ignores(code, line)


NONE = Directives()


def read(source: str, also_off: frozenset[int] = frozenset()) -> Directives:
    """The directives of a module; `also_off` are lines that are left alone for another reason."""
    if "torch2ms:" not in source or not ASKED.search(source):
        return Directives(also_off) if also_off else NONE
    off = set(also_off)
    ignored: dict[int, frozenset[str]] = {}
    opened: int | None = None
    waiting: frozenset[str] = frozenset()
    last = 1
    for start, stop, above, behind in _statements(source):
        for line, comment in above:
            if OFF.match(comment) and opened is None:
                opened = line
            elif ON.match(comment) and opened is not None:
                off |= set(range(opened, line + 1))
                opened = None
            waiting |= _codes(comment)
        codes = waiting.union(*(_codes(comment) for _, comment in behind))
        if codes and start:
            ignored[start] = codes
            waiting = frozenset()
        if any(OFF.match(comment) for _, comment in behind):
            off |= set(range(start, stop + 1))
        last = max(last, stop, *(line for line, _ in above), 0)
    if opened is not None:
        off |= set(range(opened, last + 1))
    return Directives(frozenset(off), ignored)


def _codes(comment: str) -> frozenset[str]:
    found = IGNORE.match(comment)
    if not found:
        return frozenset()
    return frozenset(code.strip() for code in found[1].split(",")) if found[1] else frozenset({""})


Comments = list[tuple[int, str]]


def _statements(source: str) -> Iterator[tuple[int, int, Comments, Comments]]:
    """First and last line of every logical line, the comments above it and those in and behind it."""
    above: Comments = []
    behind: Comments = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source, newline=None).readline):
        if token.type == tokenize.COMMENT:
            (behind if start else above).append((token.start[0], token.string))
        elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            yield start, token.start[0], above, behind
            above, behind, start = [], [], 0
        elif token.type not in BETWEEN and not start:
            start = token.start[0]
