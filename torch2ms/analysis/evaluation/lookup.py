"""What names mean that a scope does not bind itself: globals, imports, builtins, the members of other modules."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.program.project import ClassInfo, Found, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import canonical, is_foreign
from torch2ms.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

PURE_BUILTINS = {"len": "int", "range": "list", "int": "int", "bool": "bool", "str": "str", "isinstance": "bool",
                 "print": "none", "id": "int", "type": "unknown", "hasattr": "bool", "repr": "str", "open": "unknown",
                 "round": "float", "format": "str", "issubclass": "bool", "callable": "bool"}  # fmt: skip
BUILTINS = {"sum", "max", "min", "abs", "zip", "enumerate", "list", "tuple", "dict", "set", "sorted", "map", "filter",
            "float", "getattr", "setattr", "iter", "next", "any", "all", "super", "reversed", "pow", "vars",
            "input", "slice"}.union(PURE_BUILTINS)  # fmt: skip
DTYPES = {"float32", "float16", "float64", "int64", "int32", "bool", "float", "long", "half", "double", "int", "uint8",
          "int8", "int16", "bfloat16", "short", "complex64", "complex128", "cfloat", "cdouble", "uint16", "uint32",
          "uint64"}  # fmt: skip

TRAINED = {"module", "optimizer", "scheduler", "lossfn", "scaler", "param", "params", "object", "unknown"}


def lookup(name: str, ev: Evaluator) -> Value:
    """What a name stands for that the scopes around do not bind."""
    module, project = ev.module, ev.project
    if (bound := ev.exchange.member(module, name)) is not None:
        return shapes.forgotten(bound)
    full = module.imports.table.get(name, "")
    if full and is_foreign(full):
        return api(full)
    found = project.find(name, module)
    if isinstance(found, ModuleInfo):
        return Value("modulefile", name=found.name)
    if (definition := _definition(found)) is not None:
        return definition
    if name in module.imports.roots and full in project.packages:
        return Value("modulefile", name=full)
    if full:
        return _imported(full, ev) or Value("api", name=full)
    for star in module.imports.stars:
        if is_foreign(star) and not name.startswith("_") and exports(star, name):
            return api(f"{star}.{name}")
        starred = project.touch(project.modules.get(star) or project.by_suffix(star))
        if starred is None or name.startswith("_"):
            continue
        if (there := ev.exchange.member(starred, name)) is not None:
            return there
    return Value("builtin", name=name) if name in BUILTINS else UNKNOWN


def _imported(full: str, ev: Evaluator, depth: int = 0) -> Value | None:
    """What another module of the project binds to a name, or one from which that takes it."""
    home, _, last = full.rpartition(".")
    owner = ev.project.modules.get(home)
    ev.project.touch(owner or ev.project.by_suffix(home))
    there = ev.exchange.member(owner, last) if owner is not None else None
    further = owner.imports.table.get(last, "") if owner is not None and there is None else ""
    return _imported(further, ev, depth + 1) if further and depth < 8 else there


def api(name: str) -> Value:
    """Something of torch or another package by its full name."""
    name = canonical(name)
    home, _, last = name.rpartition(".")
    return Value("dtype" if last in DTYPES and home and "." not in home else "api", name=name)


def member(module_name: str, attr: str, ev: Evaluator) -> Value:
    """What an attribute of a module of the project is."""
    owner, full = ev.project.touch(ev.project.modules.get(module_name)), f"{module_name}.{attr}"
    if owner is not None:
        found = _definition(ev.project.find(attr, owner)) or ev.exchange.member(owner, attr)
        if found is not None:
            return found
    inner = ev.project.find(full, owner or ev.module)  # a module of this package that was imported as well
    if isinstance(inner, ModuleInfo):
        return Value("modulefile", name=inner.name)
    if full in ev.project.packages:
        return Value("modulefile", name=full)
    return _definition(inner) or UNKNOWN


def of_data(value: Value, ev: Evaluator) -> bool:
    """An object of a class of the project that keeps nothing that trains: its methods are its own."""
    cls = class_of(value, ev.module, ev.project) if value.kind == "object" and value.name and not value.deps else None
    return cls is not None and not ev.exchange.ask(kinds, cls) & TRAINED


def kinds(cls: ClassInfo) -> set[str]:
    """The kinds of what objects of a class keep."""
    return {value.kind for each in cls.lineage() for value in each.attrs.values()}


def layers_bound(cls: ClassInfo, attr: str) -> tuple[str, ...]:
    """The classes of layers that an attribute is bound to, where each is seen: in branches, one of several."""
    held = [value for one in cls.lineage() for value in one.bound.get(attr, {}).values() if value.kind != "none"]
    names = tuple(dict.fromkeys(value.name for value in held if value.kind == "module"))
    return names if len(held) > 1 and "" not in names and all(v.kind == "module" for v in held) else ()


def made_here(node: cst.BaseExpression, value: Value, ev: Evaluator) -> bool:
    """A new object of a class of the project, which is no module: what it trains nothing else has."""
    bare = not value.place and not value.deps and value.owns is None and value.items is None
    if value.kind != "object" or not bare or not isinstance(node, cst.Call):
        return False
    return ev.memo.get(id(node.func), UNKNOWN).kind == "class" and class_of(value, ev.module, ev.project) is not None


def class_of(value: Value, module: ModuleInfo, project: Project) -> ClassInfo | None:
    """The class of the project that a value is an instance of, or is."""
    if not value.name:
        return None
    found = project.find(value.name, module)
    if isinstance(found, ClassInfo):
        return found
    home, _, last = value.name.rpartition(".")
    owner = project.modules.get(home)
    return project.touch(owner.classes.get(last)) if owner is not None else None


def function_of(value: Value, ev: Evaluator) -> FunctionInfo | None:
    """The function of the project that a value is: of its own name the nearest around."""
    if value.kind != "function" or not value.name:
        return None
    if "." not in value.name:
        scope: Scope | None = ev.function.scope if ev.function is not None else ev.module.scope
        while scope is not None and not scope.is_module:
            for child in () if type(scope.node) is cst.ClassDef else scope.children:  # its methods have no names there
                if child.name == value.name and child.is_function:
                    return ev.module.functions[id(child)]
            scope = scope.parent
        if (outermost := ev.module.named.get(value.name)) is not None:
            return outermost
    found = ev.project.find(value.name, ev.module)
    return found if isinstance(found, FunctionInfo) else None


def made_by_function(value: Value, ev: Evaluator) -> FunctionInfo | None:
    """The function that another one makes and returns: `to_2tuple = _ntuple(2)`."""
    outer, _, name = value.name.rpartition(".")
    found = ev.project.find(outer, ev.module) if "." in outer else None
    inner = [c for c in found.scope.children if c.name == name] if isinstance(found, FunctionInfo) else []
    return found.module.functions[id(inner[0])] if inner and isinstance(found, FunctionInfo) else None


def _definition(found: Found) -> Value | None:
    if isinstance(found, ClassInfo):
        return Value("class", name=found.qualified)
    return Value("function", name=f"{found.module.name}.{found.name}") if isinstance(found, FunctionInfo) else None


PARTS = ("functional", "init", "utils", "lr_scheduler")
CLASSES = ("torch.nn", "torch.optim", "torch.utils.data", "torchvision.datasets", "torchvision.transforms")
FUNCTIONS = ("torch.nn.functional", "torch", "torch.autograd")


def known_star(star: str) -> bool:
    """Whether it is seen what `from star import *` brings."""
    return star in CLASSES or star in FUNCTIONS


def exports(star: str, name: str) -> bool:
    """Whether `from star import *` brings a name of torch."""
    if star in CLASSES:
        return name[:1].isupper() and not hasattr(builtins, name) or name in PARTS
    return star in FUNCTIONS and name not in PURE_BUILTINS


def makes_instances(method: FunctionInfo, value: Value, receiver: Value, cls: ClassInfo) -> bool:
    """`Model.from_params(params)`, which looks the class up, or makes one of `cls`: what comes is a `Model`."""
    if receiver.kind != "class" or not method.of_class or method.cls is None or method.cls is cls:
        return False
    of_above = value.kind in ("object", "module") and value.name == method.cls.qualified
    return of_above or value.kind == "unknown" and method.name.startswith("from_")
