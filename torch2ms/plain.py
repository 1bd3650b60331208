"""Files that need nothing: how they are told from others, and the answer to a check that meets no others.

A commit hook runs on every commit, mostly over files without torch; importing the command line would take longer than
reading them. What is imported here is what Python has imported already.
"""

from __future__ import annotations

import codecs
import os

from torch2ms.kinds import PYTHON_SUFFIXES, kind_of, skipped

OTHERS = (b"jax", b"flax", b"optax", b"paddle", b"mxnet")
WARP = b"import warp as wp"  # under the name that everybody gives it: projects have modules called warp
UNDERSTOOD = frozenset({"--check", "--no-cache"})  # options that change nothing for files that are left as they are


class NotPlain(Exception):
    """Something that has to be looked at with all options and rules."""


def mentions_torch(data: bytes) -> bool:
    """The test that comes before any parsing: can this file hold anything of torch?"""
    if b"torch" in data:
        return not of_another_framework(data)
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # an error


def of_another_framework(data: bytes) -> bool:
    """It imports one that is not translated, and not torch: `agents/jax/ppo.py` beside `agents/torch/ppo.py`."""
    if b"import torch" in data or b"from torch" in data or not (WARP in data or any(name in data for name in OTHERS)):
        return False
    heads = (line.split(None, 2)[:2] for line in data.split(b"\n") if b"import" in line)
    return WARP in data or any(
        len(h) > 1 and h[0] in (b"import", b"from") and h[1].partition(b".")[0] in OTHERS for h in heads
    )


def check_of_plain_files(arguments: list[str]) -> str:
    """What `torch2ms --check PATH...` says where no file mentions torch; "" leaves it to the command line."""
    words = arguments[1:] if arguments[:1] == ["convert"] else arguments
    paths = [word for word in words if word not in UNDERSTOOD]
    if "--check" not in words or not paths or any(path.startswith("-") for path in paths):
        return ""
    try:
        if _configured(os.getcwd()):
            return ""
        count = sum(map(_looked_at, paths if len(paths) == 1 else _apart(paths)))
    except (NotPlain, OSError, ValueError):
        return ""
    return f"0 of {count} file{'s' * (count != 1)} would change"


def _configured(folder: str) -> bool:
    """A pyproject.toml at or above the folder gives options."""
    try:
        with open(os.path.join(folder, "pyproject.toml"), "rb") as stream:
            if b"tool.torch2ms" in stream.read():
                return True
    except FileNotFoundError:
        pass
    above = os.path.dirname(folder)
    return above != folder and _configured(above)


def _apart(paths: list[str]) -> list[str]:
    """Several paths, if they are files and none is given twice."""
    if len({os.path.realpath(path) for path in paths}) < len(paths) or any(map(os.path.isdir, paths)):
        raise NotPlain
    return paths


def _looked_at(path: str) -> int:
    """How many files a check looks at below a path."""
    if os.path.islink(path):
        raise NotPlain
    if not os.path.isdir(path):
        return _read(path, given=True)
    count, waiting = 0, [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise NotPlain
                if not entry.is_dir():
                    count += _read(entry.path)
                elif not skipped(entry.path):
                    waiting.append(entry.path)
    return count


def _read(path: str, given: bool = False) -> int:
    """1 for a file that counts and does not mention torch."""
    kind = "python"
    if not path.endswith(PYTHON_SUFFIXES) or path.endswith("setup.py"):
        kind = kind_of(path)
        kind = "python" if given and kind == "other" else kind
    if kind in ("python", "notebook"):
        with open(path, "rb", buffering=0) as stream:
            if mentions_torch(stream.read()):
                raise NotPlain
    return kind != "other"
