"""Modules that were translated before and need nothing more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.source import parse_quietly

TAPE = re.compile(  # `ms.grad` is MindSpore's own
    r"#\s*torch2ms:|\.(?:backward|zero_grad|step|unscale_|no_grad|requires_grad_?|set_grad_enabled)\b"
    r"|(?<!\bms)(?<!mindspore)\.grad\b"
)


def settled(text: str) -> bool:
    """MindSpore is imported, nothing of torch is, and gradients are taken MindSpore's way."""
    if "mindspore" not in text or TAPE.search(text):
        return False
    try:
        imported = list(_imports(parse_quietly(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(name.partition(".")[0] == "mindspore" for name in imported) and not any(map(is_foreign, imported))


def _imports(tree: ast.Module) -> Iterator[str]:
    """The full names in the import statements of a module, wherever they stand."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            yield from (base + alias.name for alias in node.names)
        else:
            for field in ("body", "orelse", "handlers", "finalbody", "cases"):
                below = getattr(node, field, None)
                stack += below if isinstance(below, list) else ()
