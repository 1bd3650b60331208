"""`if isinstance(updater, torch.optim.Optimizer): ... else: ...`, of which one branch never runs in the project.

Books train with optimizers of torch and with functions of their own through one function that asks what it was given.
Where every caller gives the same, the other branch goes: what it does to gradients would have to be understood together
with what runs. So does `if grad.is_sparse: raise ...` of an optimizer in a project without sparse gradients.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.gradients.there import always_given

ASKED = {"torch.optim.Optimizer": "optimizer", "torch.optim.optimizer.Optimizer": "optimizer",
         "torch.nn.Module": "module", "torch.nn.modules.module.Module": "module", "torch.Tensor": "tensor"}  # fmt: skip
TAPE = (".backward(", ".grad", ".zero_grad(")
ZEROS = re.compile(r"\.grad is None\s*:\s*(?:#[^\n]*)?\s*\w+\.grad = torch\.zeros_like\(")
ASKED_SPARSE = re.compile(r"\.is_sparse\s*:")
SPARSE = re.compile(r"\bsparse\s*=\s*(?!False)|\bto_sparse|\bsparse_(?:coo|csr)_tensor|\btorch\.sparse\b")
ANY = "*"  # the place of an argument behind a starred one
GIVEN = "every caller of the project gives the same: the other branch goes"
FILLED = "MindSpore's gradient of what takes no part is zero already"
DENSE = "no layer of the project has sparse gradients, nor has any in MindSpore: the branch goes"


def decided(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that ask so around gradients, by name."""
    plain: dict[str, Plain] = {}
    unsure: set[tuple[str, int | str]] | None = None
    for module in project.modules.values():
        if module.uses_mindspore or not _mentions(module):
            continue
        if unsure is None:
            unsure = {n for m in project.modules.values() for n in _perhaps_none(m)}
        writer = Decided(module, unsure, project)
        if not writer.answers():
            continue
        made = writer.plain()
        if writer.findings:
            plain[module.name] = made
    return plain


def _mentions(module: ModuleInfo) -> bool:
    """Something in it may be asked so, bodies of functions of other files included."""
    words = ("isinstance", ".is_sparse", *TAPE)
    if any(module.has(word) for word in words):
        return True
    text = code(module.tree) if module.plain is not None else ""
    return any(word in text for word in words)


def _perhaps_none(module: ModuleInfo) -> set[tuple[str, int | str]]:
    """Names of functions that somebody calls with None, with the place or the name of the parameter."""
    calls = [c for scope in module.scope.walk() for stmt in scope.body.walk() for c in stmt.calls]
    given = [(c, i, a) for c in calls for i, a in enumerate(c.args) if a.value.__class__ is cst.Name]
    nothing = [(c, i, a) for c, i, a in given if a.value.value == "None"]  # type: ignore[attr-defined]
    starred = {id(c) for c, _, _ in nothing if any(a.star for a in c.args)}
    places = [(c, a.keyword.value if a.keyword else ANY if id(c) in starred else i) for c, i, a in nothing]
    return {(dotted(c.func).rpartition(".")[2], place) for c, place in places}


class Decided(Suites):
    """One module, with the branches that run."""

    def __init__(self, module: ModuleInfo, unsure: set[tuple[str, int | str]], project: Project) -> None:
        super().__init__(module)
        self.there: set[int] = set()  # tests for None of what every caller gives an object
        self.dense = module.says(ASKED_SPARSE) and not project.says(SPARSE)
        asking = [(scope, s) for scope in module.scope.walk() for s in scope.body.walk() if _asks(s)]
        self.given = {id(s.node): _given(scope, s) - _unsure(scope, unsure) | _bound_above(s) for scope, s in asking}
        self.around = {id(stmt.node): scope.node for scope, stmt in asking if scope.is_function}
        self.tests = {id(stmt.node): stmt.node.test for _, stmt in asking if isinstance(stmt.node, cst.If)}
        tape = module.plain is not None or any(module.has(word) for word in TAPE)
        for scope in module.scope.walk() if tape else ():
            for stmt in scope.body.walk() if scope.is_function and scope.name != "__init__" else ():
                name = _none_asked(stmt.node)
                if not name or not any(word in code(stmt.node) for word in TAPE):
                    continue
                if self.always_there(stmt.node.test.left, name, scope, project):  # type: ignore[union-attr]
                    assert isinstance(stmt.node, cst.If)
                    self.there.add(id(stmt.node.test))
                    self.tests[id(stmt.node)] = stmt.node.test
                    self.given.setdefault(id(stmt.node), set())

    def always_there(self, asked: cst.BaseExpression, name: str, scope: Scope, project: Project) -> bool:
        """Every caller gives an object for the parameter that is asked for, or for the attribute that keeps one."""
        if isinstance(asked, cst.Attribute):
            return _always_kept(asked.attr.value, self.module.value(asked.value), self.module, project)
        kept = name in scope.params and not any(name in s.defs for s in scope.body.walk())
        return kept and always_given(name, scope, project, scope.name)

    def answers(self) -> bool:
        """Whether any condition is known."""
        known = any(self.answer(self.tests[name], given) is not None for name, given in self.given.items())
        return known or self.module.says(ZEROS)

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if type(original) is not cst.If or type(updated) is not cst.If:
            return super().compound(original, updated)
        if _fills_zeros(original):
            self.findings.append(Finding("T2M535", Tier.EXACT, code(original.test), FILLED, line=self.line))
            said = [line for line in layout.inner_comments(updated.body) if line.comment is not None]
            return [], (*layout.comments_only(updated.leading_lines), *said)
        answer = self.answer(original.test, self.given.get(id(original), set()))
        around = self.around.get(id(original), original) if "Tensor" in code(original.test) else original
        dense = answer is not None and _sparse(original.test)
        apart = not dense and not any(word in code(around) for word in TAPE)
        if answer is None or apart or isinstance(original.orelse, cst.If):
            return super().compound(original, updated)
        why = DENSE if dense else GIVEN
        gone = original.orelse if answer else original.body
        lines = {self.line, *(self.numbers[id(node)][0] for node in on_tape(gone))}
        self.findings += [Finding("T2M535", Tier.ASSUMED, code(original.test), why, line=n) for n in sorted(lines)]
        other = updated.orelse if answer else updated.body
        said = [line for line in layout.inner_comments(other) if line.comment is not None] if other is not None else []
        if not answer and updated.orelse is None:
            return [], (*layout.comments_only(updated.leading_lines), *said)
        if not answer:
            assert isinstance(updated.orelse, cst.Else)
            updated = updated.with_changes(body=updated.orelse.body, orelse=None)
        made, waiting = self.opened(updated)
        return made, (*waiting, *said)

    def answer(self, test: cst.BaseExpression, given: set[str]) -> bool | None:
        """What the condition is in the whole project; None where that is not seen."""
        if _sparse(test):
            return False if self.dense else None
        if id(test) in self.there:
            assert isinstance(test, cst.Comparison)
            return isinstance(test.comparisons[0].operator, cst.IsNot)
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.answer(test.expression, given)
            return None if inner is None else not inner
        return of_kind(test, given, self.module)


def _asks(stmt: Stmt) -> bool:
    if type(stmt.node) is not cst.If:
        return False
    return any(dotted(call.func) == "isinstance" for call in stmt.calls) or _sparse(stmt.node.test)


def _fills_zeros(node: cst.If) -> bool:
    """`if p.grad is None: p.grad = torch.zeros_like(p)`."""
    test = node.test
    asked = dotted(test.left) if _none_asked(node) and isinstance(test.comparisons[0].operator, cst.Is) else ""  # type: ignore[attr-defined]
    lines = node.body.body if node.orelse is None else []
    small = lines[0].body if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) else lines
    made = small[0] if len(small) == 1 and isinstance(small[0], cst.Assign) else None
    if not asked.endswith(".grad") or made is None or [dotted(t.target) for t in made.targets] != [asked]:
        return False
    param = asked.removesuffix(".grad")
    return code(made.value) in (f"torch.zeros_like({param})", f"torch.zeros_like({param}.data)")


def _sparse(test: cst.BaseExpression) -> bool:
    """`grad.is_sparse`."""
    return type(test) is cst.Attribute and test.attr.value == "is_sparse"


def _none_asked(node: cst.CSTNode) -> str:
    """The name that a condition compares with None, "" for other conditions."""
    test = node.test if type(node) is cst.If else None
    if type(test) is not cst.Comparison or len(test.comparisons) != 1:
        return ""
    asked = test.comparisons[0]
    plain = isinstance(asked.operator, (cst.Is, cst.IsNot)) and dotted(asked.comparator) == "None"
    return dotted(test.left) if plain else ""


def _always_kept(attr: str, holder: Value, module: ModuleInfo, project: Project) -> bool:
    """Objects of the class keep in the attribute what they were made with, and nobody makes one without."""
    cls = project.find(holder.name, module) if holder.kind == "object" and holder.name else None
    init = cls.methods.get("__init__") if isinstance(cls, ClassInfo) else None
    if init is None or init.cls is None or len(init.cls.lineage()) > 1 or init.cls.below():
        return False
    writes = [
        (scope, stmt) for m in project.modules.values() for scope in m.scope.walk() for stmt in scope.body.walk()
        if any(d.rpartition(".")[2] == attr and "." in d for d in stmt.defs)
    ]  # fmt: skip
    hidden = any(m.has("setattr(") for m in project.modules.values())
    if len(writes) != 1 or writes[0][0] is not init.scope or hidden:
        return False
    node = writes[0][1].node
    given = node.value.value if isinstance(node, cst.Assign) and isinstance(node.value, cst.Name) else ""
    bound = any(given in s.defs for s in init.scope.body.walk())
    if writes[0][1].block is not init.scope.body or given not in init.scope.params or bound:
        return False
    return always_given(given, init.scope, project, init.cls.qualified.rpartition(".")[2])


def _given(scope: Scope, test: Stmt) -> set[str]:
    """The parameters of a function that every call has to give, and that have what they were given at a test."""
    node = scope.node
    params = [*node.params.posonly_params, *node.params.params] if isinstance(node, cst.FunctionDef) else []
    first = test.number if test.block is scope.body else None
    bound = {d for stmt in scope.body.walk() if first is None or stmt.number < first for d in stmt.defs}
    return {p.name.value for p in params if p.default is None} - bound


def _unsure(scope: Scope, unsure: set[tuple[str, int | str]]) -> set[str]:
    """The parameters of a function for which somebody may give None."""
    if (scope.name, ANY) in unsure:
        return set(scope.params)
    found = {n for n in scope.params if (scope.name, n) in unsure}
    for i, name in enumerate(scope.params):
        own = {(scope.name, i), (scope.name, i - 1)} if scope.params[0] in ("self", "cls") else {(scope.name, i)}
        found |= {name} if own & unsure else set()
    return found


def _bound_above(test: Stmt) -> set[str]:
    """Names that a statement binds before the test, whatever happens: `parameters = net.parameters()`."""
    found: set[str] = set()
    for stmt in test.block.stmts[: test.block.stmts.index(test)]:
        found -= {d for s in stmt.walk() for d in s.defs}
        found |= stmt.defs if isinstance(stmt.node, cst.Assign) else set()
    return found


def of_kind(test: cst.BaseExpression, given: set[str], module: ModuleInfo) -> bool | None:
    """Whether what `isinstance` asks for is an optimizer, or a module; None where both may be, or it asks for else."""
    if not isinstance(test, cst.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    wanted = ASKED.get(module.value(test.args[1].value).name)
    value = module.value(test.args[0].value)
    if wanted is None or value.likely or dotted(test.args[0].value) not in given:
        return None
    if value.kind == wanted:
        return True
    return False if value.kind in ("optimizer", "module", "function", "object", "tensor", "params") else None


def on_tape(branch: cst.BaseSuite | cst.If | cst.Else | None) -> list[cst.CSTNode]:
    """The statements of a branch that have to do with gradients."""
    suite = branch.body if isinstance(branch, (cst.If, cst.Else)) else branch
    return [n for n in flow.in_order(suite.body) if _touches_tape(n)] if suite is not None else []


def _touches_tape(node: cst.CSTNode) -> bool:
    names = (n.attr.value for n in descend(node) if isinstance(n, cst.Attribute))
    return any(name in ("grad", "backward", "zero_grad", "step") for name in names)
