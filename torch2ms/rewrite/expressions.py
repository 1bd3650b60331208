"""Translates the expressions of a statement, innermost first, by the API rules."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation import lambdas
from torch2ms.analysis.known.torchapi import PACKED
from torch2ms.analysis.layer_modes import (
    called_from_list,
    copies_part,
    in_module_class,
    reached_otherwise,
    starts_in_training,
)
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.analysis.syntax.tree import changed, code, constant
from torch2ms.analysis.values import MASKED, UNKNOWN, Value
from torch2ms.api import apply_call
from torch2ms.api.rules import Rule
from torch2ms.api.stars import spread
from torch2ms.editing import layout
from torch2ms.editing.fold import folded
from torch2ms.rewrite import apis, named_settings, rates, remembered
from torch2ms.rewrite.asked import answered
from torch2ms.rewrite.calls import OWN_METHODS, MethodCalls, method_alias
from torch2ms.rewrite.facts import TYPE
from torch2ms.rewrite.inplace import indirect
from torch2ms.rewrite.layers import absent, attention, chosen, compared, derived, rows_among
from torch2ms.rewrite.layers.evaluated import EVALUATION, Hidden, kept_modes
from torch2ms.rewrite.layers.keywords import complete, positional
from torch2ms.rewrite.layers.rows import given_rows, operated, read_only
from torch2ms.rewrite.layers.smooth import smooth
from torch2ms.rewrite.parameters.lists import first, joined
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.signatures import with_arguments
from torch2ms.rewrite.tensors import arrays, masks, named, strings
from torch2ms.rewrite.tensors.attributes import attribute
from torch2ms.rewrite.tensors.subscripts import WHOLE, indexed
from torch2ms.rewrite.transforms.calls import assigned, misgiven, swapped
from torch2ms.rewrite.translation import Translation

ENTROPIES = {"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"}
LAST_RATE = "learning rate of a scheduler"


class Expressions(Positions):
    """One instance per statement: on the way up every expression is given to those who know its sort."""

    def __init__(self, work: Translation) -> None:
        super().__init__(work.module, work.plan, work.project)
        self.work = work
        self.mixed = work.mixed
        self.stored_back: set[int] = set()  # the sums of `x[()] = x + y`, as `x += y` is written

    def visit_Assign(self, node: cst.Assign) -> None:
        super().visit_Assign(node)
        target, value = node.targets[0].target, node.value
        if isinstance(target, cst.Subscript) and isinstance(value, cst.BinaryOperation):
            if code(target) == f"{code(value.left)}[{WHOLE}]":
                self.stored_back.add(id(value))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        made, key = self.called_by(original, updated), id(original)
        if key in self.plan.around:
            return cst.parse_expression(self.plan.around[key].format(code(made)))
        stmt = self.work.stmt
        kept, stays, listed = key in self.unnamed, False, self.listed[key] if key in self.listed else ""
        own = in_module_class(stmt.block.scope, self.module) if stmt is not None else self.work.in_cell
        if listed and stmt is not None and (listed.startswith("self.") if own else not kept):
            stays = called_from_list(listed, stmt.block.scope)
        if key in self.returned and stmt is not None:
            kept = id(self.module.functions.get(id(stmt.block.scope))) in reached_otherwise(self.work.project)
        kept = stays if own else kept or stays  # no mode goes through a plain list of a class
        if not kept and key not in self.at_once:
            return made
        begins = starts_in_training(original, self.module, self.work.project)
        if stays and stmt is not None and not begins:
            begins = copies_part(original, stmt.block.scope, self.module, self.work.project)
        if not begins:
            return made
        if stmt is not None and self.keeps_modes(original, stmt):
            return made
        self.work.tell("T2M306", "new module", "torch modules start in training mode, cells do not: set_train()")
        return cst.parse_expression(f"{code(made)}.set_train()")

    def keeps_modes(self, original: cst.Call, stmt: Stmt) -> bool:
        """Refuses a network without a name of which a part is not in training mode."""
        try:
            found = kept_modes("", original, stmt, self.module, self.work.project)
            kept = EVALUATION in found.values()
        except Hidden:
            kept = True
        if kept:
            why = "a part of it is in evaluation mode, and it has no name by which the part could be put back"
            self.work.refuse("T2M306", "new module", why, "give it a name, set_train() it, and put the part back")
        return kept

    def called_by(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A call in MindSpore's form."""
        work = self.work
        if id(original) in self.plan.expressions:
            return work.planned(original, updated)
        if id(original) in self.plan.refused:
            return updated
        updated = with_arguments(original, updated, self.plan)
        if id(original) in self.plan.smooth:
            return smooth(original, updated, work)
        target = self.module.value(original.func)
        updated = self.finite(original, updated, target)
        if target.kind == "api":
            updated = given_rows(target.name, original, updated, self.module)
            if work.project.in_rows:
                rows_among.by_axis(original, work)
            if apis.spelled(original.func, target.name, self.module) or TYPE.fullmatch(target.name):
                return apis.called(target.name, original, updated, work, self)
            if (outcome := apis.through_name(target.name, original, updated, work)) is not None:
                return work.take(outcome, updated)
        if swapped(original, work):
            return cst.parse_expression(f"{code(updated)}[::-1]")
        if self.mixed or target.name.startswith("torch.func:") and misgiven(original, work):
            return updated
        if target.kind == "builtin" and (made := named.asked(original, updated, work)) is not None:
            return made
        if target.kind == "builtin" and target.name in ("print", "str"):
            return strings.printed(original, updated, work)
        made = derived.made(original, updated, work) or chosen.called(original, updated, work)
        if made is None and (id(original) not in self.callees or chosen.runs(original)):
            made = chosen.picked(original, updated, work)
        if made is not None:
            return made
        if self.packed(original) and target.kind in ("module", "unknown") and work.class_of(target) is None:
            target = Value("module", name="torch.nn.RNN", likely=True)  # nothing else takes a packed sequence
        layer = target.kind in ("module", "lossfn") or target.name.startswith("torchvision.transforms.")
        rule = work.rules.find(f"{target.name}.__call__") if layer else None
        starred = rule is not None and any(arg.star for arg in original.args)
        if rule is not None and starred and self.as_it_is(rule, original):
            return updated
        if rule is not None and not (starred and rule.star == "{self}"):
            given = spread(original, updated, None, self.module, work.stmt) if starred else (original, updated)
            asked, spelled = (c.with_changes(func=cst.Attribute(c.func, cst.Name("__call__"))) for c in given)
            outcome = work.filled(rule, asked, spelled)
            if outcome.node is not None and outcome.node.deep_equals(updated):
                return updated  # a batch, as MindSpore takes it: nothing to tell
            made = work.take(outcome, updated)
            return made if id(original) in self.valued else attention.unweighted(rule, original, made, work)
        if target.kind in ("module", "lossfn"):
            updated = self.inputs(original, updated, target)
        if target.kind == "builtin" and (answer := answered(original, updated, work)) is not None:
            return answer
        if target.kind == "builtin" and (parameter := first(original, updated)) is not None:
            return parameter
        taken = (self.module.value(a.value).kind for a in original.args)
        if target.kind == "builtin" and work.facts.loads and "sampler" in taken:
            why, todo = "MindSpore's samplers cannot be iterated by themselves", "use a range or a list of indices"
            work.refuse("T2M605", "torch.utils.data.Sampler", why, todo)
        indirect.called(original, work)
        if type(original.func) is cst.Attribute:
            return MethodCalls(self.work, self).method(original, original.func, updated)
        return updated

    def as_it_is(self, rule: Rule, call: cst.Call) -> bool:
        """`self.fn(x, *args, **kwargs)`, which hands other layers more: these hold nothing for this one."""
        plain = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in call.args if not arg.star]
        asked = cst.Call(cst.Attribute(call.func, cst.Name("__call__")), plain)
        made = apply_call(rule, asked, asked, self.work.facts).node if plain else None
        return made is not None and code(made) == code(cst.Call(call.func, plain))

    def inputs(self, original: cst.Call, updated: cst.Call, layer: Value) -> cst.Call:
        """The call of a layer with its inputs by position, those that it spreads as well."""
        named = any(arg.star == "**" for arg in original.args) and layer.name.startswith("torch.nn.")
        if named:
            original, updated = spread(original, updated, None, self.module, self.work.stmt)
        made = positional(original, updated, layer)
        if named and any(arg.star == "**" for arg in made.args) and not complete(made, layer):
            why, todo = "MindSpore's layer has other names for its inputs", "give the inputs by position"
            self.work.refuse("T2M606", layer.name, why, todo)
        return made

    def packed(self, call: cst.Call) -> bool:
        """What a layer is called with is a packed sequence."""
        return bool(call.args) and self.module.value(call.args[0].value).name == PACKED

    def finite(self, original: cst.Call, updated: cst.Call, target: Value) -> cst.Call:
        """A cross entropy of masked logits: MindSpore multiplies what is infinite by zero."""
        if not original.args or self.module.value(original.args[0].value).name != MASKED:
            return updated
        entropy = target.name.rpartition(".")[2] in ENTROPIES or target.kind == "lossfn" and not target.name
        if not entropy or self.mixed:
            return updated
        self.work.notes.needs.add("ops")
        self.work.tell("T2M601", "logits that are infinite", "a large number instead: MindSpore gives NaN for them")
        clamped = f"{self.work.alias('ops')}.clamp({code(updated.args[0].value)}, min=-1e30)"
        bounded = updated.args[0].with_changes(value=cst.parse_expression(clamped))
        return updated.with_changes(args=[bounded, *updated.args[1:]])

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        if type(original.value) is cst.Attribute and self.work.stmt is not None and not self.mixed:
            updated = read_only(original, updated, self.work.stmt.block.scope, self.module)
        return masks.ended(original, assigned(original, updated, self.work), self.work)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.work.planned(original, updated)
        if id(original) in self.plan.about:
            return cst.parse_expression(self.plan.about[id(original)].format(code(updated.value)))
        if id(original) in self.callees or id(original) in self.inner:
            return updated
        value = self.module.value(original)
        if value.kind in ("api", "dtype") and is_foreign(value.name):
            if not apis.spelled(original, value.name, self.module):
                return updated
            return apis.used(value.name, original, updated, self.work, self)
        if self.mixed or id(original) not in self.stores and indirect.bound(original, self.work):
            return updated
        return attribute(original, updated, self.work, self)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.work.planned(original, updated)
        if id(original) in self.callees or id(original) in self.inner:
            return updated
        value = self.module.values.get(id(original), UNKNOWN)
        imported = original.value in self.module.imports.table and id(original) not in self.stores
        if value.kind in ("api", "dtype") and is_foreign(value.name) and imported:
            return apis.used(value.name, original, updated, self.work, self)
        unseen = value.kind in ("none", "unknown") and id(original) in self.module.values
        if unseen and (name := self.perhaps_imported(original)):
            return apis.used(name, original, updated, self.work, self)
        return method_alias(original, updated, self.work) if original.value in OWN_METHODS else updated

    def perhaps_imported(self, node: cst.Name) -> str:
        """What of torch a local name stands for where a function imports it in one branch: `else: amp = None`."""
        name, stmt = node.value, self.work.stmt
        target = self.module.imports.table.get(name, "")
        if not is_foreign(target) or stmt is None or name not in stmt.block.scope.locals:
            return ""
        if type(stmt.node) is cst.Assign and any(t.target is node for t in stmt.node.targets):
            return ""
        binding = (s.node for s in stmt.block.scope.body.walk() if name in s.defs)
        return target if any(type(node) in (cst.Import, cst.ImportFrom) for node in binding) else ""

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.work.planned(original, updated)
        if not self.mixed and (what := self.learning_rate(original)):
            if _key(original) is ...:
                return named_settings.read(original, updated, self.work) or updated
            self.work.tell("T2M502", what, "a Parameter in MindSpore: read as a number")
            if what != LAST_RATE or not rates.wrapped(self.work.project):
                return cst.Call(cst.Attribute(updated, cst.Name("item")))
            return cst.Call(cst.Name("float"), [cst.Arg(updated)])
        if not self.mixed and (named := chosen.looked_up(original, updated, self.work)) is not None:
            return named
        if type(updated.value) is cst.Call and original.value.__class__ is cst.Attribute:
            if (state := remembered.of_parameter(original, updated)) is not None:
                return state
        read = id(original) not in self.stores
        made = updated if self.mixed else indexed(original, updated, self.work, read=read)
        if id(original) in self.plan.rows and isinstance(made, cst.Subscript):
            made = made.with_changes(slice=[*made.slice, cst.SubscriptElement(cst.Index(cst.Ellipsis()))])
        return made

    def learning_rate(self, node: cst.Subscript) -> str:
        """What a subscript reads a learning rate from: `group["lr"]`, `scheduler.get_last_lr()[0]`."""
        if self.module.value(node).name == "param_group_item" and _key(node) in ("lr", ...):
            return "" if id(node) in self.stores | self.host else "learning rate of a group"
        call = node.value
        if type(call) is not cst.Call or id(call) not in self.indexed or type(call.func) is not cst.Attribute:
            return ""
        scheduler = self.work.schedules(self.module.value(call.func.value))
        return LAST_RATE if scheduler and call.func.attr.value == "get_last_lr" else ""

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        if isinstance(updated.test, cst.Name) and updated is not original and updated.body.deep_equals(updated.orelse):
            return updated.body  # `torch.cuda.FloatTensor if cuda else torch.FloatTensor`
        if type(updated.test) is cst.Comparison:
            updated = changed(updated, test=layout.bare(original.test, updated.test))
        return self.picked(original, updated)

    def leave_BooleanOperation(
        self, original: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        known = [side for side in (updated.left, updated.right) if constant(side) is True]
        if known and constant(original.left) is constant(original.right) is ...:
            return folded(updated)  # `hasattr(F, 'gelu') and config.gelu`
        for side in ("left", "right"):
            if type(part := getattr(updated, side)) is cst.Comparison:
                updated = changed(updated, **{side: layout.bare(getattr(original, side), part)})
        return self.picked(original, updated)

    def picked(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        """The part of an expression that is left when the rest is certain."""
        side = self.plan.picks.get(id(original), "")
        if not side:
            return updated
        part: cst.BaseExpression = getattr(updated, side)
        return part if part.lpar or not updated.lpar else part.with_changes(lpar=updated.lpar, rpar=updated.rpar)

    def leave_Tuple(self, original: cst.Tuple, updated: cst.Tuple) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.work.planned(original, updated.with_changes(lpar=(), rpar=()))
        for element in original.elements:  # most hold no calls
            if type(element.value) is cst.Call:
                return arrays.numbers_handed_on(original, updated, self.work)
        return updated

    def leave_List(self, original: cst.List, updated: cst.List) -> cst.BaseExpression:
        return self.work.planned(original, updated) if id(original) in self.plan.expressions else updated

    def leave_Comparison(self, original: cst.Comparison, updated: cst.Comparison) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.work.planned(original, updated)
        if self.mixed:
            return updated
        if updated.comparisons[0].comparator is not original.comparisons[0].comparator:
            updated = compared.by_name(original, updated, self.module, self.work.project)
        if updated.left is not original.left and type(original.left) is cst.Attribute:
            asked = absent.missing(original, updated, self.work)
            if asked is not updated:
                return asked
        return named.compared(original, arrays.compared(original, updated, self.work), self.work)

    def leave_BinaryOperation(self, original: cst.BinaryOperation, updated: cst.BinaryOperation) -> cst.BaseExpression:
        if self.mixed or id(original) in self.stored_back:
            return updated
        parameters = joined(original, self.work, self)
        updated = operated(original, updated, self.module)
        return parameters if parameters is not None else arrays.beside_tensor(original, updated, self.work)

    def leave_UnaryOperation(self, original: cst.UnaryOperation, updated: cst.UnaryOperation) -> cst.BaseExpression:
        """`~x` of integers: MindSpore's operator is the logical not, whatever it is given."""
        if type(original.operator) is not cst.BitInvert or self.mixed:
            return updated
        if not self.work.facts.dtype(original.expression).startswith(("int", "uint")):
            return updated
        self.work.notes.needs.add("ops")
        self.work.tell("T2M601", "~tensor", "ops.invert: the operator is the logical not in MindSpore")
        inverted = cst.Attribute(cst.Name(self.work.alias("ops")), cst.Name("invert"))
        return cst.Call(inverted, [cst.Arg(updated.expression)])

    def leave_SimpleString(self, original: cst.SimpleString, updated: cst.SimpleString) -> cst.SimpleString:
        if (meant := self.module.quoted.get(id(original))) is None:
            return strings.plain(original, updated, self.work, self)
        text = code(self.rewrite(meant))
        fits = original.quote not in text and "\n" not in text
        quoted = f"{original.prefix}{original.quote}{text}{original.quote}"
        return updated.with_changes(value=quoted) if fits and text != original.raw_value else updated

    def leave_FormattedStringText(
        self, original: cst.FormattedStringText, updated: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        text = strings.checkpoint(updated.value, self.work)
        return updated.with_changes(value=text) if text != updated.value else updated

    def leave_FormattedStringExpression(
        self, original: cst.FormattedStringExpression, updated: cst.FormattedStringExpression
    ) -> cst.FormattedStringExpression:
        return strings.inserted(original, updated, self.work)

    def leave_FormattedString(self, original: cst.FormattedString, updated: cst.FormattedString) -> cst.FormattedString:
        made = named.in_text(original, updated, self.work)
        return made if made is original else strings.quoted(made)

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.nested += 1
        if type(node) is cst.Lambda:
            self.unnamed.add(id(node.body))
            self.work.facts.lambdas += lambdas.names(node)

    def leave_Lambda(self, original: cst.Lambda, updated: cst.Lambda) -> cst.BaseExpression:
        self.nested -= 1
        if type(original) is cst.Lambda:
            given = self.work.facts.lambdas
            del given[len(given) - len(lambdas.names(original)) :]
        return updated

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda
    leave_SetComp = leave_DictComp = leave_Lambda

    def leave_ListComp(
        self, original: cst.ListComp | cst.GeneratorExp, updated: cst.BaseExpression
    ) -> cst.BaseExpression:
        self.nested -= 1
        parameters = joined(original, self.work, self) if not self.mixed else None
        return parameters if parameters is not None else updated

    leave_GeneratorExp = leave_ListComp


def _key(node: cst.Subscript) -> object:
    part = node.slice[0].slice
    return constant(part.value) if len(node.slice) == 1 and isinstance(part, cst.Index) else None
