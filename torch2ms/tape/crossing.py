"""Values that a region takes from outside, varied with what it differentiates: their graphs would be lost."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import OF_FUNCTIONS, any_overlap, overlaps, within
from torch2ms.tape.forward.carried import carried, kept_for_calls, reads_itself
from torch2ms.tape.forward.harmless import asked_only, filled_only, only_cut
from torch2ms.tape.forward.properties import computed_anew
from torch2ms.tape.forward.refilled import emptied, kept_anew, left_in_object, put_before
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.stashes import feeding
from torch2ms.tape.functions.brought import kept_elsewhere
from torch2ms.tape.holders import may_hold
from torch2ms.tape.model import Event
from torch2ms.tape.verdicts import Verdicts

HOLDING = ("tensor", "list", "tuple", "dict", "unknown")  # what may bring a graph along
PARAMETERS = ("module_param", "parameter", "of param", "of parameter")

Owns = frozenset[str] | None  # where the parameters are that are differentiated, None for any


def crossing(verdicts: Verdicts, event: Event, region: Region, owns: Owns) -> str:
    """A value the region takes from outside that is varied with what it differentiates, "" if there is none."""
    made = _made(verdicts, event, region)
    if place := _named(verdicts, event, region, owns, made):
        return place
    if event.lifted:
        return _of_called(verdicts, event, made, owns)
    kept = kept_elsewhere(region.all, made, owns, verdicts.module, verdicts.project)
    kept = kept or left_in_object(region, owns, verdicts.module) or _carried_over(event, region, owns)
    return kept or _kept_for_calls(event, region, owns)


def _made(verdicts: Verdicts, event: Event, region: Region) -> set[str]:
    """The places whose values the region makes itself."""
    made = {d for s in region.all for i in s.walk() for d in i.defs | i.refills}
    for loop in (a for a in event.stmt.ancestors() if a.is_loop and a.block is region.block):
        made |= loop.defs if any(root(u) in made for u in loop.uses) else set()  # elements of what the forward made
    made |= emptied(region) | kept_anew(region, verdicts.module, verdicts.project)
    return made - _entering(verdicts, region)


def _entering(verdicts: Verdicts, region: Region) -> set[str]:
    """Parameters of the function that the region reads before it binds their names anew: `loss = loss / steps`."""
    found: set[str] = set()
    bound: set[str] = set()
    for stmt in (i for s in region.all for i in s.walk()):
        found |= stmt.uses - bound
        bound |= stmt.defs
    return found & bound & set(verdicts.scope.params)


def _named(verdicts: Verdicts, event: Event, region: Region, owns: Owns, made: set[str]) -> str:
    """A name or attribute in the statements of the region, or in the root, that brings a graph along."""
    module, project = verdicts.module, verdicts.project
    called = {dotted(c.func) for s in [*region.all, event.stmt] for i in s.walk() for c in i.calls}
    for source, stmt in [*((s.node, s) for s in region.all), *((r, event.stmt) for r in event.roots)]:
        read = {root(u) for i in stmt.walk() for u in i.uses}
        nodes = gathered(source)
        filled = filled_only(nodes) | asked_only(nodes) | put_before(nodes, stmt, region, module)
        for node in nodes:
            if type(node) is not cst.Name and type(node) is not cst.Attribute or id(node) in filled:
                continue
            place = dotted(node)
            head = root(place)
            if head not in read or place in made or head in made or head in region.graphless:
                continue
            if place in called or within(place.rpartition(".")[0], called) or not _varied(node, place, owns, verdicts):
                continue
            if only_cut(node, source, module) or computed_anew(node, module, project):
                continue
            if head not in region.handed_in:
                return place
            region.graphless.add(head)
    return ""


def _varied(node: cst.CSTNode, place: str, owns: Owns, verdicts: Verdicts) -> bool:
    """What stands at the place may be varied with the parameters."""
    value = verdicts.module.value(node)
    if value.leaf or value.of_leaves or value.kind not in HOLDING or value.name in (*PARAMETERS, OF_FUNCTIONS):
        return False
    handed = value.kind == "unknown" and value.place == place  # whatever callers hand over: data, or an output
    if handed and place not in verdicts.scope.params:
        return False
    real = frozenset(d for d in value.deps if not d.startswith("@") and not overlaps(d, place))
    if handed:
        real = frozenset(d for d in real if _is_network(verdicts, d))
    real = frozenset(d for d in real if not d.startswith("^") or may_hold(d, verdicts.project))
    return bool(real) and (owns is None or any(d.startswith("^") for d in real) or any_overlap(real, owns))


def _is_network(verdicts: Verdicts, place: str) -> bool:
    """Something of that name is a network in this module."""
    kind = cst.Attribute if "." in place else cst.Name
    return any(dotted(n) == place and verdicts.module.value(n).kind == "module" for n in verdicts.module.of_kind(kind))


def _of_called(verdicts: Verdicts, event: Event, made: set[str], owns: Owns) -> str:
    """What the called function reads, and what something else made before the region: its name or attribute."""
    for name, deps in event.captured.items():
        if name not in made and (owns is None or any_overlap(deps, owns)):
            return name
    scope, module = verdicts.scope, verdicts.module
    for place in sorted(event.stmt.uses):
        if "." not in place or any(overlaps(place, m) for m in made):
            continue
        head, _, attr = place.rpartition(".")
        holder = module.env.get(head) if head != "self" else None
        own_class = scope.cls.name if scope.cls is not None else ""
        cls = module.classes.get(holder.name.rpartition(".")[2] if holder is not None else own_class)
        value = cls.attr(attr) if cls is not None else None
        if value is None or value.kind not in HOLDING:
            continue
        written = {d for s in scope.body.walk() if s.number != event.stmt.number for d in s.defs}
        own = place in event.stmt.defs and place not in written
        real = frozenset(d for d in value.deps if not d.startswith(("@", "^")))
        if real and not own and (owns is None or any_overlap(real, owns)):
            return place
    return ""


def _carried_over(event: Event, region: Region, owns: Owns) -> str:
    """A sum of losses that goes from turn to turn of a loop around the region, which is of one turn."""
    inner = [i for s in region.all for i in s.walk()]
    sums = [(i, name) for i in inner for name in {reads_itself(i), *i.sums} if name]
    roots = {u for r in event.roots for u in expression_uses(r, event.stmt)}
    wanted = feeding(event.stmt, roots) if sums else set()
    for stmt, name in sums:
        found = carried(name, stmt, {id(i) for i in inner}) if name in wanted else frozenset()
        after = stmt.out[name].deps if name in stmt.out else found
        real = frozenset(d for d in found & after if not d.startswith("@"))
        if real and (owns is None or any_overlap(real, owns)):
            return name
    return ""


def _kept_for_calls(event: Event, region: Region, owns: Owns) -> str:
    """An attribute, or a name from outside, in which a call leaves its graph to the next one."""
    for place, stmts in kept_for_calls(region.all, region.block, event.stmt).items():
        deps = frozenset().union(*(s.out[place].deps for s in stmts if place in s.out))
        real = frozenset(d for d in deps if not d.startswith("@") and not overlaps(d, place))
        if real and (owns is None or any_overlap(real, owns)):
            return place
    return ""
