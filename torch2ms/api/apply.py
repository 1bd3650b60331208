"""Applying a rule to a call, a name used as a value, or an attribute."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import libcst as cst

from torch2ms.analysis.syntax.tree import children, code
from torch2ms.api import definitions, detours, reductions, signature, targets, template
from torch2ms.api.facts import Facts, Use
from torch2ms.api.imports import IMPORTS
from torch2ms.api.rules import DROPPED, UNKEPT, Form, Rule
from torch2ms.api.signature import BindError, Binding, StarError, literal
from torch2ms.api.transforms import CELL
from torch2ms.api.types import typed
from torch2ms.findings import Finding, Tier

_RENAMED, _DROPPED, _ARGUMENT, _ASSUMED = "T2M601", "T2M602", "T2M603", "T2M604"
_NONE, _STAR, _TWICE, _VALUE, MISFIT = "T2M605", "T2M606", "T2M607", "T2M608", "T2M609"
_UNDIFFERENTIATED = "nothing is differentiated"


@dataclass(frozen=True)
class Outcome:
    """What became of one expression; `node` is None where it was refused and stays as it is."""

    node: cst.BaseExpression | None
    findings: tuple[Finding, ...]
    needs: frozenset[str] = frozenset()
    returns: str = "unknown"
    twice: str = ""  # the argument that would be evaluated twice, where that is why it was refused
    form: Form | None = None  # the form of the rule that was taken, where one was


@dataclass(frozen=True)
class Choice:
    """What a function of `hard` answers: a target, or a refusal with its reason."""

    to: str | None = None
    returns: str | None = None
    assume: str = ""
    refuse: str = ""
    todo: str = ""
    evidence: str | None = None
    uses: tuple[str, ...] = ()  # parameters written into `to` without a placeholder


def _refused(rule: Rule, code: str, why: str, todo: str = "", what: str = "") -> Outcome:
    todo = todo or "write it by hand with mindspore.ops"
    return Outcome(None, (Finding(code, Tier.REFUSED, what or rule.name, why, todo),))


def _lacking(rule: Rule, parsed: template.Template) -> Outcome | None:
    """The refusal of a target that the chosen MindSpore version does not have."""
    name = targets.lacking(parsed, rule.target) if rule.target else ""
    if not name:
        return None
    return _refused(rule, _NONE, f"MindSpore {rule.target} has no {name}", "choose a newer MindSpore with --target")


def returns(rule: Rule) -> str:
    """The kind of what a rule gives where no call is at hand; `Outcome.returns` is more exact."""
    return rule.returns


def apply_call(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    """Translate one call whose arguments are translated already."""
    if rule.hopeless:
        return _refused(rule, _NONE, rule.main.refuse, rule.main.todo)
    given = typed(rule.name, updated)
    outcome = _applied(rule, original, given, facts)
    return replace(outcome, needs=outcome.needs | {"ms"}) if given is not updated and outcome.node else outcome


def _applied(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    receivers = _receivers(rule, original, updated)
    problem: BindError | None = None
    for form in rule.forms:
        try:
            binding = reductions.modern(signature.bind(form.signature, original, updated))
        except StarError as error:
            if rule.star:
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
            form = _chosen(form, rule.choose(use))
        return _fill_call(rule, form, use, receivers[1], updated)
    if isinstance(problem, StarError):
        return _refused(rule, _STAR, f"{problem} hides which arguments are given", "write the arguments out")
    if problem is not None:
        return _refused(rule, MISFIT, str(problem), "check the call against the PyTorch documentation")
    return _refused(rule, _ARGUMENT, "no MindSpore form is known for these arguments")


def _receivers(
    rule: Rule, original: cst.Call, updated: cst.Call
) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """The tensor a method is called on, before and after translation."""
    if type(original.func) is cst.Attribute and type(updated.func) is cst.Attribute:
        return original.func.value, updated.func.value
    return None, None


def _chosen(form: Form, choice: Choice) -> Form:
    changed = replace(
        form, to=choice.to, assume=choice.assume, refuse=choice.refuse, todo=choice.todo, uses=choice.uses
    )
    if choice.evidence is not None:
        changed = replace(changed, evidence=choice.evidence)
    return replace(changed, returns=choice.returns) if choice.returns is not None else changed


def _fill_call(rule: Rule, form: Form, use: Use, receiver: cst.BaseExpression | None, updated: cst.Call) -> Outcome:
    if form.refuse or form.to is None:
        return _refused(rule, _NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
    if (lacking := _lacking(rule, form.template)) is not None:
        return lacking
    if rule.name.startswith("torch.nn."):
        use = detours.tupled(use)
    form, detour = detours.taken(rule, form, use)
    if isinstance(detour, str):
        return _refused(rule, _ARGUMENT, detour)
    if detours.complex_beside(use):
        why = "MindSpore's functions take no complex number beside a tensor"
        return _refused(rule, _ARGUMENT, why, "make a tensor of it, of the type of the result")
    varied = any(use.varied(name) for name in use.written)
    if varied and form.assume.startswith(_UNDIFFERENTIATED):
        return _refused(rule, _ARGUMENT, "a gradient flows through it, which MindSpore does not compute like torch")
    if detour is None and rule.floats and "astype" not in (form.to or ""):
        detour = detours.floated(form, use)
    dropped: list[Finding] = []
    written = form.template.params
    for name, bound in use.binding.all():
        if name in UNKEPT and name not in written and name not in form.drop and use.given(name):
            argument = f"{rule.name}({name}={code(bound.original.value)})"
            dropped.append(Finding(_ASSUMED, Tier.ASSUMED, argument, f"dropped: {UNKEPT[name]}"))
            continue
        if name in written or name in form.uses or not use.given(name):
            continue
        argument = f"{rule.name}({name}={code(bound.original.value)})"
        if name in form.drop or name in DROPPED or form.returns == "module" and detours.usual(name, use):
            why = DROPPED.get(name, "it changes neither values nor gradients")
            dropped.append(Finding(_DROPPED, Tier.EXACT, argument, f"dropped: {why}"))
        else:
            why = f"MindSpore's counterpart has no {name}"
            return _refused(rule, _ARGUMENT, why, form.todo, argument)
    try:
        node = detours.filled(detour, form, use, receiver, updated)
    except template.TwiceError as error:
        return replace(_refused(rule, _TWICE, str(error), "assign the expression to a name first"), twice=error.param)
    except template.TemplateError as error:
        return _refused(rule, _TWICE, str(error), "assign the expression to a name first")
    typed = detour is not None or "|or_float32" in form.template.text
    names = needs(form.template) | ({"ms"} if typed and "ms." in code(node) else frozenset())
    names |= {"ops"} if detour is not None and detour.parts else frozenset()
    if "|celled" in form.template.text and CELL in code(node):
        names |= {CELL}
    if varied and rule.gradient and form.tier is Tier.EXACT:
        form = replace(form, assume=rule.gradient)
    return Outcome(node, (_told(rule, form, node), *dropped), names, form.returns, form=form)


def _told(rule: Rule, form: Form, node: cst.BaseExpression) -> Finding:
    """The finding of a translated use: what it became, on one line."""
    text = code(node)
    shown = " ".join(text.split())
    if "\n" in text and isinstance(node, cst.Call):
        shown = f"{code(node.func)}(...)"
    if form.tier is Tier.EXACT:
        return Finding(_RENAMED, Tier.EXACT, rule.name, shown)
    return Finding(_ASSUMED, Tier.ASSUMED, rule.name, f"{shown}: {form.assume or 'the pair was not measured'}")


def _starred(rule: Rule, error: StarError, updated: cst.Call) -> Outcome:
    """`optim.SGD(params, **options)`: the classes take the same names, as far as MindSpore's has them."""
    parsed = template.parse(rule.star)
    if (lacking := _lacking(rule, parsed)) is not None:
        return lacking
    why = f"{rule.star}: {error} holds nothing that it does not know"
    if rule.star == "{data}":  # what it is given: `Variable(x, **options)`
        if not updated.args or updated.args[0].star or updated.args[0].keyword is not None:
            return _refused(rule, _STAR, f"{error} hides which arguments are given", "write the arguments out")
        node = template.parenthesised(updated.args[0].value)
        return Outcome(node, (Finding(_ASSUMED, Tier.ASSUMED, rule.name, why),), frozenset(), rule.returns)
    itself = isinstance(updated.func, cst.Attribute) and rule.star == "{self}"  # a layer, which is called as before
    func = updated.func.value if itself else parsed.root.deep_clone()  # type: ignore[attr-defined]
    node = updated.with_changes(func=func)
    return Outcome(node, (Finding(_ASSUMED, Tier.ASSUMED, rule.name, why),), needs(parsed), rule.returns)


def _star_renamed(rule: Rule, form: Form, original: cst.Call, updated: cst.Call) -> Outcome | None:
    """`f(*args)` survives where the target has the same parameters, by name, order and default."""
    if rule.choose is not None or len(rule.forms) > 1 or form.to is None:
        return None
    root = form.template.root
    if not isinstance(root, cst.Call) or not form.template.fixed_callee:
        return None
    by_keyword = any(arg.star == "**" or arg.keyword is not None for arg in original.args)
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
    if "self" in form.template.params:
        return None
    if (lacking := _lacking(rule, form.template)) is not None:
        return lacking
    node = updated.with_changes(func=root.func.deep_clone())
    return Outcome(node, (_told(rule, form, node),), needs(form.template), form.returns)


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


def apply_attribute(rule: Rule, original: cst.Attribute, updated: cst.Attribute, facts: Facts) -> Outcome:
    """Translate an attribute: `x.T`, `torch.float32`."""
    if not rule.attribute:
        return apply_value(rule, updated, facts)
    use = Use(template.EMPTY, facts, original.value)
    for form in rule.forms:
        if not use.holds(form.condition):
            continue
        if rule.choose is not None:
            form = _chosen(form, rule.choose(use))
        if form.refuse or form.to is None:
            return _refused(rule, _NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
        if (lacking := _lacking(rule, form.template)) is not None:
            return lacking
        try:
            node = template.fill(form.template, template.EMPTY, updated.value, None)
        except template.TemplateError as error:
            return _refused(rule, _TWICE, str(error), "assign the expression to a name first")
        if isinstance(node, cst.Attribute) and node.value.deep_equals(updated.value):
            node = updated.with_changes(attr=node.attr)  # the user's own line breaks before the dot stay
        return Outcome(node, (_told(rule, form, node),), needs(form.template), form.returns, form=form)
    return _refused(rule, _NONE, "there is no counterpart in MindSpore")


def apply_value(rule: Rule, node: cst.BaseExpression, facts: Facts) -> Outcome:
    """Translate the name of a function or class that is not called here: `act=nn.ReLU`."""
    target_text = rule.value or rule.main.to
    if target_text and (lacking := _lacking(rule, template.parse(target_text))) is not None:
        return lacking
    if rule.attribute and rule.main.to is not None and "self" not in rule.main.template.params:
        parsed = rule.main.template
        return Outcome(parsed.root, (_told(rule, rule.main, parsed.root),), needs(parsed), rule.returns)
    form = rule.main
    if rule.value is None and (form.to is None or form.refuse):
        return _refused(rule, _NONE, form.refuse or "there is no counterpart in MindSpore", form.todo)
    if not _plain(rule, form) and facts.called_with_more(rule.name, form.signature) and (whole := full_value(rule)):
        parsed = template.parse(whole)
        found = Finding(_RENAMED, Tier.EXACT, rule.name, f"{whole}: it is called with arguments of torch's")
        return Outcome(template.parenthesised(parsed.root.deep_clone()), (found,), needs(parsed), "function")
    if rule.value is not None:
        parsed = template.parse(rule.value)
        measured = form.evidence == "pass" if form.to is None else form.tier is Tier.EXACT  # None: a function chooses
        tier = Tier.EXACT if measured and not rule.value_assume else Tier.ASSUMED
        why = f"{rule.value}: {rule.value_assume}" if rule.value_assume else rule.value
        found = Finding(_RENAMED if tier is Tier.EXACT else _ASSUMED, tier, rule.name, why)
        return Outcome(template.parenthesised(parsed.root), (found,), needs(parsed), "function")
    bare = _bare(rule, form)
    if bare is None:
        return _refused(
            rule,
            _VALUE,
            "its MindSpore form cannot be written without the arguments",
            "write a small function around the call",
        )
    target, written, told = bare
    if not written:
        return Outcome(target, (told,), needs(form.template), "function")
    partial = cst.Call(cst.Name("partial"), _partial_args(target, written))
    return Outcome(partial, (told,), needs(form.template) | {"partial"}, "function")


def apply_whole(rule: Rule, updated: cst.Call) -> Outcome | None:
    """`nn.Conv2d(*args, **options)`: a function that takes torch's arguments, whichever they are."""
    if rule.hopeless or rule.name.rpartition(".")[2][:1].islower() or not (whole := full_value(rule)):
        return None
    parsed = template.parse(whole)
    found = Finding(_RENAMED, Tier.EXACT, rule.name, f"{whole}: it takes torch's arguments")
    func = template.parenthesised(parsed.root.deep_clone())
    return Outcome(updated.with_changes(func=func), (found,), needs(parsed), rule.returns)


def _plain(rule: Rule, form: Form) -> bool:
    """Whether the bare name takes torch's arguments as they are."""
    bare = _bare(rule, form) if rule.value is None and form.to is not None else None
    return bare is not None and not bare[1] and bare[2].tier is Tier.EXACT


def takes_as_written(rule: Rule) -> bool:
    """Whether what stands for the name takes torch's arguments as they are, whatever they are."""
    typed = rule.floats or any(kind not in detours.ODD for kind in rule.lacks) or rule.narrow or len(rule.forms) > 1
    return rule.choose is None and not typed and _plain(rule, rule.main)


def full_value(rule: Rule) -> str:
    """A function of torch's own parameters around the target; "" where it cannot take them all."""
    if rule.full:
        return rule.full
    form = rule.main
    if rule.choose is not None or form.condition or form.to is None or "self" in form.template.params:
        return ""
    taken = [p for p in form.signature.params if p.name not in _MADE_WITH]
    lost = {p.name for p in taken} - form.template.params - set(form.drop)
    if lost or not taken or any(p.variadic or p.keyword_only for p in taken) or form.tier is not Tier.EXACT:
        return ""
    heads = [p.name if p.default is None else f"{p.name}={p.default}" for p in taken]
    call = cst.Call(cst.Name("_"), [cst.Arg(cst.Name(p.name)) for p in taken if p.name in form.template.params])
    kept = signature.Signature(tuple(p for p in taken if p.name in form.template.params))
    binding = signature.bind(kept, call, call)
    binding = replace(binding, signature=form.signature)
    return f"lambda {', '.join(heads)}: {code(template.fill(form.template, binding, None, None))}"


_MADE_WITH = ("device", "dtype", "size_average", "reduce")  # arguments that no caller gives a class in a variable
_CLASS = re.compile(r"(\w+\.)*[A-Z]\w*|tuple")


def apply_class(rule: Rule, node: cst.BaseExpression) -> Outcome:
    """Translate a class that is only named, never called: `isinstance(m, nn.Conv2d)`, annotations, base classes."""
    name = rule.cls or rule.value or ""
    root = rule.main.template.root if rule.main.to is not None else None
    if not _CLASS.fullmatch(name) and isinstance(root, cst.Call) and isinstance(root.func, cst.Attribute):
        name = code(root.func)
    if not _CLASS.fullmatch(name):
        return _refused(rule, _VALUE, rule.main.refuse or "MindSpore has no class that stands for it", rule.main.todo)
    parsed = template.parse(name)
    if (lacking := _lacking(rule, parsed)) is not None:
        return lacking
    shared = name in _SHARED
    tier, told = (Tier.ASSUMED, _ASSUMED) if shared else (Tier.EXACT, _RENAMED)
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
        if mark.transform or mark.spread:
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
    told = Finding(_RENAMED if tier is Tier.EXACT else _ASSUMED, tier, rule.name, why)
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
    return outcome if outcome.node is not None else _as_lambda(rule, original, facts) or outcome


def _as_lambda(rule: Rule, original: cst.Call, facts: Facts) -> Outcome | None:
    """`partial(torch.clamp, min=0)` as `lambda input: ops.clamp(input, min=0)`; numbers and words stay the same."""
    given = {arg.keyword.value: arg for arg in original.args[1:] if arg.keyword is not None and not arg.star}
    settled = all(isinstance(literal(arg.value), (int, float, str, tuple, type(None))) for arg in given.values())
    if rule.name.rpartition(".")[2][:1].isupper() or len(given) != len(original.args) - 1 or not given or not settled:
        return None
    form = next((f for f in rule.forms if given.keys() <= f.signature.by_name.keys()), None)
    if form is None or any(p.variadic for p in form.signature.params):
        return None
    later = [p.name for p in form.signature.params if p.default is None and p.name not in given]
    args = [*(cst.Arg(cst.Name(name)) for name in later), *given.values()]
    call = original.with_changes(func=original.args[0].value, args=args)
    if (outcome := apply_call(rule, call, call, facts)).node is None or not later:
        return None
    body = code(outcome.node.with_changes(lpar=(), rpar=()))
    node = cst.parse_expression(f"lambda {', '.join(later)}: {body}")
    told = Finding(_ASSUMED, Tier.ASSUMED, f"partial of {rule.name}", f"its callers give {', '.join(later)} alone")
    return replace(outcome, node=node, findings=(*outcome.findings, told), returns="function")


def _partial(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome:
    inner, inner_updated = (call.with_changes(args=call.args[1:]) for call in (original, updated))
    form = rule.main
    if rule.partial:
        form = replace(form, to=rule.partial, refuse="", assume=rule.value_assume)
    elif rule.choose is not None or form.to is None or form.refuse or not isinstance(form.template.root, cst.Call):
        return _refused(rule, _VALUE, form.refuse or "its MindSpore form cannot be written as a partial")
    optional = tuple(
        replace(p, default="None") if p.default is None and not p.variadic else p for p in form.signature.params
    )
    try:
        binding = signature.bind(signature.Signature(optional), inner, inner_updated)
    except BindError as error:
        return _refused(rule, MISFIT, str(error))
    use = Use(binding, facts)
    if any(bound.positional for _, bound in binding.all()):
        return _refused(rule, _VALUE, "positional arguments in a partial", "give them by keyword")
    function = not rule.partial and not rule.name.rpartition(".")[2][:1].isupper()
    if function and next((f for f in rule.forms if use.holds(f.condition)), form) is not form:
        return _refused(rule, _VALUE, "its MindSpore form goes by what it is given")
    filled = _fill_call(rule, form, use, None, inner_updated)
    if rule.partial and filled.node is not None:
        return replace(filled, returns="function")
    if filled.node is None or not isinstance(filled.node, cst.Call):
        return filled
    keywords = [arg for arg in filled.node.args if arg.keyword is not None]
    if len(keywords) != len(filled.node.args) or not _in_place(form, use):
        return _refused(rule, _VALUE, "its MindSpore form needs positional arguments first")
    node = updated.with_changes(args=_partial_args(filled.node.func, keywords))
    return Outcome(node, filled.findings, filled.needs, "function")


def _in_place(form: Form, use: Use) -> bool:
    """What callers of the partial have to give comes first in the form, once each and in their order."""
    root, marks = form.template.root, form.template.placeholders
    assert isinstance(root, cst.Call)
    plain = [marks.get(getattr(arg.value, "value", "")) for arg in root.args if arg.keyword is None]
    placed = [mark.param if mark is not None else "" for mark in plain]
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
