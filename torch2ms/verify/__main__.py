"""`python -m torch2ms.verify ORIGINAL TRANSLATED [--json F] [-- ARGS]`."""

from torch2ms.verify.cli import verify

if __name__ == "__main__":
    verify()
