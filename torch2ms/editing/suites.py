"""Rewriting statements one by one: each becomes any number of others, comments stay, lines of the source are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ModuleInfo, Plain
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing import layout
from torch2ms.editing.rewriter import Rewriter
from torch2ms.findings import Finding

Line = tuple[int, int]
Made = tuple[list[cst.BaseStatement], layout.Lines]  # statements, and comments that wait for the next one


class Suites(Rewriter):
    """Subclasses override `small` and `compound`, and have visit and leave methods for expressions."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.findings: list[Finding] = []
        self.held: list[cst.CSTNode] = []  # what has a number must live as long as the numbers
        self.line = 0
        self.off = module.directives.off

    @cached_property
    def numbers(self) -> dict[int, Line]:
        """The lines of statements in the source, by id."""
        pairs = zip(flow.in_order(self.module.tree.body), self.module.lines, strict=False)
        return {id(node): line for node, line in pairs}

    def whole(self) -> cst.Module:
        """The module rewritten; its own tree where nothing is changed."""
        tree = self.module.tree
        body, footer = self.suite(tree.body)
        if not footer and _same(body, tree.body):
            return tree
        return tree.with_changes(body=body, footer=[*footer, *tree.footer])

    def plain(self) -> Plain:
        """The module rewritten, with what was found here and before."""
        return self.of_tree(self.whole())

    def of_tree(self, tree: cst.Module, reasons: Mapping[int, str] | None = None, brought: str = "") -> Plain:
        """A rewritten tree of the module; `reasons` by id of a node, `brought` the text of other modules in it."""
        before = self.module.plain
        findings, known = (before.findings, before.reasons) if before is not None else ([], {})
        return Plain(tree, self.lines_of(tree), [*findings, *self.findings], {**known, **(reasons or {})}, brought)

    def lines_of(self, tree: cst.Module) -> list[Line]:
        """Lines in the source of all statements of a rewritten tree."""
        found: list[Line] = []
        for node in flow.in_order(tree.body):
            found.append(self.numbers.get(id(node), found[-1] if found else (1, 1)))
        return found

    def number(self, node: cst.CSTNode, source: cst.CSTNode) -> None:
        """A new statement stands for one of the source."""
        if id(node) not in self.numbers and (line := self.numbers.get(id(source))) is not None:
            self.numbers[id(node)] = line
            self.held.append(node)

    def became(self, node: cst.CSTNode, updated: cst.CSTNode) -> None:
        self.number(updated, node)

    # --- statements

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> bool:
        return False

    def leave_IndentedBlock(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        body, pending = self.suite(original.body)
        if not pending and _same(body, original.body):
            return original
        if not body:
            body, pending = [cst.SimpleStatementLine([cst.Pass()], leading_lines=pending)], ()
        return original.with_changes(body=body, footer=[*pending, *original.footer])

    def suite(self, body: Sequence[cst.CSTNode]) -> Made:
        """The statements of a suite."""
        out: list[cst.BaseStatement] = []
        pending: layout.Lines = ()
        for position, stmt in enumerate(body):
            made, waiting = self.statement(stmt)
            if made and pending:
                own = made[0].leading_lines  # type: ignore[attr-defined]
                if own and own[0].comment is None:
                    pending = layout.comments_only(pending)
                    own = own if not pending else [own[0], *pending, *own[1:]]
                    made[0] = self.renumbered(made[0], leading_lines=own)
                else:
                    made[0] = self.renumbered(made[0], leading_lines=[*pending, *own])
                pending = ()
            if made and position and not out:  # what stood above it is gone
                made[0] = self.renumbered(made[0], leading_lines=layout.strip_blank(layout.leading(made[0])))
            out += made
            pending += layout.comments_only(waiting) if pending else waiting
            rest = body[position + 1 :]
            if made and _leaves(made[-1]) and not _leaves(stmt) and not any("#" in code(s) for s in rest):
                break
        return self.joined(out), layout.comments_only(pending)

    def joined(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Neighbours that belong together."""
        return body

    def renumbered(self, node: cst.BaseStatement, **changes: object) -> cst.BaseStatement:
        """A changed statement on the line of the one it was."""
        made = node.with_changes(**changes)
        self.number(made, node)
        return made

    def statement(self, stmt: cst.CSTNode) -> Made:
        """What one statement becomes."""
        if type(stmt) is cst.SimpleStatementLine:
            return self.simple(stmt)
        first, last = self.numbers.get(id(stmt), (0, 0))
        self.line = first
        if any(first <= n <= last for n in self.off):
            return [stmt], ()  # type: ignore[list-item]
        updated = self.rewrite(stmt)
        self.line = first
        return self.compound(stmt, updated)

    def simple(self, stmt: cst.SimpleStatementLine) -> Made:
        self.line = self.numbers.get(id(stmt.body[0]), (0, 0))[0]
        if self.line in self.off:
            return [stmt], ()
        made: list[cst.CSTNode] = []
        for small in stmt.body:
            new = self.small(small)
            for node in new:
                self.number(node, small)
            made += new
        if _same(made, stmt.body):
            return [stmt], ()
        if not made:
            blank = [line for line in stmt.leading_lines[:1] if line.comment is None]
            comments = [line for line in stmt.leading_lines if line.comment is not None]
            inner = [c for small in stmt.body for c in layout.inner_comments(small)]
            kept = [*comments, *layout.trailing_comment(stmt.trailing_whitespace), *inner]
            return [], (*blank, *kept)
        if not any(isinstance(node, cst.BaseCompoundStatement) for node in made):
            stay = [line.comment for node in made for line in layout.inner_comments(node)]
            said = {comment.value for comment in stay if comment is not None}
            inner = [line for small in stmt.body for line in layout.inner_comments(small)]
            gone = [line for line in inner if line.comment is not None and line.comment.value not in said]
            stmt = stmt.with_changes(leading_lines=[*stmt.leading_lines, *gone]) if gone else stmt
            last = made[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            self.number(last, made[-1])
            return [stmt.with_changes(body=[*made[:-1], last])], ()
        lines: list[cst.BaseStatement] = []
        for node in made:
            if isinstance(node, cst.BaseCompoundStatement):
                lines.append(node)
            else:
                alone = node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                self.number(alone, node)
                lines.append(cst.SimpleStatementLine([alone]))  # type: ignore[list-item]
        comment = layout.trailing_comment(stmt.trailing_whitespace)
        above = comment if len(lines) == 1 else ()
        lines[0] = self.renumbered(lines[0], leading_lines=[*stmt.leading_lines, *above])
        return lines, () if above else comment

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        """What a small statement becomes: others, compound ones among them, or nothing."""
        return [self.rewrite(node)]

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        """What a compound statement becomes, whose blocks are rewritten already."""
        return [updated], ()  # type: ignore[list-item]

    def copied(self, body: cst.BaseSuite, comments: bool = True) -> cst.BaseSuite:
        """The same statements once more, on the same lines of the source."""
        made = body.deep_clone()
        if not comments:
            made = made.visit(Uncommented())  # type: ignore[assignment]
        for new, old in zip(flow.in_order(made.body), flow.in_order(body.body), strict=True):
            self.number(new, old)
        return made

    def opened(self, node: cst.With | cst.If | cst.Else | cst.For | cst.Try) -> Made:
        """The statements of a block whose header goes."""
        body = node.body
        if not isinstance(body, cst.IndentedBlock):
            line = cst.SimpleStatementLine(list(body.body), leading_lines=node.leading_lines)  # type: ignore[arg-type]
            return [line], ()
        made = list(body.body)
        above = [*node.leading_lines, *layout.trailing_comment(body.header)]
        if above and made:
            own = layout.strip_blank(made[0].leading_lines)  # type: ignore[attr-defined]
            made[0] = self.renumbered(made[0], leading_lines=[*above, *own])
        return made, layout.comments_only(body.footer)


class Uncommented(cst.CSTTransformer):
    """Statements that stand in the source once already, with their comments."""

    def leave_EmptyLine(self, original: cst.EmptyLine, updated: cst.EmptyLine) -> cst.EmptyLine | cst.RemovalSentinel:
        return updated if original.comment is None else cst.RemoveFromParent()

    def leave_TrailingWhitespace(
        self, original: cst.TrailingWhitespace, updated: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        return (
            updated
            if original.comment is None
            else updated.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        )


def line_of(text: str) -> cst.SimpleStatementLine:
    """A new line, from the text of one small statement."""
    return cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)


def small_of(text: str) -> cst.BaseSmallStatement:
    """A new small statement, from its text."""
    return line_of(text).body[0]


def _leaves(stmt: cst.CSTNode) -> bool:
    """What follows the statement in its suite never runs."""
    last = stmt.body[-1] if type(stmt) is cst.SimpleStatementLine else None
    return type(last) in (cst.Return, cst.Raise, cst.Break, cst.Continue)


def _same(made: Sequence[cst.CSTNode], source: Sequence[cst.CSTNode]) -> bool:
    """Nothing was changed."""
    return len(made) == len(source) and all(a is b for a, b in zip(made, source, strict=True))
