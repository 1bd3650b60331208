"""Which functions of the project the code of a differentiated function may run, however it gets hold of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
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
        self.methods: dict[str, list[FunctionInfo]] = {}
        for module in project.modules.values():
            for info in module.functions.values():
                self.by_node[id(info.scope.node)] = info
                if info.cls is not None:
                    self.methods.setdefault(info.name, []).append(info)

    def of(self, node: cst.CSTNode, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """What the code mentions; functions defined in it run with it, and what it is given may be any value."""
        nodes = gathered(node)
        yield from self.mentioned(nodes[1:], module)
        if _calls_unknown(nodes, module):
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
            work += more(info, self.project)
            work += self.mentioned(nodes[1:], info.module)
            if not handed and _calls_unknown(nodes, info.module):
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
        """`teacher.predict`, a property too; of an object that is not known, whatever has the name."""
        named = self.methods.get(node.attr.value)
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


def _calls_unknown(nodes: list[cst.CSTNode], module: ModuleInfo) -> bool:
    names = (n.func for n in nodes if type(n) is cst.Call and type(n.func) is cst.Name)
    return any(module.values.get(id(name), UNKNOWN).kind == "unknown" for name in names)
