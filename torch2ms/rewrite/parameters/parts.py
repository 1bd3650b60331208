"""Networks that may be a part of others: the names of their Parameters begin with the place that they have there.

`self.encoder.load_state_dict(torch.load(path))`: `ms.load_param_into_net` looks for `encoder.fc.weight` in a dictionary
that has `fc.weight`, and loads nothing, without a word. `parameters_and_names()` goes by the places within the part.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import bound_arguments, resolved
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted


def is_part(node: cst.BaseExpression, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """`net.encoder`, `net.layers[0]`; `self` of a class whose objects stand in others; what callers give of these."""
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        held = module.value(node.value)
        return held.kind == "module" and not (isinstance(node, cst.Attribute) and _unwraps(node, module, project))
    if isinstance(node, cst.IfExp):
        return any(is_part(n, scope, module, project) for n in (node.body, node.orelse) if type(n) is not cst.Name)
    if isinstance(node, cst.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        return module.value(node.args[0].value).kind in ("module", "unknown")
    if not isinstance(node, cst.Name):
        return False
    if node.value == "self" and scope.cls is not None:
        owner = module.classes.get(scope.cls.name)
        return owner is not None and owner.kind == "module" and owner.qualified in _held(project)
    if node.value in scope.params:
        return (id(scope), node.value) in _given(project)
    home = scope if node.value in scope.locals else module.scope
    made = (_bound(stmt.node, node.value) for stmt in home.body.walk() if node.value in stmt.defs)
    if any(type(m) is not cst.Name and is_part(m, home, module, project) for m in made if m is not None):
        return True
    calls = (c for stmt in home.body.walk() for c in stmt.calls if any(dotted(a.value) == node.value for a in c.args))
    return any(_class(c, module, project) is not None for c in calls)  # `Model(backbone)`


def _class(call: cst.Call, module: ModuleInfo, project: Project) -> ClassInfo | None:
    """The class of networks of the project that is called."""
    value = module.value(call.func)
    found = project.find(value.name, module) if value.kind == "class" and value.name else None
    return found if isinstance(found, ClassInfo) and found.kind == "module" else None


def _bound(node: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """What an assignment gives the name, or what that is a copy of: its Parameters keep their names."""
    if type(node) is not cst.Assign or dotted(node.targets[0].target) != name:
        return None
    value = node.value
    copied = type(value) is cst.Call and dotted(value.func).rpartition(".")[2] == "deepcopy" and bool(value.args)
    return value.args[0].value if copied else value  # type: ignore[attr-defined]


def _unwraps(node: cst.Attribute, module: ModuleInfo, project: Project) -> bool:
    """`model.module` of a wrapper that is not there in MindSpore: the model itself."""
    found = project.find(module.value(node.value).name, module) if node.attr.value == "module" else node
    return found is None or isinstance(found, ClassInfo) and found.attr("module") is None


@once
def _held(project: Project) -> frozenset[str]:
    """The classes of which an object is made within another network, or kept by one."""
    found: set[str] = set()
    for module in project.modules.values():
        for cls in (c for c in module.classes.values() if c.kind == "module"):
            values = list(cls.attrs.values())
            values += [module.value(c) for s in cls.scope.walk() for t in s.body.walk() for c in t.calls]
            classes = (project.find(v.name, module) for v in values if v.kind == "module" and v.name)
            found |= {c.qualified for c in classes if isinstance(c, ClassInfo)}
    return frozenset(found)


def _constructor(call: cst.Call, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    value = module.value(call.func)
    found = project.find(value.name, module) if value.kind == "class" and value.name else None
    return found.method("__init__") if isinstance(found, ClassInfo) else None


@once
def _given(project: Project) -> frozenset[tuple[int, str]]:
    """Ids of scopes of functions, and those of their parameters that some caller gives a part of a network."""
    found: set[tuple[int, str]] = set()
    certain = resolved(project)
    for module in project.modules.values():
        for scope in module.scope.walk():
            for call in (c for s in scope.body.walk() for c in s.calls):
                if not call.args:
                    continue
                if (info := certain.get(id(call))) is None:
                    if (info := _constructor(call, module, project)) is None:
                        continue
                    call = call.with_changes(args=[cst.Arg(cst.Name("_")), *call.args])  # what `self` stands for
                for name, arg in bound_arguments(info, call).items():
                    own = dotted(arg.value) == "self" and scope.cls is not None  # else it is a parameter like others
                    held = isinstance(arg.value, (cst.Attribute, cst.Subscript)) or own
                    if held and is_part(arg.value, scope, module, project):
                        found.add((id(info.scope), name))
    return frozenset(found)
