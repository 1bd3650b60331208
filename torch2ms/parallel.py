"""Splitting a project into parts that do not import each other, and converting the parts side by side.

Every part is an independent piece of work for a `concurrent.futures` executor: the local process pool, or one that a
caller hands in, such as Dask's `Client.get_executor()`.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from torch2ms import cache
from torch2ms.config import Config
from torch2ms.findings import Result
from torch2ms.source import parse_quietly, suites

if TYPE_CHECKING:
    from concurrent.futures import Executor

Sources = dict[str, str]
Convert = Callable[[Mapping[str, str], Config], dict[str, Result]]
FOREIGN = frozenset({"torch", "torchvision", "numpy", "os", "sys", "typing", "collections"})
WORTH_A_PROCESS = 100_000  # characters; a worker spends half a second before its first line


def convert_parts(
    convert: Convert,
    sources: Mapping[str, str],
    config: Config,
    *,
    jobs: int = 1,
    cached: bool = False,
    executor: Executor | None = None,
    wanted: Collection[str] | None = None,
    done: Callable[[int], None] = lambda files: None,
) -> dict[str, Result]:
    """`convert` on every part of the project; the same results, whatever the number of workers.

    Parts without a file of `wanted` are left out. `done` hears how many files were finished.
    """
    if not sources:
        return {}
    results: dict[str, Result] = {}
    missing: list[tuple[str, Sources]] = []
    for part in parts(sources):
        if wanted is not None and part.keys().isdisjoint(wanted):
            continue
        name = cache.name_of(part, config) if cached else ""
        stored = cache.find(name, part) if cached else None
        if stored is None:
            missing.append((name, part))
        else:
            results.update(stored)
            done(len(stored))
    for (name, _), fresh in zip(
        missing, _convert_all(convert, [p for _, p in missing], config, jobs, executor), strict=True
    ):
        if cached:
            cache.keep(name, fresh)
        results.update(fresh)
        done(len(fresh))
    return {key: results[key] for key in sources if key in results}


def _convert_all(
    convert: Convert, work: list[Sources], config: Config, jobs: int, executor: Executor | None
) -> Iterator[dict[str, Result]]:
    jobs = min(len(work), processes(jobs, sum(len(text) for part in work for text in part.values())))
    done = 0
    if executor is not None or jobs > 1:
        from concurrent.futures import ProcessPoolExecutor

        pool = executor or ProcessPoolExecutor(jobs)
        try:
            for result in pool.map(convert, work, [config] * len(work)):
                done += 1
                yield result
        except Exception:  # `convert` raises nothing: a worker was killed, for its memory most likely: go on alone
            pass
        finally:
            if executor is None:
                pool.shutdown(cancel_futures=True)
    for part in work[done:]:
        yield convert(part, config)


def processes(jobs: int, size: int) -> int:
    """How many processes are worth their start for so many characters; `jobs` that somebody asked for count first."""
    return jobs or min(os.cpu_count() or 1, 1 + size // WORTH_A_PROCESS)


@contextmanager
def made_ready(convert: Convert, config: Config, jobs: int) -> Iterator[Executor | None]:
    """Processes that import what converts, while this one still reads the files; None where one is enough."""
    if jobs < 2:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(jobs)
    try:
        for _ in range(jobs):
            pool.submit(convert, {"nothing.py": ""}, config)  # reads the rules
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def parts(sources: Mapping[str, str]) -> list[Sources]:
    """The files in groups, none of which imports from another, the largest first.

    An import may reach a file under several names (a source root, a package, a relative import), so a file is connected
    with every other whose name, or whose package's name, its imports mention: rather too few parts than a wrong one.
    """
    named = defaultdict(list)
    for key in sources:
        path = PurePosixPath(key)
        for name in {path.stem, *path.parts[:-1]} - {"__init__"}:
            named[name].append(key)
    parent = {key: key for key in sources}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = key = parent[parent[key]]
        return key

    for key, text in sources.items():
        for name in imported(text) & named.keys():
            for other in named[name]:
                parent[root(other)] = root(key)
    groups: dict[str, Sources] = defaultdict(dict)
    for key, text in sources.items():
        groups[root(key)][key] = text
    return sorted(groups.values(), key=lambda group: -sum(map(len, group.values())))


@lru_cache(maxsize=10_000)
def imported(text: str | bytes) -> frozenset[str]:
    """Every part of every name that a module imports, except from packages that no project shadows.

    Asked for what belongs to a file, for its syntax and for the parts of a project: kept, as parsing is most of it.
    """
    found: set[str] = set()
    stack: list[ast.AST] = [parse_quietly(text)]
    while stack:
        node = stack.pop()
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        else:
            for suite in suites(node.__class__):  # no import stands in an expression
                stack += getattr(node, suite)
        for name in names:
            first, *_ = split = name.split(".")
            found.update(split if first not in FOREIGN else ())
    return frozenset(found)
