"""How many fixtures convert in two steps: `python -m tests.splits [--every N]`.

A file splits where `--select modules` writes something of its own and `--select autograd` ends where the whole
conversion does; the others wait for the second step. Their names are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from tests.fixture_cases import FixtureCase, all_cases, converted
from torch2ms.pipeline import convert_project


def counted(cases: Iterable[FixtureCase]) -> tuple[int, list[str]]:
    """How many files change, and those among them that do not split; what two steps make is the whole conversion."""
    changed, waiting = 0, []
    for case in cases:
        config = replace(case.config, stage="modules")
        first = {path: result.text for path, result in convert_project(case.texts("original"), config).items()}
        second = convert_project(first, replace(config, stage="autograd"))
        whole = converted(case)
        assert {p: r.text for p, r in second.items()} == {p: r.text for p, r in whole.items()}, case.name
        files = [path for path, result in whole.items() if result.changed]
        changed += len(files)
        waiting += [f"{case.name}/{path}" for path in files if first[path] == whole[path].source]
    return changed, waiting


def main() -> None:
    """Print the files that do not split, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth fixture")
    changed, waiting = counted(all_cases()[:: parser.parse_args().every])
    print(*waiting, sep="\n")
    print(f"{changed - len(waiting)} of {changed} changed files split in two steps")


if __name__ == "__main__":
    main()
