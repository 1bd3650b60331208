"""Writes the translated module: statements in their planned places, expressions by the rules, comments kept."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.annotations import annotated_again, as_written
from torch2ms.analysis.syntax.tree import changed, code, replaced
from torch2ms.editing import layout
from torch2ms.editing.layout import BLANK
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import gradmodes
from torch2ms.rewrite.definitions import Definitions
from torch2ms.rewrite.items import Items
from torch2ms.rewrite.leftovers import refuse_left
from torch2ms.rewrite.statements import Statements
from torch2ms.rewrite.writer import Writer
from torch2ms.tape.plan import Class, Function, Item, Text

MARK = re.compile(r"#\s*torch2ms: (T2M\d{3}) (.*?) -> (.*)")
KEPT = "T2M402"  # a class that stays as a whole


class Emitter:
    """Emits one module."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = writer.module
        self.plan = writer.plan
        self.statements = Statements(writer)
        self.items = Items(self)
        self.definitions = Definitions(self)
        self.commented = [n for n, line in enumerate(re.split(r"\r\n|\r|\n", self.module.source), 1) if "#" in line]
        self.by_node = {id(s.node): s for s in self.module.scope.walk()}

    def emit(self) -> cst.Module:
        """The new tree; once."""
        self.writer.may_be_recorded = self.may_be_recorded
        body, footer = self.block(self.module.scope.body)
        self.writer.may_be_recorded = bool
        del self.items, self.definitions  # they know the emitter: a circle, which would keep both trees
        tree = self.module.tree
        return tree.with_changes(body=body, footer=[*footer, *tree.footer])

    def block(self, block: Block) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """The statements of a block, and comments that no statement is left to carry."""
        return self.sequence(block.stmts, top=block.owner is None and block.scope.is_module)

    def sequence(
        self, items: Sequence[Item], top: bool = False, placed: bool = False
    ) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """Statements and new items in order; `placed`: moved statements have arrived where they go."""
        out: list[cst.BaseStatement] = []
        pending: layout.Lines = ()
        modes: tuple[cst.With, ...] = ()
        open_stmts: dict[int, list[Stmt]] = {}
        for position, item in enumerate(items):
            if not isinstance(item, Stmt):
                nodes = self.items.item(item)
                out += _lead(nodes, pending)
                pending = ()
                continue
            stmt = item
            around = stmt.block.owner.modes if stmt.block.owner is not None else ()
            own_modes = tuple(m for m in stmt.modes if m not in around)
            for mode in modes:
                if mode not in own_modes:
                    nodes, lines = gradmodes.closed(mode, open_stmts.pop(id(mode), []), self.writer, placed)
                    out += _lead(nodes, pending) if nodes else []
                    pending = (() if nodes else pending) + lines
            for mode in own_modes:
                if mode not in modes:
                    pending += gradmodes.opened(mode, stmt, self.writer)
                open_stmts.setdefault(id(mode), []).append(stmt)
            modes = own_modes
            nodes, pending = self.statement(stmt, pending, fresh=not out and position > 0, top=top, placed=placed)
            out += nodes
        for mode in modes:
            nodes, lines = gradmodes.closed(mode, open_stmts.pop(id(mode), []), self.writer, placed)
            out += _lead(nodes, pending) if nodes else []
            pending = (() if nodes else pending) + lines
        return out, pending

    def statement(
        self, stmt: Stmt, pending: layout.Lines, fresh: bool, top: bool, placed: bool
    ) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """What one statement becomes, and the comments that wait for the next."""
        arrived = placed and id(stmt) in self.plan.moved
        out, own = ([], tuple(stmt.leading)) if arrived else self.preceded(stmt, top)
        if not arrived and not stmt.off and (id(stmt) in self.plan.moved or id(stmt) in self.plan.replaced):
            nodes, left = self.given_way(stmt, pending, own, fresh, top)
            return out + nodes, left
        nodes, extra = self.stays(stmt, pending, own, fresh and not out)
        defined = self.writer.defined()
        if nodes and defined:
            nodes = self.with_definitions(stmt, defined, nodes, top, opens=not out)
        return out + nodes, extra

    def preceded(self, stmt: Stmt, top: bool) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """New items that go above a statement, and the comments and blank lines between the two."""
        above = self.plan.before.get(id(stmt))
        own = tuple(stmt.leading)
        if not above:
            return [], own
        nodes = [n for item in above for n in self.items.item(item)]
        ends = isinstance(above[-1], (Function, Class))
        if any(isinstance(i, (Function, Class)) for i in above):
            if not top:
                own = (BLANK,) * ends + layout.strip_blank(own)
            elif ends or not _starts_blank(own):
                own = (BLANK,) * (2 if ends else 1) + layout.strip_blank(own)
        return layout.spaced(nodes, top), own

    def given_way(
        self, stmt: Stmt, pending: layout.Lines, own: layout.Lines, fresh: bool, top: bool
    ) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """A statement that went elsewhere, or that others take the place of."""
        moved, items = id(stmt) in self.plan.moved, self.plan.replaced.get(id(stmt))
        if not moved:  # else it is put there with it
            items = [*(items or ()), *self.plan.behind.get(id(stmt), ())]
        gone = () if moved else layout.trailing_comment(stmt.trailing) + self.opened(stmt)
        if type(stmt.node) is cst.Return and items and not moved:
            self.writer.line = stmt.lineno
        if items and (nodes := [n for item in items for n in self.items.item(item)]):
            if any(isinstance(item, Function) for item in items):
                nodes = layout.spaced(nodes, top)
                if top and len(nodes) > 1 and not _starts_blank(layout.leading(nodes[1])):
                    nodes[1] = layout.led(nodes[1], (BLANK, BLANK))
            if not moved and stmt.blocks and all(isinstance(item, Text) for item in items):
                gone += self.lost_inside(stmt, nodes)
            lead = pending + (() if moved else own) + gone
            return self.mark(stmt, _lead(nodes, layout.strip_blank(lead) if fresh else lead)), ()
        if moved:
            return [], pending
        if stmt.blocks:
            lost = layout.inner_comments(stmt.node.with_changes(leading_lines=()))  # those are its own
        elif type(stmt.node) is cst.FunctionDef:
            lost = layout.inner_comments(stmt.node.body)
        else:
            lost = self.lost(stmt, [])
        return [], pending + layout.comments_only(own) + gone + lost

    def stays(
        self, stmt: Stmt, pending: layout.Lines, own: layout.Lines, opens: bool
    ) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """A statement that is translated where it stands; `opens`: nothing stands above it."""
        extra: layout.Lines = ()
        if stmt.off:
            nodes = [self.untouched(stmt)]
        elif old := self.marks_above(stmt):
            self.writer.findings += old
            kept = any(finding.code == KEPT for finding in old)
            nodes = [self.untouched(stmt)] if kept else self.left_alone(stmt)
        else:
            nodes, extra = self.plain(stmt)
        if self.module.annotated and isinstance(stmt.node, cst.Assign):
            self.annotate(stmt, stmt.node.targets[0].target, nodes)
        lost = self.lost(stmt, nodes)
        if not nodes:
            return [], pending + layout.comments_only(own) + layout.trailing_comment(stmt.trailing) + lost + extra
        own += lost
        if stmt.is_small and type(nodes[-1]) is not cst.SimpleStatementLine:
            own += layout.trailing_comment(stmt.trailing)
        if type(stmt.node) is cst.FunctionDef:  # behind its own lines: comments of decorators that went
            own += layout.leading(nodes[0])[len(stmt.node.leading_lines) :]
        lead = layout.strip_blank(pending + own) if opens else pending + own
        if id(stmt) in self.plan.contexts:
            lead += layout.strip_blank(layout.leading(nodes[0]))
        nodes = self.mark(stmt, [changed(nodes[0], leading_lines=lead), *nodes[1:]])
        return nodes + [n for item in self.plan.behind.get(id(stmt), ()) for n in self.items.item(item)], extra

    def annotate(self, stmt: Stmt, target: cst.BaseExpression, nodes: list[cst.BaseStatement]) -> None:
        """Give the annotation of an assignment back to what became of it, if that is one assignment of that name."""
        was = self.module.annotated.get(id(target))
        lines = [(at, n, n.body[0]) for at, n in enumerate(nodes) if type(n) is cst.SimpleStatementLine and n.body]
        plain = [(at, n, made) for at, n, made in lines if len(n.body) == 1 and _assigns(made, target)]
        if was is None or len(plain) != 1:
            return
        at, line, made = plain[0]
        kept = stmt.off or self.marks_above(stmt)
        annotation = was.annotation if kept else self.writer.expression(was.annotation)
        assert isinstance(made, cst.Assign) and isinstance(annotation, cst.Annotation)
        nodes[at] = line.with_changes(body=[annotated_again(was, annotation, made)])

    def with_definitions(
        self, stmt: Stmt, defined: list[cst.BaseStatement], nodes: list[cst.BaseStatement], top: bool, opens: bool
    ) -> list[cst.BaseStatement]:
        """Functions that the expressions of a statement need, above it; `opens`: nothing else stands above."""
        bare = nodes[0].with_changes(leading_lines=layout.strip_blank(layout.leading(nodes[0])))
        defined = layout.spaced(defined, top)
        if stmt.block.stmts[0] is stmt and not top and opens:
            defined[0] = defined[0].with_changes(leading_lines=())
        return [*defined, layout.led(bare, (BLANK,) * (2 if top else 1)), *nodes[1:]]

    def marks_above(self, stmt: Stmt) -> list[Finding]:
        """Refusals that an earlier conversion left above the statement."""
        found = []
        for line in stmt.leading:
            if line.comment is not None and (hit := MARK.match(line.comment.value)):
                found.append(
                    Finding(hit[1], Tier.REFUSED, hit[2], "marked by an earlier conversion", hit[3], stmt.lineno)
                )
        return found

    def untouched(self, stmt: Stmt) -> cst.BaseStatement:
        """A statement that a person asked to leave as it is, with all that is in it."""
        node = stmt.node
        if isinstance(node, cst.BaseCompoundStatement):
            return as_written(node, self.module.annotated)
        return layout.line(stmt, node)

    def left_alone(self, stmt: Stmt) -> list[cst.BaseStatement]:
        """A marked statement as it stands; what is nested in a compound one is still looked at."""
        if not isinstance(stmt.node, cst.BaseCompoundStatement):
            return [layout.line(stmt, stmt.node)]
        if isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
            return [self.compound(stmt)[0]]  # type: ignore[list-item]
        return [self.with_bodies(stmt, stmt.node, [self.body(b) for b in stmt.blocks])]

    def opened(self, stmt: Stmt) -> layout.Lines:
        """Comments on the first line and below the last of a compound statement that gives way to its body."""
        items = self.plan.replaced.get(id(stmt))
        body = getattr(stmt.node, "body", None)
        if not items or type(body) is not cst.IndentedBlock or not all(i in stmt.blocks[0].stmts for i in items):
            return ()
        return layout.trailing_comment(body.header) + layout.comments_only(body.footer)

    def lost(self, stmt: Stmt, nodes: list[cst.BaseStatement]) -> layout.Lines:
        """Comments inside a small statement that its translation has no place for."""
        if not stmt.is_small:
            return ()
        following = bisect.bisect_left(self.commented, stmt.lineno)
        if following == len(self.commented) or self.commented[following] >= stmt.end_lineno > 0:
            return ()
        kept = [c.comment.value for node in nodes for c in layout.inner_comments(node) if c.comment is not None]
        kept = kept[: len(kept) - 1] if stmt.trailing is not None and stmt.trailing.comment is not None else kept
        return _without(layout.inner_comments(stmt.node), kept)

    def lost_inside(self, stmt: Stmt, nodes: list[cst.BaseStatement]) -> layout.Lines:
        """Comments among the statements of a compound one that became a single expression."""
        kept = [c.comment.value for node in nodes for c in layout.inner_comments(node) if c.comment is not None]
        return _without(layout.inner_comments(stmt.node.with_changes(leading_lines=())), kept)

    def mark(self, stmt: Stmt, nodes: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        marks = [*self.plan.marks.get(id(stmt), ()), *self.writer.marked]
        self.writer.marked = []
        marks = [m for m in marks if self.writer.counts(m)]
        if not marks or not nodes:
            return nodes
        target = nodes[-1] if len(nodes) > 1 and id(stmt) in self.plan.before else nodes[0]
        lines = tuple(target.leading_lines)  # type: ignore[attr-defined]
        present = {line.comment.value for line in lines if line.comment is not None}
        new: list[cst.EmptyLine] = []
        for finding in marks:
            text = finding.mark.replace("\n", " ")
            if text not in present and text not in {line.comment.value for line in new if line.comment}:
                new.append(layout.comment_line(text))
        index = nodes.index(target)
        nodes[index] = target.with_changes(leading_lines=[*lines, *new])
        return nodes

    def may_be_recorded(self) -> bool:
        """Code that is not seen may run the statement at hand where gradients are taken."""
        stmt = self.writer.stmt
        return stmt is not None and gradmodes.may_be_recorded(stmt, self.writer)

    def plain(self, stmt: Stmt) -> tuple[list[cst.BaseStatement], layout.Lines]:
        if id(stmt) in self.plan.contexts:
            return self.context(stmt, self.plan.contexts[id(stmt)])
        if stmt.is_small:
            self.writer.stmt = stmt
            self.writer.recorded = self.writer.differentiated and not gradmodes.unrecorded(stmt, self.writer)
            lines = self.statements.small(stmt)
            if lines:
                refuse_left(stmt, self.writer)
            first, self.writer.first, self.writer.stmt = self.writer.first, [], None
            self.writer.recorded = False
            return [*(node for text in first for node in layout.parse(text)), *lines], ()
        compound, extra = self.compound(stmt)
        return ([compound] if compound is not None else []), extra

    def context(self, stmt: Stmt, items: Sequence[Item]) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """What a `with` becomes: its own statements, or a call of the function they are in."""
        nodes, pending = self.sequence(items)
        if isinstance(stmt.node, cst.With) and isinstance(stmt.node.body, cst.IndentedBlock):
            kept = all(i in stmt.blocks[0].stmts for i in items)
            nodes = _lead(nodes, layout.with_comments(stmt.node) if kept else ())
            pending += layout.comments_only(stmt.node.body.footer)
        return nodes, pending

    def compound(self, stmt: Stmt) -> tuple[cst.BaseStatement | None, layout.Lines]:
        node = stmt.node
        self.writer.line = stmt.lineno
        if type(node) is cst.FunctionDef:
            return self.definitions.function_def(node), ()
        if type(node) is cst.ClassDef:
            return self.definitions.class_def(node), ()
        changes: dict[str, object] = {}
        if type(node) is cst.If or type(node) is cst.While:
            changes["test"] = layout.bare(node.test, self.writer.expression(node.test))
        elif isinstance(node, cst.For):
            changes["iter"] = self.writer.iterated(node)
            if id(node.target) in self.plan.expressions:
                changes["target"] = cst.parse_expression(self.plan.expressions[id(node.target)])
        elif isinstance(node, cst.With):
            changes["items"] = [changed(i, item=self.writer.expression(i.item)) for i in node.items]
        elif isinstance(node, cst.Match):
            changes["subject"] = self.writer.expression(node.subject)
            changes["cases"] = [self.case(case) for case in node.cases]
        elif isinstance(node, (cst.Try, cst.TryStar)):
            changes["handlers"] = [
                handler if handler.type is None else changed(handler, type=self.writer.expression(handler.type))
                for handler in node.handlers
            ]
        refuse_left(stmt, self.writer)
        held, above = self.writer.marked, self.writer.above
        self.writer.marked, self.writer.above = [], []
        header = changed(node, **changes)
        bodies = [self.body(b) for b in stmt.blocks]
        self.writer.above = above
        if all(b is None for b in bodies) and _idle(stmt):
            self.writer.marked = held
            return None, layout.inner_comments(replaced(node, leading_lines=()))
        result = self.with_bodies(stmt, header, bodies)
        self.writer.marked = held
        return result, ()

    def case(self, node: cst.MatchCase) -> cst.MatchCase:
        """The pattern and the guard of a case; its suite is emitted like any other."""
        guard = None if node.guard is None else self.writer.expression(node.guard)
        return changed(node, pattern=self.writer.expression(node.pattern), guard=guard)

    def with_bodies(self, stmt: Stmt, node: cst.CSTNode, bodies: Sequence[cst.BaseSuite | None]) -> cst.BaseStatement:
        handlers: list[cst.CSTNode] = []
        cases = []
        for block, body in zip(stmt.blocks, bodies, strict=False):
            if body is None:
                body = self.emptied(block)
            if block.role == "body":
                node = changed(node, body=body)
            elif block.role == "orelse":
                if isinstance(block.node, cst.If):
                    branch = body.body[0] if isinstance(body, cst.IndentedBlock) else body
                    node = replaced(
                        node, orelse=branch if isinstance(branch, cst.If) and len(body.body) == 1 else cst.Else(body)
                    )
                else:
                    node = changed(node, orelse=changed(node.orelse, body=body))  # type: ignore[attr-defined]
            elif block.role == "handler":
                handlers.append(changed(node.handlers[len(handlers)], body=body))  # type: ignore[attr-defined]
            elif block.role == "finalbody":
                node = changed(node, finalbody=changed(node.finalbody, body=body))  # type: ignore[attr-defined]
            elif block.role == "case":
                cases.append(body)
        if handlers:
            node = changed(node, handlers=handlers)
        if cases:
            node = replaced(node, cases=[replaced(c, body=b) for c, b in zip(node.cases, cases, strict=False)])  # type: ignore[attr-defined]
        return node  # type: ignore[return-value]

    def emptied(self, block: Block) -> cst.IndentedBlock:
        """The suite of a block in which nothing is left; the comment behind its colon stays."""
        suite, nothing = _suite(block), layout.parse("pass")
        return replaced(suite, body=nothing) if isinstance(suite, cst.IndentedBlock) else cst.IndentedBlock(nothing)

    def body(self, block: Block) -> cst.IndentedBlock | cst.SimpleStatementSuite | None:
        """The translated suite of a block; None when nothing is left in it."""
        stmts, pending = self.block(block)
        holder = _suite(block)
        if not stmts and not pending:
            return None
        if not stmts:
            stmts = layout.parse("pass")
        if isinstance(holder, cst.IndentedBlock):
            first = stmts[0]
            plan, top = self.plan, block.stmts[0] if block.stmts else None
            stays = top is not None and not any(id(top) in edits for edits in (plan.moved, plan.replaced, plan.before))
            if top is None or not stays or top.modes:
                stmts[0] = replaced(first, leading_lines=layout.strip_blank(tuple(first.leading_lines)))  # type: ignore[attr-defined]
            return changed(holder, body=stmts, footer=[*pending, *holder.footer])
        if isinstance(holder, cst.SimpleStatementSuite) and all(
            isinstance(s, cst.SimpleStatementLine) and not s.leading_lines for s in stmts
        ):
            small = [b for s in stmts for b in s.body]  # type: ignore[attr-defined]
            if len(small) == len(holder.body):
                return replaced(holder, body=small)
        return cst.IndentedBlock(stmts, footer=pending)


def _suite(block: Block) -> cst.CSTNode:
    """What holds the statements of a block."""
    handler = type(block.node) is cst.ExceptHandler or type(block.node) is cst.ExceptStarHandler
    return block.node.body if handler else block.node  # type: ignore[attr-defined]


def _lead(nodes: list[cst.BaseStatement], lines: layout.Lines) -> list[cst.BaseStatement]:
    if nodes and lines:
        nodes = [layout.led(nodes[0], lines), *nodes[1:]]
    return nodes


def _assigns(node: cst.CSTNode, target: cst.BaseExpression) -> bool:
    """An assignment to one target, which is written like the other."""
    return type(node) is cst.Assign and len(node.targets) == 1 and code(node.targets[0].target) == code(target)


def _without(lines: layout.Lines, kept: list[str]) -> layout.Lines:
    """The comments that are not among those kept; each of them counts once."""
    lost: list[cst.EmptyLine] = []
    for line in lines:
        if line.comment is not None and line.comment.value in kept:
            kept.remove(line.comment.value)
        else:
            lost.append(line)
    return tuple(lost)


def _starts_blank(lines: layout.Lines) -> bool:
    return bool(lines) and lines[0].comment is None


def _idle(stmt: Stmt) -> bool:
    """A condition, or a loop over what has a name, that does nothing where nothing is left in it."""
    if isinstance(stmt.node, cst.For):
        names = {root(d) for d in stmt.defs}
        after = liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
        return isinstance(stmt.node.iter, cst.Name) and not names & after
    return isinstance(stmt.node, cst.If) and not stmt.calls
