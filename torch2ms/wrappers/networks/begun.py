"""Networks whose class is handed on, and called where it is not seen what is made: they begin in training mode.

Cells begin in evaluation mode, and `set_train()` is written where a network is made. `registry.build(cfg)` and
`spec["model"](*spec["args"])` make one as well: constructors of the classes that may be meant end with `self.train()`,
which changes nothing in torch.
"""

from __future__ import annotations

import builtins

import libcst as cst

from torch2ms.analysis.layer_modes import made_sensitive
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.reach import reaching
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import choices
from torch2ms.editing.suites import Made, Suites, line_of
from torch2ms.findings import Finding, Tier

ASKING = ("isinstance", "issubclass", "super", "hasattr")
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
GIVEN = "it keeps modules of others, which have modes of their own; assumed: train() or eval() is called before it runs"
PLAIN = ("dataclass", "dataclasses.dataclass", "final", "typing.final")


def begun(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such classes, by name."""
    classes = [
        cls
        for module in project.modules.values()
        if not module.uses_mindspore and not module.directives.off
        for cls in module.classes.values()
        if cls.kind == "module"
    ]
    if not classes or not any(map(_makes_unseen, project.modules.values())):
        return {}
    found: dict[str, dict[int, str]] = {}
    moving = reaching(_sets_mode, project)
    for cls in _handed_on(classes, project):
        made = _constructor(cls, moving) if made_sensitive(cls, project) else None
        if made is not None:
            own = made.scope.params[0] if not keeps_given(cls) else ""
            found.setdefault(made.module.name, {})[id(made.scope.node)] = own
    return {name: _Writer(project.modules[name], wanted).plain() for name, wanted in found.items()}


def _makes_unseen(module: ModuleInfo) -> bool:
    """A call gives something new that is not seen: what is called is an item, a parameter, a variable."""
    taken = {id(node.value) for node in module.of_kind(cst.Assign)}
    taken |= {id(node.value) for node in module.of_kind(cst.Return)}
    return any(
        id(call) in taken and _variable(call.func) and module.value(call.func).kind == "unknown"
        for call in module.of_kind(cst.Call)
    )


def _variable(func: cst.BaseExpression) -> bool:
    if type(func) is cst.Attribute:
        return type(func.value) is cst.Name and func.value.value == "self"
    return type(func) is cst.Subscript or type(func) is cst.Name and not hasattr(builtins, func.value)


def _handed_on(classes: list[ClassInfo], project: Project) -> list[ClassInfo]:
    """The classes that decorators or containers keep, or functions are given."""
    named = {f"{cls.module.name}.{cls.scope.name}": cls for cls in classes}
    found = {id(cls): cls for cls in classes if _registered(cls)}
    for module in project.modules.values():
        calls = module.of_kind(cst.Call)
        values = [arg.value for call in calls if dotted(call.func) not in ASKING for arg in call.args]
        values += [node.value for node in module.of_kind(cst.Assign)]
        values += [node.value for node in module.of_kind(cst.Return) if node.value is not None]
        values += [node.value for node in module.of_kind(cst.DictElement)]
        values += [element.value for node in module.of_kind(cst.List) for element in node.elements]
        values += [element.value for node in module.of_kind(cst.Tuple) for element in node.elements]
        asked = {id(n) for call in calls if dotted(call.func) in ASKING for n in descend(call)}
        for node in values:
            if (type(node) is cst.Name or type(node) is cst.Attribute) and id(node) not in asked:
                value = module.value(node)
                for one in choices(value) if value.kind == "class" else ():
                    cls = named.get(one.name) or named.get(f"{module.name}.{one.name}")
                    if cls is not None:
                        found[id(cls)] = cls
    return list(found.values())


def _registered(cls: ClassInfo) -> bool:
    node = cls.scope.node
    assert isinstance(node, cst.ClassDef)
    return any(dotted(getattr(d.decorator, "func", d.decorator)) not in PLAIN for d in node.decorators)


def _sets_mode(call: cst.Call) -> bool:
    return type(call.func) is cst.Attribute and call.func.attr.value in ("eval", "train")


def _constructor(cls: ClassInfo, moving: set[int]) -> FunctionInfo | None:
    """The one that makes its layers, if it can be written to its end; modes of its own are its own affair: functions
    that are `moving` set some."""
    if any("train" in part.methods for part in cls.lineage()):
        return None
    made = next((part.methods["__init__"] for part in cls.lineage() if "__init__" in part.methods), None)
    if made is None or made.module.uses_mindspore or not made.scope.params:
        return None
    leaves = any(type(s.node) is cst.Return for s in made.scope.body.walk())
    return None if leaves or id(made) in moving else made


def keeps_given(cls: ClassInfo) -> bool:
    """Modules that it is given become its own: one may be in evaluation mode, which `self.train()` would end."""
    for part in cls.lineage():
        made = part.methods.get("__init__")
        text = ""
        for stmt in made.scope.body.walk() if made is not None else ():
            node = stmt.node
            if type(node) is not cst.Assign or not isinstance(node.targets[0].target, cst.Attribute):
                continue
            if not (given := stmt.uses & set(made.scope.params[1:])):  # type: ignore[union-attr]
                continue
            if isinstance(node.value, cst.Call):
                if _held(node.value, given):
                    return True
                continue
            place, text = dotted(node.targets[0].target), text or code(part.scope.node)
            if any(f"{place}{end}" in text for end in ("(", "[", ":")):
                return True
    return False


def _held(node: cst.BaseExpression, given: set[str]) -> bool:
    """A container of layers, and what is given is one of them."""
    if not isinstance(node, cst.Call) or dotted(node.func).rpartition(".")[2] not in CONTAINERS:
        return False
    parts: list[cst.BaseExpression] = [arg.value for arg in node.args]
    parts += [e.value for part in parts if isinstance(part, (cst.List, cst.Tuple)) for e in part.elements]
    return any(isinstance(part, cst.Name) and part.value in given for part in parts)


class _Writer(Suites):
    """One module with constructors that end so; those that keep modules they are given are only told of."""

    def __init__(self, module: ModuleInfo, wanted: dict[int, str]) -> None:
        super().__init__(module)
        self.wanted = wanted

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        name = self.wanted.get(id(original))
        if name is None or not isinstance(updated, cst.FunctionDef) or type(updated.body) is not cst.IndentedBlock:
            return super().compound(original, updated)
        if not name:
            self.findings.append(Finding("T2M306", Tier.ASSUMED, "new module", GIVEN, line=self.line))
            return super().compound(original, updated)
        line = line_of(f"{name}.train()")
        last = updated.body.body[-1]
        while isinstance(last, (cst.With, cst.For, cst.If)) and isinstance(last.body, cst.IndentedBlock):
            last = last.body.body[-1]
        self.number(line.body[0], last.body[0] if isinstance(last, cst.SimpleStatementLine) else last)
        body = updated.body.with_changes(body=[*updated.body.body, line])
        made = updated.with_changes(body=body)
        why = "torch modules start in training mode, cells do not; where it is made is not seen"
        self.findings.append(Finding("T2M306", Tier.EXACT, "new module", why, line=self.line))
        self.number(made, original)
        return super().compound(original, made)
