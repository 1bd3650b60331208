"""Asking a whole source for a pattern: most have not even the words of it, which Python finds far faster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

Words = tuple[str, ...]
SHORT = 2  # letters that stand in every source: not worth looking for


def says(source: str, pattern: re.Pattern[str]) -> bool:
    """The pattern matches somewhere in the source."""
    words = needed(pattern)
    if words and not any(word in source for word in words):
        return False
    return pattern.search(source) is not None


@lru_cache(maxsize=1000)
def needed(pattern: re.Pattern[str]) -> Words:
    """Texts of which one stands in whatever the pattern matches; none where that cannot be said."""
    if pattern.flags & re.IGNORECASE:
        return ()
    return _of_sequence(_parser.parse(pattern.pattern, pattern.flags))


def _of_sequence(parts: Iterable[tuple[Any, Any]]) -> Words:
    """Of parts that follow each other one is enough: the one whose shortest text is longest."""
    found: list[Words] = []
    letters = ""
    for kind, value in (*parts, (None, None)):
        if kind is _parser.LITERAL:
            letters += chr(value)
            continue
        found.append((letters,))
        letters = ""
        if kind is _parser.SUBPATTERN:
            _, added, _, inner = value
            found.append(() if added & re.IGNORECASE else _of_sequence(inner))
        elif kind is _parser.BRANCH:
            branches = [_of_sequence(branch) for branch in value[1]]
            found.append(tuple(word for words in branches for word in words) if all(branches) else ())
        elif kind in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) and value[0] > 0:
            found.append(_of_sequence(value[2]))
    best = max(found, key=lambda words: min(map(len, words), default=0))
    return best if min(map(len, best), default=0) > SHORT else ()
