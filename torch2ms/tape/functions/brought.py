"""Values that a function that goes backward reads and does not make: the graph behind them is not in its forward."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, free_uses, root
from torch2ms.analysis.program.liveness import exposed
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value, any_overlap, overlaps
from torch2ms.tape.forward.stashes import Stash, feeding, used_among
from torch2ms.tape.model import Event

GRAPHS = ("tensor", "list", "tuple", "dict", "unknown")  # kinds that bring a graph along
CUT = ("detach", "data", "item", "shape", "size", "device", "dtype")
WEIGHTS = ("module_param", "parameter", "of param", "of parameter")


def brings(info: FunctionInfo, events: list[Event], steps: list[Event], left: list[Stash]) -> bool:
    """The function goes backward through a graph that was made before it is called, to what the optimizers own.

    Each of the `steps` hands the function to an optimizer; `left` are lists with graphs that others filled.
    """
    for event in (e for e in events if e.kind == "backward"):
        for deps in brought(info, event).values():
            if any(s.value.owns is None or any_overlap(deps, s.value.owns) for s in steps):
                return True
    read = free_uses(info.scope) if left else set()
    return any(used_among(stash, feeding(step.stmt, read)) for step in steps for stash in left)


def brought(info: FunctionInfo, event: Event) -> dict[str, frozenset[str]]:
    """Captured names and attributes that the loss is made of, and what each of them is varied with."""
    roots = set().union(*(expression_uses(r, event.stmt) for r in event.roots))
    wanted = feeding(event.stmt, roots)
    made = {d for s in info.scope.body.walk() for d in s.defs}
    made -= set(exposed(info.scope.body.stmts)) - info.scope.locals  # `nonlocal losses; losses = sum(losses)`
    found: dict[str, frozenset[str]] = {}
    for stmt in info.scope.body.walk():
        if stmt is event.stmt or any(overlaps(w, u) for w in stmt.defs | stmt.muts for u in wanted):
            found |= _captured(stmt, made | set(info.scope.params), info)
    return found


def _captured(stmt: Stmt, made: set[str], info: FunctionInfo) -> dict[str, frozenset[str]]:
    nodes = stmt.nodes
    cut = {id(n.value) for n in nodes if type(n) is cst.Attribute and n.attr.value in CUT}
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        place = dotted(node) if (type(node) is cst.Name or type(node) is cst.Attribute) and id(node) not in cut else ""
        if not place or place in made or root(place) in made - {"self"}:
            continue
        value = info.module.value(node)
        if value.kind not in GRAPHS or value.leaf or value.of_leaves or value.name in WEIGHTS or value.place == place:
            continue
        if real := frozenset(d for d in value.deps if not d.startswith("@") and not overlaps(d, place)):
            found[place] = real
    return found


def kept_elsewhere(
    stmts: list[Stmt], made: set[str], owns: frozenset[str] | None, module: ModuleInfo, project: Project
) -> str:
    """What a method of a network that the forward calls reads of it, where it was kept before the forward."""
    for stmt in (inner for s in stmts for inner in s.walk()):
        for call in stmt.calls:
            base = dotted(call.func.value) if type(call.func) is cst.Attribute else ""
            holder = module.value(call.func.value) if base and base != "self" else None  # type: ignore[attr-defined]
            if holder is None or holder.kind not in ("module", "object") or not holder.name:
                continue
            info = resolve(call, stmt.block.scope, module, project)
            for attr, value in _read(info) if info is not None else ():
                place, home = f"{base}.{attr}", holder.place or base
                real = frozenset(f"{home}{d[4:]}" for d in value.deps if d.startswith("self."))
                if real and not any(overlaps(place, m) for m in made) and (owns is None or any_overlap(real, owns)):
                    return place
    return ""


def _read(info: FunctionInfo) -> Iterator[tuple[str, Value]]:
    """The attributes with a graph that a method reads and does not bind."""
    stmts = list(info.scope.body.walk())
    written = {d for s in stmts for d in s.defs}
    for use in sorted({u for s in stmts for u in s.uses}):
        head, _, attr = ".".join(use.split(".")[:2]).partition(".")
        value = info.cls.attr(attr) if head == "self" and attr and info.cls is not None else None
        if value is None or f"self.{attr}" in written or value.leaf or value.name in WEIGHTS:
            continue
        if value.deps <= {f"self.{attr}"}:  # a weight itself, or a buffer in its stead
            continue
        if value.kind == "tensor" or value.name.startswith("torch.distributions."):
            yield attr, value
