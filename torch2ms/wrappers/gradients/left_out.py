"""`p.grad = None` for some of the parameters between backward and step, by name: prototypes in the first epochs.

torch's optimizers pass over these parameters in that step. They are told of it: `p.left_out = True`, which optimizers
that leave frozen parameters alone look at once (`torch2ms.tape.uses.skipping`).
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolved
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.clears import for_some, grads_of
from torch2ms.tape.ledger.pairs import paired
from torch2ms.tape.uses.skipping import FLAG
from torch2ms.wrappers.passes import each_module

MENTIONS = re.compile(r"\.grad *= *None")
OTHERS = re.compile(r"\.grad\b|clip_grad|\.backward\(|unscale_|zero_grad")
WHY = "the optimizer leaves the parameter alone in its next step, as torch's does without a gradient"
SCALED = "assumed: what is dropped is finite wherever the rest is, so that the scaler lets the same steps happen"


@each_module
def left_out(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that drops gradients so."""
    if not module.says(MENTIONS):
        return None
    found: dict[int, str] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if type(stmt.node) is cst.For and (drops := _drops(stmt, module)) and _steps(stmt, scope, module, project):
                found |= drops
    return _Writer(module, found).plain() if found else None


def _drops(loop: Stmt, module: ModuleInfo) -> dict[int, str]:
    """The statements of a loop over parameters that drop the gradients of some, and do nothing else to gradients."""
    assert isinstance(loop.node, cst.For)
    inner = [s for b in loop.blocks for s in b.walk()]
    grads = [(s, g) for s in inner for g in grads_of(s)]
    if not grads or any(s.off for s in (loop, *inner)):
        return {}
    pairing = paired(loop.node.iter, loop.node.target, {dotted(g.value) for _, g in grads}, module)
    names = {dotted(g.value) for _, g in grads}
    if pairing is None or names != {dotted(pairing.target)} or not any(for_some(s, loop) for s, _ in grads):
        return {}
    if not all(_drop(s.node, g) for s, g in grads):
        return {}
    return {id(s.node): dotted(g.value) for s, g in grads}


def _drop(node: cst.CSTNode, grad: cst.Attribute) -> bool:
    plain = isinstance(node, cst.Assign) and len(node.targets) == 1 and node.targets[0].target is grad
    return plain and isinstance(node, cst.Assign) and constant(node.value) is None


def _steps(stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """The next that happens to gradients is a step, after which they are cleared; or so it is where callers call."""
    behind = _behind(stmt, scope, module)
    if behind is not None:
        return behind
    info = next((i for m in project.modules.values() for i in m.functions.values() if i.scope is scope), None)
    if info is None or any(OTHERS.search(code(s.node)) for s in scope.body.stmts if s is not _top(stmt, scope)):
        return False
    sites = _sites(info, project)
    return bool(sites) and all(_behind(*site) is True for site in sites)


def _behind(stmt: Stmt, scope: Scope, module: ModuleInfo) -> bool | None:
    """Whether the optimizer steps next; None where the function has no step."""
    every = list(scope.body.walk())
    inside = {id(s) for s in stmt.walk()}
    steps = [s for s in every if s.is_small and any(_step(c, module) for c in s.calls)]
    if not steps:
        return None
    step = next((s for s in steps if s.number > stmt.number), None)
    if step is None or not _certain(step.block, stmt):
        return False
    between = [s for s in every if stmt.number < s.number < step.number and id(s) not in inside and s.is_small]
    if any(OTHERS.search(code(s.node)) for s in between):
        return False
    cleared = [s for s in every if any(name_called(c) == "zero_grad" for c in s.calls) and s.is_small]
    return any(_certain(s.block, step) for s in cleared)


def _step(call: cst.Call, module: ModuleInfo) -> bool:
    """A step that takes the gradients as they are: no closure goes backward anew."""
    return name_called(call) == "step" and (not call.args or _scaled(call, module))


def _scaled(call: cst.Call, module: ModuleInfo) -> bool:
    """`scaler.step(optimizer)`."""
    scaler = isinstance(call.func, cst.Attribute) and module.value(call.func.value).kind == "scaler"
    return scaler and name_called(call) == "step" and len(call.args) == 1


def _certain(block: Block, stmt: Stmt) -> bool:
    """A statement of the block runs whenever the other does."""
    return block is stmt.block or any(a.block is block for a in stmt.ancestors())


def _top(stmt: Stmt, scope: Scope) -> Stmt:
    """The statement of the function itself that holds another."""
    return next((s for s in (stmt, *stmt.ancestors()) if s.block is scope.body), stmt)


def _sites(info: FunctionInfo, project: Project) -> list[tuple[Stmt, Scope, ModuleInfo]]:
    reached = resolved(project)
    return [
        (stmt, scope, module)
        for module in project.modules.values() for scope in module.scope.walk() for stmt in scope.body.walk()
        if any(reached.get(id(c)) is info for c in stmt.calls)
    ]  # fmt: skip


class _Writer(Suites):
    """One module, whose optimizers are told."""

    def __init__(self, module: ModuleInfo, found: dict[int, str]) -> None:
        super().__init__(module)
        self.found = found
        every = (c for scope in module.scope.walk() for s in scope.body.walk() for c in s.calls)
        self.scaled = any(_scaled(call, module) for call in every)

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        param = self.found.get(id(node))
        if param is None:
            return [self.rewrite(node)]
        told = (Tier.ASSUMED, f"{WHY}; {SCALED}") if self.scaled else (Tier.EXACT, WHY)
        self.findings.append(Finding("T2M308", told[0], "gradients of some parameters", told[1], line=self.line))
        target = cst.AssignTarget(cst.parse_expression(f"{param}.{FLAG}"))  # type: ignore[arg-type]
        return [cst.Assign([target], cst.Name("True"))]
