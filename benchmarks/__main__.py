"""`python -m benchmarks NAME`: phases, sites, speed, steps or threads."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("phases", "sites", "speed", "steps", "threads")

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} ...")
name = sys.argv.pop(1)
import_module(f"benchmarks.{name}").main()
