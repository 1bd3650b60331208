"""Layers that are called and nothing else, so that who watches their calls knows whether they have gradients."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import overlaps, within
from torch2ms.tape.forward.choices import own
from torch2ms.tape.forward.region import Region

CUTS = re.compile(r"detach|no_grad|inference_mode|set_grad_enabled|\.data\b|stop_gradient")  # it ran, without a gradient
TIED = re.compile(r"\.weight *= *[\w.]+\.weight\b")  # layers that share weights
APART = ("forward", "weight", "bias", "parameters", "named_parameters", "state_dict")
CONTAINED = ("items", "keys", "values")


def only_called(place: str, stmts: list[Stmt]) -> bool:
    """Statements do nothing with the layers at a place but call them, or parts of them, with gradients."""
    names = {place}
    for stmt in stmts:
        if CUTS.search(code(own(stmt))):
            return False
        names |= _aliases(stmt, names)
    called = {id(c.func) for s in stmts for c in s.calls}
    inner = {id(n.value) for s in stmts for n in s.nodes if type(n) is cst.Attribute}
    for node in (n for s in stmts for n in s.nodes if type(n) is cst.Attribute):
        if _stem(node.value) not in names or id(node) in inner:
            continue
        if id(node) not in called or node.attr.value in APART:
            return False
    return True


def spelled(place: str, stmts: list[Stmt], module: ModuleInfo) -> str:
    """What names the layers at a place in statements, "" if they are not seen to name them or what they belong to."""
    picked = {d for s in stmts if not isinstance(s.node, (cst.FunctionDef, cst.ClassDef)) for d in s.defs}
    for node in (n for s in stmts for n in s.nodes if type(n) is cst.Name or type(n) is cst.Attribute):
        value, name = module.value(node), dotted(node)
        found = value.kind == "module" and value.place and within(place, {value.place})
        if found and name and root(name) not in picked:  # one that statements bind may be an item of a list
            return name + place[len(value.place) :]
    return ""


def _aliases(stmt: Stmt, names: set[str]) -> set[str]:
    """What a statement calls the layers that it picks out: variables of loops and comprehensions, plain names."""
    found: set[str] = set()
    if type(stmt.node) is cst.For and _names_one(stmt.node.iter, names):
        found |= {root(d) for d in stmt.defs}
    if type(stmt.node) is cst.Assign and _names_one(stmt.node.value, names):
        found |= {d for d in stmt.defs if stmt.out[d].kind != "tensor"} if stmt.out else stmt.defs
    for clause in (n for n in stmt.nodes if type(n) is cst.CompFor):
        if _names_one(clause.iter, names):
            found |= {n.value for n in descend(clause.target) if type(n) is cst.Name}
    return found


def _names_one(node: cst.CSTNode, names: set[str]) -> bool:
    return any(dotted(n) in names for n in descend(node) if type(n) is cst.Name or type(n) is cst.Attribute)


def _stem(node: cst.BaseExpression) -> str:
    """What stands in front of subscripts and attributes: `self.heads` of `self.heads[task].fc`."""
    while type(node) is cst.Subscript:
        node = node.value
    return dotted(node)


def unwatched(region: Region, module: ModuleInfo) -> bool:
    """Whether a layer has a gradient is not to be told from its calls, as the statements of a forward stand."""
    event, places = region.event, [*region.idle]
    special = event.lifted or event.handing is not None or event.closure is not None or event.episode is not None
    if special or event.branches or event.beside or region.cut or module.says(TIED):
        return True
    if any(CUTS.search(code(own(i))) or i.modes for s in region.all for i in s.walk()):
        return True
    return any(a != b and overlaps(a, b) for a in places for b in places)
