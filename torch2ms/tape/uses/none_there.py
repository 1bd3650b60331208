"""Looks at a gradient right behind a reset, where torch has None: `net.zero_grad()`, then `print(net.fc.weight.grad)`.

Tutorials show so what a reset does. Only where nothing stands between that may fill gradients.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event, emptied
from torch2ms.tape.plan import Plan
from torch2ms.tape.uses.resets import leaves_zeros

WHAT, WHY = "read of gradients", "the reset before leaves None"
_QUIET = {"tensor", "optimizer", "module", "param", "scheduler", "leaf"}  # objects whose methods fill no gradients


def none_there(records: Records, module: ModuleInfo, plan: Plan) -> list[Event]:
    """Write the reads that find None; the events that are settled so."""
    settled = []
    for event in records.events:
        if _reads_one(event) and any(_empties(clear, event, records, module) for clear in records.events):
            _write(event, plan)
            settled.append(event)
    return settled


def _reads_one(event: Event) -> bool:
    """The gradient of one parameter is looked at, and no loop stands around that goes over several."""
    node = event.node
    if event.kind != "leaf_grad" or event.writes or not isinstance(node, cst.Attribute) or node.attr.value != "grad":
        return False
    return bool(event.value.deps) and not any(d.startswith(("@", "^")) for d in event.value.deps)


def _empties(clear: Event, read: Event, records: Records, module: ModuleInfo) -> bool:
    """The clear sets what is read to None, and nothing fills it until then."""
    if clear.kind != "clear" or clear.lifted or clear.partial or clear.zeroed or leaves_zeros(clear):
        return False
    block, places = clear.stmt.block, emptied(clear)
    if read.stmt.block is not block or clear.stmt.number >= read.stmt.number or not places:
        return False
    if not all(any(dep == p or dep.startswith(f"{p}.") for p in places) for dep in read.value.deps):
        return False
    between = block.stmts[block.stmts.index(clear.stmt) + 1 : block.stmts.index(read.stmt) + 1]
    loud = {id(e.stmt) for e in records.events if e.kind not in ("leaf_grad", "clear", "step")}
    return not any(id(s) in loud or s.blocks or not _quiet(s, module) for s in between)


def _quiet(stmt: Stmt, module: ModuleInfo) -> bool:
    """The statement calls nothing that might go backward or write gradients."""
    if any("grad" in place for place in (*stmt.defs, *stmt.muts)):
        return False
    for call in stmt.calls:
        called = module.value(call.func)
        if called.kind in ("api", "builtin", "module"):
            continue
        if not isinstance(call.func, cst.Attribute) or module.value(call.func.value).kind not in _QUIET:
            return False
    return True


def _write(event: Event, plan: Plan) -> None:
    """`None`, or the answer to the question whether there is one."""
    place = dotted(event.node)
    for node in event.stmt.nodes:
        if type(node) is cst.Comparison and node.left is event.node and len(node.comparisons) == 1:
            asked = node.comparisons[0]
            if dotted(asked.comparator) == "None" and isinstance(asked.operator, (cst.Is, cst.IsNot)):
                plan.expressions[id(node)] = str(isinstance(asked.operator, cst.Is))
    plan.expressions[id(event.node)] = "None"
    plan.findings.append(Finding("T2M102", Tier.EXACT, f"{WHAT} {place}".strip(), WHY, line=event.lineno))
