"""Mixed precision of CUDA, which PyTorch switches off where there is no CUDA: it says so itself.

`torch.cuda.amp.autocast()` and its scaler do nothing on a CPU but warn. A translation that computed in float16 there
would train otherwise than the program does. As decorators they stay as they are: nothing there asks for a device.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

NAMES = {
    "torch.cuda.amp.autocast": 0,  # where `enabled` stands
    "torch.cuda.amp.autocast_mode.autocast": 0,
    "torch.cuda.amp.GradScaler": 4,
    "torch.cuda.amp.grad_scaler.GradScaler": 4,
    "torch.autocast": 2,
    "torch.amp.autocast": 2,
    "torch.amp.autocast_mode.autocast": 2,
    "torch.amp.GradScaler": 5,
}
ON_ANY_DEVICE = ("torch.autocast", "torch.amp.")  # the device is their first argument
MENTIONED = re.compile(r"autocast|GradScaler")
ASKS = re.compile(r"is_available|cuda")


@each_module
def switched_off(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that uses it: it asks for CUDA."""
    if not module.says(MENTIONED):
        return None
    found = _calls(module)
    return Switch(module, found, _torch(module)).plain() if found else None


class Switch(Suites):
    """One module, with the calls and the place of `enabled` in each, and its name for torch."""

    def __init__(self, module: ModuleInfo, found: dict[int, int], torch: str) -> None:
        super().__init__(module)
        self.found = found
        self.available = f"{torch}.cuda.is_available()"

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        position = self.found.get(id(original))
        if position is None:
            return updated
        args = list(updated.args)
        given = _given(updated, position)
        if given is None:
            new = cst.Arg(
                cst.parse_expression(self.available),
                keyword=cst.Name("enabled"),
                equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
            )
            return updated.with_changes(args=[*args, new])
        value = args[given].value
        both = self.available
        if constant(value) is not True:
            plain = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Comparison))
            both = f"{code(value)} and {both}" if plain else f"({code(value)}) and {both}"
        args[given] = args[given].with_changes(value=cst.parse_expression(both))
        return updated.with_changes(args=args)


def _calls(module: ModuleInfo) -> dict[int, int]:
    """The calls, by id, and where `enabled` stands in them."""
    found: dict[int, int] = {}
    decorators = {id(d.decorator) for d in module.of_kind(cst.Decorator)}
    for node in module.of_kind(cst.Call):
        if any(a.star for a in node.args) or id(node) in decorators:
            continue
        name = qualified(node.func, module.imports)
        position = NAMES.get(name)
        if position is None or name.startswith(ON_ANY_DEVICE) and _device(node, name) != "cuda":
            continue
        given = _given(node, position)
        if given is None or not _asked(node.args[given].value, module):
            found[id(node)] = position
    return found


def _device(call: cst.Call, name: str) -> object:
    """The device that is named, of a scaler CUDA where none is."""
    first = next((a for a in call.args if a.keyword is None or a.keyword.value in ("device", "device_type")), None)
    if first is None:
        return "cuda" if name.endswith("GradScaler") else None
    return constant(first.value)


def _given(call: cst.Call, position: int) -> int | None:
    """The index of the argument `enabled`."""
    for index, arg in enumerate(call.args):
        if arg.keyword.value == "enabled" if arg.keyword is not None else index == position:
            return index
    return None


def _asked(value: cst.BaseExpression, module: ModuleInfo) -> bool:
    """It is off anyway, or the program asks for CUDA itself."""
    if constant(value) is False or ASKS.search(code(value)):
        return True
    name = dotted(value)
    stmts = (s for scope in module.scope.walk() for s in scope.body.walk() if name and name in s.defs)
    return any(isinstance(s.node, cst.Assign) and ASKS.search(code(s.node.value)) for s in stmts)


def _torch(module: ModuleInfo) -> str:
    """The module's name for torch."""
    return next((name for name, target in module.imports.table.items() if target == "torch"), "torch")
