"""Layers of a network that the losses of a step do not depend on: heads whose results nothing uses, items never run.

torch has no gradient for them and a step leaves them alone; MindSpore's gradient is zeros, and decay moves them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.unnamed import unnamed
from torch2ms.tape.ledger.beyond import weighted, weighted_parts
from torch2ms.tape.model import Owner

HOUSEKEEPING = r"(weight|bias|parameters|named_parameters|train|eval|to|cuda|zero_grad|state_dict|apply)\b"


def unreached(
    owner: Owner, reached: frozenset[str], ever: frozenset[str], scope: Scope, module: ModuleInfo, project: Project
) -> Iterator[tuple[str, bool]]:
    """The layers of the networks of an optimizer that the losses of a step do not depend on, and whether that is sure.

    With `ever`, only what other losses of the scope do depend on: their steps left averages that go on moving it.
    """
    for place in sorted(owner.owns or ()):
        value = _network(place, scope, module)
        for part, sure in _parts(place, value, reached, module, project) if value is not None else ():
            if not ever or _depends(ever, part):
                yield part, sure


def steps_elsewhere(place: str, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """Another method of the class, or another function that its callers give it, steps with the same optimizer."""
    if place in scope.params and (info := module.functions.get(id(scope))) is not None and info.cls is None:
        return any(_given_to_others(place, info, home, project) for home in project.modules.values())
    cls = module.classes.get(scope.cls.name) if scope.cls is not None and place.startswith("self.") else None
    if cls is None or module.source.count(f"{place}.step(") < 2 and len(cls.lineage()) == 1 and not cls.below():
        return False
    methods = [m for c in (*cls.lineage(), *cls.below()) for m in c.methods.values() if m.scope is not scope]
    return any(_steps(place, method) for method in methods)


def _given_to_others(place: str, info: FunctionInfo, home: ModuleInfo, project: Project) -> bool:
    """Where a module calls the function, it hands the optimizer to another one too, or steps with it there."""
    for around in home.scope.walk() if home.has(f"{info.name}(") else ():
        calls = [call for stmt in around.body.walk() for call in stmt.calls]
        mine = {id(call) for call in calls if dotted(call.func).rpartition(".")[2] == info.name}
        given = {_argument(call, info, place) for call in calls if id(call) in mine} - {""}
        for call in (c for c in calls if id(c) not in mine) if given else ():
            if type(call.func) is cst.Attribute and call.func.attr.value == "step" and dotted(call.func.value) in given:
                return True
            other = project.find(home.value(call.func).name, home) if home.value(call.func).kind == "function" else None
            if isinstance(other, FunctionInfo) and other is not info:
                params = [p for p in other.scope.params if _argument(call, other, p) in given]
                if any(_steps(param, other) for param in params):
                    return True
    return False


def _argument(call: cst.Call, info: FunctionInfo, name: str) -> str:
    node = argument(call, info.scope.params.index(name), name)
    return dotted(node) if node is not None else ""


def _steps(place: str, info: FunctionInfo) -> bool:
    return any(dotted(call.func) == f"{place}.step" for stmt in info.scope.body.walk() for call in stmt.calls)


def _network(place: str, scope: Scope, module: ModuleInfo) -> Value | None:
    """What a scope knows of the network at a place, as it runs it, hands it on or calls methods of it."""
    for stmt in scope.body.walk():
        for call in stmt.calls:
            func = call.func
            below = [func.value] if type(func) is cst.Attribute or type(func) is cst.Subscript else []
            for node in (func, *below, *[a.value for a in call.args]):
                value = module.value(node)
                if value.kind == "module" and value.name and value.place == place:
                    return value
    return None


def _parts(
    place: str, value: Value, reached: frozenset[str], module: ModuleInfo, project: Project
) -> Iterator[tuple[str, bool]]:
    if value.name == "torch.nn.Sequential":
        yield from ((item, True) for item in _items(place, value, module, project))
    cls = class_of(value, module, project)
    if cls is None or not any(r.startswith(f"{place}.") for r in reached) or not _seen(cls):
        return
    for name, part in weighted_parts(cls, project).items():
        inner = f"{place}.{name}"
        if part.place != f"self.{name}":
            continue  # another name of a layer
        if not _depends(reached, inner):
            yield inner, not _escapes(name, project)
        elif part.name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            yield from ((item, True) for item in _items(inner, part, cls.module, project))
            if part.items is None and _by_number(name, project):
                yield inner, False
        elif class_of(part, cls.module, project) not in (None, cls):
            yield from _parts(inner, part, reached, cls.module, project)


def _depends(reached: frozenset[str], place: str) -> bool:
    return any(r == place or r.startswith(f"{place}.") for r in reached)


def _seen(cls: ClassInfo) -> bool:
    """All that runs the layers of a network is written out."""
    lineage = cls.lineage()
    bases = {base for c in lineage for base in c.bases}
    own = {c.scope.name for c in lineage}
    return all(base == "torch.nn.Module" or base.rpartition(".")[2] in own for base in bases) and not any(
        unnamed(c.module) for c in lineage
    )


def _escapes(name: str, project: Project) -> bool:
    """A layer is handed on, or known by another name: the source does more than run it."""
    more = re.compile(rf"\.{name}\b(?!\s*(\(|(, *self\.\w+ *)*=[^=]|\.{HOUSEKEEPING}))")
    return any(more.search(m.source) for m in project.modules.values())


def _by_number(name: str, project: Project) -> bool:
    """Only items of a list of layers are run that are written out, and how many there are is not seen."""
    run = rf"\[[^\]:]*\](?=\()|(\[\d+\])?\.{HOUSEKEEPING}|\s*=[^=]"
    sources = [m.source for m in project.modules.values() if m.has(f".{name}")]
    taken = {item for source in sources for item in re.findall(rf"\b{name}\[([^\]:]*)\]\(", source)}
    written = all(re.fullmatch(r"-?\d+|'\w*'|\"\w*\"", item) for item in taken)
    return bool(taken) and written and not any(re.search(rf"\.{name}\b(?!{run})", source) for source in sources)


def _items(place: str, value: Value, module: ModuleInfo, project: Project) -> Iterator[str]:
    """The items of a list of layers that never runs as a whole, where the source only runs some by their number."""
    name = place.rpartition(".")[2]
    run = rf"\[\d+\](?=\()|(\[\d+\])?\.{HOUSEKEEPING}|\s*=[^=]"
    sources = [m.source for m in project.modules.values()] if "." in place else [module.source]
    if any(re.search(rf"\b{name}\b(?!{run})", source) for source in sources):
        return
    if not any(name in source for source in sources):
        return  # a name that was made up: `nets_0` of `nets[0]`, which the source runs under that one
    numbers = {int(n) for source in sources for n in re.findall(rf"\b{name}\[(\d+)\]\(", source)}
    for number, item in enumerate(value.items or ()):
        if number not in numbers and weighted(item, module, project):
            yield f"{place}[{number}]"
