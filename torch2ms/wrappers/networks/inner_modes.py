"""`def train(self, mode=True)` of a layer that others hold: a frozen normalisation, weights that are merged for tests.

torch's networks call the `train` of every layer inside. MindSpore's `set_train` reaches cells inside by their
`add_flags_recursive`, which is then the method that the layer overrides.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.classes import ClassInfo
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

MENTIONS = re.compile(r"\bdef train\(self, *\w+(?: *: *bool)?(?: *= *True)?\)")
FLAGS = "add_flags_recursive"
PUTS = ("setattr", "append", "insert", "add_module", "register_module")
WHY = f"{FLAGS}: by this, set_train of the networks around reaches it"


@each_module
def told_inside(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such layers."""
    if module.directives.off or not module.says(MENTIONS):
        return None
    found = [m for c in module.classes.values() if (m := _own_mode(c)) is not None and _held(c, project)]
    return _Writer(module, found).plain() if found else None


def _own_mode(cls: ClassInfo) -> FunctionInfo | None:
    """The method of a layer that sets its mode, and calls the one above."""
    info = cls.methods.get("train")
    node = info.scope.node if info is not None else None
    if cls.kind != "module" or info is None or not isinstance(node, cst.FunctionDef) or node.decorators:
        return None
    if any("train" in c.methods and _own_mode(c) is None for c in cls.lineage()[1:]):
        return None
    params = node.params
    plain = not (params.kwonly_params or params.posonly_params or params.star_kwarg) and len(params.params) == 2
    return info if plain and isinstance(node.body, cst.IndentedBlock) and any(map(_above, descend(node))) else None


def _above(node: cst.CSTNode) -> bool:
    """`super().train(mode)`, `nn.Linear.train(self, mode)`"""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "train":
        return False
    given = node.func.value
    if isinstance(given, cst.Call) and dotted(given.func) == "super":
        return len(node.args) == 1
    return len(node.args) == 2 and dotted(node.args[0].value) == "self"


def _held(cls: ClassInfo, project: Project) -> bool:
    """Others may hold such a layer: not if all of them are networks that functions and scripts make and keep apart."""
    family = {c.qualified for c in (cls, *cls.below())}
    made = False
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                calls = [c for c in stmt.calls if module.value(c.func).name in family and _makes(c, module)]
                if not calls:
                    continue
                made = True
                value = stmt.node.value if isinstance(stmt.node, (cst.Assign, cst.AnnAssign)) else None
                alone = [value, *(e.value for e in value.elements)] if isinstance(value, cst.Tuple) else [value]
                if any(c not in alone for c in calls) or scope.cls is not None or _given(stmt.defs, module):
                    return any(map(_switches, project.modules.values()))
    return not made


def _switches(module: ModuleInfo) -> bool:
    """Modes are set somewhere: what a new network begins with is no matter then, for which no method is called."""
    for call in module.of_kind(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("train", "eval") and not _above(call):
            if len(call.args) <= 1 and module.value(call.func.value).kind in ("module", "unknown"):
                return True
    return False


def _makes(call: cst.Call, module: ModuleInfo) -> bool:
    return module.value(call.func).kind == "class"


def _given(names: set[str], module: ModuleInfo) -> bool:
    """A network is made around one of these, or gets it for one of its parts."""
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if isinstance(stmt.node, cst.Assign) and dotted(stmt.node.value) in names:
                if not all(isinstance(target.target, cst.Name) for target in stmt.node.targets):
                    return True  # `net.out = adapted`
            for call in stmt.calls:
                if name_called(call) in PUTS and any(dotted(a.value) in names for a in call.args):
                    return True
                value = module.value(call.func)
                layers = value.kind == "class" or value.name.startswith("torch.nn.") and value.name.count(".") == 2
                if layers and any(dotted(n) in names for a in call.args for n in descend(a.value)):
                    return True
    return False


class _Writer(Suites):
    """One module, with these methods under the name that MindSpore calls."""

    def __init__(self, module: ModuleInfo, found: list[FunctionInfo]) -> None:
        super().__init__(module)
        self.found = {id(info.scope.node) for info in found}
        self.above = {id(n) for info in found for n in descend(info.scope.node) if _above(n)}

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if id(original) not in self.above or not isinstance(updated.func, cst.Attribute):
            return updated
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        last = updated.args[-1].with_changes(keyword=cst.Name("training"), equal=tight)
        func = updated.func.with_changes(attr=cst.Name(FLAGS))
        return updated.with_changes(func=func, args=[*updated.args[:-1], last])

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        if id(original) not in self.found or not isinstance(updated.body, cst.IndentedBlock):
            return updated
        self.findings.append(Finding("T2M306", Tier.EXACT, "train of its own", WHY, line=self.line))
        mode = original.params.params[1].name.value
        head = [
            cst.parse_statement(f'if "training" not in flags:\n    return super().{FLAGS}(**flags)'),
            cst.parse_statement(f'{mode} = flags["training"]'),
        ]
        body = list(updated.body.body)
        said = _text(body[0]) if body else False
        body = [*body[:said], *head, *body[said:]]
        last = body[-1].body[-1] if isinstance(body[-1], cst.SimpleStatementLine) else None
        if not isinstance(last, cst.Return):
            body.append(cst.parse_statement("return self"))
        elif last.value is None:
            body[-1] = body[-1].with_changes(body=[last.with_changes(value=cst.Name("self"))])
        flags = cst.Param(cst.Name("flags"))
        params = cst.Parameters([cst.Param(cst.Name("self"))], star_kwarg=flags)
        made = updated.with_changes(name=cst.Name(FLAGS), params=params, returns=None,
                                    body=updated.body.with_changes(body=body))  # fmt: skip
        for stmt in body:
            self.number(stmt, original)
        return made


def _text(line: cst.BaseStatement) -> bool:
    """A docstring."""
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return is_docstring(node)
