"""Questions whether parameters have a gradient: MindSpore has zeros where torch has None.

That plays no part where what follows is summed up or changed in place. It shows where gradients are gathered, counted,
told or averaged, and the loss does not depend on some of the parameters that are asked.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import element, is_gradient
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import any_overlap, overlaps
from torch2ms.tape.forward.partial import without_gradient
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.unreached import unreached
from torch2ms.tape.ledger.pairs import COMPREHENSIONS, clause_of
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event, Owner

ASKED = "asks which parameters have a gradient: MindSpore has zeros for those of `{}`, torch may have None"
GIVEN = "hands gradients to another optimizer, which moves what has none: torch may have None for those of `{}`"
TELLING = {"print", "append", "extend", "write", "writerow", "info", "debug", "log", "warning", "add_scalar", "add"}
SHAPING = {"flatten", "view", "reshape", "view_as", "reshape_as", "clone", "detach", "contiguous", "float", "to"}
SUMMING = {"sum", "fsum", "norm", "max", "amax"}
NONE_IS_WITHOUT: frozenset[str] = frozenset()
AVERAGING = {"mean", "len", "min", "median", "std", "amin"}


def note_asked(event: Event, region: Region, owners: list[Owner], records: Records, project: Project) -> str:
    """Note of the questions that this backward call answers which parameters have no gradient, if it may show.

    The place of some of them, where it is a called function that asks.
    """
    number = records.number.get(id(event))  # none of two that were put together: each was asked by itself
    for owner in owners if number is not None else ():
        asking = [e for e in records.events if _asking(e, records) and (number, False) in records.held(e, owner)]
        if not asking:
            continue
        missing = without_gradient(event, region, owner, records.module, project)
        missing |= _unreached(owner, records.root_deps(event), records, project)
        missing |= _of_others(event, owner, records.module)
        for asker in asking:
            about = missing if _asks_all(asker, owner) else _asked_about(asker, missing)
            if asker.kind == "taken" and about and len(records.held(asker, owner)) == 1:
                return min(about)
            if asker.without is not None:  # other backward calls fill them, too
                about = frozenset(m for m in about if any(overlaps(m, w) for w in asker.without))
            asker.without = about
    return ""


def _asking(event: Event, records: Records) -> bool:
    if event.kind == "taken":
        return event.taking is not None and event.taking.taken.asks
    read = event.kind == "leaf_grad" and not event.writes
    return event.without != NONE_IS_WITHOUT and (asks(event) or read and hands_on(event, records))


def hands_on(event: Event, records: Records) -> bool:
    """A gradient as it is, None or not, becomes that of a parameter which another optimizer moves:
    `for p, q in zip(local.parameters(), shared.parameters()): q.grad = p.grad`."""
    fills = [e.stmt for e in records.events if e.kind == "fill"]
    if not fills or all(o.plain for o in records.owners if o.kind == "optimizer"):
        return False
    bare = any(
        type(outer) is cst.Assign
        and outer.value is event.node
        or isinstance(outer, (cst.ListComp, cst.GeneratorExp))
        and outer.elt is event.node
        for outer in event.stmt.nodes
    )
    return bare and any(event.stmt in fill.walk() or event.stmt.defs & fill.all_uses for fill in fills)


def _unreached(owner: Owner, reached: frozenset[str], records: Records, project: Project) -> frozenset[str]:
    """The networks of an owner, or the layers of one, that the loss does not depend on."""
    if not reached or any(d.startswith(("^", "@")) for d in reached):
        return frozenset()
    module = records.module
    parts = {part for part, _ in unreached(owner, reached, frozenset(), records.scope, module, project)}
    known = {v.place for v in module.values.values() if v.kind == "module" and v.name and v.place and not v.items}
    apart = {o for o in owner.owns or () if o in known and not any_overlap(frozenset({o}), reached)}
    return frozenset(parts | apart)


def _of_others(event: Event, owner: Owner, module: ModuleInfo) -> frozenset[str]:
    """What some of the losses that a loop goes over do not depend on, and others do: `for loss in losses`."""
    found: set[str] = set()
    asked = {n.value for r in event.roots for n in descend(r) if type(n) is cst.Name}
    for loop in (a.node for a in event.stmt.ancestors()):
        over = loop.iter if isinstance(loop, cst.For) else None
        if isinstance(over, cst.Call) and dotted(over.func) == "enumerate" and len(over.args) == 1:
            over = over.args[0].value
        taken = {n.value for n in descend(loop.target) if type(n) is cst.Name} if isinstance(loop, cst.For) else set()
        given = [item.deps for item in module.value(over).items or ()] if over is not None and taken & asked else []
        every = frozenset(d for deps in given for d in deps if not d.startswith(("^", "@")))
        found |= {d for deps in given for d in every - deps}
    return frozenset(d for d in found if owner.owns is None or any(overlaps(d, o) for o in owner.owns))


def _asks_all(asker: Event, owner: Owner) -> bool:
    """It goes over all that the optimizer has, or what the optimizer has is not seen."""
    return owner.owns is None or asker.place == owner.place or asker.value.name.startswith("param_group")


def _asked_about(asker: Event, missing: frozenset[str]) -> frozenset[str]:
    """The places without gradients that the question is about."""
    asked = frozenset(d for d in asker.value.deps or {asker.place} if not d.startswith("@"))
    unseen = any(a.startswith("^") for a in asked)
    return frozenset(m for m in missing if unseen or any(overlaps(m, a) for a in asked))


def asks(event: Event) -> bool:
    """`p.grad is None` is asked of each of several parameters, and the answers show."""
    if event.kind not in ("grad_loop", "leaf_grad"):
        return False
    if event.kind == "grad_loop":
        body = [s for b in event.stmt.blocks for s in b.walk()]
        return any(_questions(n) for s in body for n in _heads(s)) and _shows(body)
    clause = clause_of(event.node, event.stmt.node)
    if clause is None:
        return False
    for outer in event.stmt.nodes:
        if isinstance(outer, COMPREHENSIONS) and outer.for_in is clause and _questions(outer):
            if _zeros_otherwise(element(outer)):
                return False
            counted = not any(is_gradient(n) for n in descend(element(outer))) or _questions(element(outer))
            around = {_last(n) for n in event.stmt.nodes if _holds(n, outer)}
            return counted or not around & SUMMING or bool(around & AVERAGING)
    return False


def _zeros_otherwise(node: cst.CSTNode) -> bool:
    """`p.grad.flatten() if p.grad is not None else torch.zeros(n)`: what MindSpore has there, too."""
    if type(node) is not cst.IfExp:
        return False
    asked = node.test.comparisons[0].operator if type(node.test) is cst.Comparison else None
    there, missing = (node.orelse, node.body) if type(asked) is cst.Is else (node.body, node.orelse)
    while type(missing) is cst.Call and type(missing.func) is cst.Attribute and _last(missing) in SHAPING:
        missing = missing.func.value
    return _last(missing) in ("zeros", "zeros_like", "new_zeros") and any(is_gradient(n) for n in descend(there))


def _holds(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and any(n is part for n in descend(node))


def _last(call: cst.CSTNode) -> str:
    func = call.func if isinstance(call, cst.Call) else None
    return func.attr.value if isinstance(func, cst.Attribute) else dotted(func) if func is not None else ""


def _heads(stmt: Stmt) -> list[cst.CSTNode]:
    if isinstance(stmt.node, (cst.If, cst.While)):
        return [stmt.node.test]
    return [] if stmt.blocks else [stmt.node]


def _questions(node: cst.CSTNode) -> bool:
    """It asks whether a gradient is None."""
    return any(
        type(n) is cst.Comparison and is_gradient(n.left) and constant(n.comparisons[0].comparator) is None
        and isinstance(n.comparisons[0].operator, (cst.Is, cst.IsNot))
        for n in descend(node)
    )  # fmt: skip


def _shows(body: list[Stmt]) -> bool:
    """Something is told, gathered or counted, or the loop is left."""
    tainted: set[str] = set()  # what is made of gradients
    for stmt in body:
        node = stmt.node
        if isinstance(node, (cst.Break, cst.Return, cst.Raise)):
            return True
        if any(_last(c) in TELLING for c in stmt.calls):
            return True
        made = any(is_gradient(n) for head in _heads(stmt) for n in descend(head)) or bool(stmt.uses & tainted)
        if isinstance(node, cst.AugAssign) and not made:  # `count += 1`
            return True
        if made and isinstance(node, cst.Assign) and any(isinstance(t.target, cst.Subscript) for t in node.targets):
            return True
        tainted |= stmt.defs if made else set()
    return False
