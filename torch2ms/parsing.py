"""LibCST's parser, mended where it does not give a file back as it stands."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import libcst as cst

from torch2ms.analysis.syntax.text import code
from torch2ms.pieces import parse_in_pieces

NEAR_END = 10_000  # characters; comments behind the last statement are not longer
NEWLINE = re.compile(r"\r\n|\r|\n")
LINE = re.compile(r"([ \t\f]*)(#[^\r\n]*)?(\r\n|\r|\n|\Z)")


def parse(text: str) -> cst.Module:
    """The tree of a file.

    LibCST loses indented comments that stand behind the last statement: they are put back.
    Raises ParserSyntaxError as LibCST does.
    """
    with unasked():
        tree = parse_in_pieces(text) or cst.parse_module(text)
    if not _ends_in_comments(text) or code(tree, tree) == text:
        return tree
    body = code(tree.with_changes(footer=[], has_trailing_newline=True), tree)
    if not text.startswith(body):
        return tree
    return tree.with_changes(footer=_lines(text[len(body) :], tree.default_newline))


_lock = threading.Lock()
_parsing: list[None] = []  # one for each parse that runs, in whichever thread
_asking = cst.CSTNode.__post_init__


def _asked(node: cst.CSTNode) -> None:
    if not _parsing:
        _asking(node)


# once for all: each time a method is set, Python forgets what it knew of every class of nodes
cst.CSTNode.__post_init__ = _asked  # type: ignore[method-assign, assignment]


@contextmanager
def unasked() -> Iterator[None]:
    """LibCST asks every node whether it is valid, those of its own parser too: a quarter of the time of a parse."""
    with _lock:
        _parsing.append(None)
    try:
        yield
    finally:
        with _lock:
            _parsing.pop()


def _ends_in_comments(text: str) -> bool:
    written = text[-NEAR_END:].rstrip()
    if not written[max(written.rfind("\n"), written.rfind("\r")) + 1 :].lstrip().startswith("#"):
        return False
    for line in reversed(NEWLINE.split(text[-NEAR_END:])):
        if line.strip() and not line.strip().startswith("#"):
            return False
        if line[:1] in (" ", "\t", "\f") and line.strip():
            return True
    return False


def _lines(text: str, newline: str) -> list[cst.EmptyLine]:
    return [
        cst.EmptyLine(
            indent=False,
            whitespace=cst.SimpleWhitespace(found[1]),
            comment=cst.Comment(found[2]) if found[2] else None,
            newline=cst.Newline(None if found[3] in (newline, "") else found[3]),
        )
        for found in LINE.finditer(text)
        if found[0]
    ]


@lru_cache(maxsize=2000)
def constant(text: str) -> cst.BaseExpression:
    """The expression of a text that comes from the rules, not from the program: it is parsed once."""
    return cst.parse_expression(text)


def config_of(tree: cst.Module) -> cst.PartialParserConfig:
    """How new code of a file is parsed; LibCST takes no indent with a form feed for that, which Python allows."""
    indent = tree.default_indent if tree.default_indent.strip(" \t") == "" else "    "
    return tree.with_changes(default_indent=indent).config_for_parsing
