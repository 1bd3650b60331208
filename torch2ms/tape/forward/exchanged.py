"""Layers and weights that a program puts others in the place of once an optimizer has them: a new head, a larger one.

torch has no gradient for the old ones, and leaves them alone; MindSpore's optimizer moves what it has.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.beginning import in_constructors
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.sites import bound_arguments, calls_of, receiver, resolved
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import UNKNOWN, Value, overlaps
from torch2ms.tape.ledger.beyond import weighted
from torch2ms.tape.model import Event, Owner

OWN_WEIGHTS = ("weight", "bias")
OUT_OF_USE = "`{}` is another one once the optimizer has it: torch leaves the old one alone, MindSpore's may move it"
DEPTH = 2  # functions that hand the optimizer on


def exchanged(event: Event, owner: Owner, module: ModuleInfo, project: Project) -> Iterator[str]:
    """Why the optimizer of a backward call would move what is out of use."""
    if _exchanging(project):
        yield from _once_made(owner.place, owner.owns or frozenset(), event.stmt, module, project, DEPTH)


@once
def _exchanging(project: Project) -> bool:
    """Something else than a constructor binds attributes or items of networks to layers or weights."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk() if scope.name != "__init__" else ():
                node = stmt.node
                if type(node) is cst.Assign and type(node.targets[0].target) in (cst.Attribute, cst.Subscript):
                    for target, given in _bindings(stmt):
                        if _own_weight(target) or module.value(given).kind in ("module", "param"):
                            return True
    return False


def _own_weight(target: cst.BaseExpression) -> bool:
    return type(target) is cst.Attribute and target.attr.value in OWN_WEIGHTS


def _once_made(
    place: str, owns: frozenset[str], step: Stmt, module: ModuleInfo, project: Project, depth: int
) -> Iterator[str]:
    """What is exchanged in the scope of a step between the place where its optimizer is made, and the step."""
    scope = step.block.scope
    made = [s for s in scope.body.walk() if place in s.defs and s.out.get(place, UNKNOWN).kind == "optimizer"]
    if not made and place in scope.params and depth:
        info, sites = calls_of(project, project.modules.values()).get(id(scope), (None, []))
        for site in sites:
            given = bound_arguments(info, site.call).get(place) if info is not None else None
            value = site.module.value(given.value) if given is not None else UNKNOWN
            if given is not None and value.kind == "optimizer" and value.owns:
                at = dotted(given.value)
                yield from _once_made(at, value.owns, site.stmt, site.module, project, depth - 1)
        return
    if not made and scope.cls is not None and place.startswith("self."):
        yield from _by_other_methods(place, owns, scope.cls, module, project)
    for stmt in scope.body.walk() if made else ():
        if stmt.number > made[0].number and not stmt.blocks:
            for held, what in _exchanges(stmt, module, project):
                if any(overlaps(held, o) for o in owns) and _reaches(stmt, step, made):
                    yield OUT_OF_USE.format(what)


def _by_other_methods(
    place: str, owns: frozenset[str], cls: Scope, module: ModuleInfo, project: Project
) -> Iterator[str]:
    """What methods exchange that are called once the constructor has made the optimizer, and make it no more."""
    methods = [s for s in cls.children if s.is_function]
    makers = [s for s in methods if any(place in stmt.defs for stmt in s.body.walk())]
    if [s.name for s in makers] != ["__init__"]:
        return  # it may be made anew
    for method in methods:
        if method.name != "__init__" and method.name not in in_constructors(project):
            for stmt in method.body.walk():
                for held, what in _exchanges(stmt, module, project) if not stmt.blocks else ():
                    if any(overlaps(held, o) for o in owns):
                        yield OUT_OF_USE.format(what)


def _reaches(stmt: Stmt, step: Stmt, made: list[Stmt]) -> bool:
    """The step comes behind the statement, in the same or another turn of a loop, and no new optimizer between."""
    around = {*stmt.ancestors(), *step.ancestors()}
    sure = [m for m in made if all(type(a.node) is not cst.If or a in around for a in m.ancestors())]
    if step.number > stmt.number and not any(stmt.number < m.number < step.number for m in sure):
        return True
    loops = [a for a in step.ancestors() if a.is_loop and a in stmt.ancestors()]
    inside = [m for m in sure if loops and loops[0] in m.ancestors()]
    return bool(loops) and not any(m.number > stmt.number or m.number < step.number for m in inside)


def _exchanges(stmt: Stmt, module: ModuleInfo, project: Project) -> Iterator[tuple[str, str]]:
    """The places of the networks in which a statement exchanges a layer or weights, and what it exchanges."""
    for target, given in _bindings(stmt):
        held = module.value(target.value)
        if held.kind == "module" and held.place and _exchanged(target, given, held, module, project):
            yield _part(held.place, target), code(target)
    for call in stmt.calls:
        info = resolved(project).get(id(call))
        if info is None or info.name.startswith("__") or info.name == "forward":
            continue
        bindings = [pair for inner in info.scope.body.walk() for pair in _bindings(inner)]
        args = {name: arg.value for name, arg in bound_arguments(info, call).items()} if bindings else {}
        if bindings and (whole := receiver(info, call)) is not None:
            args["self"] = whole
        for target, given in bindings:
            whose = args.get(root(dotted(target)) if dotted(target) else root(dotted(target.value)))
            held = module.value(whose) if whose is not None else UNKNOWN
            if held.kind != "module" or not held.place:
                continue
            within = held if dotted(target.value) == "self" else info.module.value(target.value)
            if _exchanged(target, given, within, info.module, project):
                below = dotted(target if isinstance(target, cst.Attribute) else target.value).partition(".")[2]
                yield f"{held.place}.{below}" if below else held.place, f"{code(target)}` in `{info.name}"


def _part(place: str, target: cst.Attribute | cst.Subscript) -> str:
    """What is exchanged of the network at a place; of a list all of it, whichever item that is."""
    return f"{place}.{target.attr.value}" if isinstance(target, cst.Attribute) else place


def _bindings(stmt: Stmt) -> list[tuple[cst.Attribute | cst.Subscript, cst.BaseExpression]]:
    node, found = stmt.node, []
    if type(node) is cst.Assign:  # loops: this is asked of every statement
        for each in node.targets:
            target = each.target
            if (type(target) is cst.Attribute or type(target) is cst.Subscript) and dotted(target.value):
                found.append((target, node.value))
    return found


def _exchanged(
    target: cst.Attribute | cst.Subscript, given: cst.BaseExpression, held: Value, module: ModuleInfo, project: Project
) -> bool:
    """A layer or a weight is put where another one was."""
    kind = module.value(given).kind
    if _own_weight(target):
        return kind in ("param", "tensor", "unknown")
    if kind not in ("module", "param"):
        return False
    if isinstance(target, cst.Subscript):
        return held.name in ("torch.nn.Sequential", "torch.nn.ModuleList")  # a dict may get another
    cls = class_of(held, module, project)
    if cls is None:
        return held.name.startswith(("torch.", "torchvision."))
    place = f"self.{target.attr.value}"
    inits = [c.methods["__init__"] for c in cls.lineage() if "__init__" in c.methods]
    before = [(s.out.get(place, UNKNOWN), i.module) for i in inits for s in i.scope.body.walk() if place in s.defs]
    return any(value.kind == "param" or weighted(value, home, project) for value, home in before)
