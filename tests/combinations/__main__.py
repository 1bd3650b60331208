"""Training programs put together at random from what real ones do, each translated and run on both sides.

    python -m tests.combinations [--family flow|habits|one|several|project] [--count 60] [--seed 0] [--keep FOLDER]

prints one line per program: agree, differ, not run, or the codes it was refused with; then the counts per kind of
program. PyTorch itself may refuse what `flow` and `habits` draw: that is told as "no torch", and left out. Exit status
1 where one differs or cannot run. `--keep` writes those that do not agree.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.combinations import FAMILIES, outcomes
from torch2ms.verify.reporting.report import Report, cli_table


def main() -> int:
    """Print what became of each, and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--family", choices=sorted(FAMILIES), default="one")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--keep", type=Path, help="folder for the programs that do not agree, and their tables")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    for drawn, outcome in outcomes([FAMILIES[options.family](options.seed + n) for n in range(options.count)]).items():
        verdict = outcome.verdict if isinstance(outcome, Report) else "refused"
        if isinstance(outcome, Report) and outcome.reason.startswith("torch side"):
            verdict = "no torch"  # PyTorch itself refuses what was drawn
        verdict = "error" if isinstance(outcome, list) and outcome[0].startswith("error") else verdict
        counts[verdict] += 1
        kinds[drawn.drawn.get("program", ""), verdict] += 1
        told = "" if isinstance(outcome, Report) else " | " + "; ".join(dict.fromkeys(outcome))
        print(f"{verdict:8} {drawn.name}{told}", flush=True)
        if options.keep and verdict not in ("agree", "no torch"):
            options.keep.mkdir(parents=True, exist_ok=True)
            for path, text in drawn.sources.items():
                file = options.keep / (f"{drawn.seed}/{path}" if drawn.files else f"{drawn.seed}.py")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            (options.keep / f"{drawn.seed}.txt").write_text(
                cli_table(outcome) if isinstance(outcome, Report) else "\n".join(outcome), encoding="utf-8"
            )
    for kind in sorted({kind for kind, _ in kinds}):
        print(kind, {verdict: number for (of, verdict), number in sorted(kinds.items()) if of == kind})
    print(dict(counts))
    return 1 if set(counts) - {"agree", "refused", "no torch"} else 0


if __name__ == "__main__":
    sys.exit(main())
