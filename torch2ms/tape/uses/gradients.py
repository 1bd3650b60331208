"""Reads and writes of gradients between backward and step: clipping, loops over `p.grad`, leaves."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.project import ModuleInfo
from torch2ms.analysis.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.ledger.events import Event, argument
from torch2ms.tape.ledger.ledger import Owner
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.plan import Plan, Text


def plan(events: list[Event], owners: list[Owner], module: ModuleInfo, plan: Plan, writer: Writer) -> str:
    """Rewrite what uses the gradients of the owners; a reason if some use cannot be translated."""
    for event in events:
        if event.kind not in ("clip_norm", "clip_value", "grad_loop", "leaf_grad"):
            continue
        owner = next((o for o in owners if concerns(event, o, owners)), None)
        if owner is None and event.kind == "leaf_grad":
            owner = next((o for o in owners if o.kind == "leaf" and o.place == event.place), None)
        if owner is None:
            if not inside_loop(event, events):
                plan.refused.add(id(event.node))
                plan.refuse(event.stmt, _finding(event, "whose gradients these are is not seen"))
            continue
        several = [o for o in owners if o.kind != "leaf" and concerns(event, o, owners)]
        if event.kind == "clip_norm":
            _clip_norm(event, several or [owner], plan, writer)
        elif event.kind == "clip_value":
            for each in several or [owner]:
                _clip_value(event, each, plan)
        elif len(several) > 1:
            plan.refused.add(id(event.node))
            plan.refuse(event.stmt, _finding(event, "it looks at the gradients of several optimizers"))
        elif event.kind == "grad_loop":
            _loop(event, owner, module, plan, writer)
        elif not _comprehension(event, owner, module, plan, writer):
            _leaf(event, owner, owners, plan)
    return ""


def _comprehension(event: Event, owner: Owner, module: ModuleInfo, plan: Plan, writer: Writer) -> bool:
    """`[p.grad.norm() for p in net.parameters()]` runs over parameters and gradients together."""
    node = event.node
    assert isinstance(node, cst.Attribute)
    if owner.kind == "leaf" or event.writes or not isinstance(node.value, cst.Name):
        return False
    param = node.value.value
    for outer in descend(event.stmt.node):
        if not isinstance(outer, (cst.ListComp, cst.GeneratorExp, cst.SetComp)) or not any(
            n is node for n in descend(outer)
        ):
            continue
        clause = outer.for_in
        if clause.inner_for_in is not None or module.value(clause.iter).kind not in ("params", "list"):
            continue
        if not isinstance(clause.target, cst.Name) or clause.target.value != param:
            continue
        plan.expressions[id(clause.iter)] = f"zip({weights_of(owner)}, {owner.variable})"
        plan.expressions[id(clause.target)] = f"{param}, {param}_grad"
        for found in descend(outer):
            if isinstance(found, cst.Attribute) and found.attr.value == "grad" and dotted(found.value) == param:
                plan.expressions[id(found)] = f"{param}_grad"
            elif (
                isinstance(found, cst.Attribute)
                and found.attr.value == "data"
                and dotted(found.value) == f"{param}.grad"
            ):
                plan.expressions[id(found)] = f"{param}_grad"
        plan.findings.append(Finding("T2M512", Tier.EXACT, "comprehension over gradients",
                                     "runs over parameters and gradients together",
                                     line=event.stmt.lineno))  # fmt: skip
        return True
    return False


def inside_loop(event: Event, events: list[Event]) -> bool:
    loops = {id(e.stmt) for e in events if e.kind in ("grad_loop", "clear")}
    return any(id(a) in loops for a in event.stmt.ancestors())


def _finding(event: Event, why: str) -> Finding:
    return Finding(
        "T2M115",
        Tier.REFUSED,
        "use of gradients",
        why,
        f"use the tuple that the gradient function returns ({why})",
        event.stmt.lineno,
    )


def _clip_norm(event: Event, owners: list[Owner], plan: Plan, writer: Writer) -> None:
    """torch scales by max_norm / (norm + 1e-6) where the norm is larger; ops.clip_by_norm over a list does the same."""
    call = event.node
    assert isinstance(call, cst.Call)
    clipped = clipping(event, owners)
    if isinstance(clipped, str):
        plan.refused.add(id(call))
        plan.refuse(event.stmt, _finding(event, clipped))
        return
    form, limit = clipped
    node = event.stmt.node
    names = [o.variable for o in owners]
    grads = names[0] if len(names) == 1 else writer.fresh_once("all_grads")
    joined = names[0] if len(names) == 1 else " + ".join(f"tuple({n})" for n in names)
    clip: list[Text] = [Text(f"{grads} = {form(joined, '{0}')}", [limit])]
    offset = ""
    for owner in owners if len(owners) > 1 else []:
        end = f"{offset}len({weights_of(owner)})"
        clip.append(
            Text(f"{owner.variable} = {grads}[{offset.removesuffix(' + ')}:{'' if owner is owners[-1] else end}]")
        )
        offset = end + " + "
    norm = f"ops.norm(ops.stack([ops.norm(grad) for grad in {joined}]))"
    plan.needs.add("ops")
    if isinstance(node, cst.Expr) and node.value is call:
        plan.replaced[id(event.stmt)] = list(clip)
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        plan.expressions[id(call)] = norm
        value = code(node.value).replace(code(call), norm, 1)
        plan.replaced[id(event.stmt)] = [Text(f"{code(node.targets[0].target)} = {value}"), *clip]
    else:
        plan.refused.add(id(call))
        plan.refuse(event.stmt, _finding(event, "the norm is used inside a larger statement"))
        return
    plan.findings.append(told(event, owners))


def clipping(event: Event, owners: list[Owner]) -> tuple[Callable[[str, str], str], cst.BaseExpression] | str:
    """The form that clips the named gradients by a limit, and the limit; the reason where there is no such form."""
    call = event.node
    assert isinstance(call, cst.Call)
    if event.kind == "clip_value":
        limit = argument(call, 1, "clip_value")
        return "its form is not known" if limit is None else (_clamped, limit)
    limit = argument(call, 1, "max_norm")
    norm_type = argument(call, 2, "norm_type")
    if limit is None or (norm_type is not None and constant(norm_type) not in (2, 2.0)):
        return "only the 2-norm has a measured form"
    if _relation(event, owners) == "other":
        return "it clips other parameters than those of the optimizer"
    return (lambda grads, limit: f"ops.clip_by_norm({grads}, {limit})"), limit


def _clamped(grads: str, limit: str) -> str:
    minus = f"-{limit}" if re.fullmatch(r"[\w.]+|\{0\}", limit) else f"-({limit})"
    return f"[ops.clamp(grad, {minus}, {limit}) for grad in {grads}]"


def told(event: Event, owners: list[Owner]) -> Finding:
    """What is said of a clipping that has a form."""
    if event.kind == "clip_value":
        why = "the gradient tuple is clamped"
        return Finding("T2M511", Tier.EXACT, "clip_grad_value_", why, line=event.stmt.lineno)
    tier = Tier.EXACT if _relation(event, owners) == "same" else Tier.ASSUMED
    why = "the gradient tuple is clipped" + (
        "" if tier is Tier.EXACT else "; assumed: the clipped parameters are those of the optimizer"
    )
    return Finding("T2M510", tier, "clip_grad_norm_", why, line=event.stmt.lineno)


def _relation(event: Event, owners: list[Owner]) -> str:
    """Whether what is clipped is what the owners hold: same, other, or not seen."""
    if event.value.kind == "optimizer" or event.value.name.startswith("param_group"):
        return "same"
    if any(d.startswith("@") for d in event.value.deps):
        return "unseen"  # a parameter: each caller has its own
    clipped = {d for d in event.value.deps or ({event.place} if event.place else ()) if not d.startswith("@")}
    if not clipped or any(o.owns is None for o in owners) or any(d.startswith("^") for d in clipped):
        return "unseen"
    held = {p for o in owners for p in o.owns or ()}
    if any(p.startswith("^") for p in held):
        return "unseen"
    inside = all(any(p == c or p.startswith(c + ".") for c in clipped) for p in held)
    outside = all(any(c == p or c.startswith(p + ".") for p in held) for c in clipped)
    return "same" if inside and outside else "other"


def _clip_value(event: Event, owner: Owner, plan: Plan) -> None:
    call = event.node
    assert isinstance(call, cst.Call)
    clipped = clipping(event, [owner])
    if isinstance(clipped, str) or not isinstance(event.stmt.node, cst.Expr):
        plan.refuse(event.stmt, _finding(event, clipped if isinstance(clipped, str) else "its form is not known"))
        return
    form, limit = clipped
    plan.needs.add("ops")
    plan.replaced[id(event.stmt)] = [Text(f"{owner.variable} = {form(owner.variable, code(limit))}")]
    plan.findings.append(told(event, [owner]))


def _loop(event: Event, owner: Owner, module: ModuleInfo, plan: Plan, writer: Writer) -> None:
    """`for p in net.parameters(): ... p.grad ...` runs over parameters and gradients together."""
    node = event.node
    assert isinstance(node, cst.For)
    target = node.target
    name = ""
    if event.value.kind == "named_params" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        name, param = dotted(target.elements[0].value), dotted(target.elements[1].value)
    elif event.value.kind in ("params", "list", "tuple") and isinstance(target, cst.Name):
        param = target.value
    else:
        plan.refuse(event.stmt, _finding(event, "the loop runs over more than the parameters"))
        return
    weights = weights_of(owner)
    grads = owner.variable
    if event.writes:
        index = writer.fresh_index()
        plan.expressions[id(node.iter)] = f"enumerate({weights})"
        plan.expressions[id(target)] = f"{index}, {param}"
        replacement = f"{grads}[{index}]"
        plan.before.setdefault(id(event.stmt), []).append(Text(f"{grads} = list({grads})"))
    else:
        replacement = f"{param}_grad"
        plan.expressions[id(node.iter)] = f"zip({weights}, {grads})"
        plan.expressions[id(target)] = f"{param}, {replacement}"
    for block in event.stmt.blocks:
        for stmt in block.walk():
            if stmt.blocks and not isinstance(stmt.node, (cst.If, cst.While, cst.For, cst.With)):
                continue
            for found in (
                descend(stmt.node)
                if not stmt.blocks
                else descend(getattr(stmt.node, "test", getattr(stmt.node, "iter", cst.Pass())))
            ):
                if isinstance(found, cst.Attribute) and found.attr.value == "grad" and dotted(found.value) == param:
                    plan.expressions[id(found)] = replacement
                elif (
                    isinstance(found, cst.Attribute)
                    and found.attr.value == "data"
                    and dotted(found.value) == f"{param}.grad"
                ):
                    plan.expressions[id(found)] = replacement
                elif name and isinstance(found, cst.Name) and found.value == name:
                    plan.expressions[id(found)] = f"{param}.name"
            plan.weights |= {id(n) for n in descend(stmt.node) if isinstance(n, cst.Name) and n.value == param}
            if _clears_gradient(stmt, param):
                plan.replaced[id(stmt)] = []
    why = "runs over the parameters of the optimizer and their gradients"
    tier = Tier.ASSUMED if name else Tier.EXACT
    if name:
        why += "; assumed: the names MindSpore gives parameters serve as well"
    plan.findings.append(Finding("T2M512", tier, "loop over gradients", why, line=event.stmt.lineno))


def _clears_gradient(stmt: object, param: str) -> bool:
    node = stmt.node  # type: ignore[attr-defined]
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return dotted(node.targets[0].target) == f"{param}.grad" and constant(node.value) is None
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        return dotted(node.value.func) in (f"{param}.grad.zero_", f"{param}.grad.data.zero_")
    return False


def _leaf(event: Event, owner: Owner, owners: list[Owner], plan: Plan) -> None:
    if owner.kind == "leaf":
        plan.expressions[id(event.node)] = owner.variable
        for found in descend(event.stmt.node):
            if isinstance(found, cst.Attribute) and found.attr.value == "data" and found.value is event.node:
                plan.expressions[id(found)] = owner.variable
    elif id(event.node) not in plan.expressions:
        plan.refused.add(id(event.node))
        plan.refuse(event.stmt, _finding(event, "the gradient of a single parameter of an optimizer"))
