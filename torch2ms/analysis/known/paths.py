"""Paths of files: `root / name` divides nothing, and what is asked of the result is no tensor's."""

from torch2ms.analysis.values import Value

NAMES = frozenset(
    f"pathlib.{name}" for name in ("Path", "PurePath", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
)
PATH = Value("object", name="pathlib.Path")
ALONG = frozenset({"absolute", "expanduser", "joinpath", "relative_to", "rename", "replace", "resolve", "with_name",
                   "with_stem", "with_suffix", "cwd", "home", "parent"})  # fmt: skip


def is_path(value: Value) -> bool:
    """Wherever it stands."""
    return value.kind == "object" and value.name == PATH.name


def divided(left: Value, right: Value) -> bool:
    """`root / name`, `root / "text"`: what a tensor for certain is divided by is no text, whatever its default is."""
    if is_path(left) or is_path(right):
        return True
    other = left if right.kind == "str" else right
    text = right if right.kind == "str" else left
    return text.kind == "str" and not text.likely and (other.likely or other.kind in ("unknown", "str"))
