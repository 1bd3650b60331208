"""torch2ms translates PyTorch source code to MindSpore, gradients included."""

from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier

__version__ = "0.1.0"
__all__ = ["Config", "Finding", "Result", "Tier", "__version__", "convert_source"]


def convert_source(source: str, config: Config | None = None, path: str = "<string>") -> Result:
    """Translate one module's text. Never raises for the text of a user: see `Result.error`."""
    if "torch" not in source:  # libcst is not even imported for the files a hook sees most
        return Result(path, source, source)
    from torch2ms.pipeline import convert_module

    return convert_module(source, config or Config(), path)
