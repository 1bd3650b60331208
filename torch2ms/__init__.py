"""torch2ms translates PyTorch source code to MindSpore, gradients included."""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to import than a hook's files take to read
if TYPE_CHECKING:
    from torch2ms.config import Config
    from torch2ms.findings import Finding, Result, Tier

__version__ = "0.1.0"
__all__ = ["Config", "Finding", "Result", "Tier", "__version__", "convert_source"]
_HOMES = {"Config": "config", "Finding": "findings", "Result": "findings", "Tier": "findings"}


def __getattr__(name: str) -> object:
    """Public classes, imported when they are asked for: start-up on files without torch is spared them."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"torch2ms.{_HOMES[name]}"), name)


def convert_source(source: str, config: Config | None = None, path: str = "<string>") -> Result:
    """Translate one module's text. Never raises for the text of a user: see `Result.error`."""
    from torch2ms.config import Config
    from torch2ms.findings import Result

    if "torch" not in source:  # libcst is not even imported for the files a hook sees most
        return Result(path, source, source)
    from torch2ms.pipeline import convert_module

    return convert_module(source, config or Config(), path)
