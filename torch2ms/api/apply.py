"""Applying a rule to a call; names and attributes are in named.py."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import libcst as cst

from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import children, code
from torch2ms.api import definitions, detours, reductions, signature, targets, template, untyped
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Facts, Use
from torch2ms.api.imports import IMPORTS
from torch2ms.api.rules import DROPPED, UNKEPT, Form, Rule
from torch2ms.api.signature import BindError, Binding, StarError
from torch2ms.api.transforms import CELL
from torch2ms.api.types import typed
from torch2ms.findings import Finding, Tier

RENAMED, DROPPED_ARGUMENT, ARGUMENT, ASSUMED = "T2M601", "T2M602", "T2M603", "T2M604"
NONE, STAR, TWICE, VALUE, MISFIT = "T2M605", "T2M606", "T2M607", "T2M608", "T2M609"
_UNDIFFERENTIATED = "nothing is differentiated"
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


@dataclass(frozen=True)
class Outcome:
    """What became of one expression; `node` is None where it was refused and stays as it is."""

    node: cst.BaseExpression | None
    findings: tuple[Finding, ...]
    needs: frozenset[str] = frozenset()
    returns: str = "unknown"
    twice: str = ""  # the argument that would be evaluated twice, where that is why it was refused
    form: Form | None = None  # the form of the rule that was taken, where one was


def refused(rule: Rule, code: str, why: str, todo: str = "", what: str = "") -> Outcome:
    todo = todo or "write it by hand with mindspore.ops"
    return Outcome(None, (Finding(code, Tier.REFUSED, what or rule.name, why, todo),))


def lacks_kind(rule: Rule, parsed: template.Template) -> Outcome | None:
    """The refusal of a target that the chosen MindSpore version does not have."""
    name = targets.lacking(parsed, rule.target) if rule.target else ""
    if not name:
        return None
    return refused(rule, NONE, f"MindSpore {rule.target} has no {name}", "choose a newer MindSpore with --target")


def returns(rule: Rule) -> str:
    """The kind of what a rule gives where no call is at hand; `Outcome.returns` is more exact."""
    return rule.returns


def apply_call(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    """Translate one call whose arguments are translated already."""
    if rule.hopeless:
        return refused(rule, NONE, rule.main.refuse, rule.main.todo)
    given = typed(rule.name, updated)
    outcome = _applied(rule, original, given, facts)
    return replace(outcome, needs=outcome.needs | {"ms"}) if given is not updated and outcome.node else outcome


def _applied(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    receivers = _receivers(original, updated)
    problem: BindError | None = None
    for form in rule.forms:
        try:
            binding = reductions.modern(signature.bind(form.signature, original, updated))
        except StarError as error:
            if rule.star and (not rule.name.startswith("torch.nn.functional.") or _options_alone(updated)):
                return _starred(rule, error, updated)
            if (renamed := _star_renamed(rule, form, original, updated)) is not None:
                return renamed
            problem = problem if isinstance(problem, StarError) else error.with_traceback(None)
            continue
        except BindError as error:
            problem = problem or error.with_traceback(None)  # which knows this frame, a circle
            continue
        use = Use(binding, facts, receivers[0], rule.name)
        if not use.holds(form.condition):
            continue
        if rule.choose is not None:
            form = chosen(form, rule.choose(use))
        return fill_call(rule, form, use, receivers[1], updated)
    if isinstance(problem, StarError):
        return refused(rule, STAR, f"{problem} hides which arguments are given", "write the arguments out")
    if problem is not None:
        return refused(rule, MISFIT, str(problem), "check the call against the PyTorch documentation")
    return refused(rule, ARGUMENT, "no MindSpore form is known for these arguments")


def _receivers(original: cst.Call, updated: cst.Call) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """The tensor a method is called on, before and after translation."""
    if type(original.func) is cst.Attribute and type(updated.func) is cst.Attribute:
        return original.func.value, updated.func.value
    return None, None


def chosen(form: Form, choice: Choice) -> Form:
    changed = replace(
        form, to=choice.to, assume=choice.assume, refuse=choice.refuse, todo=choice.todo, uses=choice.uses
    )
    if choice.evidence is not None:
        changed = replace(changed, evidence=choice.evidence)
    return replace(changed, returns=choice.returns) if choice.returns is not None else changed


def fill_call(rule: Rule, form: Form, use: Use, receiver: cst.BaseExpression | None, updated: cst.Call) -> Outcome:
    if form.refuse or form.to is None:
        return refused(rule, NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
    if (lacking := lacks_kind(rule, form.template)) is not None:
        return lacking
    if rule.name.startswith("torch.nn.") or rule.name in detours.TUPLED:
        use = detours.tupled(use)
    use = detours.counted(use)
    form, detour = detours.taken(rule, form, use)
    if isinstance(detour, str):
        return refused(rule, ARGUMENT, detour)
    if detours.complex_beside(use):
        why = "MindSpore's functions take no complex number beside a tensor"
        return refused(rule, ARGUMENT, why, "make a tensor of it, of the type of the result")
    undifferentiated = form.assume.startswith(_UNDIFFERENTIATED)
    varied = (undifferentiated or bool(rule.gradient)) and any(use.varied(name) for name in use.written)
    if varied and undifferentiated:
        return refused(rule, ARGUMENT, "a gradient flows through it, which MindSpore does not compute like torch")
    if detour is None and rule.floats and "astype" not in (form.to or ""):
        detour = detours.floated(form, use)
    dropped: list[Finding] = []
    written = form.template.params
    for name, bound in use.binding.all():
        if name in UNKEPT and name not in written and name not in form.drop and use.given(name):
            argument = f"{rule.name}({name}={code(bound.original.value)})"
            dropped.append(Finding(ASSUMED, Tier.ASSUMED, argument, f"dropped: {UNKEPT[name]}"))
            continue
        if name in written or name in form.uses or not use.given(name):
            continue
        argument = f"{rule.name}({name}={code(bound.original.value)})"
        if name in form.drop or name in DROPPED or form.returns == "module" and detours.usual(name, use):
            why = DROPPED.get(name, "it changes neither values nor gradients")
            dropped.append(Finding(DROPPED_ARGUMENT, Tier.EXACT, argument, f"dropped: {why}"))
        else:
            why = f"MindSpore's counterpart has no {name}"
            return refused(rule, ARGUMENT, why, form.todo, argument)
    try:
        node = detours.filled(detour, form, use, receiver, updated)
    except template.TwiceError as error:
        return replace(refused(rule, TWICE, str(error), "assign the expression to a name first"), twice=error.param)
    except template.TemplateError as error:
        return refused(rule, TWICE, str(error), "assign the expression to a name first")
    plain, node = node, untyped.guarded(node, use)
    typed = detour is not None or "|or_float32" in form.template.text
    names = needs(form.template) | ({"ms"} if typed and "ms." in code(node) else frozenset())
    names |= {untyped.AS_TYPE} if node is not plain else frozenset()
    names |= {"ops"} if detour is not None and detour.parts else frozenset()
    if "|celled" in form.template.text and CELL in code(node):
        names |= {CELL}
    if varied and rule.gradient and form.tier is Tier.EXACT:
        form = replace(form, assume=rule.gradient)
    return Outcome(node, (finding_of(rule, form, node), *dropped), names, form.returns, form=form)


def finding_of(rule: Rule, form: Form, node: cst.BaseExpression) -> Finding:
    """The finding of a translated use: what it became, on one line; and what the chosen device must have beyond what
    MindSpore's pages say."""
    text = code(node)
    shown = " ".join(text.split())
    if "\n" in text and isinstance(node, cst.Call):
        shown = f"{code(node.func)}(...)"
    where = targets.elsewhere(form.template, rule.device) if rule.device and form.to else ""
    said = f"{rule.device} has it as well: MindSpore's pages name {where} only" if where else ""
    if form.tier is Tier.EXACT and not said:
        return Finding(RENAMED, Tier.EXACT, rule.name, shown)
    assumed = "" if form.tier is Tier.EXACT else form.assume or "the pair was not measured"
    return Finding(ASSUMED, Tier.ASSUMED, rule.name, f"{shown}: {'; '.join(filter(None, (assumed, said)))}")


def _options_alone(call: cst.Call) -> bool:
    """`F.cross_entropy(x, y, **options)`: behind an input and a target, a star hides names."""
    plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return len(plain) == 2 and not {"input", "target"} & named and not any(arg.star == "*" for arg in call.args)


def _starred(rule: Rule, error: StarError, updated: cst.Call) -> Outcome:
    """`optim.SGD(params, **options)`: the classes take the same names, as far as MindSpore's has them."""
    parsed = template.parse(rule.star)
    if (lacking := lacks_kind(rule, parsed)) is not None:
        return lacking
    why = f"{rule.star}: {error} holds nothing that it does not know"
    if rule.star == "{data}":  # what it is given: `Variable(x, **options)`
        if not updated.args or updated.args[0].star or updated.args[0].keyword is not None:
            return refused(rule, STAR, f"{error} hides which arguments are given", "write the arguments out")
        node = parenthesised(updated.args[0].value)
        return Outcome(node, (Finding(ASSUMED, Tier.ASSUMED, rule.name, why),), frozenset(), rule.returns)
    itself = isinstance(updated.func, cst.Attribute) and rule.star == "{self}"  # a layer, which is called as before
    func = updated.func.value if itself else parsed.root.deep_clone()  # type: ignore[attr-defined]
    node = updated.with_changes(func=func)
    if rule.name.startswith("torch.Tensor.") and not itself and isinstance(updated.func, cst.Attribute):
        node = node.with_changes(args=[cst.Arg(updated.func.value, comma=_COMMA), *updated.args])
    if isinstance(func, cst.Call) and isinstance(updated.func, cst.Attribute):  # of a method: `set_cell({self})`
        node = node.with_changes(func=func.func, args=[cst.Arg(updated.func.value, comma=_COMMA), *updated.args])
    return Outcome(node, (Finding(ASSUMED, Tier.ASSUMED, rule.name, why),), needs(parsed), rule.returns)


def _star_renamed(rule: Rule, form: Form, original: cst.Call, updated: cst.Call) -> Outcome | None:
    """`f(*args)` survives where the target has the same parameters, by name, order and default."""
    by_keyword = any(arg.star == "**" or arg.keyword is not None for arg in original.args)
    asked = not by_keyword and _BY_NAME
    others = [f for f in rule.forms if f is not form and not (asked and asked.fullmatch(f.condition))]
    if rule.choose is not None or others or form.condition or form.to is None:
        return None
    root = form.template.root
    plain = form.tier is Tier.EXACT and not (rule.floats or rule.narrow or rule.gradient)
    method = _method_of_self(form) if plain else ""
    if not isinstance(root, cst.Call) or not form.template.fixed_callee and not method:
        return None
    parameters = [param for param in form.signature.params if param.name not in DROPPED and param.name != "out"]
    args = list(root.args)
    if not by_keyword:  # positions reach no parameter that has to be named: nobody gives it
        parameters = [param for param in parameters if not param.keyword_only]
        named = {param.name for param in form.signature.params if param.keyword_only}
        args = [arg for arg in args if _filled_by(arg, form) not in named]
    if len(parameters) != len(args):
        return None
    for param, arg in zip(parameters, args, strict=True):
        mark = form.template.placeholders.get(getattr(arg.value, "value", ""))
        if mark is None or mark.param != param.name or mark.written or mark.transform or arg.keyword is not None:
            return None
        if by_keyword and mark.keyword != param.name:
            return None
    if "self" in form.template.params and not method:
        return None
    if (lacking := lacks_kind(rule, form.template)) is not None:
        return lacking
    if method and isinstance(updated.func, cst.Attribute):
        node = updated.with_changes(func=updated.func.with_changes(attr=cst.Name(method)))
    else:
        node = updated.with_changes(func=root.func.deep_clone())
    return Outcome(node, (finding_of(rule, form, node),), needs(form.template), form.returns)


# conditions that do not hold without a keyword
_BY_NAME = re.compile(r"named\('\w+'\)(?: or named\('\w+'\))*(?: and (?:(?! or ).)*)?")


def _method_of_self(form: Form) -> str:
    """The method that the target calls on the tensor itself, "" for other targets."""
    func = form.template.root.func if isinstance(form.template.root, cst.Call) else None
    if not isinstance(func, cst.Attribute):
        return ""
    mark = form.template.placeholders.get(getattr(func.value, "value", ""))
    return func.attr.value if mark is not None and mark.param == "self" and not mark.transform else ""


def _filled_by(arg: cst.Arg, form: Form) -> str:
    """The parameter that an argument of the target stands for by itself."""
    mark = form.template.placeholders.get(getattr(arg.value, "value", ""))
    return mark.param if mark is not None and not mark.transform else ""


def needs(parsed: template.Template) -> frozenset[str]:
    """The names a target uses that an import or a definition must provide."""
    return _needs(parsed.text)


@cache
def _needs(target: str) -> frozenset[str]:
    names: set[str] = set()
    stack: list[cst.CSTNode] = [template.parse(target).root]
    while stack:
        node = stack.pop()
        if type(node) is cst.Name and (node.value in IMPORTS or node.value in definitions.table()):
            names.add(node.value)
        stack += [node.value] if type(node) is cst.Attribute or type(node) is cst.Arg else children(node)
    return frozenset(names)


def works_in_place(form: Form, use: Use) -> bool:
    """What callers of the partial have to give comes first in the form, once each and in their order."""
    root, marks = form.template.root, form.template.placeholders
    assert isinstance(root, cst.Call)
    plain = [marks.get(getattr(arg.value, "value", "")) for arg in root.args if arg.keyword is None]
    placed = [mark.param if mark is not None else "" for mark in plain]
    if "" in placed:  # made of the arguments: `tuple(f(part) for part in {tensors})`
        return False
    later = [p.name for p in form.signature.params if p.default is None and not p.variadic and not use.given(p.name)]
    return placed[: len(later)] == later and not set(later) & set(placed[len(later) :])


def binding_of(rule: Rule, original: cst.Call, updated: cst.Call, part: str = "") -> Binding | None:
    """The arguments by torch parameter, for callers that need them (or this one); None where they do not bind."""
    for form in rule.forms:
        try:
            binding = signature.bind(form.signature, original, updated)
        except BindError:
            continue
        if not part or part in binding.single:
            return binding
    return None
