"""The parse of long files, a piece at a time.

LibCST's parser needs ten times the memory of the tree that it gives, and does not return it to the system. The
statements of a module's own body do not depend on each other: they are parsed some thousand lines at a time, which
gives the tree that the whole text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.source import parse_quietly

LENGTH = 100_000  # characters
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
INDENTED = re.compile(r"^[ \t]", re.MULTILINE)


def parse_in_pieces(text: str, length: int = LENGTH) -> cst.Module | None:
    """The tree of a text that is longer than a piece; None where it has to be parsed as a whole."""
    pieces = list(_pieces(text, length)) if len(text) > 2 * length else []
    if len(pieces) < 2:
        return None
    parsed = [cst.parse_module(piece) for piece in pieces]
    indents = {tree.default_indent for tree, piece in zip(parsed, pieces, strict=True) if INDENTED.search(piece)}
    newlines = {tree.default_newline for tree in parsed}
    if len(indents) > 1 or len(newlines) > 1 or any(tree.footer for tree in parsed[:-1]):
        return None
    body = list(parsed[0].body)
    for tree in parsed[1:]:
        first, *others = tree.body
        lines = [*tree.header, *first.leading_lines]
        body += first.with_changes(leading_lines=lines), *others
    indent, last = indents.pop() if indents else parsed[0].default_indent, parsed[-1]
    kept = {"footer": last.footer, "has_trailing_newline": last.has_trailing_newline, "default_indent": indent}
    return parsed[0].with_changes(body=body, **kept)


def _pieces(text: str, length: int) -> Iterator[str]:
    """The text, cut where a statement of the module's own body ends and no comment stands before the next."""
    try:
        body = parse_quietly(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = [found.start() for found in LINE.finditer(text)]
    begun = 0
    for before, after in zip(body, body[1:], strict=False):
        assert before.end_lineno is not None
        first = min([after.lineno, *(d.lineno for d in getattr(after, "decorator_list", ()))])
        if first <= before.end_lineno:
            continue
        cut, following = starts[before.end_lineno], starts[first - 1]
        goes_on = text[begun:cut].rstrip("\r\n").endswith("\\")  # `x = 1; \`
        if cut - begun >= length and not goes_on and not text[cut:following].strip():
            yield text[begun:cut]
            begun = cut
    yield text[begun:]
