"""Which model a checkpoint belongs to: `net.py:ResNet(num_classes=10)`."""

from __future__ import annotations

import ast
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class LikeError(ValueError):
    """--like does not name a model."""


@dataclass(frozen=True)
class Like:
    """A file, the class or function in it that makes the model, and literal arguments."""

    file: Path
    name: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Like:
        """Read `FILE.py:Name` or `FILE.py:Name(literal, key=literal)`."""
        file, colon, rest = text.partition(".py:")
        if not colon:
            raise LikeError(f"{text!r}: write FILE.py:ClassName, with arguments where the class needs some")
        try:
            node = ast.parse(rest, mode="eval").body
            call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
            if not isinstance(call.func, ast.Name) or any(keyword.arg is None for keyword in call.keywords):
                raise ValueError("only a plain name can be called")
            args = [ast.literal_eval(arg) for arg in call.args]
            kwargs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        except (SyntaxError, ValueError) as error:
            raise LikeError(f"{rest!r} is not a class name with literal arguments: {error}") from None
        return cls(Path(file + ".py"), call.func.id, args, kwargs)

    def make(self, file: Path) -> Any:
        """Import `file` and make the model; this runs the program's import-time code."""
        sys.path.insert(0, str(file.parent))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        return getattr(module, self.name)(*self.args, **self.kwargs)
