"""Calls of classes and functions that programs hold in variables: `act(inplace=True)`, `norms[name](width)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.values import choices
from torch2ms.api.signature import Shape, Signature

_ACTIVATIONS = ("act", "relu", "nonlin", "non_lin")  # in the names of variables that hold one
_WORDS = re.compile(r"[A-Z][a-z]+")
OF_CONTAINERS = {name for kind in (list, dict, set, str) for name in dir(kind)}
_NOT_HELD = ("module", "tensor", "method", "builtin", "builtin_super", "lossfn")  # called as what they are


@dataclass(frozen=True)
class HeldCall:
    """A call through a variable: the names seen to stand in it, and what it is given."""

    callee: str  # the variable's own name
    names: frozenset[str]
    positional: int
    keywords: frozenset[str]
    spread: bool  # ... and more that is not seen: `norm(width, **options)`

    def exceeds(self, name: str, signature: Signature) -> bool:
        """Whether the class `name` may be called here with more than what it cannot do without.

        What callers leave to a default is not among the names, so that other names do not rule it out.
        """
        required = sum(p.default is None and not p.variadic for p in signature.params)
        if name in self.names:
            return self.spread or bool(self.keywords) or self.positional > required
        alike = {word.lower() for word in _WORDS.findall(name) if len(word) > 3}  # `norm_layer(**options)`
        if self.spread and any(word in self.callee.lower() for word in alike):
            return True
        activation = not required and any(word in self.callee.lower() for word in _ACTIVATIONS)
        return bool(self.keywords & signature.by_name.keys()) or activation and (self.positional > 0 or self.spread)

    def shape(self, signatures: tuple[Signature, ...]) -> Shape | None:
        """What it is given, where that is all seen and one of the signatures takes it."""
        given = self.positional, self.keywords
        return given if not self.spread and any(signature.takes(given) for signature in signatures) else None


class HeldCalls:
    """All of a project, with the answers that were given: every class that is a value asks."""

    def __init__(self, project: Project) -> None:
        self.calls = [call for module in project.modules.values() for call in _of_module(module)]
        self.answers: dict[tuple[str, Signature], bool] = {}

    def exceed(self, name: str, signature: Signature) -> bool:
        """Whether what may be this class or function is called with arguments that could be left out."""
        if (name, signature) not in self.answers:
            self.answers[name, signature] = any(call.exceeds(name, signature) for call in self.calls)
        return self.answers[name, signature]

    def typed(self, name: str, signature: Signature) -> bool:
        """Whether a device or an element type may be among the arguments of what may be this class."""
        asking = (call for call in self.calls if call.spread or call.keywords & {"device", "dtype"})
        return any(call.exceeds(name, signature) for call in asking)

    def shape(self, name: str, signatures: tuple[Signature, ...]) -> Shape | None:
        """What all calls of what may be this function give it; None where they differ, or one is not seen whole."""
        last = name.rpartition(".")[2]  # `torch.utils.data.distributed.DistributedSampler` is another name for it
        known = [call for call in self.calls if any(n == name or n.endswith(f".{last}") for n in call.names)]
        calls = known or [call for call in self.calls if not any(call.names) and call.callee not in OF_CONTAINERS]
        shapes = {call.shape(signatures) for call in calls}
        if not known:  # what this function cannot take was another's
            shapes.discard(None)
        return shapes.pop() if len(shapes) == 1 else None


@once
def held_calls(project: Project) -> HeldCalls:
    """Those of the project that was asked about last."""
    return HeldCalls(project)


def _of_module(module: ModuleInfo) -> Iterator[HeldCall]:
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            for call in stmt.calls:
                if call.args:
                    yield from _held(call, module, scope)


@once
def stand_ins(module: ModuleInfo) -> set[str]:
    """Names that are imported where a library is there, and assigned where it is not: `Norm = nn.LayerNorm`."""
    assigned = {d for s in module.scope.body.walk() if isinstance(s.node, cst.Assign) for d in s.defs}
    return assigned & module.imports.table.keys()


def _either(name: str, scope: Scope, module: ModuleInfo) -> frozenset[str]:
    """`make = RandomSampler if alone else DistributedSampler`: what a name that is bound once stands for."""
    bound = [s.node for s in scope.body.walk() if name in s.defs]
    stack = [bound[0].value] if len(bound) == 1 and isinstance(bound[0], cst.Assign) else []
    found = set()
    while stack:
        part = stack.pop()
        if isinstance(part, cst.IfExp):
            stack += [part.body, part.orelse]
        else:
            found.add(module.value(part).name)
    return frozenset(found)


def _held(node: cst.Call, module: ModuleInfo, scope: Scope) -> Iterator[HeldCall]:
    func, args = node.func, list(node.args)
    if qualified(func, module.imports) == "functools.partial":
        func, args = args[0].value, args[1:]
    value = module.value(func)
    spelled = dotted(func)
    imported = spelled.partition(".")[0] in {*module.imports.table, *module.classes, *module.named}
    layer = any(arg.keyword is not None and arg.keyword.value == "inplace" for arg in args)  # no forward takes it
    if value.kind in _NOT_HELD and not (layer and value.kind == "module"):
        return
    if imported and spelled not in stand_ins(module):
        return
    names = frozenset(choice.name for choice in choices(value))
    if names == {""} and isinstance(func, cst.Name):
        names = _either(func.value, scope, module) or names
    keywords = frozenset(arg.keyword.value for arg in args if arg.keyword is not None)
    positional = sum(arg.keyword is None and not arg.star for arg in args)
    spread = any(arg.star == "**" for arg in args)
    if keywords or positional or spread:
        yield HeldCall(dotted(func).rpartition(".")[2], names, positional, keywords, spread)
