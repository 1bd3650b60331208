"""Reads and writes of gradients between backward and step: clipping, loops over `p.grad`, leaves."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.project import ModuleInfo
from torch2ms.analysis.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.events import Event, argument
from torch2ms.tape.forms import Writer
from torch2ms.tape.ledger import Owner
from torch2ms.tape.owners import concerns
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
        if event.kind == "clip_norm":
            _clip_norm(event, owner, plan)
        elif event.kind == "clip_value":
            _clip_value(event, owner, plan)
        elif event.kind == "grad_loop":
            _loop(event, owner, module, plan, writer)
        else:
            _leaf(event, owner, owners, plan)
    return ""


def inside_loop(event: Event, events: list[Event]) -> bool:
    loops = {id(e.stmt) for e in events if e.kind in ("grad_loop", "clear")}
    return any(id(a) in loops for a in event.stmt.ancestors())


def _finding(event: Event, why: str) -> Finding:
    return Finding("T2M115", Tier.REFUSED, "use of gradients", why, f"use the tuple that the gradient function returns ({why})", event.stmt.lineno)


def _clip_norm(event: Event, owner: Owner, plan: Plan) -> None:
    """torch scales by max_norm / (norm + 1e-6) where the norm is larger; ops.clip_by_norm over a list does the same."""
    call = event.node
    assert isinstance(call, cst.Call)
    limit = argument(call, 1, "max_norm")
    norm_type = argument(call, 2, "norm_type")
    if limit is None or (norm_type is not None and constant(norm_type) not in (2, 2.0)):
        plan.refuse(event.stmt, _finding(event, "only the 2-norm has a measured form"))
        return
    node = event.stmt.node
    grads = owner.variable
    clip = Text(f"{grads} = ops.clip_by_norm({grads}, {{0}})", [limit])
    norm = f"ops.norm(ops.stack([ops.norm(grad) for grad in {grads}]))"
    plan.needs.add("ops")
    if isinstance(node, cst.Expr) and node.value is call:
        plan.replaced[id(event.stmt)] = [clip]
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        plan.expressions[id(call)] = norm
        target = node.targets[0].target
        value = code(node.value).replace(code(call), norm, 1)
        plan.replaced[id(event.stmt)] = [Text(f"{code(target)} = {value}"), clip]
    else:
        plan.refuse(event.stmt, _finding(event, "the norm is used inside a larger statement"))
        return
    same = owner.owns is not None and event.value.deps and frozenset(event.value.deps) == owner.owns
    tier = Tier.EXACT if same or event.value.kind == "optimizer" else Tier.ASSUMED
    why = "the gradient tuple is clipped" + ("" if tier is Tier.EXACT else "; assumed: the clipped parameters are those of the optimizer")
    plan.findings.append(Finding("T2M510", tier, "clip_grad_norm_", why, line=event.stmt.lineno))


def _clip_value(event: Event, owner: Owner, plan: Plan) -> None:
    call = event.node
    assert isinstance(call, cst.Call)
    limit = argument(call, 1, "clip_value")
    if limit is None or not isinstance(event.stmt.node, cst.Expr):
        plan.refuse(event.stmt, _finding(event, "its form is not known"))
        return
    grads = owner.variable
    text = code(limit)
    minus = f"-{text}" if isinstance(limit, (cst.Name, cst.Attribute, cst.Integer, cst.Float)) else f"-({text})"
    plan.needs.add("ops")
    plan.replaced[id(event.stmt)] = [Text(f"{grads} = [ops.clamp(grad, {minus}, {text}) for grad in {grads}]")]
    plan.findings.append(Finding("T2M511", Tier.EXACT, "clip_grad_value_", "the gradient tuple is clamped", line=event.stmt.lineno))


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
    weights = writer.weights(owner)
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
            for found in descend(stmt.node) if not stmt.blocks else descend(getattr(stmt.node, "test", None) or getattr(stmt.node, "iter", cst.Pass())):
                if isinstance(found, cst.Attribute) and found.attr.value == "grad" and dotted(found.value) == param:
                    plan.expressions[id(found)] = replacement
                elif isinstance(found, cst.Attribute) and found.attr.value == "data" and dotted(found.value) == f"{param}.grad":
                    plan.expressions[id(found)] = replacement
                elif name and isinstance(found, cst.Name) and found.value == name:
                    plan.expressions[id(found)] = f"{param}.name"
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
