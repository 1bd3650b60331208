"""Layers that optimizers leave alone where a loss does not depend on them: what names them, and where that is not seen.

Hooks on what the layers return tell at each step which of them have gradients: those that are called, that is.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import within
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger.beyond import weighted_parts

# weights that are used where no layer is called, and graphs of other kinds
APART = frozenset("weight bias parameters named_parameters state_dict in_proj_weight out_proj".split())
OWNED = frozenset(("weight", "bias"))
GRAPHS = frozenset("grad backward jacobian hessian jvp vjp hvp checkpoint functional_call".split())
OWN = re.compile(r"self\.(\w+)\s*(?::[^=\n]+)?=\s*(?:torch\.)?(?:nn\.)?Parameter\(|register_parameter\(\s*[\"'](\w+)")
# layers that share weights, lists of weights, whose items no layer tells of, and what runs parts without calling them
TIED = re.compile(r"\.weight *= *[\w.\[\]]+\.weight\b|\bParameter(List|Dict)\(|class \w+\([^)\n]*MultiheadAttention")


def spelled(place: str, stmts: list[Stmt], module: ModuleInfo) -> str:
    """What names the layers at a place in statements, or in the methods of an object beside theirs; "" if they are not
    seen to name them or what they belong to."""
    picked = {d for s in stmts if _picks(s) for d in s.defs}  # what statements bind may be an item of a list
    clauses = (n.target for s in stmts for n in s.nodes if type(n) is cst.CompFor)
    picked |= {n.value for target in clauses for n in descend(target) if type(n) is cst.Name}
    cls = stmts[0].block.scope.cls if stmts else None
    beside = [s for scope in cls.children for s in scope.body.walk()] if cls is not None else []
    for every, own in ((stmts, False), (beside, True)):
        for node in (n for s in every for n in s.nodes if type(n) is cst.Name or type(n) is cst.Attribute):
            value, name = module.value(node), dotted(node)
            found = value.kind == "module" and value.place and within(place, {value.place})
            if found and name and root(name) not in picked and (not own or name.startswith("self.")):
                return name + _list_of(place[len(value.place) :], name)
    return ""


def _list_of(rest: str, name: str) -> str:
    """What follows a name in a place; for an item, which is known as `net.heads.net.heads[0]`, its whole list."""
    path, item, _ = rest.partition("[")
    inner = path[: max(0, len(path) - len(name)) // 2]
    return inner if item and path == f"{inner}.{name}{inner}" else path if item else rest


def _picks(stmt: Stmt) -> bool:
    """What a statement binds may be one of several layers."""
    value = stmt.node.value if isinstance(stmt.node, cst.Assign) else None
    values = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
    plain = all(isinstance(v, (cst.Name, cst.Attribute, cst.Call)) for v in values)
    plain = plain and not any(isinstance(v, cst.Call) and name_called(v) == "getattr" for v in values)
    return bool(stmt.defs) and not plain and not isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef))


def unwatched(region: Region, module: ModuleInfo, project: Project) -> bool:
    """Whether a layer has a gradient is not to be told from what it returns, as the statements of a forward stand."""
    event = region.event
    special = event.lifted or event.handing is not None or event.closure is not None or event.episode is not None
    if special or event.branches or event.beside or region.cut or project.says(TIED):
        return True
    own = {name for m in project.modules.values() for found in OWN.findall(m.source) for name in found if name}
    if any(place.rpartition(".")[2] in own | OWNED for place in region.idle):  # a parameter returns nothing
        return True
    for stmt, home in reached([*region.all, event.stmt], module, project):
        if any(name_called(c) in GRAPHS and c is not event.node for c in stmt.calls):
            return True
        if isinstance(stmt.node, cst.For) and "requires_grad" in code(stmt.node.body):
            continue
        for node in (n for n in stmt.nodes if type(n) is cst.Attribute):
            name = node.attr.value
            # what a layer has itself is used where it is called
            if name in APART - OWNED or name in own | OWNED and dotted(node.value) != "self":
                return True
            if name in own | OWNED and _asked_alone(stmt, home, project):
                return True
    return False


def _asked_alone(stmt: Stmt, module: ModuleInfo, project: Project) -> bool:
    """It stands in a method that others call where the layer itself may not run: `penalty = net.head.norm()`."""
    scope = stmt.block.scope
    while scope.parent is not None and scope.cls is not scope.parent:
        scope = scope.parent
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is None or scope.name in ("forward", "__init__") or weighted_parts(cls, project):
        return False  # of a network whose layers run there, these tell
    asked = re.compile(rf"(?<!\bself)(?<!\bsuper\(\))\.{scope.name}\(")
    return any(asked.search(m.source) for m in project.modules.values())
