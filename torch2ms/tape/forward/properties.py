"""Properties: what reads like an attribute and computes each time it is read.

`self.alpha` of `return self.log_alpha.exp()` is made within the forward that reads it: it brings no graph along.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import overriding
from torch2ms.analysis.syntax.names import dotted

DEEP = 4  # properties that read properties
SIMPLE = (cst.Return, cst.Assign, cst.Expr)
OWNERS = ("object", "module")
KEEPING = ("tensor", "list", "tuple", "dict", "unknown")  # kinds that may hold a graph


def computed_anew(node: cst.CSTNode, module: ModuleInfo, project: Project, depth: int = DEEP) -> bool:
    """The attribute is a property of a class of the project, and whatever it reads has no graph of its own."""
    getter = getter_of(node, module, project) if depth else None
    if getter is None or not all(isinstance(s.node, SIMPLE) for s in getter.scope.body.walk()):
        return False
    return not any(_brings(part, getter, project, depth) for s in getter.scope.body.walk() for part in s.nodes)


def spread_getters(project: Project) -> None:
    """Reading a property reads what it is made of, which may be written before; of a record it is one of its fields."""
    classes = [c for m in project.modules.values() if m.has("@property") for c in m.classes.values()]
    names = {name for c in classes if c.kind in OWNERS for name, i in c.methods.items() if i.getter and not i.cached}
    for module in project.modules.values() if names else ():
        mine = {name for name in names if module.has(f".{name}")}
        stmts = (s for scope in module.scope.walk() for s in scope.body.walk()) if mine else ()
        for stmt in (s for s in stmts if any(not mine.isdisjoint(use.split(".")) for use in s.uses)):
            for node in stmt.nodes:
                if type(node) is cst.Attribute and node.attr.value in mine and (base := dotted(node.value)):
                    getter = getter_of(node, module, project)
                    own = {u for s in getter.scope.body.walk() for u in s.uses} if getter is not None else set()
                    stmt.uses |= {base + u[4:] for u in own if u[:5] == "self."}
                    stmt.uses |= {base} if own and module.value(node.value).keys is not None else set()


def getter_of(node: cst.CSTNode, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The method that reading the attribute runs, which no subclass replaces."""
    owner = module.value(node.value) if type(node) is cst.Attribute else None
    if owner is None or owner.kind not in ("object", "module") or type(node) is not cst.Attribute:
        return None
    cls = class_of(owner, module, project)
    getter = cls.known(node.attr.value) if cls is not None else None
    if getter is None or not getter.getter or getter.cached or overriding(getter):
        return None
    return getter


def _brings(node: cst.CSTNode, getter: FunctionInfo, project: Project, depth: int) -> bool:
    """An attribute of the object that may hold what was computed before."""
    place = dotted(node) if type(node) is cst.Attribute else ""
    if not place.startswith("self.") or place.count(".") != 1:
        return False
    value = getter.module.value(node)
    real = any(not d.startswith("@") and d != place for d in value.deps)
    if value.kind not in KEEPING or value.leaf or value.name in ("module_param", "parameter") or not real:
        return False
    return not computed_anew(node, getter.module, project, depth - 1)
