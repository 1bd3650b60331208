"""`torch2ms`, `python -m torch2ms`."""

from __future__ import annotations

import sys

from torch2ms.plain import check_of_plain_files


def main() -> None:
    """The program: a check that finds no file with torch is over before the command line is even imported."""
    try:
        answer = check_of_plain_files(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    if answer:
        print(answer, file=sys.stderr)
        sys.exit(0)
    from torch2ms.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
