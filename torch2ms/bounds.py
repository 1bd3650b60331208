"""Bounds for the work on one file: time, depth of recursion, and what LibCST's parser does not come back from."""

from __future__ import annotations

import ast
import os
import re
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from torch2ms.source import SourceError, check_syntax, suites

SECONDS, LINES_PER_SECOND = 60, 50  # far more than the slowest file on the slowest machine was seen to take
TOGETHER = 300  # seconds for a project before its first line: up to three conversions of one that is small
BYTES_PER_CHARACTER = 200  # of the texts of a project; 130 to 160 were measured
GIVEN = re.compile(r"\d+(\.\d+)?")
DEPTH = 5000  # frames: an `elif` is a level of its own, and costs seven
EXPRESSION_DEPTH = 1000  # LibCST's parser needs seven times longer for every doubling, and no time limit reaches it
PATTERN_DEPTH = 8  # LibCST's parser needs ten times longer for every two brackets more
BRACKETS = re.compile(r"[(\[{]|[)\]}]")
NEWLINE = re.compile(r"\r\n|\r|\n")
TOO_DEEP = "it is nested too deeply"


TURN = threading.RLock()  # of the threads that convert: trees of Python's own parser are not safe before Python 3.13


class TookTooLong(BaseException):
    """Raised inside a conversion whose time is over; no handler of `Exception` keeps it."""


def seconds_for(text: str) -> float:
    """How long the conversion of a text may take; $TORCH2MS_TIMEOUT sets it for every file."""
    given = os.environ.get("TORCH2MS_TIMEOUT", "")
    if GIVEN.fullmatch(given):
        return float(given)
    return SECONDS + text.count("\n") / LINES_PER_SECOND


def seconds_for_all(texts: Collection[str]) -> float:
    """How long texts may take that are converted together: what they have in common is done once."""
    if GIVEN.fullmatch(os.environ.get("TORCH2MS_TIMEOUT", "")):
        return sum(map(seconds_for, texts))
    return TOGETHER + sum(text.count("\n") for text in texts) / LINES_PER_SECOND


def too_large(texts: Collection[str]) -> bool:
    """The memory that is left does not hold texts that are converted together; $TORCH2MS_MEMORY sets it, in MiB."""
    given = os.environ.get("TORCH2MS_MEMORY", "")
    left = float(given) * 2**20 if GIVEN.fullmatch(given) else _memory_left()
    return left is not None and BYTES_PER_CHARACTER * sum(map(len, texts)) > left


def _memory_left() -> float | None:
    """Bytes that can be had without swapping; None where nobody says it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in this thread when the time is over; signals would reach the main thread alone.

    Threads take turns, and the time of each begins with its own.
    """
    import ctypes

    lock, thread = threading.Lock(), threading.get_ident()
    done: list[bool] = []

    def stop() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    with TURN:
        timer.start()
        try:
            yield
        finally:
            with lock:
                done.append(True)
            timer.cancel()


_lock = threading.Lock()
_inside: list[int] = []  # the limits that were found, one for each conversion that runs


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for the recursion that nested code needs; the limit is put back when the last conversion ends."""
    with _lock:
        _inside.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(DEPTH, sys.getrecursionlimit()))
    try:
        yield
    finally:
        with _lock:
            found = _inside.pop()
            if not _inside:
                sys.setrecursionlimit(found)


def unparsable(text: str) -> str:
    """Why LibCST should not be given a text: where Python finds too deep what its parser would end the process for.

    "" for all other texts.
    """
    try:
        tree = check_syntax(text)
    except SourceError as error:
        return str(error)
    lines = NEWLINE.split(text)
    if (line := _too_deep(tree, lines)) is not None:
        return f"line {line}: {TOO_DEEP}"
    if not re.search(r"^[ \t\f]*match\b", text, re.MULTILINE):
        return ""
    for node in ast.walk(tree):
        if isinstance(
            node, ast.match_case
        ):  # parentheses around a pattern are no part of it: whole lines are looked at
            first, last = node.pattern.lineno, node.pattern.end_lineno
            if _brackets("\n".join(lines[first - 1 : last])) > PATTERN_DEPTH:
                return f"line {first}: {TOO_DEEP}"
    return ""


def _too_deep(tree: ast.Module, lines: list[str]) -> int | None:
    """The line of a statement like `a + b + c + ...` that is nested too deeply; only long ones are gone through."""
    ends = [0, *accumulate(map(len, lines))]
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1
            if ends[node.end_lineno or node.lineno] - ends[first] <= EXPRESSION_DEPTH:
                continue
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            last = getattr(body[0], "lineno", node.end_lineno) if body else node.end_lineno
            if ends[last or node.lineno] - ends[first] > EXPRESSION_DEPTH and _levels(node) > EXPRESSION_DEPTH:
                return node.lineno
        for name in suites(node.__class__):
            waiting += getattr(node, name)
    return None


def _levels(node: ast.AST) -> int:
    """How deep the expressions below a node are nested; `a and b and c` is one in another, as LibCST has it."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        inner, level = waiting.pop()
        deepest = max(deepest, level)
        below = level + (len(inner.values) - 1 if isinstance(inner, ast.BoolOp) else 1)
        waiting += [(child, below) for child in ast.iter_child_nodes(inner)]
    return deepest


def _brackets(text: str) -> int:
    """How deep the brackets of a piece of code are nested."""
    depth = deepest = 0
    for found in BRACKETS.finditer(text):
        depth += 1 if found[0] in "([{" else -1
        deepest = max(deepest, depth)
    return deepest
