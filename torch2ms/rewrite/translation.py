"""What the API rules make of an expression, and what that brings up for the statement around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.api import Outcome, Rule, Rules, apply_call
from torch2ms.api.imports import IMPORTS
from torch2ms.api.stars import constants, in_place, of_two, written_out
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.parsing import constant
from torch2ms.rewrite.facts import ModuleFacts
from torch2ms.rewrite.initial import assigned, in_parameter, is_unheld, of_view, put_in, sized, tensor, values, viewed
from torch2ms.rewrite.naming import named_in_order, taken_names
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.parameters.renewed import at_work
from torch2ms.rewrite.parameters.shown import held
from torch2ms.tape.plan import Plan

_LOOP = (
    "T2M533",
    "Lightning runs the training from its own loop",
    "a Cell, and a plain loop with ms.value_and_grad",
)
PAGES = {
    "pytorch_lightning": _LOOP,
    "lightning": _LOOP,
    "lightning_fabric": _LOOP,
    "deepspeed": ("T2M534", "DeepSpeed's engine differentiates and steps", "ms.value_and_grad and an optimizer"),
}  # packages that run the training themselves: code, reason and what to do


@dataclass
class Notes:
    """What the translation of one statement brought up."""

    findings: list[Finding] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    first: list[str] = field(default_factory=list)  # assignments that go right above it
    above: list[str] = field(default_factory=list)  # definitions that go above the statement

    @property
    def refused(self) -> list[Finding]:
        return [f for f in self.findings if f.tier is Tier.REFUSED]


CONSTANTS = frozenset({"int", "str", "tuple", "none"})  # a bool may be a switch that somebody turns


class Translation:
    """One instance per statement; `notes` collects what was decided."""

    def __init__(self, project: Project, module: ModuleInfo, rules: Rules, plan: Plan, aliases: dict[str, str]) -> None:
        self.project = project
        self.module = module
        self.rules = rules
        self.plan = plan
        self.aliases = aliases
        self.facts = ModuleFacts(project, module)
        self.mixed = module.uses_mindspore  # translated before: what is left of torch are names, not methods
        self.notes = Notes()
        self.scope = module.scope  # where it stands
        self.stmt: Stmt | None = None  # the simple statement that the expression belongs to
        self.differentiated = False  # it stands in a function that is differentiated
        self.in_cell = False  # it stands in a method of a cell
        self.marked = False  # the statement is refused already

    def alias(self, name: str) -> str:
        """The name under which one of MindSpore's packages is imported here."""
        return self.aliases.get(name, name)

    def apply(self, rule: Rule, original: cst.Call, updated: cst.Call) -> Outcome:
        """What the rule makes of a call, with what it spreads written out; names of constants count as these."""
        rule = of_two(rule, original, self.rules, self.module)
        calls = written_out(original, updated, rule, self.module, self.stmt)
        if self.hides_change(rule, original, updated):
            todo = "write inplace=True into the call, or leave it out"
            why = "what it changes in place, or whether it does, does not stand in the call"
            return Outcome(None, (Finding("T2M606", Tier.REFUSED, rule.name, why, todo),))
        outcome = self._applied(rule, *calls)
        if outcome.node is not None and not self._named_constants(rule, calls[0]):
            return outcome
        named = constants(*calls, self.module, self.stmt)
        again = self._applied(rule, *named, drawn=id(calls[0]) in self.plan.drawn)
        if outcome.node is None:
            return again if again.node is not None else outcome
        return outcome if again.form is not None and outcome.form and again.form.to == outcome.form.to else again

    def _named_constants(self, rule: Rule, call: cst.Call) -> bool:
        """Names stand in the call for what may decide the form: `pads = (-1, 0)`."""
        if len(rule.forms) == 1 and rule.choose is None:
            return False
        named = (arg.value for arg in call.args if type(arg.value) is cst.Name and not arg.star)
        return any(self.module.value(name).kind in CONSTANTS for name in named)

    def hides_change(self, rule: Rule, original: cst.Call, updated: cst.Call) -> bool:
        """`inplace=True` stands behind a star or a name, where nobody looks for it, or its input does."""
        if "inplace" not in rule.main.signature.by_name:
            return False
        if original.args and original.args[0].star == "*" and rule.name.startswith("torch.nn.functional."):
            named = (a for a in original.args if a.keyword is not None and a.keyword.value == "inplace")
            if any(code(a.value) != "False" for a in named):
                return True
        if in_place(rule, original, updated):
            return False
        calls = written_out(original, updated, rule, self.module, self.stmt)
        return in_place(rule, *constants(*calls, self.module, self.stmt))

    def _applied(self, rule: Rule, original: cst.Call, updated: cst.Call, drawn: bool = False) -> Outcome:
        """What the rule makes of a call, of which tensors that nobody else has are no part.

        `drawn`: the statement takes the values that an initialiser draws.
        """
        unheld = is_unheld(rule, original, self.module)
        if unheld and (outcome := sized(rule, original, updated, self.facts)) is not None:
            return outcome
        view = of_view(rule, original, updated, self.facts)
        outcome = view or self.filled(rule, original, updated)
        drawn = drawn or id(original) in self.plan.drawn
        if rule.name.startswith("torch.nn.init.") and not drawn and self._fills_inside(outcome, original):
            why, todo = "an in-place change inside an expression", "write it as a statement of its own"
            return Outcome(None, (Finding("T2M610", Tier.REFUSED, rule.name, why, todo),))
        if rule.name == "torch.nn.Parameter":
            return held(in_parameter(outcome), original, self.stmt, self.module)
        if unheld:
            return values(outcome)
        begun = rule.name.startswith("torch.nn.init.") and self.stmt is not None and at_work(self.project, self.stmt)
        if begun or view is not None:
            return assigned(outcome, self.alias("ops"))
        return outcome

    def _fills_inside(self, outcome: Outcome, original: cst.Call) -> bool:
        """Whether a tensor that is no parameter would be asked to take the values of an initialiser in."""
        if put_in(outcome.node) is None or (made := tensor(original)) is None:
            return False
        filled = made.value.func.value if viewed(made.value) else made.value  # type: ignore[attr-defined]
        value = self.module.value(filled)
        bare = value.kind == "tensor" and not value.likely and isinstance(filled, cst.Name)
        return bare and not is_parameter(filled, value, self.module, self.plan)

    def filled(self, rule: Rule, original: cst.Call, updated: cst.Call) -> Outcome:
        """What the rule makes of a call; what it needs twice gets a name above the statement."""
        outcome = apply_call(rule, original, updated, self.facts)
        lines: dict[str, str] = {}  # parts that have a name by now, and the line that gives it
        moved: set[int] = set()
        while outcome.twice and outcome.twice not in lines and self.stmt is not None and not self.mixed:
            taken = taken_names(self.module, self.plan)
            made = named_in_order(outcome.twice, rule, original, updated, self.stmt, taken, moved)
            if made is None:
                return outcome
            updated = made[0]
            lines |= made[1]
            outcome = apply_call(rule, original, updated, self.facts)
        if outcome.node is not None:
            self.notes.first += lines.values()
        return outcome

    def ruled(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        rule = self.rules.find(name)
        if rule is None:
            return updated
        return self.take(self.apply(rule, original, updated), updated)

    def take(self, outcome: Outcome, updated: cst.BaseExpression) -> cst.BaseExpression:
        self.notes.findings.extend(outcome.findings)
        self.notes.needs |= outcome.needs
        if outcome.node is None:
            return updated
        node = outcome.node
        if self.aliases.keys() & outcome.needs:
            aliased = _Aliased(self.aliases, {id(n) for n in descend(updated)})
            renamed = node.visit(aliased)
            assert isinstance(renamed, cst.BaseExpression)
            node = aliased.renamed(node, renamed)
        if getattr(updated, "lpar", None) and not getattr(node, "lpar", None) and "\n" in code(node):
            return node.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        if isinstance(updated, cst.Call) and any(node is arg.value for arg in updated.args):
            made = layout.standing(node)  # the parentheses of the call are gone
            assert isinstance(made, cst.BaseExpression)
            return made
        return node

    def unknown(self, name: str, updated: cst.BaseExpression) -> cst.BaseExpression:
        if (page := PAGES.get(name.partition(".")[0])) is not None:
            self.refuse(page[0], name, *page[1:])
            return updated
        if name.count(".") == 0 or name in ("torch.nn", "torch.nn.functional", "torch.optim"):
            why = "the module itself is used as a value"
        else:
            why = "no rule for this name"
        self.refuse("T2M600", name, why, "write the MindSpore form by hand")
        return updated

    def full_name(self, name: str, node: cst.BaseExpression) -> cst.BaseExpression:
        """What stays torch is written in full where its short name now means MindSpore's module."""
        head = dotted(node).partition(".")[0]
        if head not in IMPORTS or not is_foreign(name):
            return node
        self.notes.needs.add(name.partition(".")[0])
        return constant(name)

    def schedules(self, value: Value) -> bool:
        """A scheduler of torch's, or of a class of the project's own that inherits one."""
        cls = self.class_of(value) if value.kind == "object" else None
        bases = [base for each in cls.lineage() for base in each.bases] if cls is not None else []
        return value.kind == "scheduler" or any(base.startswith("torch.optim.lr_scheduler.") for base in bases)

    def class_of(self, receiver: Value) -> ClassInfo | None:
        if receiver.kind not in ("object", "module", "class", "dataset", "optimizer", "autograd") or not receiver.name:
            return None
        found = self.project.find(receiver.name, self.module)
        if isinstance(found, ClassInfo):
            return found
        home, _, last = receiver.name.rpartition(".")
        owner = self.project.modules.get(home)
        return owner.classes.get(last) if owner is not None else None

    def planned(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        text = self.plan.expressions[id(original)]
        node = cst.parse_expression(text)
        if getattr(updated, "lpar", None) and not getattr(node, "lpar", None):
            node = node.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return node

    def refuse(self, rule: str, what: str, why: str, todo: str) -> None:
        self.notes.findings.append(Finding(rule, Tier.REFUSED, what, why, todo))

    def tell(self, rule: str, what: str, why: str) -> None:
        self.notes.findings.append(Finding(rule, Tier.EXACT, what, why))


class FullNames(cst.CSTTransformer):
    """Code that stays torch: short names that now mean MindSpore's modules are written in full."""

    def __init__(self, module: ModuleInfo, needs: set[str]) -> None:
        super().__init__()
        self.module = module
        self.needs = needs

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        value = self.module.values.get(id(original), UNKNOWN)
        if value.kind != "api" or not is_foreign(value.name) or original.value not in IMPORTS:
            return updated
        self.needs.add(value.name.partition(".")[0])
        return cst.parse_expression(value.name)


class _Aliased(cst.CSTTransformer):
    """Gives the names that a rule brought the aliases under which they are imported; `own` are the user's nodes."""

    def __init__(self, aliases: dict[str, str], own: set[int]) -> None:
        super().__init__()
        self.aliases = aliases
        self.own = own

    def on_visit(self, node: cst.CSTNode) -> bool:
        return id(node) not in self.own

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        return updated.with_changes(value=self.renamed(original.value, updated.value))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        return updated.with_changes(func=self.renamed(original.func, updated.func))

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(value=self.renamed(original.value, updated.value))  # `partial(pad_sequence, ...)`

    def renamed(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(original, cst.Name) and original.value in self.aliases and id(original) not in self.own:
            return cst.Name(self.aliases[original.value])
        return updated
