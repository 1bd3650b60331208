"""What an object, and a module, has within reach: optimizers, and the modules that its attributes hold."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.dispatch import acts_as_one
from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value, replace
from torch2ms.tape.functions.reach import family


def reachable(scope: Scope, module: ModuleInfo, project: Project) -> dict[str, Value]:
    """Optimizers that a function finds in its object, or in what stands around it."""
    found: dict[str, Value] = {}
    if scope.cls is not None and scope.cls.name in module.classes:
        held = (a for c in family(module.classes[scope.cls.name], project) for a in c.attrs.items())
        found = {f"self.{name}": value for name, value in held}
    around = scope.parent if scope.is_function else scope
    while around is not None:
        own = around is scope
        if around.is_module:  # whose optimizers are few among many names
            found = {n: v for n, v in found.items() if n not in module.outer or n in scope.locals and not own}
            found |= {n: v for n, v in _optimizers(module).items() if n not in scope.locals or own}
        elif type(around.node) is not cst.ClassDef:
            found |= {n: v for n, v in _outer(around).items() if n not in scope.locals or own}
        around = around.parent
    known = {n: v for n, v in imported(module, project).items() if scope.is_module or n not in scope.locals}
    found = known | {n: v for n, v in found.items() if v.kind == "optimizer"} | _beside(scope, module, project)
    if len(found) == 1 and (only := next(iter(found.values()))).owns is None:
        owns = own_modules(scope, module, project)
        return {n: replace(only, owns=owns, likely=True) for n in found} if owns else found
    return found


def _beside(scope: Scope, module: ModuleInfo, project: Project) -> dict[str, Value]:
    """Optimizers of objects that a method is given, or that its own object keeps: `runner.optimizer` in a hook."""
    info = module.functions.get(id(scope))
    if info is None or info.cls is None:
        return {}
    holders = {name: info.args.get(name) for name in scope.params[1:]}
    for use in {use for stmt in scope.body.walk() for use in stmt.uses if use.count(".") > 1 and use[:5] == "self."}:
        name = use.split(".")[1]
        holders[f"self.{name}"] = info.cls.attr(name)
    found: dict[str, Value] = {}
    for holder, value in holders.items():
        cls = class_of(value, module, project) if value is not None and value.kind == "object" else None
        if cls is None or acts_as_one(cls):
            continue
        held = {n: v for c in family(cls, project) for n, v in c.attrs.items()}
        for name, optimizer in held.items():
            if optimizer.kind == "optimizer" and (own := optimizer.owns) is not None:
                same = {f"{holder}.{n}" for n, v in held.items() if v.kind == "module" and {v.place, f"self.{n}"} & own}
                owns = {f"{holder}.{o[5:]}" if o[:5] == "self." else o for o in own - scope.locals}
                likely = optimizer.likely or value is not None and value.likely
                found[f"{holder}.{name}"] = replace(optimizer, owns=frozenset(same | owns), likely=likely)
    return found


@once
def _optimizers(module: ModuleInfo) -> dict[str, Value]:
    return {n: v for n, v in module.outer.items() if v.kind == "optimizer"}


def _outer(scope: Scope) -> dict[str, Value]:
    return {n: v for s in scope.body.walk() for n, v in s.out.items() if "." not in n}


def imported(module: ModuleInfo, project: Project) -> dict[str, Value]:
    """The optimizers of other modules that a module imports by their names."""
    found: dict[str, Value] = {}
    for name, target in module.imports.table.items():
        if name in module.own_names:
            continue
        home, _, last = target.rpartition(".")
        owner = project.modules.get(home) or (project.by_suffix(home) if home else None)
        value = owner.env.get(last) if owner is not None else None
        if value is not None and value.kind == "optimizer":
            found[name] = value
    return found


def by_attribute(owns: frozenset[str], scope: Scope, module: ModuleInfo, project: Project) -> frozenset[str]:
    """The attributes in which an object holds the modules that go by another name: those its constructor was given."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    held = (a for c in family(cls, project) for a in c.attrs.items()) if cls is not None else ()
    return frozenset(f"self.{name}" for name, v in held if v.kind == "module" and v.place in owns)


def own_modules(scope: Scope, module: ModuleInfo, project: Project) -> frozenset[str]:
    """The attributes in which an object holds modules: what its only optimizer trains, if that is not seen."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    held = (a for c in family(cls, project) for a in c.attrs.items()) if cls is not None else ()
    return frozenset(f"self.{name}" for name, v in held if v.kind == "module" and not bare(v))


def own_module(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """The attribute of the own object that holds the module which a method is given, "" for anything else."""
    value, written = module.value(node), dotted(node)
    if value.kind != "module":
        return ""
    return next((place for place in (value.place, written) if place.startswith("self.")), "")
