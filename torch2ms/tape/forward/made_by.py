"""Networks whose class is not seen: `for make in (NetA, NetB): net = make()`, `MODELS[name]()`, branches of a factory.

They may be of any class of networks that their module knows, or what it imports.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project

TAKING = frozenset("setattr add_module register_module append insert".split())
NEAR = 2  # imports that are followed


def made_by_others(module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The classes that such a network may be of."""
    near = {module.name: module}
    for _ in range(NEAR):
        targets = {t for home in near.values() for t in home.imports.table.values()}
        named = {t for target in targets for t in (target, target.rpartition(".")[0])}
        near |= {name: project.modules[name] for name in named & project.modules.keys()}
    classes = (c for home in near.values() for c in home.classes.values())
    return [c for c in classes if c.kind == "module" and c.method("forward") is not None]


@once
def put_in(project: Project) -> list[ClassInfo]:
    """The classes of layers that are put into networks that were made before: `net[0] = Adapter(net[0])`."""
    found: dict[int, ClassInfo] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk() if scope.name != "__init__" else ():
                node, made = stmt.node, list[cst.BaseExpression]()
                if type(node) is cst.Assign and type(node.targets[0].target) is not cst.Name:
                    made += _bound(node, module)
                for call in stmt.calls:
                    name = call.func.attr if type(call.func) is cst.Attribute else call.func
                    if type(name) is cst.Name and name.value in TAKING and call.args:
                        made += _given(call, module)
                for value in (module.value(each) for each in made):
                    cls = class_of(value, module, project) if value.kind == "module" else None
                    if cls is not None and cls.method("forward") is not None:
                        found[id(cls)] = cls
    return list(found.values())


def _bound(node: cst.Assign, module: ModuleInfo) -> list[cst.BaseExpression]:
    """What a statement makes an item or an attribute of a network."""
    for target in (t.target for t in node.targets):
        every = [e.value for e in target.elements] if type(target) is cst.Tuple else [target]
        if any(isinstance(t, (cst.Attribute, cst.Subscript)) and _holds(t.value, module) for t in every):
            return [e.value for e in node.value.elements] if type(node.value) is cst.Tuple else [node.value]
    return []


def _given(call: cst.Call, module: ModuleInfo) -> list[cst.BaseExpression]:
    """What a call makes a part of a network."""
    method = type(call.func) is cst.Attribute
    holder = call.func.value if type(call.func) is cst.Attribute else call.args[0].value
    unseen = not method and module.value(holder).kind == "unknown"
    return [call.args[-1].value] if unseen or _holds(holder, module) else []


def _holds(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A network, or what it keeps its layers in: `net._modules`."""
    if type(node) is cst.Attribute and node.attr.value == "_modules":
        return True
    return module.value(node).kind == "module"


def held_in(attr: str, cls: ClassInfo, project: Project) -> list[ClassInfo]:
    """The classes that are named where a list of layers is filled that an instance holds: `[Block(d) for _ in items]`,
    `self.make_layer(Block, 3)`."""
    found: dict[int, ClassInfo] = {}
    for method in (m for c in cls.lineage() for m in c.methods.values()):
        stmts = [s for s in method.scope.body.walk() if not s.blocks]
        mine = [s for s in stmts if f"self.{attr}" in s.defs | s.muts]
        names = {u for s in mine for u in s.uses if "." not in u}
        for node in (n for s in stmts if s in mine or (s.defs | s.muts) & names for n in s.nodes):
            value = method.module.value(node) if type(node) is cst.Name or type(node) is cst.Attribute else None
            made = class_of(value, method.module, project) if value is not None and value.kind == "class" else None
            if made is not None and made.kind == "module" and made.method("forward") is not None:
                found[id(made)] = made
    return list(found.values())
