"""Function transforms (torch.func): what MindSpore compiles needs named functions and values that stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import UNKNOWN

BACKWARD = re.compile(r"\.backward\(|autograd\.grad\(")
PLAIN = {"grad", "grad_and_value", "vjp"}
COMPILED = {"vmap", "jacrev", "jacfwd", "hessian", "jvp", "jacobian"}
NAMED = COMPILED | {"hvp", "vhp"}  # whose functions MindSpore compiles, and reads the source of
KEEPING = {"vmap", "jvp"}  # compiled once for a function, however often they are called
PRODUCTS = {"mm", "matmul", "bmm", "mv", "dot", "einsum", "linear", "addmm", "baddbmm", "tensordot", "outer", "inner"}
STEADY = (
    "module",
    "function",
    "class",
    "api",
    "modulefile",
    "optimizer",
    "builtin",
    "dtype",
    "lossfn",
    "str",
    "device",
)


def transform(name: str) -> str:
    """The last part of the name of a function transform; empty for anything else."""
    home, _, last = name.rpartition(".")
    known = home in ("torch.func", "torch.autograd.functional", "functorch", "torch._functorch") or name == "torch.vmap"
    return last if known and last in PLAIN | NAMED else ""


class Functions:
    """The functions that calls of transforms are made on."""

    def __init__(self, project: Project, module: ModuleInfo) -> None:
        self.project = project
        self.module = module

    @cached_property
    def again(self) -> bool:
        """The module takes gradients, and what a gradient function gives may be a part of what they are of."""
        if not self.module.says(BACKWARD):
            return False
        calls = (c for s in self.module.scope.walk() for stmt in s.body.walk() for c in stmt.calls)
        return any(self.module.value(c.func).name.startswith("torch.func:") and self.module.value(c).deps
                   for c in calls)  # fmt: skip

    def problem(self, kind: str, call: cst.Call) -> str:
        """Why this call would give other numbers in MindSpore; empty where it does not."""
        if not call.args:
            return ""
        first = call.args[function_at(call)].value
        if kind in PLAIN and self.again:
            return "what it gives is differentiated again, which is right in compiled functions alone"
        if kind in PLAIN and self.differentiates(first, frozenset()):
            if self.multiplies(first, frozenset()):
                return "MindSpore's second derivatives of matrix products are wrong outside compiled functions"
        if kind in KEEPING and not isinstance(first, (cst.Lambda, cst.Call)):
            name = self.changing(first)
            if name:
                return f"the function is compiled once and would keep the first value of {name}"
        if kind == "vmap" and self.dots(first):
            return "MindSpore maps the `dot` of vectors as a product of matrices"
        return ""

    def dots(self, node: cst.BaseExpression) -> bool:
        """The function calls `dot` of what it is not seen to be a tensor, and keeps the method."""
        calls = (p.func for _, p in self.parts(node, frozenset()) if isinstance(p, cst.Call))
        named = (f for f in calls if isinstance(f, cst.Attribute) and f.attr.value == "dot")
        return any(self.module.value(f.value).kind == "unknown" for f in named)

    def fails_mapped(self, node: cst.BaseExpression) -> bool:
        """The function indexes, or multiplies vectors with matrices, where MindSpore's Jacobians fail."""
        subscripts = any(isinstance(part, cst.Subscript) for _, part in self.parts(node, frozenset()))
        return subscripts or self.multiplies_vectors(node)

    def carried(self, node: cst.BaseExpression) -> str:
        """A tensor with a graph of its own that the function reads from around it."""
        info = self.resolve(node)
        if info is None:
            return ""
        free = {root(u) for s in info.scope.body.walk() for u in s.uses} - info.scope.locals
        for name in sorted(free):
            owner = self.owner(name, info.scope)
            for stmt in owner.body.walk() if owner is not None else ():
                value = stmt.out.get(name) if name in stmt.defs else None
                if value is not None and value.kind in ("tensor", "unknown", "list") and value.deps and not value.leaf:
                    return name
        return ""

    def resolve(self, node: cst.BaseExpression) -> FunctionInfo | None:
        value = self.module.value(node)
        if isinstance(node, cst.Name):
            for scope in self.module.scope.walk():
                if scope.is_function and scope.name == node.value and scope.cls is None:
                    return self.module.functions[id(scope)]
        if value.kind == "function" and value.name:
            found = self.project.find(value.name, self.module)
            return found if isinstance(found, FunctionInfo) else None
        if isinstance(node, cst.Attribute) and dotted(node.value) == "self":
            for cls in self.module.classes.values():
                if node.attr.value in cls.methods:
                    return cls.methods[node.attr.value]
        return None

    def of_object(self, node: cst.BaseExpression) -> FunctionInfo | None:
        """The method that is named behind an object, or the forward of a network."""
        value = self.module.value(node)
        if value.kind == "module":
            cls = class_of(value, self.module, self.project)
            return cls.method("forward") if cls is not None else None
        held = self.module.value(node.value) if isinstance(node, cst.Attribute) else UNKNOWN
        cls = class_of(held, self.module, self.project) if held.kind in ("object", "module") else None
        return cls.method(node.attr.value) if cls is not None and isinstance(node, cst.Attribute) else None

    def parts(self, node: cst.BaseExpression, seen: frozenset[int]) -> Iterator[tuple[ModuleInfo, cst.CSTNode]]:
        """Everything a function may run, as far as it is seen."""
        if isinstance(node, cst.Lambda):
            body: cst.CSTNode = node.body
        elif isinstance(node, cst.Call):
            body = node
        else:
            info = self.resolve(node) or self.of_object(node)
            if info is None or id(info) in seen:
                return
            body, seen = info.scope.node, seen | {id(info)}
        for part in descend(body):
            yield self.module, part
            if type(part) is cst.Call and part is not body:
                yield from self.parts(part.func, seen) if not isinstance(part.func, cst.Call) else ()
                for arg in part.args:
                    if isinstance(arg.value, (cst.Name, cst.Attribute)) and transform(
                        self.module.value(part.func).name
                    ):
                        yield from self.parts(arg.value, seen)
        if isinstance(node, cst.Call):
            for arg in node.args:
                if isinstance(arg.value, (cst.Name, cst.Attribute)):
                    yield from self.parts(arg.value, seen)

    def differentiates(self, node: cst.BaseExpression, seen: frozenset[int]) -> bool:
        """The function takes gradients itself."""
        for module, part in self.parts(node, seen):
            if type(part) is cst.Call:
                name = module.value(part.func).name
                if transform(name) in PLAIN or name == "torch.autograd.grad":
                    return True
        return False

    def multiplies(self, node: cst.BaseExpression, seen: frozenset[int]) -> bool:
        """The function may multiply matrices."""
        for module, part in self.parts(node, seen):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
                return True
            if isinstance(part, cst.Call):
                target = module.value(part.func)
                last = part.func.attr.value if isinstance(part.func, cst.Attribute) else dotted(part.func)
                if (
                    last in PRODUCTS
                    or last.startswith("conv")
                    or target.kind in ("module", "unknown")
                    and not isinstance(part.func, (cst.Call, cst.Attribute))
                ):
                    return True
        return False

    def multiplies_vectors(self, node: cst.BaseExpression) -> bool:
        """The function has products whose right side may be a vector, or nothing is known of it."""
        if self.unseen(node):
            return True
        for module, part in self.parts(node, frozenset()):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
                transposed = isinstance(part.right, cst.Attribute) and part.right.attr.value in ("T", "mT")
                if not transposed and (module.value(part.right).rank or 0) < 2:
                    return True
            if isinstance(part, cst.Call):
                last = part.func.attr.value if isinstance(part.func, cst.Attribute) else dotted(part.func)
                if last == "matmul":
                    return True
        return False

    def unseen(self, node: cst.BaseExpression) -> bool:
        """Nothing is known of the function."""
        unknown = self.module.value(node).kind == "unknown" and not isinstance(node, (cst.Lambda, cst.Call))
        return unknown and self.resolve(node) is None and self.of_object(node) is None

    def vector_on_the_right(self, node: cst.BaseExpression, call: cst.Call) -> bool:
        """The function multiplies something with a parameter that gets a vector in this call."""
        info = self.resolve(node)
        if info is None:
            return False
        given = zip(info.scope.params, call.args, strict=False)
        vectors = {p for p, a in given if a.keyword is None and self.vector(a.value)}
        for part in descend(info.scope.node):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
                if dotted(part.right) in vectors:
                    return True
        return False

    def vector(self, node: cst.BaseExpression) -> bool:
        """The name was bound to `torch.randn(n)` or its like."""
        stmts = [s for scope in self.module.scope.walk() for s in scope.body.walk()]
        for target, value in (pair for stmt in stmts for pair in assigned(stmt.node)):
            if not isinstance(node, cst.Name) or dotted(target) != node.value or not isinstance(value, cst.Call):
                continue
            sizes = [a.value for a in value.args if a.keyword is None]
            made = self.module.value(value.func).name.rpartition(".")[2]
            if made in ("randn", "rand", "zeros", "ones") and len(sizes) == 1 and isinstance(sizes[0], cst.Integer):
                return True
        return False

    def changing(self, node: cst.BaseExpression) -> str:
        """A value the function reads from outside that does not stay the same."""
        info = self.resolve(node)
        if info is None:
            return ""
        if info.cls is not None:
            for place in sorted({u for s in info.scope.body.walk() for u in s.uses if u.startswith("self.")}):
                held = info.cls.attr(place.split(".")[1])
                if held is not None and held.kind not in STEADY:
                    return place
            return ""
        free = {root(u) for s in info.scope.body.walk() for u in s.uses} - info.scope.locals
        for name in sorted(free):
            owner = self.owner(name, info.scope)
            if owner is not None and self.rebound(name, owner, info.scope):
                return name
        return ""

    def owner(self, name: str, scope: Scope) -> Scope | None:
        outer = scope.parent
        while outer is not None and name not in outer.locals:
            outer = outer.parent
        return outer

    def rebound(self, name: str, owner: Scope, function: Scope) -> bool:
        """The name gets values at several times, and the function lives on meanwhile."""
        home = next((s for s in owner.body.walk() if s.node is function.node), None)
        around = set(home.ancestors()) if home is not None else set()
        times = 0
        for stmt in owner.body.walk():
            if name in stmt.defs and not isinstance(
                stmt.node, (cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom)
            ):
                if stmt.out.get(name) is not None and stmt.out[name].kind in STEADY:
                    continue
                times += 1
                if any(a.is_loop and a not in around for a in [*stmt.ancestors(), *([stmt] if stmt.is_loop else [])]):
                    return True
        return times > 1 or (times == 1 and name in owner.params)


def function_at(call: cst.Call) -> int:
    """Which argument is the function: the first one, or that of this keyword."""
    named = (i for i, arg in enumerate(call.args) if arg.keyword is not None and arg.keyword.value == "func")
    return next(named, 0)


def at_position(original: cst.Call, updated: cst.Call, module: ModuleInfo) -> cst.BaseExpression | None:
    """`jacobian(lambda x: f(w, x), at)` is `jacrev(f, 1)(w, at)`."""
    if len(original.args) != 2 or any(a.keyword is not None or a.star for a in original.args):
        return None
    function, translated = original.args[0].value, updated.args[0].value
    if (
        not isinstance(function, cst.Lambda)
        or not isinstance(translated, cst.Lambda)
        or len(function.params.params) != 1
    ):
        return None
    call, made = function.body, translated.body
    if not isinstance(call, cst.Call) or not isinstance(made, cst.Call) or module.value(call.func).kind != "function":
        return None
    name = function.params.params[0].name.value
    places = [i for i, a in enumerate(call.args) if isinstance(a.value, cst.Name) and a.value.value == name]
    used = sum(isinstance(n, cst.Name) and n.value == name for n in descend(call))
    if (
        len(places) != 1
        or used != 1
        or any(a.keyword is not None or a.star for a in call.args)
        or isinstance(original.args[1].value, cst.Tuple)
    ):
        return None
    args = [code(a.value) for a in made.args]
    args[places[0]] = code(updated.args[1].value)
    position = f", {places[0]}" if places[0] else ""
    return cst.parse_expression(f"ms.jacrev({code(made.func)}{position})({', '.join(args)})")


class Naming(cst.CSTTransformer):
    """Takes the lambdas out of an expression: each becomes a definition above the statement."""

    def __init__(self, taken: set[str], target: list[str]) -> None:
        super().__init__()
        self.taken = taken
        self.made = target

    def leave_Lambda(self, original: cst.Lambda, updated: cst.Lambda) -> cst.BaseExpression:
        name, number = "fn", 1
        while name in self.taken:
            number += 1
            name = f"fn_{number}"
        self.taken.add(name)
        body = code(updated.body)
        body = f"({body})" if "\n" in body and not updated.body.lpar else body
        self.made.append(f"def {name}({code(updated.params).strip()}):\n    return {body}")
        return cst.Name(name)
