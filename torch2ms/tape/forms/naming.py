"""The names that gradients get: `grads`, `generator_grads`, or the user's own."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Owner
from torch2ms.tape.plan import Plan


def name_gradients(owner: Owner, records: Records, writer: Writer) -> None:
    same = [o for o in records.owners if o.kind == "optimizer"]
    if owner.kind == "leaf":
        own = _users_name(owner, records, writer.scope)
        owner.variable = own or writer.fresh(owner.place.replace(".", "_").removeprefix("self_") + "_grad")
        if not owner.parameter:
            _unmark(owner, writer.scope, writer.plan)
    elif len(records.owners) == 1 or (len(same) == 1 and owner.kind == "optimizer"):
        owner.variable = writer.fresh("grads")
    else:
        *around, short = owner.place.split(".")
        for word in ("optimizers", "optimizer", "optims", "optim", "opts", "opt"):
            if short == word:
                short = around[-1] if around and around[-1] != "self" else short
                break
            short = short.replace(word, "").strip("_") or short
        if not short.isidentifier():  # opt1, opt2: what is left of the name is no name
            short = owner.place.rpartition(".")[2]
        if owner.place.startswith(("(", "[")):  # leaves that a loop lists
            short = "_".join(re.findall(r"\w+", owner.place.replace("self.", "")))
        owner.variable = writer.fresh(f"{short}_grads")
    if owner.stored:
        owner.stem, owner.variable = owner.variable, f"{owner.place}.grads"


def _users_name(owner: Owner, records: Records, scope: Scope) -> str:
    """The user's own name for a leaf's gradient: the one that takes it, and nothing else, where it is read."""
    reads = [e for e in records.events if e.kind == "leaf_grad" and owners.concerns(e, owner, records.owners)]
    node = reads[0].stmt.node if len(reads) == 1 else None
    target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, cst.Assign) or not isinstance(target, cst.Name):
        return ""
    name, value = target.value, node.value
    if isinstance(value, cst.Attribute) and value.attr.value == "data":
        value = value.value
    bindings = [s for s in scope.body.walk() if name in s.defs]
    if value is not reads[0].node or len(bindings) != 1 or any(name in c.locals for c in scope.children):
        return ""
    stores = [e for e in records.events if e.kind == "backward" and owner in records.takers(e)]
    late = any(e.stmt.number > bindings[0].number or records.accumulates(e, owner) for e in stores)
    return "" if late else name


def _unmark(owner: Owner, scope: Scope, plan: Plan) -> None:
    """`x.requires_grad = True` of a leaf that gradient functions take as an argument says nothing any more."""
    for stmt in scope.body.walk():
        node = stmt.node
        if type(node) is cst.Assign and dotted(node.targets[0].target) == f"{owner.place}.requires_grad":
            plan.replaced[id(stmt)] = []
            why = "gradient functions name what they differentiate: dropped"
            plan.findings.append(Finding("T2M303", Tier.EXACT, "requires_grad", why, line=stmt.lineno))
