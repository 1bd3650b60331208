"""`python -m torch2ms`."""

from __future__ import annotations

from torch2ms.cli import main

if __name__ == "__main__":
    main()
