"""Paths of files: `root / name` divides nothing, and what is asked of the result is no tensor's."""

from torch2ms.analysis.values import Value

NAMES = frozenset(
    f"pathlib.{name}" for name in ("Path", "PurePath", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
)
PATH = Value("object", name="pathlib.Path")
ALONG = frozenset({"absolute", "expanduser", "joinpath", "relative_to", "rename", "replace", "resolve", "with_name",
                   "with_stem", "with_suffix", "cwd", "home", "parent"})  # fmt: skip
