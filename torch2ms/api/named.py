"""Applying a rule to a name that is not called here: a value, an attribute, a class, a partial."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import detours, signature, template
from torch2ms.api.apply import (
    ASSUMED,
    MISFIT,
    NONE,
    RENAMED,
    TWICE,
    VALUE,
    Outcome,
    chosen,
    fill_call,
    finding_of,
    lacks_kind,
    needs,
    refused,
    works_in_place,
)
from torch2ms.api.facts import Facts, Use
from torch2ms.api.lambdas import as_called, of_partial
from torch2ms.api.rules import Form, Rule
from torch2ms.api.signature import BindError
from torch2ms.findings import Finding, Tier


def apply_attribute(rule: Rule, original: cst.Attribute, updated: cst.Attribute, facts: Facts) -> Outcome:
    """Translate an attribute: `x.T`, `torch.float32`."""
    if not rule.attribute:
        return apply_value(rule, updated, facts)
    use = Use(template.EMPTY, facts, original.value)
    for form in rule.forms:
        if not use.holds(form.condition):
            continue
        if rule.choose is not None:
            form = chosen(form, rule.choose(use))
        if form.refuse or form.to is None:
            return refused(rule, NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
        if (lacking := lacks_kind(rule, form.template)) is not None:
            return lacking
        try:
            node = template.fill(form.template, template.EMPTY, updated.value, None)
        except template.TemplateError as error:
            return refused(rule, TWICE, str(error), "assign the expression to a name first")
        if isinstance(node, cst.Attribute) and node.value.deep_equals(updated.value):
            node = updated.with_changes(attr=node.attr)  # the user's own line breaks before the dot stay
        return Outcome(node, (finding_of(rule, form, node),), needs(form.template), form.returns, form=form)
    return refused(rule, NONE, "there is no counterpart in MindSpore")


def apply_value(rule: Rule, node: cst.BaseExpression, facts: Facts) -> Outcome:
    """Translate the name of a function or class that is not called here: `act=nn.ReLU`."""
    target_text = rule.value or rule.main.to
    if target_text and (lacking := lacks_kind(rule, template.parse(target_text))) is not None:
        return lacking
    if rule.attribute and rule.main.to is not None and "self" not in rule.main.template.params:
        parsed = rule.main.template
        return Outcome(parsed.root, (finding_of(rule, rule.main, parsed.root),), needs(parsed), rule.returns)
    form = rule.main
    if rule.value is None and not rule.full and (form.to is None or form.refuse):
        made = as_called(rule, node, facts)
        return made or refused(rule, NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
    more = not _plain(rule, form, len(rule.forms) == 1) and facts.called_with_more(rule.name, form.signature)
    made = as_called(rule, node, facts) if more and rule.full and rule.value is None else None
    if made is not None and _measured(made):
        return made  # for what is seen to be called, as it is written there
    if more and (whole := full_value(rule, typed=facts.called_with_type(rule.name, form.signature))):
        return _whole(rule, whole, "it is called with arguments of torch's")
    if rule.value is None and more and (made := as_called(rule, node, facts)) is not None:
        return made
    if rule.value is not None:
        parsed = template.parse(rule.value)
        measured = form.evidence == "pass" if form.to is None else form.tier is Tier.EXACT  # None: a function chooses
        tier = Tier.EXACT if measured and not rule.value_assume else Tier.ASSUMED
        why = f"{rule.value}: {rule.value_assume}" if rule.value_assume else rule.value
        found = Finding(RENAMED if tier is Tier.EXACT else ASSUMED, tier, rule.name, why)
        return Outcome(parenthesised(parsed.root), (found,), needs(parsed), "function")
    bare = _bare(rule, form)
    if bare is None and (made := _around(rule, node, facts)) is not None:
        return made
    if bare is None or more and bare[2].tier is Tier.ASSUMED:
        why = "its MindSpore form cannot be written without the arguments"
        return refused(rule, VALUE, why, "write a small function around the call")
    target, written, told = bare
    if not written:
        return Outcome(target, (told,), needs(form.template), "function")
    partial = cst.Call(cst.Name("partial"), _partial_args(target, written))
    return Outcome(partial, (told,), needs(form.template) | {"partial"}, "function")


def _around(rule: Rule, node: cst.BaseExpression, facts: Facts) -> Outcome | None:
    """A function around the target: as it is seen to be called where that tells more, or with torch's arguments."""
    plainly = not rule.full and not _by_types(rule)
    made = None if plainly else as_called(rule, node, facts)
    if made is not None and (_measured(made) or not rule.full):
        return made
    if (rule.full or plainly) and (whole := full_value(rule)):
        return _whole(rule, whole, "it takes torch's arguments")
    return as_called(rule, node, facts) if plainly else None


def _measured(outcome: Outcome) -> bool:
    return all(found.tier is Tier.EXACT for found in outcome.findings)


def _whole(rule: Rule, whole: str, why: str) -> Outcome:
    parsed = template.parse(whole)
    found = Finding(RENAMED, Tier.EXACT, rule.name, f"{whole}: {why}")
    return Outcome(parenthesised(parsed.root.deep_clone()), (found,), needs(parsed), "function")


def apply_whole(rule: Rule, updated: cst.Call) -> Outcome | None:
    """`nn.Conv2d(*args, **options)`: a function that takes torch's arguments, whichever they are."""
    function = rule.name.rpartition(".")[2][:1].islower()
    fits = bool(rule.full) and len({f.returns for f in rule.forms}) == 1  # what it gives is known, whatever it gets
    if rule.hopeless or function and not fits and _by_types(rule) or not (whole := full_value(rule)):
        return None
    parsed = template.parse(whole)
    found = Finding(RENAMED, Tier.EXACT, rule.name, f"{whole}: it takes torch's arguments")
    root, args, used = parsed.root.deep_clone(), updated.args, needs(parsed)
    if isinstance(root, cst.Call) and isinstance(root.func, cst.Name) and root.func.value == "partial":
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))  # what it would be made of, with the arguments
        args = [*(arg.with_changes(comma=comma) for arg in root.args[1:]), *args]
        root, used = root.args[0].value, used - {"partial"}
    return Outcome(updated.with_changes(func=parenthesised(root), args=args), (found,), used, rule.returns)


def _plain(rule: Rule, form: Form, alone: bool = True) -> bool:
    """Whether the bare name takes torch's arguments as they are; `alone` where no other form takes some of them."""
    bare = _bare(rule, form) if rule.value is None and form.to is not None else None
    return alone and bare is not None and not bare[1] and bare[2].tier is Tier.EXACT


def takes_as_written(rule: Rule) -> bool:
    """Whether what stands for the name takes torch's arguments as they are, whatever they are."""
    return rule.choose is None and not _by_types(rule) and _plain(rule, rule.main)


def _by_types(rule: Rule) -> bool:
    """What stands for it depends on what it is called with."""
    typed = bool(rule.floats or rule.narrow) or any(kind not in detours.ODD for kind in rule.lacks)
    return typed or len(rule.forms) > 1


def full_value(rule: Rule, typed: bool = False) -> str:
    """A function of torch's own parameters around the target; "" where it cannot take them all.

    `typed` where callers hand on options of which the device and the element type may be some."""
    if rule.full:
        return rule.full
    given = (f for f in rule.forms if f.condition == "given('dtype')") if typed else ()
    form = next(iter(given), rule.main)
    left = _MADE_WITH if not typed else _MADE_WITH[2:]
    if rule.choose is not None or rule.main.condition or form.to is None or "self" in form.template.params:
        return ""
    taken = [p for p in form.signature.params if p.name not in left]
    lost = {p.name for p in taken} - form.template.params - {*form.drop, "device"}
    if lost or not taken or any(p.variadic or p.keyword_only for p in taken) or form.tier is not Tier.EXACT:
        return ""
    heads = [p.name if p.default is None else f"{p.name}={p.default}" for p in taken]
    call = cst.Call(cst.Name("_"), [cst.Arg(cst.Name(p.name)) for p in taken if p.name in form.template.params])
    kept = signature.Signature(tuple(p for p in taken if p.name in form.template.params))
    binding = signature.bind(kept, call, call)
    binding = replace(binding, signature=form.signature)
    return f"lambda {', '.join(heads)}: {code(template.fill(form.template, binding, None, None))}"


# arguments that no caller gives a class in a variable
_MADE_WITH = ("device", "dtype", "size_average", "reduce", "generator")
_CLASS = re.compile(r"(\w+\.)*[A-Z]\w*|tuple")


def apply_class(rule: Rule) -> Outcome:
    """Translate a class that is only named, never called: `isinstance(m, nn.Conv2d)`, annotations, base classes."""
    name = rule.cls or rule.value or ""
    root = rule.main.template.root if rule.main.to is not None else None
    if not _CLASS.fullmatch(name) and isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        name = code(root.func)
    if not _CLASS.fullmatch(name):
        return refused(rule, VALUE, rule.main.refuse or "MindSpore has no class that stands for it", rule.main.todo)
    parsed = template.parse(name)
    if (lacking := lacks_kind(rule, parsed)) is not None:
        return lacking
    shared = name in _SHARED
    tier, told = (Tier.ASSUMED, ASSUMED) if shared else (Tier.EXACT, RENAMED)
    why = f"{name}: there are no other cells of this class" if shared else name
    return Outcome(parsed.root, (Finding(told, tier, rule.name, why),), needs(parsed), "class")


_SHARED = {"nn.GroupNorm", "nn.Upsample"}  # cells that stand for several torch classes


def _bare(rule: Rule, form: Form) -> tuple[cst.BaseExpression, list[cst.Arg], Finding] | None:
    """The callee of a target, the arguments it must always have, and what that assumes of the caller."""
    if form.to is None:  # refused, whatever it is called with
        return None
    root = form.template.root
    if not isinstance(root, cst.Call) or rule.choose is not None or form.condition:
        return None
    if "self" in form.template.params or not form.template.fixed_callee:
        return None
    order = [param.name for param in form.signature.params if not param.keyword_only]
    same = 0
    written: list[cst.Arg] = []
    differs: list[str] = []
    for place, arg in enumerate(root.args):
        mark = form.template.placeholders.get(getattr(arg.value, "value", ""))
        if mark is None:
            if form.template.placeholders and template.marks(arg, form.template):
                return None
            if arg.keyword is None:
                return None
            written.append(arg)
            continue
        packed = rule.full and form.signature.by_name[mark.param].variadic  # a size in one piece, or in several
        if mark.transform or mark.spread or packed:
            return None
        keyword = arg.keyword.value if arg.keyword is not None else mark.keyword
        if mark.written:
            default = form.signature.by_name[mark.param].default
            if default is None or keyword is None:
                return None
            written.append(cst.Arg(cst.parse_expression(default), cst.Name(keyword), equal=_TIGHT))
            continue
        if arg.keyword is None and same == place and place < len(order) and order[place] == mark.param:
            same += 1
        if keyword is not None and keyword != mark.param:
            differs.append(mark.param)
    required = sum(param.default is None for param in form.signature.params if not param.variadic)
    if same < required:
        return None
    tier, why = form.tier, form.assume or code(root.func)
    if differs:
        tier = Tier.ASSUMED
        why = f"{code(root.func)}: nobody passes {', '.join(differs)} by keyword"
    told = Finding(RENAMED if tier is Tier.EXACT else ASSUMED, tier, rule.name, why)
    return root.func.deep_clone(), written, told


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _partial_args(target: cst.BaseExpression, rest: Iterable[cst.Arg]) -> list[cst.Arg]:
    args = [cst.Arg(target), *rest]
    commas: list[cst.Comma | cst.MaybeSentinel] = [_COMMA] * (len(args) - 1) + [cst.MaybeSentinel.DEFAULT]
    return [arg.with_changes(comma=comma) for arg, comma in zip(args, commas, strict=True)]


def apply_partial(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    """Translate `partial(nn.LayerNorm, eps=1e-6)`: the first argument is the rule's name."""
    outcome = _partial(rule, original, updated, facts)
    return outcome if outcome.node is not None else of_partial(rule, original, updated, facts) or outcome


def _partial(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    inner, inner_updated = (call.with_changes(args=call.args[1:]) for call in (original, updated))
    form = rule.main
    if rule.partial:
        form = replace(form, to=rule.partial, refuse="", assume=rule.value_assume)
    elif rule.choose is not None or form.to is None or form.refuse or not isinstance(form.template.root, cst.Call):
        return refused(rule, VALUE, form.refuse or "its MindSpore form cannot be written as a partial")
    optional = tuple(
        replace(p, default="None") if p.default is None and not p.variadic else p for p in form.signature.params
    )
    try:
        binding = signature.bind(signature.Signature(optional), inner, inner_updated)
    except BindError as error:
        return refused(rule, MISFIT, str(error))
    use = Use(binding, facts)
    placed = any(bound.positional for _, bound in binding.all())
    if placed or facts.called_with_more(rule.name, form.signature):
        whole = full_value(rule, typed=facts.called_with_type(rule.name, form.signature))
        if whole:
            return _of_whole(rule, whole, inner_updated)
    if placed:
        return refused(rule, VALUE, "positional arguments in a partial", "give them by keyword")
    function = not rule.partial and not rule.name.rpartition(".")[2][:1].isupper()
    if function and next((f for f in rule.forms if use.holds(f.condition)), form) is not form:
        return refused(rule, VALUE, "its MindSpore form goes by what it is given")
    filled = fill_call(rule, form, use, None, inner_updated)
    if rule.partial and filled.node is not None:
        return replace(filled, returns="function")
    if filled.node is None or not isinstance(filled.node, cst.Call):
        return filled
    keywords = [arg for arg in filled.node.args if arg.keyword is not None]
    if len(keywords) != len(filled.node.args) or not works_in_place(form, use):
        return refused(rule, VALUE, "its MindSpore form needs positional arguments first")
    node = updated.with_changes(args=_partial_args(filled.node.func, keywords))
    return Outcome(node, filled.findings, filled.needs, "function")


def _of_whole(rule: Rule, whole: str, given: cst.Call) -> Outcome:
    """`partial(nn.Conv2d, kernel_size=3)` that is called with more: it goes on taking torch's arguments."""
    parsed = template.parse(whole)
    found = Finding(RENAMED, Tier.EXACT, rule.name, f"{whole}: it is called with arguments of torch's")
    root = parsed.root.deep_clone()
    head = [arg.value for arg in root.args] if isinstance(root, cst.Call) else [root]  # a partial of its own
    rest = [*(cst.Arg(value) for value in head[1:]), *given.args]
    node = cst.Call(cst.Name("partial"), _partial_args(head[0], rest))
    return Outcome(node, (found,), needs(parsed) | {"partial"}, "function")
