"""`python -m benchmarks speed [--short] [--json FILE] [PROJECT]`: ratios and counts, medians of several runs.

`--files FOLDER... [--draw 200] [--seed 1]` measures conversion alone, of files that are drawn at random from unpacked
packages, each converted by itself: its cost over LibCST's, as the median of the files and for all of them together.

Seconds depend on the machine; every time is therefore told as a multiple of another that was measured beside it.
Counts, which no machine changes, are those of one of sixteen fixtures; where one is over its limit, the command fails.
`--short` counts alone: CI runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.corpus import fixtures, package, plain, program, project, some

ROOT = Path(__file__).resolve().parents[1]
# as it is installed: with bytecode, which the first run leaves behind
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(ROOT)}
LIMITS = {
    "analyses per file": 2.0,
    "calls per line": 870.0,
    "times that nodes are gone through": 5.0,
    "growth of calls, 16 times longer": 18.0,
    "growth of source searched, 16 times longer": 18.0,
    "growth of calls, 16 times more files": 18.0,
    "growth of source searched, 16 times more files": 18.0,
}


def seconds(work: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """The median time of a few runs."""
    times = []
    for _ in range(repeat):
        start = clock()
        work()
        times.append(clock() - start)
    return statistics.median(times)


def command(*arguments: str, **extra: str) -> None:
    """One run of the program; what it says and how it ends is another matter."""
    subprocess.run([sys.executable, *arguments], capture_output=True, env={**ENVIRONMENT, **extra}, check=False)


def start_up(repeat: int) -> dict[str, float]:
    """Files without torch, against reading them and searching their bytes; the help, against a bare Python."""
    with tempfile.TemporaryDirectory() as name:
        plain(Path(name), 1000)
        search = "import pathlib, sys\nfor p in pathlib.Path(sys.argv[1]).rglob('*.py'): b'torch' in p.read_bytes()"
        command("-m", "torch2ms", "convert", "--check", "--no-cache", name)
        base = seconds(lambda: command("-c", search, name), repeat)
        check = seconds(lambda: command("-m", "torch2ms", "convert", "--check", "--no-cache", name), repeat)
    command("-m", "torch2ms", "--help")
    bare = seconds(lambda: command("-c", "pass"), repeat)
    shown = seconds(lambda: command("-m", "torch2ms", "--help"), repeat)
    return {"check of 1,000 plain files / reading them": check / base, "help, seconds over a bare Python": shown - bare}


def conversion(sources: dict[str, dict[str, str]], repeat: int) -> dict[str, float]:
    """Programs in this process, against LibCST's parse and write of the same text, in processor time."""
    import libcst as cst

    from torch2ms.config import Config
    from torch2ms.pipeline import convert_project

    def floor() -> None:
        for files in sources.values():
            for text in files.values():
                _ = cst.parse_module(text).code

    def convert() -> None:
        for files in sources.values():
            convert_project(files, Config())

    convert_project(next(iter(sources.values())), Config())  # the rules are read once
    clock = time.process_time
    ratios = [seconds(convert, 1, clock) / seconds(floor, 1, clock) for _ in range(repeat)]
    return {"conversion / LibCST's parse and write": statistics.median(ratios)}


def drawn(folders: list[Path], number: int, seed: int) -> list[str]:
    """Texts of files that mention torch, drawn at random from folders; all of them where there are fewer."""
    found = [p for folder in folders for p in sorted(folder.rglob("*.py")) if b"torch" in p.read_bytes()]
    chosen = random.Random(seed).sample(found, min(number, len(found)))
    return [text for path in chosen if (text := path.read_text(encoding="utf-8")).strip()]


def single(texts: list[str], repeat: int) -> dict[str, float]:
    """Files, each a project of its own, against LibCST's parse and write of it, which is measured right beside it."""
    import libcst as cst

    from torch2ms.config import Config
    from torch2ms.pipeline import convert_project

    clock = time.process_time
    costs: list[tuple[float, float]] = []
    convert_project({"a.py": program(1)}, Config())  # the rules are read once
    for text in texts:
        runs = [
            (
                seconds(lambda text=text: cst.parse_module(text).code, 1, clock),  # type: ignore[misc]
                seconds(lambda text=text: convert_project({"a.py": text}, Config()), 1, clock),  # type: ignore[misc]
            )
            for _ in range(repeat)
        ]
        costs.append((statistics.median(f for f, _ in runs), statistics.median(c for _, c in runs)))
    floors, conversions = sum(f for f, _ in costs), sum(c for _, c in costs)
    return {
        "files": len(costs),
        "seconds of LibCST": floors,
        "conversion / LibCST, median of the files": statistics.median(c / f for f, c in costs),
        "conversion / LibCST, all together": conversions / floors,
    }


def growth(repeat: int) -> dict[str, float]:
    """One file, and one sixteen times as long."""
    from torch2ms.config import Config
    from torch2ms.pipeline import convert_project

    short, long = program(20), program(320)
    convert_project({"a.py": short}, Config())
    ratios = [
        seconds(lambda: convert_project({"a.py": long}, Config()), 1)
        / seconds(lambda: convert_project({"a.py": short}, Config()), 3)
        for _ in range(repeat)
    ]
    return {"16 times longer file": statistics.median(ratios)}


def memory() -> dict[str, float]:
    """The most that a process holds which converts one file of 20,000 lines."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "long.py").write_text(program(425), encoding="utf-8")
        command("-m", "torch2ms", "convert", "--check", "--no-cache", "-j", "1", name)
    return {"megabytes for 20,000 lines": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


def processes(repeat: int) -> dict[str, float]:
    """Two processes against one, and the second check of an unchanged tree against the first."""
    base = ("-m", "torch2ms", "convert", "--check")
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as kept:
        project(Path(name), 240)
        ratios = [
            seconds(lambda: command(*base, "--no-cache", "-j", "1", name), 1)
            / seconds(lambda: command(*base, "--no-cache", "-j", "2", name), 1)
            for _ in range(repeat)
        ]
        first = seconds(lambda: command(*base, "-j", "1", name, TORCH2MS_CACHE=kept), 1)
        again = seconds(lambda: command(*base, "-j", "1", name, TORCH2MS_CACHE=kept), repeat)
    return {"one process / two": statistics.median(ratios), "first check / second": first / again}


def counts(files: dict[str, dict[str, str]], parts: int) -> dict[str, float]:
    """Function calls, analysed modules and what is searched: the same on every machine, so that CI can hold them.

    `parts` make up the shorter one of the two files that tell how the cost grows. One call may search the whole source,
    or go through a whole tree, which counts of calls do not see: characters are counted as often as a source is asked
    for, and nodes as often as a walk over a tree comes across them, by the number of nodes that there are.
    """
    from torch2ms.analysis.program.project import ModuleInfo, Project
    from torch2ms.analysis.syntax.tree import descend, gathered
    from torch2ms.config import Config
    from torch2ms.parsing import parse
    from torch2ms.pipeline import convert_project

    calls, parses, searched, walked = 0, 0, 0, 0

    analysis, walk, steps = Project.add.__code__, gathered.__code__, descend.__code__

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, parses, walked
        if event == "call":
            calls += 1
            parses += frame.f_code is analysis
            walked += frame.f_code is steps
        elif event == "return" and frame.f_code is walk and argument is not None:
            walked += len(argument)

    def source(module: ModuleInfo) -> str:
        nonlocal searched
        text: str = vars(module)["source"]
        searched += len(text)
        return text

    def grown(files: dict[str, str]) -> tuple[int, int]:
        nonlocal searched
        convert_project(files, Config())
        searched = 0
        made, _ = counted({"grown": files})
        return made, searched

    def counted(sources: dict[str, dict[str, str]]) -> tuple[int, int]:
        nonlocal calls, parses, walked
        calls = parses = walked = 0
        sys.setprofile(count)
        try:
            for one in sources.values():
                convert_project(one, Config())
        finally:
            sys.setprofile(None)
        return calls, parses

    for one in files.values():  # what a process does once is no cost of a line
        convert_project(one, Config())
    lines = sum(text.count("\n") for one in files.values() for text in one.values())
    nodes = sum(len(gathered(parse(text))) for one in files.values() for text in one.values())
    made, parsed = counted(files)
    gone_through = walked / nodes
    kept: Any = property(source, lambda module, text: vars(module).update(source=text))
    ModuleInfo.source = kept
    try:
        short, long = grown({"a.py": program(parts)}), grown({"a.py": program(16 * parts)})
        few, many = grown(package(2 * parts)), grown(package(32 * parts))
    finally:
        del ModuleInfo.source
    return {
        "analyses per file": parsed / sum(map(len, files.values())),
        "calls per line": made / lines,
        "times that nodes are gone through": gone_through,
        "growth of calls, 16 times longer": long[0] / short[0],
        "growth of source searched, 16 times longer": long[1] / short[1],
        "growth of calls, 16 times more files": many[0] / few[0],
        "growth of source searched, 16 times more files": many[1] / few[1],
    }


def main() -> None:
    """Measure, print, and fail where a count is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", nargs="?", type=Path, help="a tree of Python files to measure in place of fixtures")
    parser.add_argument("--short", action="store_true", help="counts alone, with limits")
    parser.add_argument("--json", type=Path, help="where the numbers go")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--files", nargs="+", type=Path, metavar="FOLDER", help="files of these folders alone")
    parser.add_argument("--draw", type=int, default=200, help="how many of them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.files:
        measured = single(drawn(options.files, options.draw, options.seed), options.repeat)
    else:
        measured = counts(some(fixtures()), 2)
    _show(measured)
    if not options.short and not options.files:
        sources = {"project": project_sources(options.project)} if options.project else fixtures()
        measures: list[Callable[[], dict[str, float]]] = [
            lambda: start_up(options.repeat),
            lambda: conversion(sources, options.repeat),
            lambda: growth(options.repeat),
            lambda: processes(options.repeat),
            memory,
        ]
        for measure in measures:
            numbers = measure()
            _show(numbers)
            measured |= numbers
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    failed = [name for name, limit in LIMITS.items() if measured.get(name, 0.0) > limit]
    for name in failed:
        print(f"{name}: {measured[name]:.2f} is more than {LIMITS[name]:g}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def project_sources(folder: Path) -> dict[str, str]:
    """The files of a tree that mention torch."""
    paths = (path for path in sorted(folder.rglob("*.py")) if b"torch" in path.read_bytes())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _show(numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        print(f"{name:44} {value:10.2f}", flush=True)
