"""`torch.func.grad(f)(x)`, written as `torch.autograd.grad(f(x), x)` where it is differentiated again or takes a dict.

Gradient calls of that kind become compiled functions, whose gradients are right; `ms.grad` outside of compiled code has
wrong second derivatives, and none of the values of a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.program.structures import takes_dict
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites

NAMES = {f"{home}.{last}": last for home in ("torch.func", "functorch") for last in ("grad", "grad_and_value")}


@dataclass(eq=False)
class Taken:
    """One call of a gradient function: what is differentiated at which arguments."""

    call: cst.Call
    function: cst.BaseExpression
    inputs: list[str]
    mapped: bool  # the input is a dict
    several: bool  # a tuple of positions
    graph: bool  # its result is part of a graph
    valued: bool  # grad_and_value


def as_calls(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that take such gradients, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or not {*module.imports.table.values()} & {*NAMES, "torch.func", "functorch"}:
            continue
        torch = next((k for k, v in module.imports.table.items() if v == "torch"), "")
        found = {id(t.call): t for t in _found(module, project)} if torch else {}
        if found:
            plain[module.name] = _Writer(module, found, torch).plain()
    return plain


def _found(module: ModuleInfo, project: Project) -> Iterator[Taken]:
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            for call in stmt.calls:
                made = call.func if isinstance(call.func, cst.Call) else _bound(call.func, scope)
                last = NAMES.get(qualified(made.func, module.imports), "") if made is not None else ""
                func = made.args[0].value if made is not None and made.args else None
                if func is not None and _bound(func, scope) is not None:
                    continue  # a gradient of a gradient function
                if made is not None and last and (taken := _read(call, made, stmt, module, project)) is not None:
                    taken.valued = last == "grad_and_value"
                    alone = (
                        isinstance(stmt.node, cst.Assign) and stmt.node.value is call and len(stmt.node.targets) == 1
                    )
                    pair = stmt.node.targets[0].target if alone else None  # type: ignore[union-attr]
                    if not taken.valued or isinstance(pair, cst.Tuple) and len(pair.elements) == 2:
                        yield taken


def _bound(node: cst.BaseExpression, scope: Scope) -> cst.Call | None:
    """The call that made the function with a name, which is bound once."""
    inner: Scope | None = scope
    while isinstance(node, cst.Name) and inner is not None:
        if node.value in inner.locals:
            made = [s for s in inner.body.walk() if node.value in s.all_defs and not s.blocks]
            value = made[0].node.value if len(made) == 1 and isinstance(made[0].node, cst.Assign) else None
            return value if isinstance(value, cst.Call) else None
        inner = inner.parent
    return None


def _read(call: cst.Call, made: cst.Call, stmt: Stmt, module: ModuleInfo, project: Project) -> Taken | None:
    given = {a.keyword.value if a.keyword else ("func", "argnums", "has_aux")[i]: a.value
             for i, a in enumerate(made.args[:3])}  # fmt: skip
    if "func" not in given or not dotted(given["func"]) or given.keys() - {"func", "argnums"}:
        return None
    where = given.get("argnums", cst.Integer("0"))
    several = isinstance(where, (cst.Tuple, cst.List))
    places = (
        [constant(e.value) for e in where.elements] if isinstance(where, (cst.Tuple, cst.List)) else [constant(where)]
    )
    args = [a.value for a in call.args if a.keyword is None and not a.star]
    if not all(type(p) is int and 0 <= p < len(args) for p in places) or any(a.star for a in call.args):
        return None
    inputs = [args[p] for p in places if isinstance(p, int)]
    kinds = {module.value(i).kind for i in inputs}
    graph = bool(module.value(call).deps)
    info = project.find(module.value(given["func"]).name, module) if module.value(given["func"]).name else None
    mapped = bool(kinds & {"dict", "named_params"})
    if isinstance(info, FunctionInfo) and len(places) == 1 and isinstance(places[0], int):
        mapped = mapped or takes_dict(info, places[0], project)
    names = [dotted(i) for i in inputs]
    if not (mapped or graph) or mapped and len(inputs) > 1 or not all(names) or len(set(names)) != len(names):
        return None
    others = [a.value for a in call.args if all(a.value is not i for i in inputs)]
    used = {n.value for o in others for n in descend(o) if isinstance(n, cst.Name)}
    if used & {n.partition(".")[0] for n in names} or _made_of(used, set(names), stmt):
        return None
    return Taken(call, given["func"], names, mapped, several, graph, valued=False)


def _made_of(used: set[str], inputs: set[str], stmt: Stmt) -> bool:
    """Some of the other arguments may be made of an input, whose own part in the gradient does not count here."""
    tainted = set(inputs)
    for earlier in stmt.block.scope.body.walk():
        if earlier.number < stmt.number and earlier.uses & tainted and not earlier.blocks:
            tainted |= earlier.defs
    return bool(used & (tainted - inputs))


class _Writer(Suites):
    """One module with gradient calls in place of calls of gradient functions."""

    def __init__(self, module: ModuleInfo, found: dict[int, Taken], torch: str) -> None:
        super().__init__(module)
        self.found, self.torch = found, torch

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        taken = self.found.get(id(node.value)) if isinstance(node, cst.Assign) else None
        if taken is None or not taken.valued:
            return [self.rewrite(node)]
        assert isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Tuple)
        gradient, value = (code(e.value) for e in node.targets[0].target.elements)
        forward = cst.parse_statement(f"{value} = {self.forward(taken)}")
        differentiated = cst.parse_statement(f"{gradient} = {self.gradient(taken, value)}")
        return [line.body[0] for line in (forward, differentiated) if isinstance(line, cst.SimpleStatementLine)]

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        taken = self.found.get(id(original))
        if taken is None or taken.valued:
            return updated
        return cst.parse_expression(self.gradient(taken, self.forward(taken)))

    def forward(self, taken: Taken) -> str:
        return code(cst.Call(taken.function, taken.call.args))

    def gradient(self, taken: Taken, output: str) -> str:
        graph = ", create_graph=True" if taken.graph else ""
        if taken.mapped:
            (name,) = taken.inputs
            return f"dict(zip({name}, {self.torch}.autograd.grad({output}, {name}.values(){graph})))"
        at = taken.inputs[0] if len(taken.inputs) == 1 else f"({', '.join(taken.inputs)})"
        call = f"{self.torch}.autograd.grad({output}, {at}{graph})"
        return call if taken.several else f"{call}[0]"
