"""Which files of a project the analysis needs besides those that mention torch: what they import, and who imports them.

A factory, a registry, a metric or a subclass of a project's own base model may never say the word; so may the program
that calls them. The import graph finds them, without reading what has nothing to do with torch.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from torch2ms.parallel import imported
from torch2ms.plain import of_another_framework


def related(data: Mapping[str, bytes], wanted: Collection[str]) -> set[str]:
    """`wanted`, with every file that imports one of them, and every file that these import."""
    imports = _graph(data)
    importers = defaultdict(set)
    for key, others in imports.items():
        for other in others:
            importers[other].add(key)
    return _reached(_reached(wanted, importers), imports)


def needed(data: Mapping[str, bytes], wanted: Collection[str]) -> set[str]:
    """`wanted`, with every file that these import."""
    return _reached(wanted, _graph(data))


def _graph(data: Mapping[str, bytes]) -> dict[str, set[str]]:
    """For each file the files that its imports may mean: a name may stand for a module or for a package around it."""
    named = defaultdict(set)
    data = {key: text for key, text in data.items() if not of_another_framework(text)}
    for key in data:
        path = PurePosixPath(key)
        for name in {path.stem, *path.parts[:-1]} - {"__init__"}:
            named[name].add(key)
    graph = {}
    for key, text in data.items():
        try:
            names = imported(_as_opened(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # its trouble is told where it is converted
            names = frozenset()
        graph[key] = set().union(*(named[name] for name in names & named.keys()))
    return graph


def _as_opened(data: bytes) -> str | bytes:
    """The text as it is converted later, so that what is known of it is found again; bytes where that is not plain."""
    try:
        return data if data.startswith(BOM_UTF8) else data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _reached(start: Collection[str], graph: Mapping[str, Collection[str]]) -> set[str]:
    found, stack = set(start), list(start)
    while stack:
        new = set(graph.get(stack.pop(), ())) - found
        found |= new
        stack += new
    return found
