"""The first statement, layer or derivative that differs, from two runs that recorded them (statements.py)."""

from __future__ import annotations

import linecache
from collections import defaultdict
from typing import Any

import numpy as np

from torch2ms.verify.comparison.numbers import Tolerance, judge
from torch2ms.verify.sides.layers import fit
from torch2ms.verify.trace import Trace

Entry = dict[str, Any]
Pair = tuple[Entry, Entry]
ELSE = "look at what happens around them (accumulating, clipping, updates of buffers, how often a layer runs)"


def locate(torch: Trace, mindspore: Trace, tolerance: Tolerance) -> list[str]:
    """What to tell: the first difference going forward, else the first going backward; empty if there is none."""
    pairs = _pairs(_fresh(torch), _fresh(mindspore), torch, mindspore)
    for number, (a, b) in enumerate(pairs):
        if not _equal(torch, a["value"], mindspore, b["value"], tolerance):
            before = f" ({number} values before it agree)" if number else ""
            return [f"first operation that differs{before}: {_what(a)}", *_places(a, b)]
    backward = [(a, b) for a, b in pairs if a["gradients"] and b["gradients"]]
    for number, (a, b) in enumerate(reversed(backward)):
        same = len(a["gradients"]) == len(b["gradients"]) and all(
            _equal(torch, x, mindspore, y, tolerance) for x, y in zip(a["gradients"], b["gradients"], strict=True)
        )
        if not same:
            later = f" and the {number} gradients behind it" if number else ""
            text = f"all {len(pairs)} values of the forward agree{later}; the first derivative that differs is that by"
            return [f"{text} {_what(a)}", *_places(a, b)]
    return [f"all {len(pairs)} values of the forward and {len(backward)} derivatives agree: {ELSE}"] if pairs else []


def _pairs(left: list[Entry], right: list[Entry], torch: Trace, mindspore: Trace) -> list[Pair]:
    """The k-th value of a name on one side and the k-th of it on the other, where both have equally many."""
    others: dict[str, list[Entry]] = defaultdict(list)
    for entry in right:
        others[_key(entry)].append(entry)
    mine: dict[str, list[Entry]] = defaultdict(list)
    for entry in left:
        mine[_key(entry)].append(entry)
    pairs = []
    for entry in left:
        key = _key(entry)
        if len(mine[key]) == len(others[key]):
            other = others[key][next(i for i, e in enumerate(mine[key]) if e is entry)]
            if fit(mindspore.arrays[other["value"]], torch.arrays[entry["value"]].shape) is not None:
                pairs.append((entry, other))
    return pairs


def _fresh(trace: Trace) -> list[Entry]:
    """The records without those that bind a name to what it has already: a value that a function hands back."""
    last: dict[str, Entry] = {}
    fresh = []
    for entry in trace.of("statement"):
        before = last.get(_key(entry))
        if before is None or not np.array_equal(trace.arrays[before["value"]], trace.arrays[entry["value"]]):
            fresh.append(entry)
            last[_key(entry)] = entry
    return fresh


def _key(entry: Entry) -> str:
    function = {"forward": "construct"}.get(entry["text"], entry["text"])
    return f"return of {function}" if entry["name"] == "return" else entry["name"]


def _equal(torch: Trace, left: str, mindspore: Trace, right: str, tolerance: Tolerance) -> bool:
    a = torch.arrays[left]
    b = fit(mindspore.arrays[right], a.shape)
    return b is not None and judge(a, b, tolerance, scale=min(1.0, float(abs(a).max())) if a.size else 1.0).equal


def _what(entry: Entry) -> str:
    if entry["name"].startswith("<"):
        return f"the output of {entry['text']}"
    return f"what {entry['text']}() returns" if entry["name"] == "return" else f"`{entry['name']}`"


def _places(a: Entry, b: Entry) -> list[str]:
    return [f"  {side}: {_place(entry)}" for side, entry in (("torch", a), ("mindspore", b)) if entry["file"]]


def _place(entry: Entry) -> str:
    source = linecache.getline(entry["file"], entry["line"]).strip()
    return f"{entry['file'].rpartition('/')[2]}:{entry['line']}: {source}"
