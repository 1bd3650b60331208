"""How long a compiled function is right: what it captured stays the same as long as it lives, which is a loop.

Compiled code keeps what it captures as it was at the first call; only Parameters are live.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import shared
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.tape.forms.calls import Call, Outputs
from torch2ms.tape.forms.graphmode import FREEZING, Check, Unfit

FLAG = re.compile(r"\.requires_grad *=[^=]")


def unfit(call: Call, params: list[str], outputs: Outputs, loop: Stmt | None, at: tuple[ModuleInfo, Project]) -> str:
    """Why the forward function of a call is not compiled; "" where it is, and then the call knows what is assumed."""
    module, project = at
    try:
        if loop is None:
            raise Unfit("no loop stands around it, and it would be compiled at each call")
        if call.event.scaled is not None or outputs.shared or outputs.wrapped:
            raise Unfit("it returns more than tensors")
        check = Check(project)
        check.forward(call, params, outputs, module)
        if _freezes(project):
            raise Unfit("parameters are frozen or thawed, which it does not see")
        if known := sorted(name for name in check.tensors if shared(name, loop.block.scope)):
            raise Unfit(f"`{known[0]}` has another name, by which it may change while it lives")
        lifetime(call, loop, check, module, project)
        call.assumed |= {f"`{name}` is a tensor" for name in check.unseen}
    except Unfit as reason:
        return str(reason)
    return ""


def lifetime(call: Call, loop: Stmt, check: Check, module: ModuleInfo, project: Project) -> None:
    """Nothing in the loop changes what the compiled function keeps."""
    switches, inside = [], set(loop.walk())
    own = {id(inner) for s in call.region.all for inner in s.walk()}  # which writes nothing, or is not compiled
    for stmt, home in reached([loop], module, project):
        if isinstance(stmt.node, (cst.Global, cst.Nonlocal)):
            if changed := {i.name.value for i in stmt.node.names} & check.captured:
                raise Unfit(f"`{changed.pop()}` may change while it lives")
        for node in stmt.calls:
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
            api = home.value(node.func).name
            tensor = isinstance(node.func, cst.Attribute) and home.value(node.func.value).kind == "tensor"
            if name in FREEZING and not (tensor and name == "requires_grad_") or api.startswith("torch.nn.init."):
                raise Unfit(f"`{name}` may change the network while it lives")
            if _switches(node):
                switches.append(stmt)
        for place in _written(stmt):
            if "." in place and place.rpartition(".")[2] in check.attributes and not place.startswith("self."):
                raise Unfit(f"the attribute `{place.rpartition('.')[2]}` may change while it lives")
            if place in check.captured and place != "self" and home is module and _means(place, stmt, inside):
                raise Unfit(f"`{place}` may change while it lives")
        given = _handed(stmt, home, project) & check.captured if home is module and id(stmt) not in own else set()
        if place := next((p for p in sorted(given) if _means(p, stmt, inside)), ""):
            raise Unfit(f"`{place}` is handed on, and may change while it lives")
    for each in project.modules.values():
        for info in each.functions.values():
            for stmt in info.scope.body.walk() if info.name != "__init__" else ():
                if hit := {p.rpartition(".")[2] for p in _written(stmt) if "." in p} & check.attributes:
                    raise Unfit(f"the attribute `{hit.pop()}` may change while it lives")
    if switches and not _switched_back(call, loop, check, (module, project)):
        raise Unfit("the network may be in another mode when it is called again")


def _means(place: str, stmt: Stmt, inside: set[Stmt]) -> bool:
    """The name is that of the loop's scope: in the loop itself, or in a function that has none of its own."""
    scope = stmt.block.scope
    return stmt in inside or place not in scope.locals and place not in scope.params


def _handed(stmt: Stmt, home: ModuleInfo, project: Project) -> set[str]:
    """Tensors of which functions of the project get some part, `put(bank[step], x)`: these may write into it."""
    found: set[str] = set()
    for call in stmt.calls:
        value = home.value(call.func)
        known = project.find(value.name, home) if value.kind == "function" else None
        for arg in call.args if value.kind == "unknown" or isinstance(known, FunctionInfo) else ():
            names = (n for n in descend(arg.value) if type(n) is cst.Name and home.value(n).kind == "tensor")
            found |= {n.value for n in names}
    return found


def _freezes(project: Project) -> bool:
    """Parameters are frozen or thawed somewhere behind the making of networks: compiled code does not see it."""
    for module in project.modules.values() if project.says(FLAG) else ():
        for info in module.functions.values() if module.says(FLAG) else ():
            for stmt in info.scope.body.walk() if info.name != "__init__" else ():
                node = stmt.node
                targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
                flagged = [t.value for t in targets if isinstance(t, cst.Attribute) and t.attr.value == "requires_grad"]
                if any(module.value(holder).kind != "tensor" for holder in flagged):
                    return True
    return False


def _written(stmt: Stmt) -> set[str]:
    """The places that a statement writes; what gets another `.data` is bound anew in MindSpore."""
    return {place.removesuffix(".data") for place in stmt.defs | stmt.muts}


def _switches(node: cst.Call) -> bool:
    """`net.eval()`, or `net.train(mode)`."""
    if not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    return name == "eval" and not node.args or name == "train" and bool(node.args) and not _true(node)


def _true(node: cst.Call) -> bool:
    return constant(node.args[0].value) is True


def _switched_back(call: Call, loop: Stmt, check: Check, at: tuple[ModuleInfo, Project]) -> bool:
    """On the way to the call every network is put into training mode, and nothing behind that switches it off."""
    inner = call.region.all[0] if call.region.all else call.event.stmt
    wanted = set(check.networks)
    chain = [inner, *inner.ancestors()]
    for stmt in chain[: chain.index(loop)]:
        block = stmt.block.stmts
        position = block.index(stmt)
        if any(_switching(s, at) for s in [stmt] if s is not inner):
            return False
        for before in reversed(block[:position]):
            wanted = {w for w in wanted if not any(overlaps(w, place) for place in _trained(before))}
            if not wanted:
                return True
            if _switching(before, at):
                return False
    return False


def _switching(stmt: Stmt, at: tuple[ModuleInfo, Project]) -> bool:
    return any(_switches(c) for s, _ in reached([stmt], *at) for c in s.calls)


def _trained(stmt: Stmt) -> Iterator[str]:
    for node in stmt.calls if not stmt.blocks else ():
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "train" and not _switches(node):
            yield dotted(node.func.value)
