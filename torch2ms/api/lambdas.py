"""Functions written around what takes the place of a name that is not called where it stands."""

from __future__ import annotations

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


def of_partial(rule: Rule, original: cst.Call, facts: Facts) -> Outcome | None:
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
    outcome = function_of(later, apply_call(rule, call, call, facts))
    if outcome is None:
        return None
    told = Finding(ASSUMED, Tier.ASSUMED, f"partial of {rule.name}", f"its callers give {', '.join(later)} alone")
    return replace(outcome, findings=(*outcome.findings, told))


def function_of(names: list[str], outcome: Outcome) -> Outcome | None:
    """The translated call as a function of those names; None where it was refused, or takes nothing."""
    if outcome.node is None or not names:
        return None
    body = code(outcome.node.with_changes(lpar=(), rpar=()))
    return replace(outcome, node=cst.parse_expression(f"lambda {', '.join(names)}: {body}"), returns="function")
