"""What clipping is given, and the norm that it returns, written so that one statement holds each.

`clip_grad_norm_` passes over parameters without gradients: `[p for p in params if p.grad is not None]` in front of it
asks what it asks itself. A norm that is returned gets a name first.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
NAMES = ("total_norm", "grad_norm", "clipped_norm")


@each_module
def clipped(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that clips in such a way."""
    if not module.has("clip_grad_") or module.directives.off:
        return None
    writer = _Clipping(module, project)
    for scope in module.scope.walk():
        writer.read(scope)
    return writer.plain() if writer.whole_lists or writer.returned else None


class _Clipping(Suites):
    """One module: by id of a node, what takes the place of a list, and the name of a norm that is returned."""

    def __init__(self, module: ModuleInfo, project: Project) -> None:
        super().__init__(module)
        self.project = project
        self.whole_lists: dict[int, cst.BaseExpression] = {}
        self.returned: dict[int, tuple[cst.Call, str]] = {}

    def read(self, scope: Scope) -> None:
        calls = [(s, c) for s in scope.body.walk() for c in s.calls if c.args and self.clips(c)]
        for stmt, call in calls:
            given = call.args[0].value
            if (whole := _with_gradients(given)) is not None:
                self.whole_lists[id(given)] = whole
            elif isinstance(given, cst.Name) and (made := _made(given.value, scope, [c for _, c in calls])) is not None:
                whole = _with_gradients(made)
                assert whole is not None
                self.whole_lists[id(made)] = cst.parse_expression(f"list({code(whole)})")
            self.name(stmt, call, scope)
        for stmt in scope.body.walk():
            returned = stmt.node.value if type(stmt.node) is cst.Return else None
            if type(returned) is cst.Call:
                info = resolve(returned, scope, self.module, self.project)
                if info is not None and clips(info, self.project):
                    self.name(stmt, returned, scope)

    def name(self, stmt: Stmt, call: cst.Call, scope: Scope) -> None:
        """Name the norm that a statement returns."""
        if isinstance(stmt.node, cst.Return) and stmt.line is not None and len(stmt.line.body) == 1:
            if name := next((n for n in NAMES if n not in scope.locals), ""):
                self.returned[id(stmt.node)] = call, name

    def clips(self, call: cst.Call) -> bool:
        value = self.module.value(call.func)
        return value.kind == "api" and value.name in CLIPS

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.returned:
            return [self.rewrite(node)]
        call, name = self.returned[id(node)]
        made = cst.Assign([cst.AssignTarget(cst.Name(name))], self.rewrite(call))  # type: ignore[arg-type]
        return [made, node.deep_replace(call, cst.Name(name))]

    def leave_ListComp(self, original: cst.ListComp, updated: cst.ListComp) -> cst.BaseExpression:
        return self.whole_lists.get(id(original), updated)

    def leave_GeneratorExp(self, original: cst.GeneratorExp, updated: cst.GeneratorExp) -> cst.BaseExpression:
        return self.whole_lists.get(id(original), updated)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return self.whole_lists.get(id(original), updated)


def clips(info: FunctionInfo, project: Project, depth: int = 3) -> bool:
    """The function clips gradients, or calls one that does."""
    for stmt in info.scope.body.walk():
        for call in stmt.calls:
            value = info.module.value(call.func)
            if value.kind == "api" and value.name in CLIPS:
                return True
            inner = resolve(call, info.scope, info.module, project) if depth else None
            if inner is not None and inner is not info and clips(inner, project, depth - 1):
                return True
    return False


def _made(name: str, scope: Scope, clips: list[cst.Call]) -> cst.BaseExpression | None:
    """The list of parameters with gradients that a name is bound to, if only clipping uses it.

    The name may be that of the whole list before. Whether the list is empty may be asked behind a backward call.
    """
    bound: list[Stmt] = [s for s in scope.body.walk() if name in s.defs]
    made = bound[-1].node if bound else None
    if len(bound) > 2 or not isinstance(made, cst.Assign) or dotted(made.targets[0].target) != name:
        return None
    whole = _with_gradients(made.value)
    if whole is None or len(bound) == 2 and dotted(whole) != name:
        return None
    uses = sum(type(n) is cst.Name and n.value == name for n in descend(scope.node))
    given = sum(dotted(c.args[0].value) == name for c in clips) + len(bound) + (dotted(whole) == name)
    if _follows_backward(bound[-1]):
        given += sum(type(s.node) is cst.If and _not_empty(s.node.test, name) for s in scope.body.walk())
    return made.value if uses == given else None


def _not_empty(test: cst.BaseExpression, name: str) -> bool:
    """`params`, `len(params) > 0` and their kin."""
    left = test.left if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
    if isinstance(left, cst.Call) and dotted(left.func) == "len" and len(left.args) == 1:
        how = test.comparisons[0]  # type: ignore[attr-defined]
        asked = isinstance(how.operator, (cst.GreaterThan, cst.NotEqual)) and constant(how.comparator) == 0
        return asked and dotted(left.args[0].value) == name
    return dotted(test) == name


def _follows_backward(stmt: Stmt) -> bool:
    """A backward call stands before the statement, whatever way leads to it."""
    for each in (stmt, *stmt.ancestors()):
        for before in each.block.stmts:
            if before is each:
                break
            if any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "backward" for c in before.calls):
                return True
    return False


def _with_gradients(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What `[p for p in params if p.grad is not None]` chooses from."""
    if isinstance(node, cst.Call) and dotted(node.func) == "list" and len(node.args) == 1:
        return _with_gradients(node.args[0].value)
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        clause = node.for_in
        name = dotted(clause.target)
        plain = clause.inner_for_in is None and len(clause.ifs) == 1 and name and dotted(node.elt) == name
        return clause.iter if plain and _has_gradient(clause.ifs[0].test, name) else None
    if isinstance(node, cst.Call) and dotted(node.func) == "filter" and len(node.args) == 2:
        asked = node.args[0].value
        if isinstance(asked, cst.Lambda) and len(asked.params.params) == 1:
            return node.args[1].value if _has_gradient(asked.body, asked.params.params[0].name.value) else None
    return None


def _has_gradient(test: cst.BaseExpression, name: str) -> bool:
    """`p.grad is not None`, and `p.requires_grad and p.grad is not None`."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return dotted(test.left) == f"{name}.requires_grad" and _has_gradient(test.right, name)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or dotted(test.left) != f"{name}.grad":
        return False
    one = test.comparisons[0]
    return isinstance(one.operator, cst.IsNot) and dotted(one.comparator) == "None"
