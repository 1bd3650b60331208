"""`torch2ms`, `python -m torch2ms`."""

from __future__ import annotations

import os
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


def without_current_folder() -> None:
    """`python -m` would take modules from the folder that it runs in: those of the user, whose code is not to run."""
    first = sys.path[0]
    if first == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]


if __name__ == "__main__":
    without_current_folder()
    main()
