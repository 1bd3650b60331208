"""`torch.set_default_dtype(torch.float64)`, written as the element type of what is made after it."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.api.rules import Rules
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier

SETTERS = {"torch.set_default_dtype", "torch.set_default_tensor_type"}
ASKED = "torch.get_default_dtype"
TYPES = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16"}
NAMES = {"float": "float32", "double": "float64", "half": "float16"}
FLOAT = "float32"
MADE = {f"torch.{name}" for name in (
    "zeros", "ones", "empty", "rand", "randn", "eye", "linspace", "logspace", "full", "arange", "tensor", "as_tensor",
    "scalar_tensor", "hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"
)}  # fmt: skip
OWN = re.compile(r"torch\.(?:Tensor|normal|complex|from_file|range)")  # of the default type, in another way
CONVERTING = {"float", "double", "half", "bfloat16", "to", "type", "type_as"}  # which name the type themselves
WHOLE = ("int", "uint", "bool")
WHY = "written as the element type of what is made after it"


def defaults(project: Project) -> dict[str, Plain]:
    """What becomes of a module that sets the default type, where it is the only one of its project, and of modules
    that set the type which is the default anyway."""
    setting = [m for m in project.modules.values() if not m.uses_mindspore and m.has("set_default_")]
    writers = [Defaults(module) for module in setting]
    if len(project.modules) > 1 and any(set(w.settings.values()) - {FLOAT} for w in writers):
        return {}
    if not all(w.certain() for w in writers):
        return {}
    return {w.module.name: w.plain() for w in writers if w.settings}


class Defaults(Suites):
    """One module, with types where tensors and layers are made."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        every = [s for scope in module.scope.walk() for s in scope.body.walk()]
        anywhere = {id(s.node): dtype for s in every if (dtype := self.set_to(s.node))}
        here = {id(s.node) for s in module.scope.body.stmts}
        plain = set(anywhere.values()) == {FLOAT}  # wherever they stand, they change nothing
        self.settings = {place: dtype for place, dtype in anywhere.items() if plain or place in here}
        self.now = FLOAT
        self.inside = next(iter(self.settings.values()), FLOAT)  # functions run after the only setting
        self.depth = 0

    def set_to(self, node: cst.CSTNode) -> str:
        """The type that a statement makes the default, "" where it does not say."""
        call = node.value if isinstance(node, cst.Expr) else None
        if not isinstance(call, cst.Call) or self.module.value(call.func).name not in SETTERS or len(call.args) != 1:
            return ""
        given = call.args[0].value
        text = constant(given)
        name = (text if isinstance(text, str) else dotted(given)).rpartition(".")[2]
        name = TYPES.get(name, NAMES.get(name, name))
        return name if name in TYPES.values() else ""

    def certain(self) -> bool:
        """Every setting is a statement of the module itself, and every tensor that it is for has a place for it."""
        stmts = [s for scope in self.module.scope.walk() for s in scope.body.walk()]
        calls = [c for s in stmts for c in s.calls]
        setting = [c for c in calls if self.module.value(c.func).name in SETTERS]
        kinds = set(self.settings.values())
        if len(setting) != len(self.settings):
            return False
        if kinds == {FLOAT}:
            return True
        inner = [c for scope in self.module.scope.children for s in scope.body.walk() for c in s.calls]
        if inner and (len(kinds) > 1 or id(self.module.scope.body.stmts[self.first()].node) not in self.settings):
            return False
        return all(self.known(c) for c in calls)

    def first(self) -> int:
        """The first statement that is no import, no text and no definition."""
        for place, stmt in enumerate(self.module.scope.body.stmts):
            text = isinstance(stmt.node, cst.Expr) and isinstance(constant(stmt.node.value), str)
            if not text and not isinstance(stmt.node, (cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef)):
                return place
        return 0

    def known(self, call: cst.Call) -> bool:
        name = self.module.value(call.func).name
        if OWN.fullmatch(name) or name == "torch.nn.Parameter" and not call.args:
            return False
        if any(arg.star for arg in call.args) and (name in MADE or self.layer(name)):
            return False
        return name not in MADE or typed(call) or bool(self.module.value(call).dtype)

    def layer(self, name: str) -> bool:
        """A layer of torch with an element type of its own."""
        rule = Rules.load().find(name) if name.startswith("torch.nn.") and "functional" not in name else None
        return rule is not None and any(p.name == "dtype" for form in rule.forms for p in form.signature.params)

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.settings:
            return super().small(node)
        self.now = self.settings[id(node)]
        self.findings.append(Finding("T2M601", Tier.EXACT, "torch.set_default_dtype", WHY, line=self.line))
        return []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.depth += 1

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        self.depth -= 1
        return updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        called = self.module.value(original.func)
        name = called.name
        now = self.inside if self.depth else self.now
        if name == ASKED:
            return cst.parse_expression(f"torch.{now}")
        made = self.module.value(original).dtype if name in MADE else ""
        floating = made == FLOAT
        if made == "complex64" and now == "float64":
            floating, now = True, "complex128"
        if now == FLOAT or typed(original):
            return updated
        if not (floating or called.kind == "api" and self.layer(name)):
            return self.of_whole_numbers(original, updated, now)
        dtype = cst.Arg(cst.parse_expression(f"torch.{now}"), cst.Name("dtype"), equal=_TIGHT)
        args = [*updated.args]
        if args:
            args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        return updated.with_changes(args=[*args, dtype])

    def leave_BinaryOperation(self, original: cst.BinaryOperation, updated: cst.BinaryOperation) -> cst.BaseExpression:
        """`counts / 2`, `0.5 * mask`: what whole numbers come to is of the default type."""
        now = self.inside if self.depth else self.now
        if now == FLOAT or not self.comes_to_float(original, [original.left, original.right]):
            return updated
        if self.module.value(original.left).kind == "tensor":
            return updated.with_changes(left=converted(updated.left, now))
        return updated.with_changes(right=converted(updated.right, now))

    def of_whole_numbers(self, original: cst.Call, updated: cst.Call, now: str) -> cst.BaseExpression:
        """`torch.sin(k)`, `k.sqrt()`, `torch.where(mask, 1.0, 0.0)`: the same of functions and methods."""
        called, func = self.module.value(original.func), original.func
        if called.kind == "api" and (called.name == "torch.where" or called.name.startswith("torch.distributions.")):
            return self.of_numbers(called.name, original, updated, now)
        name = called.name.rpartition(".")[2] if called.kind == "api" else ""
        given = [a.value for a in original.args]
        if not name and isinstance(func, cst.Attribute):
            name = func.attr.value
            given.append(func.value)
        if not name or name in CONVERTING or not self.comes_to_float(original, given):
            return updated
        if called.kind != "api":
            assert isinstance(updated.func, cst.Attribute)
            return updated.with_changes(func=updated.func.with_changes(value=converted(updated.func.value, now)))
        place = next(i for i, a in enumerate(given) if self.module.value(a).kind == "tensor")
        changed = updated.args[place].with_changes(value=converted(updated.args[place].value, now))
        return updated.with_changes(args=[*updated.args[:place], changed, *updated.args[place + 1 :]])

    def of_numbers(self, name: str, original: cst.Call, updated: cst.Call, now: str) -> cst.BaseExpression:
        """Numbers of Python that become tensors of the default type, beside none that says another."""
        chosen = name == "torch.where"
        values = [self.module.value(a.value) for a in original.args]
        among = values[1:] if chosen else values
        tensors = [v for v in among if v.kind != "float" and v.kind != "int"]
        whole = all(v.kind == "tensor" and v.dtype.startswith(WHOLE) for v in tensors)
        if any(a.star for a in original.args) or not whole or all(v.kind != "float" for v in among):
            return updated
        args = [
            arg.with_changes(value=cst.parse_expression(f"torch.tensor({code(arg.value)}, dtype=torch.{now})"))
            if value.kind == "float" and not (chosen and i == 0) else arg
            for i, (arg, value) in enumerate(zip(updated.args, values, strict=True))
        ]  # fmt: skip
        return updated.with_changes(args=args)

    def comes_to_float(self, node: cst.BaseExpression, parts: list[cst.BaseExpression]) -> bool:
        """The expression is of the type that was the default, and no tensor among its parts is."""
        value = self.module.value(node)
        if value.kind != "tensor" or value.dtype != FLOAT:
            return False
        tensors = [v for v in map(self.module.value, parts) if v.kind not in ("int", "float", "bool", "str", "none")]
        whole = all(v.kind == "tensor" and v.dtype.startswith(WHOLE) for v in tensors)
        return whole and bool(tensors)


def converted(node: cst.BaseExpression, dtype: str) -> cst.BaseExpression:
    made = cst.Attribute(parenthesised(node), cst.Name("to"))
    return cst.Call(made, [cst.Arg(cst.parse_expression(f"torch.{dtype}"))])


def typed(call: cst.Call) -> bool:
    """The call names a type itself."""
    return any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in call.args)


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
