"""What the planner made: new statements, functions, classes and branches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.editing import layout
from torch2ms.tape.plan import Branch, Class, Copy, Function, Item, Text

if TYPE_CHECKING:
    from torch2ms.rewrite.emit import Emitter


class Items:
    """Writes the items of a plan, with the statements that moved into them."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.writer = emitter.writer

    def item(self, item: Item) -> list[cst.BaseStatement]:
        if isinstance(item, Text):
            return self.text(item)
        if isinstance(item, Function):
            return [self.function(item)]
        if isinstance(item, Class):
            return [self.new_class(item)]
        if isinstance(item, Branch):
            return [self.branch(item)]
        if isinstance(item, Copy):
            return self.copy(item)
        return self.emitter.sequence([item], placed=True)[0]

    def text(self, item: Text) -> list[cst.BaseStatement]:
        plan = self.writer.plan
        if item.inner and not self.writer.differentiated:
            return []
        plan.needs |= {"ops"} if item.inner else set()
        expressions = plan.expressions
        plan.expressions = expressions | item.expressions
        nodes = self.writer.marked_text(item)
        plan.expressions = expressions
        return nodes

    def copy(self, item: Copy) -> list[cst.BaseStatement]:
        plan, key = self.writer.plan, id(item.stmt)
        expressions, context = plan.expressions, plan.contexts.pop(key, None)
        plan.expressions = expressions | item.expressions
        moved = key in plan.moved
        plan.moved.add(key)
        nodes = self.emitter.sequence([item.stmt], placed=True)[0]
        plan.expressions = expressions
        if not moved:
            plan.moved.discard(key)
        if context is not None:
            plan.contexts[key] = context
        return nodes

    def function(self, item: Function) -> cst.FunctionDef:
        outer, captured, scope = self.writer.differentiated, self.writer.captured, self.writer.scope
        self.writer.differentiated = outer or item.differentiated
        self.writer.captured = _captured(item)
        # written at the top of the module, statements are still those of the function that they come from
        self.writer.scope = next((part.block.scope for part in item.body if isinstance(part, Stmt)), scope)
        body, pending = self.emitter.sequence(item.body, placed=True)
        self.writer.differentiated, self.writer.captured, self.writer.scope = outer, captured, scope
        if any(isinstance(i, Function) for i in item.body):
            body = layout.spaced(body, top=False)
        if body:
            body[0] = body[0].with_changes(
                leading_lines=[*item.comments, *layout.strip_blank(tuple(body[0].leading_lines))]  # type: ignore[attr-defined]
            )
        decorator = self.writer.aliased(item.decorator) + "\n" if item.decorator else ""
        head = layout.parse(f"{decorator}def {item.name}({', '.join(item.params)}):\n    pass")[0]
        assert isinstance(head, cst.FunctionDef)
        return head.with_changes(body=cst.IndentedBlock(body, footer=pending))

    def new_class(self, item: Class) -> cst.ClassDef:
        (made,) = layout.parse(self.writer.aliased(item.text))
        assert isinstance(made, cst.ClassDef)
        body = [*made.body.body, layout.led(self.function(item.method), (layout.BLANK,))]
        return made.with_changes(body=made.body.with_changes(body=body))

    def branch(self, item: Branch) -> cst.If:
        body, footer = self.emitter.sequence(item.body, placed=True)
        orelse, footer2 = self.emitter.sequence(item.orelse, placed=True)
        body[0] = body[0].with_changes(leading_lines=layout.strip_blank(tuple(body[0].leading_lines)))  # type: ignore[attr-defined]
        orelse[0] = orelse[0].with_changes(leading_lines=layout.strip_blank(tuple(orelse[0].leading_lines)))  # type: ignore[attr-defined]
        comments: list[cst.EmptyLine] = []
        test = layout.bare(item.test, self.writer.expression(item.test))
        assert isinstance(test, cst.BaseExpression)
        return cst.If(
            test, cst.IndentedBlock(body, footer=footer),
            orelse=cst.Else(cst.IndentedBlock(orelse, footer=footer2)), leading_lines=comments,
        )  # fmt: skip


def _captured(item: Function) -> set[str]:
    """The names that the statements of the function change in place, and that it neither takes nor binds."""
    stmts = [inner for part in item.body if isinstance(part, Stmt) for inner in part.walk()]
    shared = " ".join(part.template for part in item.body if isinstance(part, Text))
    bound = {d for s in stmts for d in s.defs} | {p.partition("=")[0].strip(" *") for p in item.params}
    return {
        m for s in stmts for m in s.muts if m not in bound and not re.search(rf"\b(nonlocal|global)\b.*\b{m}\b", shared)
    }
