"""Functions written around what takes the place of a name that is not called where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.api.apply import ASSUMED, Outcome, apply_call
from torch2ms.api.facts import Facts
from torch2ms.api.rules import Rule
from torch2ms.api.signature import Param, Signature, literal
from torch2ms.findings import Finding, Tier

METHOD = "torch.Tensor."
CHANGING = {"out", "inplace"}  # with these it changes what it is given
_SELF = Param("tensor")  # the receiver of a method that is held unbound


def as_called(rule: Rule, node: cst.BaseExpression, facts: Facts) -> Outcome | None:
    """`fns["mean"]`, called `fns["mean"](x, dim=1)`: a function of the arguments that the program gives it."""
    own = rule.name.rpartition(".")[2]
    if rule.hopeless or rule.attribute or not (own[:1].islower() or rule.returns == "sampler") or own.endswith("_"):
        return None
    method = rule.name.startswith(METHOD)
    given = tuple(Signature((_SELF, *f.signature.params)) if method else f.signature for f in rule.forms)
    shape = None if any(p.variadic for s in given for p in s.params) else facts.called_with(rule.name, given)
    if shape is None or CHANGING & shape[1]:
        return None
    params = next(signature.params for signature in given if signature.takes(shape))
    heads, named = [p.name for p in params[: shape[0]]], [p.name for p in params if p.name in shape[1]]
    func: cst.BaseExpression = node
    args = [cst.Arg(cst.Name(name)) for name in heads]
    if method and not heads:
        return None
    if method:
        func, args = cst.Attribute(args[0].value, cst.Name(own)), args[1:]
    call = cst.Call(func, args + [cst.Arg(cst.Name(name), cst.Name(name)) for name in named])
    made = function_of([*heads, *named], apply_call(rule, call, call, facts))
    return replace(made, node=parenthesised(made.node)) if made is not None and made.node is not None else None


def of_partial(rule: Rule, original: cst.Call, updated: cst.Call, facts: Facts) -> Outcome | None:
    """`partial(torch.clamp, min=low)` as `lambda input, *, low=low: ops.clamp(input, low)`: what a name is by then
    stays; numbers and words stay the same anyway."""
    given = {arg.keyword.value: arg for arg in original.args[1:] if arg.keyword is not None and not arg.star}
    settled = all(type(arg.value) is cst.Name or _constant(arg.value) for arg in given.values())
    if rule.name.rpartition(".")[2][:1].isupper() or len(given) != len(original.args) - 1 or not given or not settled:
        return None
    form = next((f for f in rule.forms if given.keys() <= f.signature.by_name.keys()), None)
    if form is None or any(p.variadic for p in form.signature.params):
        return None
    later = [p.name for p in form.signature.params if p.default is None and p.name not in given]
    written = [arg for arg in updated.args[1:] if not _constant(arg.value)]
    kept = [arg.value.value for arg in written if type(arg.value) is cst.Name]
    if len(kept) != len(written) or len({*kept, *later}) != len(kept) + len(later):
        return None
    heads = [cst.Arg(cst.Name(name)) for name in later]
    call = original.with_changes(func=original.args[0].value, args=[*heads, *given.values()])
    outcome = function_of(
        later, apply_call(rule, call, call.with_changes(args=[*heads, *updated.args[1:]]), facts), kept
    )
    if outcome is None:
        return None
    told = Finding(ASSUMED, Tier.ASSUMED, f"partial of {rule.name}", f"its callers give {', '.join(later)} alone")
    return replace(outcome, findings=(*outcome.findings, told))


def _constant(node: cst.BaseExpression) -> bool:
    return type(node) is not cst.Name and isinstance(literal(node), (int, float, str, tuple)) or code(node) in _WORDS


_WORDS = ("None", "True", "False")


def function_of(names: list[str], outcome: Outcome, kept: Sequence[str] = ()) -> Outcome | None:
    """The translated call as a function of those names, beside those that it keeps; None where it was refused, or
    takes nothing."""
    if outcome.node is None or not names:
        return None
    body = code(outcome.node.with_changes(lpar=(), rpar=()))
    heads = [*names, *(["*"] if kept else []), *(f"{name}={name}" for name in kept)]
    return replace(outcome, node=cst.parse_expression(f"lambda {', '.join(heads)}: {body}"), returns="function")
