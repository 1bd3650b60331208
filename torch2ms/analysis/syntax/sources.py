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
_END = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)  # of a set of letters
UNSEEN = (_parser.AT, _parser.ASSERT, _parser.ASSERT_NOT)  # conditions, which take no letters


def says(source: str, pattern: re.Pattern[str]) -> bool:
    """The pattern matches somewhere in the source."""
    for part, heads, words in _ways(pattern):  # loops: many patterns are looked for in every source
        for head in heads:
            at = source.find(head)
            while at >= 0:
                if part.match(source, at):
                    return True
                at = source.find(head, at + 1)
        if not heads:
            for word in words or ("",):
                if word in source:
                    if part.search(source) is not None:
                        return True
                    break
    return False


def follows(source: str, name: str, pattern: re.Pattern[str]) -> bool:
    """Somewhere the name goes on so, where it is the end of no other."""
    at = source.find(name)
    while at >= 0:
        before = source[at - 1 : at]
        if not (before.isalnum() or before == "_") and pattern.match(source, at + len(name)):
            return True
        at = source.find(name, at + len(name))
    return False


@lru_cache(maxsize=1000)
def _ways(pattern: re.Pattern[str]) -> tuple[tuple[re.Pattern[str], Words, Words], ...]:
    """The alternatives of a pattern, each with texts of which one begins what it matches, and one stands in it."""
    parts = [re.compile(part, pattern.flags) for part in _alternatives(pattern.pattern)]
    return tuple((part, _beginning(part), needed(part)) for part in parts)


def _alternatives(text: str) -> list[str]:
    """What bars separate outside of all brackets."""
    found, depth, at, start = [], 0, 0, 0
    while at < len(text):
        letter = text[at]
        if letter == "[":
            at = _END.match(text, at).end()  # type: ignore[union-attr]
            continue
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and not depth:
            found.append(text[start:at])
            start = at + 1
        at += 2 if letter == "\\" else 1
    return [*found, text[start:]]


def needed(pattern: re.Pattern[str]) -> Words:
    """Texts of which one stands in whatever the pattern matches; none where that cannot be said."""
    if pattern.flags & re.IGNORECASE:
        return ()
    return _of_sequence(_parser.parse(pattern.pattern, pattern.flags))


def _beginning(pattern: re.Pattern[str]) -> Words:
    """Texts of which one begins whatever the pattern matches; none where that cannot be said."""
    if pattern.flags & re.IGNORECASE:
        return ()
    return tuple(dict.fromkeys(_heads(list(_parser.parse(pattern.pattern, pattern.flags)))))


def _heads(parts: list[tuple[Any, Any]]) -> Words:
    letters, open_end = "", None
    for part in parts:
        if part[0] is _parser.LITERAL:
            letters += chr(part[1])
        elif part[0] is not _parser.AT and (letters or part[0] not in UNSEEN):
            open_end = part
            break
    if not letters and open_end is not None:
        kind, value = open_end
        if kind is _parser.SUBPATTERN and not value[1] & re.IGNORECASE:
            return _heads(list(value[3]))
        if kind is _parser.BRANCH:
            branches = [_heads(list(branch)) for branch in value[1]]
            return tuple(head for heads in branches for head in heads) if all(branches) else ()
    return (letters,) if len(letters) > SHORT else ()


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
