"""Writes the translated module: statements in their planned places, expressions by the rules, comments kept."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.modes import is_no_grad
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Block, Scope, Stmt
from torch2ms.analysis.project import FunctionInfo, ModuleInfo, Project, qualified
from torch2ms.analysis.tree import code
from torch2ms.api import Rules
from torch2ms.api.imports import IMPORTS
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import layout
from torch2ms.rewrite.expressions import Expressions, FullNames, Notes
from torch2ms.rewrite.signatures import with_parameters
from torch2ms.rewrite.statements import Statements
from torch2ms.tape.plan import Branch, Class, Copy, Function, Item, Plan, Text

MARK = re.compile(r"#\s*torch2ms: (T2M\d{3}) (.*?) -> (.*)")
BLANK = cst.EmptyLine(indent=False)
Told = tuple[str, int, str]  # code, line and construct of a finding


class Emitter:
    """Emits one module."""

    def __init__(
        self,
        project: Project,
        module: ModuleInfo,
        rules: Rules,
        plan: Plan,
        aliases: dict[str, str],
        told: frozenset[Told] | None = None,
    ) -> None:
        self.project = project
        self.module = module
        self.rules = rules
        self.plan = plan
        self.aliases = aliases
        self.told = told
        self.findings: list[Finding] = list(plan.findings)
        self.needs: set[str] = set(plan.needs)
        self.differentiated = False
        self.scope = module.scope
        self.config = module.tree.config_for_parsing
        self.statements = Statements(self)
        self.commented = [n for n, line in enumerate(re.split(r"\r\n|\r|\n", module.source), 1) if "#" in line]
        self.by_node = {id(s.node): s for s in module.scope.walk()}
        self.marked: list[Finding] = []
        self.above: list[str] = []
        self.first: list[str] = []  # assignments that go right above the simple statement being emitted
        self.stmt: Stmt | None = None  # ... which is this one

    def emit(self) -> cst.Module:
        body, footer = self.block(self.module.scope.body)
        tree = self.module.tree
        return tree.with_changes(body=body, footer=[*footer, *tree.footer])

    # --- blocks

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
                nodes = self.item(item)
                out += _lead(nodes, pending)
                pending = ()
                continue
            stmt = item
            around = stmt.block.owner.modes if stmt.block.owner is not None else ()
            own_modes = tuple(m for m in stmt.modes if m not in around)
            for mode in modes:
                if mode not in own_modes:
                    nodes, lines = self.close(mode, open_stmts.pop(id(mode), []))
                    out += _lead(nodes, pending) if nodes else []
                    pending = (() if nodes else pending) + lines
            for mode in own_modes:
                if mode not in modes:
                    pending += self.open(mode, stmt)
                open_stmts.setdefault(id(mode), []).append(stmt)
            modes = own_modes
            nodes, pending = self.statement(stmt, pending, fresh=not out and position > 0, top=top, placed=placed)
            out += nodes
        for mode in modes:
            nodes, lines = self.close(mode, open_stmts.pop(id(mode), []))
            out += _lead(nodes, pending) if nodes else []
            pending = (() if nodes else pending) + lines
        return out, pending

    def open(self, mode: cst.With, stmt: Stmt) -> layout.Lines:
        lines = tuple(mode.leading_lines)
        header = mode.body.header if isinstance(mode.body, cst.IndentedBlock) else None
        self.findings.append(Finding("T2M301", Tier.EXACT, "gradient mode block",
                                     "MindSpore records only inside gradient functions: dissolved",
                                     line=max(stmt.lineno - 1, 1)))  # fmt: skip
        return lines + layout.trailing_comment(header)

    def close(self, mode: cst.With, stmts: list[Stmt]) -> tuple[list[cst.BaseStatement], layout.Lines]:
        footer = mode.body.footer if isinstance(mode.body, cst.IndentedBlock) else ()
        nodes: list[cst.BaseStatement] = []
        if self.differentiated and self.cuts(mode):
            names: dict[str, None] = {}
            for stmt in stmts:
                for inner in stmt.walk():
                    for place in sorted(inner.defs):
                        if inner.out.get(place) is not None and inner.out[place].kind in (
                            "tensor",
                            "unknown",
                            "tuple",
                            "list",
                            "dict",
                        ):
                            names.setdefault(place)
                    names = {n: None for n in names if n not in _cut(inner)}
            for name in names:
                nodes += self.text(Text(f"{name} = ops.stop_gradient({name})"))
                self.needs.add("ops")
        return nodes, layout.comments_only(footer)

    def cuts(self, mode: cst.With) -> bool:
        for item in mode.items:
            name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, self.module.imports)
            if name.rpartition(".")[2] in ("no_grad", "inference_mode"):
                return True
        return False

    def statement(
        self, stmt: Stmt, pending: layout.Lines, fresh: bool, top: bool, placed: bool
    ) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """What one statement becomes, and the comments that wait for the next."""
        key = id(stmt)
        out: list[cst.BaseStatement] = []
        arrived = placed and key in self.plan.moved
        above = None if arrived else self.plan.before.get(key)
        own = tuple(stmt.leading)
        if above:
            nodes = [n for item in above for n in self.item(item)]
            out += self.spaced(nodes, top)
            has_def = any(isinstance(i, (Function, Class)) for i in above)
            if top and has_def:
                apart = 2 if isinstance(above[-1], (Function, Class)) else 1
                own = (BLANK,) * apart + layout.strip_blank(own) if apart == 2 or not _starts_blank(own) else own
            elif has_def:
                ends = isinstance(above[-1], (Function, Class))
                own = (BLANK,) * ends + layout.strip_blank(own)
        if not arrived and not stmt.off and (key in self.plan.moved or key in self.plan.replaced):
            gone = () if key in self.plan.moved else layout.trailing_comment(stmt.trailing) + self.opened(stmt)
            if key in self.plan.replaced and self.plan.replaced[key]:
                nodes = [
                    n
                    for item in self.plan.replaced[key]
                    for n in (self.sequence([item], placed=True)[0] if isinstance(item, Stmt) else self.item(item))
                ]
                lead = pending + (() if key in self.plan.moved else own) + gone
                functions = [i for i, item in enumerate(self.plan.replaced[key]) if isinstance(item, Function)]
                if functions:
                    nodes = self.spaced(nodes, top)
                    if top and len(nodes) > 1:
                        second = nodes[1]
                        if not _starts_blank(tuple(second.leading_lines)):  # type: ignore[attr-defined]
                            nodes[1] = _prepend(second, (BLANK, BLANK))
                out += _lead(nodes, layout.strip_blank(lead) if fresh else lead)
                return self.mark(stmt, out), ()
            if key in self.plan.moved:
                return out, pending
            lost = (
                layout.inner_comments(stmt.node)
                if stmt.blocks
                else layout.inner_comments(stmt.node.body)
                if isinstance(stmt.node, cst.FunctionDef)
                else self.lost(stmt, [])
            )
            return out, pending + layout.comments_only(own) + gone + lost
        extra: layout.Lines = ()
        if stmt.off:
            nodes = [self.untouched(stmt)]
        elif old := self.marks_above(stmt):
            self.findings += old
            nodes = self.left_alone(stmt)
        else:
            nodes, extra = self.plain(stmt)
        defined = self.defined()
        lost = self.lost(stmt, nodes)
        if not nodes:
            return out, pending + layout.comments_only(own) + layout.trailing_comment(stmt.trailing) + lost + extra
        own += lost
        if isinstance(stmt.node, cst.BaseSmallStatement) and isinstance(nodes[-1], cst.BaseCompoundStatement):
            own += layout.trailing_comment(stmt.trailing)
        lead = pending + own
        lead = layout.strip_blank(lead) if fresh and not out else lead
        if key in self.plan.contexts:
            lead += layout.strip_blank(tuple(nodes[0].leading_lines))  # type: ignore[attr-defined]
        nodes = [nodes[0].with_changes(leading_lines=lead), *nodes[1:]]
        nodes = self.mark(stmt, nodes)
        nodes += [n for item in self.plan.behind.get(key, ()) for n in self.item(item)]
        if defined:
            gap = (BLANK,) * (2 if top else 1)
            first = stmt.block.stmts[0] is stmt and not top and not out
            lines = layout.strip_blank(tuple(nodes[0].leading_lines))  # type: ignore[attr-defined]
            nodes[0] = _prepend(nodes[0].with_changes(leading_lines=lines), gap)
            defined = self.spaced(defined, top)
            if first:
                defined[0] = defined[0].with_changes(leading_lines=())
            nodes = [*defined, *nodes]
        return out + nodes, extra

    def defined(self) -> list[cst.BaseStatement]:
        """Functions that the expressions of a statement need above it."""
        texts, self.above = self.above, []
        return [node for text in texts for node in layout.parse(text, self.config)]

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
        return node if isinstance(node, cst.BaseCompoundStatement) else self.statements.line(stmt, node)

    def left_alone(self, stmt: Stmt) -> list[cst.BaseStatement]:
        """A marked statement as it stands; what is nested in a compound one is still looked at."""
        if not isinstance(stmt.node, cst.BaseCompoundStatement):
            return [self.statements.line(stmt, stmt.node)]
        if isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
            return [self.compound(stmt)[0]]  # type: ignore[list-item]
        return [self.with_bodies(stmt, stmt.node, [self.body(b) for b in stmt.blocks])]

    def opened(self, stmt: Stmt) -> layout.Lines:
        """Comments on the first line and below the last of a compound statement that gives way to its body."""
        items = self.plan.replaced.get(id(stmt))
        body = getattr(stmt.node, "body", None)
        if not items or not isinstance(body, cst.IndentedBlock) or not all(i in stmt.blocks[0].stmts for i in items):
            return ()
        return layout.trailing_comment(body.header) + layout.comments_only(body.footer)

    def lost(self, stmt: Stmt, nodes: list[cst.BaseStatement]) -> layout.Lines:
        """Comments inside a small statement that its translation has no place for."""
        if not isinstance(stmt.node, cst.BaseSmallStatement):
            return ()
        following = bisect.bisect_left(self.commented, stmt.lineno)
        if following == len(self.commented) or self.commented[following] >= stmt.end_lineno > 0:
            return ()
        kept = [c.comment.value for node in nodes for c in layout.inner_comments(node) if c.comment is not None]
        kept = kept[: len(kept) - 1] if stmt.trailing is not None and stmt.trailing.comment is not None else kept
        lost: list[cst.EmptyLine] = []
        for line in layout.inner_comments(stmt.node):
            if line.comment is not None and line.comment.value in kept:
                kept.remove(line.comment.value)
            else:
                lost.append(line)
        return tuple(lost)

    def mark(self, stmt: Stmt, nodes: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        marks = [*self.plan.marks.get(id(stmt), ()), *self.marked]
        self.marked = []
        marks = [m for m in marks if self.counts(m)]
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

    def counts(self, finding: Finding) -> bool:
        """Nobody asked to leave the place alone, and what was asked for speaks of it."""
        told = self.told is None or (finding.code, finding.line, finding.what) in self.told
        return told and not self.module.directives.speaks_of(finding.code, finding.line)

    # --- items the planner made

    def item(self, item: Item) -> list[cst.BaseStatement]:
        if isinstance(item, Text):
            return self.marked_text(item)
        if isinstance(item, Function):
            return [self.function(item)]
        if isinstance(item, Class):
            return [self.new_class(item)]
        if isinstance(item, Branch):
            return [self.branch(item)]
        if isinstance(item, Copy):
            return self.copy(item)
        return self.sequence([item], placed=True)[0]

    def copy(self, item: Copy) -> list[cst.BaseStatement]:
        plan, key = self.plan, id(item.stmt)
        expressions, context = plan.expressions, plan.contexts.pop(key, None)
        plan.expressions = expressions | item.expressions
        moved = key in plan.moved
        plan.moved.add(key)
        nodes = self.sequence([item.stmt], placed=True)[0]
        plan.expressions = expressions
        if not moved:
            plan.moved.discard(key)
        if context is not None:
            plan.contexts[key] = context
        return nodes

    def text(self, item: Text) -> list[cst.BaseStatement]:
        template = self.aliased(item.template)
        parts = []
        for node in item.nodes:
            parts.append(code(self.expression(node)))
        text = re.sub(r"\{(\d+)\}", lambda m: parts[int(m.group(1))], template) if parts else template
        return [*self.defined(), *layout.parse(text, self.config)]

    def marked_text(self, item: Text) -> list[cst.BaseStatement]:
        """New statements, with what was refused in them marked above."""
        waiting, self.marked = self.marked, []
        nodes = self.text(item)
        marks = dict.fromkeys(m.mark.replace("\n", " ") for m in self.marked if self.counts(m))
        if marks:
            nodes[0] = _prepend(nodes[0], tuple(layout.comment_line(m) for m in marks))
        self.marked = waiting
        return nodes

    def aliased(self, text: str) -> str:
        """New code under the names that MindSpore's packages have in this module; `optim.` is always the user's."""
        for name, alias in self.aliases.items():
            if name == "optim" or name not in IMPORTS:
                continue
            text = re.sub(rf"\b{name}\.", f"{alias}.", text)
        return text

    def function(self, item: Function) -> cst.FunctionDef:
        outer, self.differentiated = self.differentiated, self.differentiated or item.differentiated
        body, pending = self.sequence(item.body, placed=True)
        self.differentiated = outer
        if any(isinstance(i, Function) for i in item.body):
            body = self.spaced(body, top=False)
        if body:
            body[0] = body[0].with_changes(
                leading_lines=[*item.comments, *layout.strip_blank(tuple(body[0].leading_lines))]  # type: ignore[attr-defined]
            )
        decorator = self.aliased(item.decorator) + "\n" if item.decorator else ""
        head = layout.parse(f"{decorator}def {item.name}({', '.join(item.params)}):\n    pass", self.config)[0]
        assert isinstance(head, cst.FunctionDef)
        return head.with_changes(body=cst.IndentedBlock(body, footer=pending))

    def new_class(self, item: Class) -> cst.ClassDef:
        (made,) = layout.parse(self.aliased(item.text), self.config)
        assert isinstance(made, cst.ClassDef)
        body = [*made.body.body, _prepend(self.function(item.method), (BLANK,))]
        return made.with_changes(body=made.body.with_changes(body=body))

    def branch(self, item: Branch) -> cst.If:
        body, footer = self.sequence(item.body, placed=True)
        orelse, footer2 = self.sequence(item.orelse, placed=True)
        body[0] = body[0].with_changes(leading_lines=layout.strip_blank(tuple(body[0].leading_lines)))  # type: ignore[attr-defined]
        orelse[0] = orelse[0].with_changes(leading_lines=layout.strip_blank(tuple(orelse[0].leading_lines)))  # type: ignore[attr-defined]
        comments: list[cst.EmptyLine] = []
        test = self.expression(item.test)
        assert isinstance(test, cst.BaseExpression)
        return cst.If(
            test, cst.IndentedBlock(body, footer=footer),
            orelse=cst.Else(cst.IndentedBlock(orelse, footer=footer2)), leading_lines=comments,
        )  # fmt: skip

    def spaced(self, nodes: list[cst.BaseStatement], top: bool) -> list[cst.BaseStatement]:
        """Blank lines around new definitions as PEP 8 has them."""
        out: list[cst.BaseStatement] = []
        after = False
        for node in nodes:
            gap = 2 if top else 1
            if after or isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                node = _prepend(node, (BLANK,) * gap)
            after = isinstance(node, (cst.FunctionDef, cst.ClassDef))
            out.append(node)
        return out

    # --- statements that stay

    def plain(self, stmt: Stmt) -> tuple[list[cst.BaseStatement], layout.Lines]:
        node = stmt.node
        if id(stmt) in self.plan.contexts:
            return self.context(stmt, self.plan.contexts[id(stmt)])
        if isinstance(node, cst.BaseSmallStatement):
            self.stmt = stmt
            lines = self.statements.small(stmt)
            first, self.first, self.stmt = self.first, [], None
            return [*(node for text in first for node in layout.parse(text, self.config)), *lines], ()
        compound, extra = self.compound(stmt)
        return ([compound] if compound is not None else []), extra

    def context(self, stmt: Stmt, items: Sequence[Item]) -> tuple[list[cst.BaseStatement], layout.Lines]:
        """What a `with` becomes: its own statements, or a call of the function they are in."""
        nodes, pending = self.sequence(items)
        body = stmt.node.body if isinstance(stmt.node, cst.With) else None
        if isinstance(body, cst.IndentedBlock):
            header = layout.trailing_comment(body.header) if all(i in stmt.blocks[0].stmts for i in items) else ()
            nodes = _lead(nodes, header)
            pending += layout.comments_only(body.footer)
        return nodes, pending

    def expression(self, node: cst.CSTNode) -> cst.CSTNode:
        """Translate one expression; what it brings up belongs to the statement being emitted."""
        visitor = Expressions(self.project, self.module, self.rules, self.plan, self.differentiated, self.aliases)
        visitor.stmt = self.stmt
        result = visitor.rewrite(node)
        self.absorb(visitor.notes)
        return result

    def absorb(self, notes: Notes) -> None:
        line = self.line
        for finding in notes.findings:
            placed = replace(finding, line=line)
            self.findings.append(placed)
            if finding.tier is Tier.REFUSED:
                self.marked.append(placed)
        self.needs |= notes.needs
        self.above += notes.above
        self.first += notes.first

    line = 0

    def compound(self, stmt: Stmt) -> tuple[cst.BaseStatement | None, layout.Lines]:
        node = stmt.node
        self.line = stmt.lineno
        if isinstance(node, cst.FunctionDef):
            return self.function_def(stmt, node), ()
        if isinstance(node, cst.ClassDef):
            return self.class_def(stmt, node), ()
        changes: dict[str, object] = {}
        if isinstance(node, (cst.If, cst.While)):
            changes["test"] = self.expression(node.test)
        elif isinstance(node, cst.For):
            changes["iter"] = self.expression(node.iter)
            if id(node.target) in self.plan.expressions:
                changes["target"] = cst.parse_expression(self.plan.expressions[id(node.target)])
        elif isinstance(node, cst.With):
            changes["items"] = [i.with_changes(item=self.expression(i.item)) for i in node.items]
        elif isinstance(node, cst.Match):
            changes["subject"] = self.expression(node.subject)
        held, above = self.marked, self.above
        self.marked, self.above = [], []
        changed = node.with_changes(**changes)
        bodies = [self.body(b) for b in stmt.blocks]
        self.above = above
        if isinstance(node, cst.If) and all(b is None for b in bodies) and not stmt.calls:
            self.marked = held
            return None, layout.inner_comments(stmt.node)
        result = self.with_bodies(stmt, changed, bodies)
        self.marked = held
        return result, ()

    def with_bodies(self, stmt: Stmt, node: cst.CSTNode, bodies: Sequence[cst.BaseSuite | None]) -> cst.BaseStatement:
        handlers, cases = [], []
        for block, body in zip(stmt.blocks, bodies, strict=False):
            if body is None:
                body = cst.IndentedBlock(layout.parse("pass", self.config))
            if block.role == "body":
                node = node.with_changes(body=body)
            elif block.role == "orelse":
                if isinstance(block.node, cst.If):
                    branch = body.body[0] if isinstance(body, cst.IndentedBlock) else body
                    node = node.with_changes(
                        orelse=branch if isinstance(branch, cst.If) and len(body.body) == 1 else cst.Else(body)
                    )
                else:
                    node = node.with_changes(orelse=node.orelse.with_changes(body=body))  # type: ignore[attr-defined]
            elif block.role == "handler":
                handlers.append(block.node.with_changes(body=body))
            elif block.role == "finalbody":
                node = node.with_changes(finalbody=node.finalbody.with_changes(body=body))  # type: ignore[attr-defined]
            elif block.role == "case":
                cases.append(body)
        if handlers:
            node = node.with_changes(handlers=handlers)
        if cases:
            node = node.with_changes(cases=[c.with_changes(body=b) for c, b in zip(node.cases, cases, strict=False)])  # type: ignore[attr-defined]
        return node  # type: ignore[return-value]

    def body(self, block: Block) -> cst.IndentedBlock | cst.SimpleStatementSuite | None:
        """The translated suite of a block; None when nothing is left in it."""
        stmts, pending = self.block(block)
        holder: cst.CSTNode = block.node
        if isinstance(holder, (cst.ExceptHandler, cst.ExceptStarHandler)):
            holder = holder.body
        if not stmts and not pending:
            return None
        if not stmts:
            stmts = layout.parse("pass", self.config)
        if isinstance(holder, cst.IndentedBlock):
            first = stmts[0]
            if (
                len(block.stmts)
                and not block.stmts[0].modes
                and id(block.stmts[0]) not in self.plan.replaced | self.plan.before
            ):
                pass
            else:
                stmts[0] = first.with_changes(leading_lines=layout.strip_blank(tuple(first.leading_lines)))  # type: ignore[attr-defined]
            return holder.with_changes(body=stmts, footer=[*pending, *holder.footer])
        if isinstance(holder, cst.SimpleStatementSuite) and all(
            isinstance(s, cst.SimpleStatementLine) and not s.leading_lines for s in stmts
        ):
            small = [b for s in stmts for b in s.body]  # type: ignore[attr-defined]
            if len(small) == len(holder.body):
                return holder.with_changes(body=small)
        return cst.IndentedBlock(stmts, footer=pending)

    # --- definitions

    def function_def(self, stmt: Stmt, node: cst.FunctionDef) -> cst.FunctionDef:
        scope = self.by_node[id(node)]
        info = self.module.functions[id(scope)]
        outer, outer_scope = self.differentiated, self.scope
        head = self.plan.heads.get(id(node))
        self.differentiated = info.differentiated and head is None
        self.scope = scope
        decorators, above = self.decorators(node, info)
        params = self.expression(head.params if head is not None else node.params)
        if head is None:
            assert isinstance(params, cst.Parameters)
            params = with_parameters(node, params, self.plan)
        typed = node.returns is not None and (head is None or head.returns)
        returns = self.expression(node.returns) if typed and node.returns is not None else None
        name = head.name if head is not None else self.statements.method_name(info)
        held, self.marked = self.marked, []
        waiting, self.above = self.above, []
        body = self.body(scope.body)
        self.marked, self.above = held, waiting
        self.differentiated, self.scope = outer, outer_scope
        if body is None:
            body = cst.IndentedBlock(layout.parse("pass", self.config))
        if (index := self.statements.tensor_index(info)) and isinstance(body, cst.IndentedBlock):
            body = layout.prepended(body, layout.parse(f"{index} = int({index})", self.config))
        result = node.with_changes(
            body=body, params=params, decorators=decorators, returns=returns, name=node.name.with_changes(value=name)
        )
        if above:
            result = result.with_changes(leading_lines=[*result.leading_lines, *above])
        return result

    def decorators(self, node: cst.FunctionDef, info: FunctionInfo) -> tuple[list[cst.Decorator], layout.Lines]:
        kept: list[cst.Decorator] = []
        above: layout.Lines = ()
        head = self.plan.heads.get(id(node))
        for decorator in node.decorators:
            called = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
            if head is not None and dotted(called).rpartition(".")[2] in head.dropped:
                above += layout.comments_only(decorator.leading_lines) + layout.trailing_comment(
                    decorator.trailing_whitespace
                )
            elif any(line.comment is not None and "T2M304" in line.comment.value for line in node.leading_lines):
                kept.append(decorator)  # an earlier conversion refused it
            elif is_no_grad(decorator.decorator, self.module):
                above += layout.comments_only(decorator.leading_lines) + layout.trailing_comment(
                    decorator.trailing_whitespace
                )
                why = "nothing is recorded outside gradient functions: the decorator goes"
                tier, code_ = Tier.EXACT, "T2M301"
                finding = Finding(code_, tier, "no_grad decorator", why, line=self.line)
                cut = self.returns(info) if info.differentiated else []
                if cut is None:
                    finding = Finding("T2M304", Tier.REFUSED, "no_grad decorator",
                                      "the function also runs inside a gradient function",
                                      "put ops.stop_gradient around what it returns", self.line)  # fmt: skip
                    self.marked.append(finding)
                    kept.append(decorator)
                self.findings.append(finding)
                for value in cut or ():
                    self.statements.stopped.add(id(value))
            else:
                kept.append(decorator.with_changes(decorator=self.expression(decorator.decorator)))
        return kept, above

    def returns(self, info: FunctionInfo) -> list[cst.BaseExpression] | None:
        """The tensors a no_grad function returns, whose gradients are stopped; None where they are not seen."""
        found: list[cst.BaseExpression] = []
        for stmt in info.scope.body.walk():
            if not isinstance(stmt.node, cst.Return) or stmt.node.value is None:
                continue
            value = stmt.node.value
            parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
            for part in parts:
                kind = self.module.value(part).kind
                if kind == "tensor":
                    found.append(part)
                elif kind not in ("int", "float", "bool", "str", "none", "numpy", "size"):
                    return None
        return found

    def class_def(self, stmt: Stmt, node: cst.ClassDef) -> cst.ClassDef:
        scope = self.by_node[id(node)]
        cls = self.module.classes[node.name.value]
        bases = self.statements.bases(cls, node)
        if cls.refused:
            kept = node.visit(FullNames(self.module, self.needs))
            assert isinstance(kept, cst.ClassDef)
            return kept
        decorators = [d.with_changes(decorator=self.expression(d.decorator)) for d in node.decorators]
        held, self.marked = self.marked, []
        outer, self.scope = self.scope, scope
        body = self.body(scope.body)
        self.scope = outer
        self.marked = held
        result = node.with_changes(body=body, decorators=decorators)
        if bases != list(node.bases):
            result = result.with_changes(bases=bases)
            if not bases and not node.keywords:
                result = result.with_changes(lpar=cst.MaybeSentinel.DEFAULT, rpar=cst.MaybeSentinel.DEFAULT)
        return result


def _cut(stmt: Stmt) -> set[str]:
    """What a statement itself cuts from the graph: `x.detach_()`, `x = y.detach()`."""
    node = stmt.node
    value = node.value if isinstance(node, (cst.Expr, cst.Assign)) else None
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return set()
    if isinstance(node, cst.Expr) and value.func.attr.value == "detach_":
        return {dotted(value.func.value)}
    return stmt.defs if value.func.attr.value in ("detach", "detach_") else set()


def _prepend(node: cst.BaseStatement, lines: layout.Lines) -> cst.BaseStatement:
    return node.with_changes(leading_lines=[*lines, *node.leading_lines])  # type: ignore[attr-defined]


def _lead(nodes: list[cst.BaseStatement], lines: layout.Lines) -> list[cst.BaseStatement]:
    if nodes and lines:
        nodes = [_prepend(nodes[0], lines), *nodes[1:]]
    return nodes


def _starts_blank(lines: layout.Lines) -> bool:
    return bool(lines) and lines[0].comment is None


__all__ = ["Emitter", "Scope"]
