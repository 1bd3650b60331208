"""Writes expressions and new lines for the statement at hand, and keeps what they bring up."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import Rules, definitions
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.expressions import Expressions
from torch2ms.rewrite.layers.derived import written_out
from torch2ms.rewrite.parameters.lists import told_apart_in
from torch2ms.rewrite.translation import Notes, Translation
from torch2ms.tape.plan import Plan, Text

Told = tuple[str, int, str]  # code, line and construct of a finding
WRITTEN = frozenset({"ms", "nn", "ops", "mint", "cache"})  # what templates of statements name, and decorators

# what networks and optimizers have and no package of MindSpore has: `nn.set_train()`, where the network is called `nn`
OF_CELLS = "parameters|trainable_params|untrainable_params|get_parameters|set_train|training|param_groups|grads"


class Writer:
    """One per module; those who know a sort of statement write by it."""

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
        self.marked: list[Finding] = []  # what was refused in the statement at hand
        self.above: list[str] = []  # definitions that go above it
        self.first: list[str] = []  # assignments that go right above it, if it is a simple one
        self.stmt: Stmt | None = None  # ... which is this one
        self.line = 0
        self.scope = module.scope
        self.differentiated = False  # whether the function at hand runs inside a gradient function
        self.recorded = False  # and torch records what the statement computes
        self.may_be_recorded: Callable[[], bool] = (
            bool  # it may run inside one that is not seen: asked where it matters
        )
        self.captured: set[str] = set()  # what that function changes of what stands around it: it cannot bind it
        self.unrecorded: dict[int, bool] = {}  # by id of a scope: torch records nothing of what it computes

    def translation(self) -> Translation:
        """A new sheet for one expression."""
        work = Translation(self.project, self.module, self.rules, self.plan, self.aliases)
        work.stmt, work.scope = self.stmt, self.scope
        work.differentiated, work.marked = self.differentiated, bool(self.marked)
        work.facts.recorded, work.facts.may_be_recorded = self.recorded, self.may_be_recorded
        owner = self.module.classes.get(self.scope.cls.name) if self.scope.cls is not None else None
        work.in_cell = owner is not None and owner.kind == "module"
        return work

    def alias(self, name: str) -> str:
        """The name under which one of MindSpore's packages is imported here."""
        return self.aliases.get(name, name)

    def expression(self, node: cst.CSTNode) -> cst.CSTNode:
        """Translate one expression; what it brings up belongs to the statement being emitted."""
        work = self.translation()
        result = Expressions(work).rewrite(node)
        self.absorb(work.notes)
        return result

    def iterated(self, loop: cst.For) -> cst.CSTNode:
        """Translate what a loop goes through: networks among it get other names only to train together."""
        work = self.translation()
        expressions = Expressions(work)
        expressions.leave_unnamed(loop.iter)
        result = expressions.rewrite(loop.iter)
        assert isinstance(result, cst.BaseExpression)
        result = told_apart_in(loop, result, work)
        self.absorb(work.notes)
        return result

    def base(self, node: cst.BaseExpression, cls: ClassInfo) -> cst.BaseExpression:
        """Translate a base of the class."""
        work = self.translation()
        expressions = Expressions(work)
        expressions.mark_classes(node)
        result = written_out(node, cls, work) or expressions.rewrite(node)
        self.absorb(work.notes)
        assert isinstance(result, cst.BaseExpression)
        return result

    def absorb(self, notes: Notes) -> None:
        line = self.line
        for finding in notes.findings:
            placed = finding.at(line)
            self.findings.append(placed)
            if finding.tier is Tier.REFUSED:
                self.marked.append(placed)
        self.needs |= notes.needs
        self.above += notes.above
        self.first += notes.first

    def text(self, template: str, *nodes: cst.CSTNode) -> list[cst.BaseStatement]:
        """New statements; `{0}` stands for the translation of the first node."""
        template = self.aliased(template)
        alone = {int(n) for n in re.findall(r"^if \{(\d+)\}:$", template, re.MULTILINE)}
        made = [self.expression(node) for node in nodes]
        parts = [code(layout.bare(nodes[i], n) if i in alone else layout.standing(n)) for i, n in enumerate(made)]
        text = re.sub(r"\{(\d+)\}", lambda m: parts[int(m.group(1))], template) if parts else template
        return [*self.defined(), *layout.parse(text)]

    def translated(self, text: str) -> list[cst.BaseStatement]:
        """New statements out of what was translated already: every name in it is the right one."""
        return [*self.defined(), *layout.parse(text)]

    def defined(self) -> list[cst.BaseStatement]:
        """Functions that the expressions of a statement need above it."""
        texts, self.above = self.above, []
        return [node for text in texts for node in layout.parse(text)]

    def marked_text(self, item: Text) -> list[cst.BaseStatement]:
        """New statements, with what was refused in them marked above."""
        return self.marked_apart(lambda: self.text(item.template, *item.nodes))

    def marked_apart(self, made: Callable[[], list[cst.BaseStatement]]) -> list[cst.BaseStatement]:
        """Statements that stand behind others made of the same one: what is refused in them is marked above them."""
        waiting, self.marked = self.marked, []
        nodes = made()
        marks = dict.fromkeys(m.mark.replace("\n", " ") for m in self.marked if self.counts(m))
        if marks and nodes:
            nodes[0] = layout.led(nodes[0], tuple(layout.comment_line(m) for m in marks))
        self.marked = waiting
        return nodes

    def aliased(self, text: str) -> str:
        """New code under the names that MindSpore's packages have in this module; other names in it are the user's."""
        for name in WRITTEN & self.aliases.keys():
            brought = rf"(?<![\w.]){name}(?=\.(?!(?:{OF_CELLS})\b))|(?<=^@){name}$"
            text = re.sub(brought, self.aliases[name], text)
        for name in self.needs & self.aliases.keys() & definitions.table().keys():
            # a function of ours, and the user has one of that name
            text = re.sub(rf"(?<![\w.]){name}(?=\()", self.aliases[name], text)
        return text

    def counts(self, finding: Finding) -> bool:
        """Nobody asked to leave the place alone, and what was asked for speaks of it."""
        told = self.told is None or (finding.code, finding.line, finding.what) in self.told
        return told and not self.module.directives.speaks_of(finding.code, finding.line)

    def tell(self, rule: str, what: str, why: str, tier: Tier = Tier.EXACT) -> None:
        self.findings.append(Finding(rule, tier, what, why, line=self.line))

    def refuse(self, rule: str, what: str, why: str, todo: str) -> None:
        finding = Finding(rule, Tier.REFUSED, what, why, todo, self.line)
        self.findings.append(finding)
        self.marked.append(finding)
