"""Rewriting a LibCST tree without its visitors: layout is not looked at, what did not change stays the same object."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import Any, ClassVar

import libcst as cst

from torch2ms.analysis.syntax.tree import code, is_node, replaced, source_order

Steps = tuple[Callable[..., Any] | None, Callable[..., Any] | None, tuple[str, ...]]
IDLE: Steps = (None, None, ())  # of what has nothing below it, and is not asked for: most names and all numbers


class Rewriter:
    """Subclasses have `visit_Call(node)` (False: not below) and `leave_Call(original, updated)`, as in LibCST."""

    _steps: ClassVar[dict[type, Steps]]

    def __init_subclass__(cls) -> None:
        cls._steps = {}

    @classmethod
    def fields(cls, kind: type) -> tuple[str, ...]:
        """The fields that are followed in nodes of a class."""
        return source_order(kind)

    def rewrite(self, node: cst.CSTNode) -> cst.CSTNode:
        """The node with everything below it rewritten."""
        kind = node.__class__
        steps = self._steps.get(kind)
        if steps is None:
            name = kind.__name__
            steps = getattr(self, f"visit_{name}", None), getattr(self, f"leave_{name}", None), self.fields(kind)
            steps = tuple(getattr(s, "__func__", s) for s in steps)  # type: ignore[assignment]
            self._steps[kind] = steps = IDLE if steps == IDLE else steps
        visit, leave, names = steps
        updated = node
        if visit is None or visit(self, node) is not False:
            changes: dict[str, Any] = {}
            known = self._steps
            for name in names:
                value = getattr(node, name)
                held = value.__class__
                if held is tuple or held is list:
                    if not value:
                        continue
                    items = [self.rewrite(item) for item in value]  # LibCST's sequences hold nodes alone
                    if any(map(is_not, items, value)):
                        changes[name] = items
                elif held is not str and is_node(held) and known.get(held) is not IDLE:
                    new = self.rewrite(value)
                    if new is not value:
                        changes[name] = new
            if changes:
                updated = replaced(node, **changes)
        if leave is not None:
            result: cst.CSTNode = leave(self, node, updated)
            if result is not updated and getattr(node, "lpar", None) and not getattr(result, "lpar", True):
                result = _enclosed(node, result)
            updated = result
        if updated is not node:
            self.became(node, updated)
        return updated

    def became(self, node: cst.CSTNode, updated: cst.CSTNode) -> None:
        """A node has another in its place now."""


def _enclosed(node: cst.CSTNode, result: cst.CSTNode) -> cst.CSTNode:
    """What took the place of an expression in parentheses, in them where it needs more than one line."""
    if "\n" not in code(result):
        return result
    return result.with_changes(lpar=node.lpar, rpar=node.rpar)  # type: ignore[attr-defined]
