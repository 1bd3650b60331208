"""The changes between a source and its translation, in groups that a person can judge one by one."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch2ms.findings import Finding
from torch2ms.run import Outcome

CONTEXT = 3  # unchanged lines shown around a change
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # str.splitlines knows more line ends than Python does
Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Hunk:
    """Changes that are shown and decided together."""

    opcodes: tuple[Opcode, ...]  # with the equal lines between them
    findings: tuple[Finding, ...] = ()

    @property
    def changes(self) -> list[Opcode]:
        return [opcode for opcode in self.opcodes if opcode[0] != "equal"]

    def parts(self) -> list[Hunk]:
        """The same changes one by one."""
        return [Hunk((change,), tuple(f for f in self.findings if covers(change, f.line))) for change in self.changes]


def covers(change: Opcode, line: int) -> bool:
    """A finding on this line speaks of the change."""
    _, start, stop, _, _ = change
    return start < line <= stop or (start == stop and line in (start, start + 1))


def split_lines(text: str) -> list[str]:
    """Lines with their ends, counted as Python counts them."""
    return LINE.findall(text)


def hunks(outcome: Outcome) -> list[Hunk]:
    """The changes of one file: those that stand close together in the same function."""
    before, after = split_lines(outcome.result.source), split_lines(outcome.result.text)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changes = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    homes = [(0, 1, len(before) + 1), *_definitions(outcome)]
    groups: list[list[Opcode]] = []
    where = 0
    for change in changes:
        line = change[1] + 1
        home = max((h for h in homes if h[1] <= line < h[2]), default=homes[0])[1]
        if groups and home == where and change[1] - groups[-1][-1][2] <= 2 * CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
        where = home
    found: list[Hunk] = []
    shown = 0
    for number, group in enumerate(groups):
        following = groups[number + 1][0][1] - CONTEXT if number + 1 < len(groups) else len(before)
        opcodes = tuple(_around(group, shown, following))
        shown = opcodes[-1][2]
        found.append(Hunk(opcodes, _told(outcome, group)))
    return found


def _definitions(outcome: Outcome) -> list[tuple[int, int, int]]:
    """Depth, first line and the line after the last of every function and class."""
    if outcome.item.kind != "python":
        return []
    found = []
    below: list[tuple[ast.AST, int]] = [(ast.parse(outcome.result.source), 0)]
    while below:
        node, depth = below.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            depth += 1
            found.append((depth, node.lineno, (node.end_lineno or node.lineno) + 1))
        below += [(child, depth) for child in ast.iter_child_nodes(node)]
    return found


def _around(changes: Sequence[Opcode], first: int, end: int) -> Iterator[Opcode]:
    """The changes with the equal lines between them, and some around them that no other hunk shows."""
    _, start, _, other, _ = changes[0]
    at = max(first, start - CONTEXT)
    at_other = other - start + at
    for change in changes:
        _, start, stop, other, other_stop = change
        if at < start:
            yield "equal", at, start, at_other, other
        yield change
        at, at_other = stop, other_stop
    last = min(end, at + CONTEXT)
    if at < last:
        yield "equal", at, last, at_other, at_other + last - at


def _told(outcome: Outcome, changes: Sequence[Opcode]) -> tuple[Finding, ...]:
    told = (f for f in outcome.result.findings if any(covers(change, f.line) for change in changes))
    return tuple(dict.fromkeys(told))


def applied(source: str, text: str, taken: Sequence[Hunk]) -> str:
    """`source` with the hunks of `taken` as they stand in `text`."""
    before, after = split_lines(source), split_lines(text)
    for _, start, stop, other, other_stop in sorted((c for h in taken for c in h.changes), reverse=True):
        before[start:stop] = after[other:other_stop]
    return "".join(before)
