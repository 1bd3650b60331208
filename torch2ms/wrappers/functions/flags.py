"""`real.requires_grad = True` of a tensor that was used before, written as a new leaf.

What was computed from the tensor before knows nothing of the flag, and what is differentiated later must not reach back
to it. A name that is bound anew says so. An attribute, which other methods know by what it was bound to, is bound to a
tensor that has the flag.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.passes import each_module


@each_module
def flagged(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module in which a tensor is given the flag late."""
    if not module.has("requires_grad"):
        return None
    late = _late(module)
    return Flags(module, late).plain() if late else None


class Flags(Suites):
    """One module, with the statements to write anew."""

    def __init__(self, module: ModuleInfo, late: dict[int, str]) -> None:
        super().__init__(module)
        self.late = late

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        name = self.late.get(id(node))
        if name is None:
            return [self.rewrite(node)]
        if not name:
            return []  # the statement that makes the tensor sets the flag
        if isinstance(node, cst.Assign) and dotted(node.targets[0].target) == name:
            flagged = cst.Attribute(node.value, cst.Name("requires_grad_"))
            return [node.with_changes(value=cst.Call(flagged, [cst.Arg(cst.Name("True"))]))]
        return [small_of(f"{name} = {name}.requires_grad_(True)")]


def _late(module: ModuleInfo) -> dict[int, str]:
    """The statements that set the flag of a tensor without a graph which was used before, and its name.

    Of an attribute that was just made: the statement that makes it, and "" for the one that is no longer needed.
    """
    found: dict[int, str] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            name = flag(stmt.node)
            if name and not stmt.off and isinstance(name, cst.Attribute) and (made := _made(name, stmt, module)):
                found |= {id(made.node): dotted(name), id(stmt.node): ""}
            if name and not stmt.off and isinstance(name, cst.Name) and _used_before(name.value, stmt, scope):
                value = module.value(name)
                graph = any(not d.startswith("@") and d != name.value for d in value.deps)
                if value.kind == "tensor" and not graph and name.value not in scope.params:
                    found[id(stmt.node)] = name.value
    return found


def _made(name: cst.Attribute, flag: Stmt, module: ModuleInfo) -> Stmt | None:
    """The statement of the same block that makes the tensor of an attribute, which nothing uses before the flag."""
    place, value = dotted(name), module.value(name)
    graph = any(not d.startswith("@") and d != place for d in value.deps)
    if not place.startswith("self.") or place.count(".") != 1 or value.kind != "tensor" or value.name or graph:
        return None
    for before in reversed(flag.block.stmts[: flag.block.stmts.index(flag)]):
        if place in before.all_defs:
            node = before.node
            plain = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.value, cst.Call)
            return before if plain and not before.off else None
        if place in before.all_uses or "self" in before.all_uses:
            return None
    return None


def flag(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor of `x.requires_grad = True`, `x.requires_grad_()`."""
    if type(node) is cst.Assign and len(node.targets) == 1:
        target = node.targets[0].target
        if type(target) is cst.Attribute and target.attr.value == "requires_grad" and constant(node.value) is True:
            return target.value
        return None
    call = node.value if type(node) is cst.Expr else None
    if type(call) is cst.Call and type(call.func) is cst.Attribute and call.func.attr.value == "requires_grad_":
        on = not call.args or constant(call.args[0].value) is True
        return call.func.value if on else None
    return None


def _used_before(name: str, late: Stmt, scope: Scope) -> bool:
    """Something was computed from the tensor since it was made, and nothing else holds it by then."""
    before = [s for s in scope.body.walk() if s.number < late.number and not s.blocks]
    made = [s.number for s in before if name in s.defs]
    uses = [s for s in before if name in s.uses and made and s.number > made[-1] and flag(s.node) is None]
    called = any(s.calls for s in uses)
    return called and not any(_kept(name, s.node) for s in uses)


def _kept(name: str, node: cst.CSTNode) -> bool:
    """The statement gives the tensor another name, or puts it into something."""
    if isinstance(node, cst.Assign) and dotted(node.value) == name:
        return True
    for part in descend(node):
        if isinstance(part, (cst.Tuple, cst.List, cst.Dict)):
            if any(dotted(e.value) == name for e in part.elements):
                return True
        if isinstance(part, cst.Call) and dotted(part.func).rpartition(".")[2] in ("append", "extend", "add"):
            return True
    return False
