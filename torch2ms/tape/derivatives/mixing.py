"""Whether every parameter of a network takes part in the gradient with respect to its input.

A bias that is only added at the end does not: torch has no gradient for it, and leaves it alone where MindSpore has
zeros. Where the last layer has no bias, and what it is given comes out of a smooth activation, none is only added.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.tree import constant

SMOOTH = frozenset("tanh sigmoid softplus silu gelu mish sin cos Tanh Sigmoid Softplus SiLU GELU Mish".split())
SHOWING = frozenset("sum mean split chunk squeeze view reshape flatten".split())
DEPTH = 6


def mixes(call: cst.Call, stmt: Stmt, module: ModuleInfo, project: Project) -> bool:
    """What the call of a network gives has no part that the input has no part in."""
    return _Mixing(project).of_call(call, stmt, module, DEPTH)


class _Mixing:
    def __init__(self, project: Project) -> None:
        self.project = project

    def of_call(self, call: cst.Call, stmt: Stmt, module: ModuleInfo, depth: int) -> bool:
        func, scope = call.func, stmt.block.scope
        if not depth or module.has("register_forward"):
            return False
        own = next((c for c in module.classes.values() if scope.cls is c.scope), None)
        if isinstance(func, cst.Attribute) and dotted(func.value) == "self" and own is not None:
            if (method := own.known(func.attr.value)) is not None:
                return self.of_method(method, depth - 1)
            if (made := _made(own, func.attr.value)) is not None:
                return self.of_layer(made, call, stmt, own.module, depth)
        cls = class_of(module.value(func), module, self.project) if module.value(func).kind == "module" else None
        forward = cls.known("forward") if cls is not None and not list(cls.below()) else None
        return forward is not None and self.of_method(forward, depth - 1)

    def of_method(self, info: FunctionInfo, depth: int) -> bool:
        returns = [s for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
        if len(returns) != 1 or returns[0].node.value is None:  # type: ignore[union-attr]
            return False
        return self.of_expression(returns[0].node.value, returns[0], info.module, depth)  # type: ignore[union-attr]

    def of_expression(self, node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo, depth: int) -> bool:
        node, stmt = _source(node, stmt)
        return isinstance(node, cst.Call) and self.of_call(node, stmt, module, depth)

    def of_layer(self, made: cst.Call, call: cst.Call, stmt: Stmt, home: ModuleInfo, depth: int) -> bool:
        """A layer as its constructor makes it, called with what a smooth activation gives."""
        name = qualified(made.func, home.imports)
        if name == "torch.nn.Sequential":
            parts = [a.value for a in made.args if not a.star and a.keyword is None]
            if len(parts) != len(made.args) or len(parts) < 2:
                return False
            return _unbiased(parts[-1], home) and name_called(parts[-2]) in SMOOTH  # type: ignore[arg-type]
        if _unbiased(made, home):
            given, _ = _source(call.args[0].value, stmt) if len(call.args) == 1 else (call, stmt)
            return isinstance(given, cst.Call) and name_called(given) in SMOOTH
        found = self.project.find(home.value(made.func).name, home)
        forward = found.known("forward") if isinstance(found, ClassInfo) and not list(found.below()) else None
        return forward is not None and self.of_method(forward, depth - 1)


def _source(node: cst.BaseExpression, stmt: Stmt) -> tuple[cst.BaseExpression, Stmt]:
    """What an expression shows: the call behind names, parts and sums of it."""
    for _ in range(DEPTH):
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in SHOWING:
            node = node.func.value
        elif isinstance(node, cst.Name):
            above = [s for s in stmt.block.stmts if s.number < stmt.number and node.value in s.all_defs]
            if not above or not isinstance(above[-1].node, cst.Assign) or node.value in above[-1].muts:
                return node, stmt
            node, stmt = above[-1].node.value, above[-1]
        else:
            break
    return node, stmt


def _made(cls: ClassInfo, attr: str) -> cst.Call | None:
    """The constructor of a layer that one statement of the class binds."""
    stmts = (s for c in cls.lineage() for m in c.methods.values() for s in m.scope.body.walk())
    bound = [s for s in stmts if f"self.{attr}" in s.defs]
    value = bound[0].node.value if len(bound) == 1 and isinstance(bound[0].node, cst.Assign) else None
    return value if isinstance(value, cst.Call) else None


def _unbiased(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    if not isinstance(node, cst.Call) or qualified(node.func, module.imports) != "torch.nn.Linear":
        return False
    bias = argument(node, 2, "bias")
    return bias is not None and constant(bias) in (False, None, 0)
