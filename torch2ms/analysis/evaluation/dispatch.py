"""Objects that are handed to methods of whichever class: `for hook in self.hooks: hook.after_iter(self)`.

What `hook` is, is not seen; that its `after_iter` is one of the project's is. `getattr(hook, name)(self)` may be any
method whose name the project writes out as a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.arguments import Given, bind_arguments
from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

OBJECT, NETWORK = "object", "module"


def dispatched(given: Given, ev: Evaluator, network: bool = False) -> None:
    """A method of an object that is not known is called: the project's methods of that name may get the objects.

    `network`: it is one, whatever its class: `self.model.train_step(data, optim_wrapper)`.
    """
    if not any(v.kind == OBJECT and v.name for v in given.args) or any(a.star for a in given.node.args):
        return
    known = [v.kind == OBJECT and _trains(v, ev, network) for v in given.args]
    if not any(known):
        return
    for info in _methods(given.node, ev, NETWORK if network else OBJECT):
        args = [
            Value(OBJECT, name=v.name, likely=True) if own else Value()
            for v, own in zip(given.args, known, strict=True)
        ]
        for name, value in bind_arguments(info, given.node, args, skip_self=True).items():
            if value.kind == OBJECT:
                ev.exchange.hand(ev.project.touch(info), name, value, id(given.node.func))


def _trains(value: Value, ev: Evaluator, wrapped: bool) -> bool:
    """An instance of a class of the project that has an optimizer, and is none itself if it is not to be `wrapped`."""
    cls = class_of(value, ev.module, ev.project)
    return cls is not None and (wrapped or not acts_as_one(cls)) and ev.exchange.ask(_has_optimizer, cls)


def _has_optimizer(cls: ClassInfo) -> bool:
    held = (v for c in (*cls.lineage(), *cls.below()) for v in c.attrs.values())
    return any(v.kind == "optimizer" for v in held)


def acts_as_one(cls: ClassInfo) -> bool:
    """Its objects clear gradients, or go backward, for an optimizer that they wrap."""
    return cls.method("zero_grad") is not None or cls.method("backward") is not None


def _methods(node: cst.Call, ev: Evaluator, kind: str) -> list[FunctionInfo]:
    """The methods that the call may reach, of classes of a kind."""
    func = node.func
    if type(func) is cst.Attribute:
        found = _by_name(ev.project)[kind].get(func.attr.value, [])
    elif type(func) is cst.Call and dotted(func.func) == "getattr" and len(func.args) > 1:
        name = constant(func.args[1].value)
        some = _by_name(ev.project)[kind]
        found = [i for n, infos in some.items() if n == name or name is ... and _written(n, ev.project) for i in infos]
    else:
        return []
    return [i for i in found if len(i.scope.params) == len(node.args) + 1]


@once
def _by_name(project: Project) -> dict[str, dict[str, list[FunctionInfo]]]:
    """The methods of plain classes, and of networks, that take something, by name."""
    found: dict[str, dict[str, list[FunctionInfo]]] = {OBJECT: {}, NETWORK: {}}
    for cls in (c for module in project.modules.values() for c in module.classes.values() if c.kind in found):
        for name, info in cls.methods.items():
            if len(info.scope.params) > 1 and not name.startswith("__") and not info.static:
                found[cls.kind].setdefault(name, []).append(info)
    return found


def _written(name: str, project: Project) -> bool:
    """The project has the name as a text."""
    return any(m.has(f'"{name}"') or m.has(f"'{name}'") for m in project.modules.values())
