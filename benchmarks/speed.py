"""How fast torch2ms is: start-up, lines per second, and whether the cost grows in proportion.

Run it from a checkout: `python benchmarks/speed.py [--copies 8] [--jobs 1]`. Nothing is cached between the runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def measure(*arguments: str, repeat: int = 3) -> float:
    """The best wall time of a few runs of one command, in seconds."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, check=False)
        times.append(time.perf_counter() - start)
    return min(times)


def corpus(folder: Path, copies: int) -> int:
    """Every fixture program `copies` times; returns the number of lines."""
    lines = 0
    for source in sorted((ROOT / "fixtures").glob("*/*/original.py")):
        text = source.read_text(encoding="utf-8")
        for number in range(copies):
            (folder / f"{source.parent.parent.name}_{source.parent.name}_{number}.py").write_text(
                text, encoding="utf-8"
            )
            lines += text.count("\n")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=4, help="how often the fixtures are repeated in the largest run")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes; 0 chooses")
    options = parser.parse_args()
    bare = measure("-c", "pass")
    print(f"{'bare Python':32} {bare:8.3f} s")
    print(f"{'torch2ms --help':32} {measure('-m', 'torch2ms', '--help') - bare:8.3f} s more")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plain.py").write_text("x = 1\n" * 20_000, encoding="utf-8")
        plain = measure("-m", "torch2ms", "convert", "--check", "--no-cache", str(folder))
        print(f"{'20,000 lines without torch':32} {plain - bare:8.3f} s more")
    copies = 1
    while copies <= options.copies:
        with tempfile.TemporaryDirectory() as name:
            lines = corpus(Path(name), copies)
            command = ["-m", "torch2ms", "convert", "--check", "--no-cache", "--jobs", str(options.jobs), name]
            seconds = measure(*command, repeat=1)
        print(f"{f'{lines:,} lines of fixtures':32} {seconds:8.3f} s {lines / seconds:10,.0f} lines/s")
        copies *= 2


if __name__ == "__main__":
    main()
