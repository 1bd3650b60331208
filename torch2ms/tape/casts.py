"""What calls of `autocast(...)` ask for, and where in a project something computes in mixed precision."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.plan import Text

GENERAL = {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}  # the device comes first
CALLED = {"forward", "__call__"}  # by calls of objects, whatever their names
ANYWHERE = "*"


@dataclass(eq=False)
class Autocast:
    """What a context asks for: `enabled` and `dtype` are expressions of the source, None where left out."""

    name: str
    nodes: list[cst.BaseExpression]  # its calls, which go
    enabled: cst.BaseExpression | None = None
    negated: bool = False
    dtype: cst.BaseExpression | None = None
    device: cst.BaseExpression | None = None
    binding: Stmt | None = None  # the assignment that gave it a name
    unseen: bool = False  # it is given arguments in a container

    @property
    def off(self) -> bool:
        return self.enabled is not None and constant(self.enabled) is False

    @property
    def always(self) -> bool:
        return self.enabled is None or constant(self.enabled) is True

    def expressions(self) -> list[cst.BaseExpression]:
        return [e for e in (self.enabled, self.dtype) if e is not None]

    def precision(self) -> str:
        """The type where none is given; bfloat16 is torch's choice on the CPU."""
        cpu = self.name.startswith("torch.cpu.") or (self.device is not None and constant(self.device) == "cpu")
        return "ms.bfloat16" if cpu else "ms.float16"

    def bfloat16(self) -> bool:
        written = dotted(self.dtype) if self.dtype is not None else self.precision()
        return written.rpartition(".")[2] == "bfloat16"

    def wrap(self, function: str) -> Text:
        """The statement that makes a function run in mixed precision."""
        dtype = "{0}" if self.dtype is not None else self.precision()
        nodes: list[cst.CSTNode] = [self.dtype] if self.dtype is not None else []
        line = f'{function} = ms.amp.auto_mixed_precision({function}, amp_level="auto", dtype={dtype})'
        if not self.always and self.enabled is not None:
            test = f"{{{len(nodes)}}}"
            nodes.append(self.enabled)
            simple = isinstance(self.enabled, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            if self.negated:
                test = f"not {test}" if simple else f"not ({test})"
            line = f"if {test}:\n    {line}"
        return Text(line, nodes)


def read(node: cst.BaseExpression, module: ModuleInfo) -> Autocast | None:
    """The autocast an expression makes, None if it makes none."""
    if not isinstance(node, cst.Call):
        return None
    name = qualified(node.func, module.imports)
    if name.rpartition(".")[2] != "autocast" or not name.startswith("torch."):
        return None
    general = name in GENERAL
    dtype, enabled = argument(node, 1, "dtype"), argument(node, 2 if general else 0, "enabled")
    if dtype is not None and constant(dtype) is None:
        dtype = None
    device = argument(node, 0, "device_type") if general else None
    unseen = any(arg.star and type(arg.value) is not cst.Dict for arg in node.args)
    return Autocast(name, [node], enabled, dtype=dtype, device=device, unseen=unseen)


def active(project: Project) -> bool:
    """Whether anything in the project computes in mixed precision."""
    for other in project.modules.values():
        for node in other.of_kind(cst.Call):
            if (made := read(node, other)) is not None and not made.off:
                return True
    return False


def in_mixed_precision(stmt: Stmt, project: Project, module: ModuleInfo) -> bool:
    """Something around the statement may compute in mixed precision."""
    reached = _reached(project)
    if ANYWHERE in reached or any(_casting(a, module) for a in stmt.ancestors()):
        return True
    scope = stmt.block.scope
    return scope.is_function and scope.name in reached


def _casting(stmt: Stmt, module: ModuleInfo) -> set[int]:
    """The calls in the head of a block that let it compute in mixed precision."""
    items = stmt.node.items if type(stmt.node) is cst.With else ()
    return {id(i.item) for i in items if (made := read(i.item, module)) is not None and not made.off}


@once
def _reached(project: Project) -> frozenset[str]:
    """The names of all that blocks of mixed precision may call; anything at all where it is not a block that casts."""
    found: set[str] = set()
    mentioned: dict[str, set[str]] = {}
    for module in project.modules.values():
        heads: set[int] = set()
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if scope.is_function:
                    mentioned.setdefault(scope.name, set()).update(_names(stmt))
                if calls := _casting(stmt, module):
                    heads |= calls
                    found |= {name for inner in stmt.walk() for name in _names(inner)}
        for call in module.of_kind(cst.Call):
            if id(call) not in heads and (made := read(call, module)) is not None and not made.off:
                return frozenset({ANYWHERE})
    waiting = list(found := found | CALLED) if found else []
    while waiting:
        new = mentioned.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return frozenset(found)


def _names(stmt: Stmt) -> set[str]:
    named = {n.value for n in stmt.nodes if type(n) is cst.Name}
    return named | {n.attr.value for n in stmt.nodes if type(n) is cst.Attribute}
