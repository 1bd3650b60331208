"""Which functions of the project the code of a differentiated function may run, however it gets hold of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import UNKNOWN

PLAIN = frozenset(
    "tensor int float bool str none list tuple dict numpy size dtype device api optimizer builtin".split()
)


NAMES: frozenset[type] = frozenset({cst.Name, cst.Attribute})


@once
def inside(project: Project) -> Inside:
    """... of a project; its values are known."""
    return Inside(project)


class Inside:
    """Functions by how code names them: itself, through an object, through a value that may be any of them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.by_node: dict[int, FunctionInfo] = {}
        self.members: dict[str, list[FunctionInfo]] = {}  # what classes and modules of the project have under a name
        self.kept: set[str] = set()  # the names under which objects keep something
        for module in project.modules.values():
            self.kept.update(name for cls in module.classes.values() for name in cls.attrs)
            for info in module.functions.values():
                self.by_node[id(info.scope.node)] = info
                if info.cls is not None or info.scope.parent is module.scope:
                    self.members.setdefault(info.name, []).append(info)

    def of(self, node: cst.CSTNode, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """What the code mentions; functions defined in it run with it, and what it is given may be any value."""
        nodes = gathered(node)
        yield from self.mentioned(nodes[1:], module)
        if self.calls_unknown(nodes, module):
            yield from self.handed

    def reached(
        self, work: list[FunctionInfo], more: Callable[[FunctionInfo, Project], Iterable[FunctionInfo]]
    ) -> list[FunctionInfo]:
        """The functions, and whatever may run with them: `more`, and what is mentioned; each once."""
        found: dict[int, FunctionInfo] = {}
        handed = False
        while work:
            info = work.pop()
            if id(info.scope.node) in found:
                continue
            found[id(info.scope.node)] = info
            nodes = gathered(info.scope.node)
            work += [*more(info, self.project), *self.versions.get(id(info), ())]
            work += self.mentioned(nodes[1:], info.module)
            if not handed and self.calls_unknown(nodes, info.module):
                handed = True  # once for all
                work += self.handed
        return list(found.values())

    def mentioned(self, nodes: Iterable[cst.CSTNode], module: ModuleInfo) -> Iterator[FunctionInfo]:
        for inner in nodes:
            kind = type(inner)
            if kind is cst.FunctionDef:
                if (info := self.by_node.get(id(inner))) is not None:
                    yield info
            elif kind is cst.Name:
                yield from self.named(inner, module)
            elif kind is cst.Attribute:
                yield from self.named(inner, module)
                yield from self.through(inner, module)  # type: ignore[arg-type]

    @cached_property
    def versions(self) -> dict[int, list[FunctionInfo]]:
        """What is registered with a function for types of arguments, `@decay.register(torch.Tensor)`, by its id."""
        found: dict[int, list[FunctionInfo]] = {}
        for module in self.project.modules.values():
            for info in module.functions.values() if module.has(".register") else ():
                assert isinstance(info.scope.node, cst.FunctionDef)
                for each in info.scope.node.decorators:
                    maker = each.decorator.func if type(each.decorator) is cst.Call else each.decorator
                    held = dotted(maker).removesuffix(".register")
                    if held != dotted(maker) and isinstance(whole := self.project.find(held, module), FunctionInfo):
                        found.setdefault(id(whole), []).append(info)
        return found

    @cached_property
    def handed(self) -> list[FunctionInfo]:
        """Functions that are values somewhere, or are called by a lambda: whoever is given them may call them."""
        found: dict[int, FunctionInfo] = {}
        for module in self.project.modules.values():
            called = {id(call.func) for call in module.of_kind(cst.Call)}
            values = module.values
            for node in module.nodes:  # loops: most are no functions
                if type(node) is cst.Lambda:
                    found |= {id(info): info for info in self.mentioned(gathered(node.body), module)}
                elif (value := values.get(id(node))) is not None and value.kind == "function":
                    if type(node) in NAMES and id(node) not in called:
                        found |= {id(info): info for info in self.named(node, module)}
        return list(found.values())

    def named(self, node: cst.CSTNode, module: ModuleInfo) -> Iterator[FunctionInfo]:
        value = module.values.get(id(node), UNKNOWN)
        if value.kind == "function" and value.name:
            hit = self.project.find(value.name, module)
            if isinstance(hit, FunctionInfo):
                yield hit

    def through(self, node: cst.Attribute, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """`teacher.predict`, a property too; of an object or module that is not known, whatever has the name."""
        named = self.members.get(node.attr.value)
        if not named:
            return
        receiver = module.values.get(id(node.value), UNKNOWN)
        if receiver.kind in PLAIN:
            return
        cls = self.project.find(receiver.name, module) if receiver.name else None
        if isinstance(cls, ClassInfo):
            family = {id(c) for c in cls.lineage()} | {id(c) for c in cls.below()}
            named = [info for info in named if id(info.cls) in family]
        yield from named

    def calls_unknown(self, nodes: list[cst.CSTNode], module: ModuleInfo) -> bool:
        """`fn(x)`, `table[name](x)`, `build(name)(x)` and `self.fn(x)`, where it is not seen what the function is."""
        values = module.values
        for func in (node.func for node in nodes if type(node) is cst.Call):
            value = values.get(id(func), UNKNOWN)
            if value.kind == "function" and not any(self.named(func, module)):  # a lambda, or one of several
                return True
            if value.kind == "unknown" and (type(func) is not cst.Attribute or func.attr.value in self.kept):
                return True
        return False
