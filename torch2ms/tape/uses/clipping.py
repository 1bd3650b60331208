"""Clipping of gradients: by norm over all of one or several owners, or value by value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.syntax.arguments import argument, to_clip
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.ledger.owners import concerns, kinship, relation
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.refusals import refusal

FILLS = ("backward", "handed", "gradcall", "step_closure", "fill")
THEIRS = "the clipped parameters are those of the optimizer"


def clip_norm(event: Event, owners: list[Owner], events: list[Event], plan: Plan, writer: Writer) -> None:
    """torch scales by max_norm / (norm + 1e-6) where the norm is larger; ops.clip_by_norm over a list does the same."""
    call = event.node
    assert isinstance(call, cst.Call)
    if _is_part(event, owners, events):
        _clip_part(event, owners[0], plan, writer)
        return
    beyond = without_gradients(event, owners, events)
    if _in_turn(event, events):
        plan.refused.add(id(call))
        plan.refuse(event.stmt, refusal(event, "each turn of a loop clips parameters of its own"))
        return
    order = setting(call, 2, "norm_type", "2.0")
    if order is not None and isinstance(constant(order), str):  # torch makes a number of it
        order = cst.Call(cst.Name("float"), [cst.Arg(order)])
    other = order is not None and constant(order) not in (2, 2.0)
    clipped = clipping(event, owners, beyond, other)
    if isinstance(clipped, str):
        plan.refused.add(id(call))
        plan.refuse(event.stmt, refusal(event, clipped))
        return
    form, limit = clipped
    node = event.stmt.node
    names = [o.variable for o in owners]
    grads = names[0] if len(names) == 1 else writer.fresh_once("all_grads")
    joined = names[0] if len(names) == 1 else " + ".join(f"tuple({n})" for n in names)
    norm, above = f"ops.norm(ops.stack([ops.norm(grad) for grad in {joined}]))", []
    clip: list[Text] = [Text(f"{grads} = {form(joined, '{0}')}", [limit])]
    if other:  # ops.clip_by_norm has other numbers for them
        assert order is not None
        total, kind = writer.fresh_once("total_norm"), code(order)
        if isinstance(order, cst.Call):
            kind = writer.fresh_once("norm_type")
            above = [Text(f"{kind} = {code(order)}")]
        each = f"ops.norm(ops.stack([ops.norm(grad.reshape(-1), ord={kind}) for grad in {joined}]), ord={kind})"
        norm, above = total, [*above, Text(f"{total} = {each}")]
        factor = f"ops.clamp({{0}} / ({total} + 1e-6), max=1.0)"
        clip = [Text(f"{grads} = [grad * {factor} for grad in {joined}]", [limit])]
    clip += parted(grads, owners) if len(owners) > 1 else []
    plan.needs.add("ops")
    if isinstance(node, cst.Expr) and node.value is call:
        plan.replaced[id(event.stmt)] = [*above, *clip]
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        plan.expressions[id(call)] = norm
        value = code(node.value).replace(code(call), norm, 1)
        plan.replaced[id(event.stmt)] = [*above, Text(f"{code(node.targets[0].target)} = {value}"), *clip]
    else:
        plan.refused.add(id(call))
        plan.refuse(event.stmt, refusal(event, "the norm is used inside a larger statement"))
        return
    plan.findings.append(told(event, owners, beyond))


def setting(call: cst.Call, position: int, name: str, default: str = "") -> cst.BaseExpression | None:
    """An argument, or the item of it where a dict gives all that is not written down: `**self.clip`."""
    given = argument(call, position, name)
    spread = [dotted(a.value) for a in call.args if a.star == "**"]
    if given is not None or len(spread) != 1 or not spread[0]:
        return given
    item = f'{spread[0]}.get("{name}", {default})' if default else f'{spread[0]}["{name}"]'
    return cst.parse_expression(item)


def parted(grads: str, owners: list[Owner]) -> list[Text]:
    """The gradients of several owners, one behind the other, handed back to each."""
    made, offset = [], ""
    for owner in owners:
        end = f"{offset}len({weights_of(owner)})"
        upto = "" if owner is owners[-1] else end
        made.append(Text(f"{owner.variable} = {grads}[{offset.removesuffix(' + ')}:{upto}]"))
        offset = end + " + "
    return made


def without_gradients(event: Event, owners: list[Owner], events: list[Event]) -> bool:
    """More is clipped than the owners hold, and no backward call here reaches the rest: it has no gradients."""
    clipped = {d for d in event.value.deps if not d.startswith(("@", "^"))}
    held = {p for o in owners for p in o.owns or ()}
    if not held or any(o.owns is None for o in owners) or not all(_inside(p, clipped) for p in held):
        return False
    reached = [e.value.deps for e in events if e.kind in ("backward", "handed")]
    return bool(reached) and all(
        deps and all(_inside(d, held) or not any(overlaps(d, c) for c in clipped) for d in deps) for deps in reached
    )


def _inside(place: str, wholes: Collection[str]) -> bool:
    return not place.startswith(("@", "^")) and any(place == w or place.startswith(f"{w}.") for w in wholes)


def clipping(
    event: Event, owners: list[Owner], beyond: bool = False, written: bool = False
) -> tuple[Callable[[str, str], str], cst.BaseExpression] | str:
    """The form that clips the named gradients by a limit, and the limit; the reason where there is no such form.

    `beyond`: what is clipped beside those of the owners has no gradients. `written`: the caller writes out the formula
    of other norms than the second.
    """
    call = event.node
    assert isinstance(call, cst.Call)
    if event.kind == "clip_value":
        limit = argument(call, 1, "clip_value")
        if not event.value.name.startswith("param_group") and any(kinship(event, o) == "other" for o in owners):
            return "it clips a part of what the optimizer holds"
        return "its form is not known" if limit is None else (_clamped, limit)
    limit = setting(call, 1, "max_norm")
    norm_type = setting(call, 2, "norm_type", "2.0")
    if limit is None or (norm_type is not None and constant(norm_type) not in (2, 2.0) and not written):
        return "only the 2-norm has a measured form"
    if relation(event, owners) == "other" and not beyond:
        return "it clips other parameters than those of the optimizer"
    return (lambda grads, limit: f"ops.clip_by_norm({grads}, {limit})"), limit


def _clamped(grads: str, limit: str) -> str:
    minus = f"-{limit}" if re.fullmatch(r"[\w.]+|\{0\}", limit) else f"-({limit})"
    return f"[ops.clamp(grad, {minus}, {limit}) for grad in {grads}]"


def told(event: Event, owners: list[Owner], beyond: bool = False) -> Finding:
    """What is said of a clipping that has a form."""
    tier = Tier.EXACT if relation(event, owners) == "same" else Tier.ASSUMED
    if event.kind == "clip_value":
        why = "the gradient tuple is clamped" + ("" if tier is Tier.EXACT else f"; assumed: {THEIRS}")
        return Finding("T2M511", tier, "clip_grad_value_", why, line=event.stmt.lineno)
    others = "no other function leaves gradients in the parameters that are clipped beside those of the optimizer"
    assumed = others if beyond else THEIRS
    why = "the gradient tuple is clipped" + ("" if tier is Tier.EXACT else f"; assumed: {assumed}")
    return Finding("T2M510", tier, "clip_grad_norm_", why, line=event.stmt.lineno)


def clip_value(event: Event, owners: list[Owner], events: list[Event], plan: Plan, writer: Writer) -> None:
    """Every gradient is clamped."""
    call = event.node
    assert isinstance(call, cst.Call)
    if _is_part(event, owners, events):
        _clip_part(event, owners[0], plan, writer)
        return
    clipped = clipping(event, owners)
    if isinstance(clipped, str) or not isinstance(event.stmt.node, cst.Expr):
        plan.refuse(event.stmt, refusal(event, clipped if isinstance(clipped, str) else "its form is not known"))
        return
    form, limit = clipped
    plan.needs.add("ops")
    plan.replaced[id(event.stmt)] = [Text(f"{o.variable} = {form(o.variable, code(limit))}") for o in owners]
    plan.findings.append(told(event, owners))


def _is_part(event: Event, owners: list[Owner], events: list[Event]) -> bool:
    """The parameters that are clipped are some of those that the one owner holds; at most their norm gets a name."""
    call, node = event.node, event.stmt.node
    assert isinstance(call, cst.Call)
    if len(owners) != 1 or not isinstance(node, (cst.Expr, cst.Assign)) or node.value is not call:
        return False
    if event.value.name.startswith("param_group"):  # one of several, unless a module has all that there is
        return event.value.kind == "params" and not owners[0].ordered
    if _one_of_several(event, owners[0], events) or _in_turn(event, events):
        return True
    if isinstance(to_clip(call), cst.Subscript) and relation(event, owners) == "unseen":
        return True  # `groups["head"]`: an item of a collection, which has more
    if event.value.kind not in ("params", "list") or kinship(event, owners[0]) != "other":
        return False
    held, meant = owners[0].owns or (), [d for d in event.value.deps if not d.startswith("@")]
    return bool(meant) and all(any(m == h or m.startswith(f"{h}.") for h in held) for m in meant)


def _in_turn(event: Event, events: list[Event]) -> bool:
    """A loop behind the backward call goes over parameters or layers: each turn clips its own."""
    if event.value.name.startswith("param_group") or event.value.kind == "optimizer":
        return False
    name = root(dotted(_bare(to_clip(event.node))))  # type: ignore[arg-type]
    loops = [a for a in event.stmt.ancestors() if isinstance(a.node, cst.For) and name in a.defs]
    filled = {id(e.stmt) for e in events if e.kind in FILLS}
    return bool(name) and any(not any(id(s) in filled for s in loop.walk()) for loop in loops)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """`net` in `net.parameters()`, `list(net.parameters())` and `[*net.parameters()]`"""
    while isinstance(node, cst.Call):
        plain = isinstance(node.func, cst.Name) and len(node.args) == 1
        node = node.args[0].value if plain else node.func
    return node


def _one_of_several(event: Event, owner: Owner, events: list[Event]) -> bool:
    """What the optimizer holds is not seen, and several networks are clipped by themselves: it is not each of them."""
    if event.value.kind != "params" or relation(event, [owner]) != "unseen":
        return False
    own = code(to_clip(event.node))  # type: ignore[arg-type]
    alike = [e for e in events if e.kind == event.kind and e.value.kind == "params" and concerns(e, owner, [owner])]
    return any(code(to_clip(e.node)) != own for e in alike)  # type: ignore[arg-type]


def _clip_part(event: Event, owner: Owner, plan: Plan, writer: Writer) -> None:
    """The gradients of some parameters, found by parameter, are clipped among themselves."""
    call = event.node
    assert isinstance(call, cst.Call)
    limit = argument(call, 1, "clip_value" if event.kind == "clip_value" else "max_norm")
    norm_type = argument(call, 2, "norm_type") if event.kind == "clip_norm" else None
    if limit is None or norm_type is not None and constant(norm_type) not in (2, 2.0):
        plan.refused.add(id(call))
        plan.refuse(event.stmt, refusal(event, "only the 2-norm has a measured form"))
        return
    part, table = writer.fresh_once("clipped_params"), "grad_of"
    given = "[{0}]" if event.value.kind in ("param", "tensor") else "{0}"
    layers = event.value.kind == "params" and _in_turn(event, [])  # some of them have no parameters
    maybe = f"if {part}:\n    " if layers else ""
    minus = "-{1}" if isinstance(limit, (cst.Name, cst.Attribute, cst.Integer, cst.Float)) else "-({1})"
    form = f"ops.clip_by_norm([{table}[p] for p in {part}], {{1}})"
    if event.kind == "clip_value":
        form = f"[ops.clamp({table}[p], {minus}, {{1}}) for p in {part}]"
    plan.needs.add("ops")
    asked = isinstance(event.stmt.node, cst.Assign)
    if asked:
        norm = f"ops.norm(ops.stack([ops.norm({table}[p]) for p in {part}]))"
        plan.expressions[id(call)] = norm
    plan.replaced[id(event.stmt)] = [
        Text(f"{table} = dict(zip({weights_of(owner)}, {owner.variable}))"),
        Text(f"{part} = [p for p in {given} if p in {table}]", [to_clip(call)]),
        *([Text(code(event.stmt.node).replace(code(call), norm, 1))] if asked else []),
        Text(f"{maybe}{table}.update(zip({part}, {form}))", [to_clip(call), limit]),
        Text(f"{owner.variable} = tuple({table}.values())"),
    ]
    rule, what = ("T2M511", "clip_grad_value_") if event.kind == "clip_value" else ("T2M510", "clip_grad_norm_")
    why = "the gradients of these parameters, looked up by parameter, are clipped"
    sure = relation(event, [owner]) == "other" or event.value.name.startswith("param_group")
    why += "" if sure else "; assumed: all of them that have gradients are among those of the optimizer"
    plan.findings.append(Finding(rule, Tier.EXACT if sure else Tier.ASSUMED, what, why, line=event.stmt.lineno))
