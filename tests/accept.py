"""Write expected.py and findings.txt of fixtures from what torch2ms makes of them now.

    python -m tests.accept CASE...          a case is FAMILY/NAME, or a FAMILY for all of it
    python -m tests.accept --diff CASE...   only show what would change

The expected text is the product: accept a translation only after a person has read it as prose, and after
`torch2ms verify` has agreed with it (for programs that run). A refusal in findings.txt is a promise not to guess.
"""

from __future__ import annotations

import argparse
import difflib
import sys

from tests.fixture_cases import FixtureCase, all_cases, converted, described


def main() -> int:
    """Accept the named cases; 1 if one cannot be converted or a name means nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="CASE", help="FAMILY/NAME or FAMILY; read its translation first")
    parser.add_argument("--diff", action="store_true", help="write nothing, show what would change")
    options = parser.parse_args()
    status = 0
    for wanted in options.cases:
        found = [c for c in all_cases() if c.name == wanted.strip("/") or c.folder.parent.name == wanted.strip("/")]
        if not found:
            print(f"{wanted}: there is no such case", file=sys.stderr)
            status = 1
        for case in found:
            status |= show(case) if options.diff else accept(case)
    return status


def accept(case: FixtureCase) -> int:
    """Write the expectations of one case."""
    results = converted(case)
    errors = [f"{case.name}: {path}: {result.error}" for path, result in results.items() if result.error]
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 1
    for path, result in results.items():
        target = case.folder / "expected.py" if case.single else case.folder / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(result.text.encode())
    (case.folder / "findings.txt").write_text(described(results), encoding="utf-8")
    return 0


def show(case: FixtureCase) -> int:
    """Print the difference between the accepted and the current translation."""
    results, expected = converted(case), case.texts("expected")
    for path, result in results.items():
        old, new = expected.get(path, "").splitlines(), result.text.splitlines()
        print("\n".join(difflib.unified_diff(old, new, f"{case.name}/{path}", "now", lineterm="")))
        if result.error:
            print(f"{case.name}: {path}: {result.error}", file=sys.stderr)
    old, new = case.findings().splitlines(), described(results).splitlines()
    print("\n".join(difflib.unified_diff(old, new, f"{case.name}/findings.txt", "now", lineterm="", n=0)))
    return int(any(result.error for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
