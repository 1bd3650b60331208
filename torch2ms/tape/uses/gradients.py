"""Reads and writes of gradients between backward and step: clipping, loops over `p.grad`, leaves."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.interface import joined as joined_weights
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.asked import ASKED, GIVEN, hands_on
from torch2ms.tape.ledger.owners import concerns, kinship
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.refusals import refusal
from torch2ms.tape.uses.clipping import clip_norm, clip_value, parted
from torch2ms.tape.uses.kept import WHY, keeps_zeros, kept_while_changed
from torch2ms.tape.uses.layer_loops import one_dimensional
from torch2ms.tape.uses.lent import lent
from torch2ms.tape.uses.loops import plan_comprehension, plan_fill, plan_loop
from torch2ms.tape.uses.one_for_two import changed_for_both
from torch2ms.tape.uses.own_memory import by_index, into_name, kept_apart
from torch2ms.tape.uses.reordered import WHY as ORDER
from torch2ms.tape.uses.reordered import reordered

COPY_IT = "store q.grad.clone() if the value of now is meant"
LENT = "it writes into `{0}` as well, which has the same gradients and is used again"
NAME_THEM = "name the parameters that take part in the loss, or leave out those whose gradient is zero"


def plan(events: list[Event], records: Records, plan: Plan, writer: Writer) -> str:
    """Rewrite what uses the gradients of the owners; a reason if some use cannot be translated."""
    owners, module = records.owners, records.module
    kept = _kept(events, records, plan)
    for event in events:
        if id(event) in kept:
            continue
        if event.kind not in ("clip_norm", "clip_value", "grad_loop", "fill", "leaf_grad"):
            continue
        by_value = bool(event.without) and event.kind == "grad_loop" and not event.writes and _emptied(events, owners)
        if event.without and event.kind != "taken" and not by_value:
            plan.refused.add(id(event.node))
            why = (GIVEN if hands_on(event, records) else ASKED).format(min(event.without))
            plan.refuse(event.stmt, replace(refusal(event, "it " + why), todo=NAME_THEM))
            continue
        owner = next((o for o in owners if concerns(event, o, owners)), None)
        if owner is None and event.kind == "leaf_grad":
            owner = next((o for o in owners if o.kind == "leaf" and o.place == event.place), None)
        if owner is None:
            if not inside_loop(event, events):
                plan.refused.add(id(event.node))
                plan.refuse(event.stmt, refusal(event, "whose gradients these are is not seen"))
            continue
        if event.kind in ("grad_loop", "fill", "leaf_grad") and reordered(event, owner, writer.project):
            plan.refused.add(id(event.node))
            plan.refuse(event.stmt, refusal(event, ORDER))
            continue
        if name := lent(event, events, owner, owners):
            plan.refused.add(id(event.node))
            plan.refuse(event.stmt, replace(refusal(event, LENT.format(name)), todo=f"fill in copies of `{name}`"))
            continue
        several = [o for o in owners if o.kind != "leaf" and concerns(event, o, owners)]
        seen = [o for o in several if kinship(event, o) == "same"]
        if event.kind in ("grad_loop", "leaf_grad") and not event.writes and len(seen) == 1 < len(several):
            owner, several = seen[0], seen  # what another holds is not seen: the same, for all that matters to a reader
        if event.kind == "clip_norm":
            clip_norm(event, several or [owner], events, plan, writer)
        elif event.kind == "clip_value":
            clip_value(event, several or [owner], events, plan, writer)
        elif event.kind == "fill" and len(takers := _taking(event, several or [owner], records)) == 1:
            if why := changed_for_both(event, takers[0], records):
                plan.refuse(
                    event.stmt, replace(refusal(event, why), todo="store q.grad.clone() if the value of now is meant")
                )
            else:
                plan_fill(event, takers[0], module, plan)
        elif event.kind == "fill":
            plan.refuse(event.stmt, refusal(event, "several optimizers take the gradients that it fills"))
        elif event.kind == "leaf_grad" and filled(event, events):
            continue
        elif len(several) > 1:
            _of_several(event, several, events, module, plan, writer)
        elif event.kind == "grad_loop":
            plan_loop(event, owner, module, plan, writer, _empty(event, owner, records), by_value)
        elif not plan_comprehension(event, owner, module, plan, writer, _empty(event, owner, records)):
            if event.writes and owner.kind == "leaf" and len(owners) > 1 and by_index(event.stmt):
                kept_apart(event.stmt, owner, plan)
            _leaf(event, owner, plan, writer)
        elif _listed(event) and any(event.stmt.defs & s.muts for s in writer.scope.body.walk()):
            kept_apart(event.stmt, owner, plan)
    return ""


def _taking(event: Event, owners: list[Owner], records: Records) -> list[Owner]:
    """Those of several owners of the same parameters that use what a loop fills: an inner optimizer does not."""
    return owners if len(owners) < 2 else [o for o in owners if o in records.taking(event)]


def _emptied(events: list[Event], owners: list[Owner]) -> bool:
    """Where gradients are cleared, torch has None afterwards, and no zeros: what is zero was never filled."""
    clears = [e for e in events if e.kind == "clear"]
    return len(owners) == 1 and not any(keeps_zeros(e) for e in clears)


def _empty(event: Event, owner: Owner, records: Records) -> bool:
    """The gradients add up under a name that is None at first, and may be None still."""
    return (owner.accumulating or owner.stored) and records.may_be_empty(event, owner)


def _kept(events: list[Event], records: Records, plan: Plan) -> set[int]:
    """Mark the reads that keep what torch goes on writing into."""
    owners, found = records.owners, set()
    for event in [e for e in events if e.kind == "leaf_grad" and not e.writes]:
        owner = next((o for o in owners if concerns(event, o, owners)), None)
        if owner is None or not kept_while_changed(event, owner, records):
            continue
        found.add(id(event))
        plan.refused.add(id(event.node))
        plan.refuse(event.stmt, replace(refusal(event, WHY), todo="keep p.grad.clone() if the value of now is meant"))
    return found


def _of_several(
    event: Event, owners: list[Owner], events: list[Event], module: ModuleInfo, plan: Plan, writer: Writer
) -> None:
    """What looks at the gradients of several owners: they are joined above it, and parted below where it writes."""
    owns = [o.owns for o in owners]
    union = None if None in owns else frozenset().union(*(o for o in owns if o is not None))
    weights = joined_weights([weights_of(o) for o in owners])
    together = Owner("optimizers", "", union, variable=writer.fresh_once("all_grads"), weights=weights)
    if event.kind == "grad_loop":
        plan_loop(event, together, module, plan, writer)
    elif inside_loop(event, events):
        return  # the loop is rewritten as a whole
    elif not plan_comprehension(event, together, module, plan, writer):
        plan.refused.add(id(event.node))
        plan.refuse(event.stmt, refusal(event, "it looks at the gradients of several optimizers"))
    if id(event.stmt) in plan.marks:
        return
    joined = Text(f"{together.variable} = [{', '.join(f'*{o.variable}' for o in owners)}]")
    above = plan.before.setdefault(id(event.stmt), [])
    made = [item.template for item in above if isinstance(item, Text)]
    if joined.template not in made:
        listed = f"{together.variable} = list({together.variable})"  # it is a list already
        above[:] = [joined, *(item for item in above if not isinstance(item, Text) or item.template != listed)]
        plan.behind.setdefault(id(event.stmt), []).extend(parted(together.variable, owners) if event.writes else [])


def filled(event: Event, events: list[Event]) -> bool:
    """The gradient is the target of a loop that fills all of them."""
    fills = {id(e.stmt) for e in events if e.kind == "fill"}
    return any(id(a) in fills for a in event.stmt.ancestors())


def inside_loop(event: Event, events: list[Event]) -> bool:
    loops = {id(e.stmt) for e in events if e.kind in ("grad_loop", "clear")}
    return any(id(a) in loops for a in event.stmt.ancestors())


def _leaf(event: Event, owner: Owner, plan: Plan, writer: Writer) -> None:
    if owner.inside:
        plan.refused.add(id(event.node))
        plan.refuse(event.stmt, refusal(event, "it is made inside the function whose gradient is taken"))
    elif owner.kind == "leaf":
        plan.expressions[id(event.node)] = owner.variable
        for found in event.stmt.nodes:
            if type(found) is cst.Attribute and found.attr.value == "data" and found.value is event.node:
                plan.expressions[id(found)] = owner.variable
    elif id(event.node) not in plan.expressions and id(event.node) not in plan.about:
        _one_of(event, owner, plan, writer)


IN_PLACE = {"mul_": "*", "div_": "/", "add_": "+", "sub_": "-", "copy_": ""}
SHAPED = {
    "zero_": "ops.zeros_like({own})",
    "neg_": "-{own}",
    "clamp_": "{own}.clamp({given})",
    "clip_": "{own}.clamp({given})",
}


def _one_of(event: Event, owner: Owner, plan: Plan, writer: Writer) -> None:
    """The gradient of one parameter among those that were taken together."""
    if event.writes and _written(event, owner, plan):
        return
    why = ""
    if event.writes or not _is_parameter(event, owner):
        why = "the gradient of a single parameter of an optimizer"
    elif any(type(n) is cst.Comparison and n.left is event.node for n in event.stmt.nodes):
        why = "MindSpore has zeros where torch has None"
    elif isinstance(event.stmt.node, cst.Assign) and event.stmt.node.value is event.node:
        names = event.stmt.defs
        changing = [s for s in writer.scope.body.walk() if names & s.muts]
        if not all(map(into_name, changing)):
            why = "another name holds the gradient, and changes it"
        elif changing:
            kept_apart(event.stmt, owner, plan)
    if why:
        plan.refused.add(id(event.node))
        plan.refuse(event.stmt, refusal(event, why))
        return
    frozen = owner.kind == "module" and (writer.project is None or writer.project.freezes)  # which has None in torch
    found_by = ".get({0})" if frozen else "[{0}]"
    flat = ".squeeze(2)" if one_dimensional(event.node, event.stmt, writer.module) else ""
    plan.about[id(event.node)] = f"dict(zip({weights_of(owner)}, {owner.variable})){found_by}{flat}"
    used = False  # in a way in which None is not
    for found in event.stmt.nodes:
        if type(found) is cst.Attribute and found.value is event.node:
            used = True
            if found.attr.value == "data":
                plan.about[id(found)] = "{0}"
        used |= (type(found) is cst.Subscript or type(found) is cst.UnaryOperation) and event.node in found.children
        used |= type(found) is cst.BinaryOperation and event.node in (found.left, found.right)
    why = "looked up among the gradients by its parameter"
    why += "" if used else "; assumed: the parameter takes part in the loss (torch has None for others)"
    tier = Tier.EXACT if used else Tier.ASSUMED
    plan.findings.append(Finding("T2M512", tier, "gradient of one parameter", why, line=event.stmt.lineno))


def _is_parameter(event: Event, owner: Owner) -> bool:
    """What has the gradient is one of the parameters: of a module, of a loop, or a leaf the optimizer was given."""
    given = event.value.kind == "tensor" and event.place in (owner.owns or ())  # what else it held at times is none
    own = event.value.name == "parameter" and event.value.place == event.place  # `self.scale = nn.Parameter(...)`
    own = own and all(f"{event.place}.".startswith(f"{d}.") for d in event.value.deps)
    return given or own or event.value.name == "module_param" or event.value.kind == "param"


def _listed(event: Event) -> bool:
    """`gs = [p.grad for p in params]`: the list shows the gradients themselves, which it may be written through."""
    node = event.stmt.node
    made = node.value if isinstance(node, cst.Assign) else None
    return isinstance(made, (cst.ListComp, cst.DictComp)) and any(_itself(part, event.node) for part in made.children)


def _itself(node: cst.CSTNode | None, grad: cst.CSTNode) -> bool:
    """The gradient, or its data."""
    return node is grad or isinstance(node, cst.Attribute) and node.attr.value == "data" and node.value is grad


def _in_place(event: Event) -> tuple[str, cst.BaseExpression] | None:
    """`w.grad.div_(n)`, `w.grad.data.copy_(g)` as a statement: the operator, if there is one, and what it takes."""
    call = event.stmt.node.value if isinstance(event.stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
        return None
    held, arg = call.func.value, call.args[0]
    operator = IN_PLACE.get(call.func.attr.value)
    if not _itself(held, event.node) or operator is None or arg.keyword is not None or arg.star:
        return None
    return operator, arg.value


def _of_its_shape(event: Event, own: str) -> tuple[str, list[cst.CSTNode]] | None:
    """`w.grad.zero_()`, `w.grad.data.clamp_(-1, 1)` as a statement: what becomes of it, and the expressions in that."""
    call = event.stmt.node.value if isinstance(event.stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or any(a.star for a in call.args):
        return None
    template = SHAPED.get(call.func.attr.value)
    if template is None or not _itself(call.func.value, event.node) or bool(call.args) is not ("{given}" in template):
        return None
    names = [f"{a.keyword.value}=" if a.keyword is not None else "" for a in call.args]
    given = ", ".join(f"{name}{{{number}}}" for number, name in enumerate(names))
    return template.replace("{own}", own).replace("{given}", given), [a.value for a in call.args]


def _filled_in_part(event: Event) -> tuple[cst.Subscript, cst.BaseExpression] | None:
    """`w.grad[0].zero_()`, `w.grad.data[rows].fill_(v)` as a statement, for items that show the gradient's memory."""
    call = event.stmt.node.value if isinstance(event.stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    items, name, given = call.func.value, call.func.attr.value, [a.value for a in call.args]
    if not isinstance(items, cst.Subscript) or not _itself(items.value, event.node) or name not in ("zero_", "fill_"):
        return None
    if not all(_shows(e.slice) for e in items.slice) or len(given) != (name == "fill_"):
        return None
    return items, given[0] if given else cst.Integer("0")


def _shows(part: cst.BaseSlice) -> bool:
    """A number or a slice: a list or a tensor of indices makes a copy, and the gradient stays what it is."""
    if isinstance(part, cst.Slice):
        return True
    return isinstance(part, cst.Index) and isinstance(constant(part.value), int)


def _written(event: Event, owner: Owner, plan: Plan) -> bool:
    """`w.grad = g`, `w.grad *= s`, `w.grad[rows] = 0`; False for what has no form."""
    node, grad = event.stmt.node, event.node
    assert isinstance(grad, cst.Attribute)
    weights, grads = weights_of(owner), owner.variable
    if not _is_parameter(event, owner):
        return False
    target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Subscript):
        target = node.target
    used = {n.value for n in descend(node) if isinstance(n, cst.Name)}
    param, own = ("each_param" if "param" in used else "param"), ("each_grad" if "grad" in used else "grad")
    each = f"else {own} for {param}, {own} in zip({weights}, {grads}))"
    if isinstance(node, cst.AugAssign) and node.target is grad:
        operator = code(node.operator).strip().removesuffix("=")
        factor = "{0}" if atomic(node.value) else "({0})"
        text = f"{grads} = tuple({own} {operator} {factor} if {param} is {{1}} {each}"
        plan.replaced[id(event.stmt)] = [Text(text, [node.value, grad.value])]
    elif (changed := _in_place(event)) is not None:
        operator, given = changed
        factor = "{0}" if atomic(given) else "({0})"
        text = f"{grads} = tuple({f'{own} {operator} {factor}' if operator else '{0}'} if {param} is {{1}} {each}"
        plan.replaced[id(event.stmt)] = [Text(text, [given, grad.value])]
    elif (made := _of_its_shape(event, own)) is not None:
        template, nodes = made
        text = f"{grads} = tuple({template} if {param} is {{{len(nodes)}}} {each}"
        plan.replaced[id(event.stmt)] = [Text(text, [*nodes, grad.value])]
        plan.needs.add("ops")
    elif isinstance(node, cst.Assign) and _itself(target, grad):
        text = f"{grads} = tuple({{0}} if {param} is {{1}} {each}"
        above = [item for item in plan.replaced.get(id(event.stmt), []) if item is not event.stmt]  # that take it
        plan.moved.discard(id(event.stmt))  # its comments stand above them
        plan.replaced[id(event.stmt)] = [*above, Text(text, [node.value, grad.value])]
    elif isinstance(target, cst.Subscript) and _itself(target.value, grad):  # the tensor itself is written to
        kept_apart(event.stmt, owner, plan)
        plan.about[id(grad)] = f"dict(zip({weights}, {grads}))[{{0}}]"
        if target.value is not grad:
            plan.about[id(target.value)] = "{0}"
    elif (filled_with := _filled_in_part(event)) is not None:
        items, value = filled_with
        kept_apart(event.stmt, owner, plan)
        plan.about[id(grad)] = f"dict(zip({weights}, {grads}))[{{0}}]"
        if items.value is not grad:
            plan.about[id(items.value)] = "{0}"
        plan.replaced[id(event.stmt)] = [Text("{0} = {1}", [items, value])]
    else:
        return False
    why = "written among the gradients that the optimizer is called with"
    plan.findings.append(Finding("T2M512", Tier.EXACT, "gradient of one parameter", why, line=event.stmt.lineno))
    return True
