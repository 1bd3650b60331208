"""`with torch.set_grad_enabled(self.finetune):` in a forward, as a branch with gradients and one without.

So is `with torch.no_grad() if frozen else nullcontext():`. What decides at run time whether a part of a forward is
recorded cannot be dissolved; where the condition is that of going backward at all, the block is left to the planner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.evaluation.modes import off
from torch2ms.analysis.program import flow
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.tape.inside import inside as inside_of
from torch2ms.tape.project import callees
from torch2ms.wrappers.blocks.conditional import IDLE

NOTHING = (*IDLE, "contextlib.ExitStack")
ASKED = re.compile(r"set_grad_enabled\(\s*(?!True\b|False\b)|inference_mode\([^)]|"
                   r"(?:no_grad|inference_mode)(?:\(\))?\s*if\b|"
                   r"\belse\s+[\w.]*(?:no_grad|inference_mode)\b")  # fmt: skip
WHY = "decided at run time: a branch with gradients, and one without"
MODES = ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled")
BACKWARD = {"backward", "step"}
LAYERS = ("forward", "__call__")


class Switch(NamedTuple):
    """What decides, and the managers of both branches; None where there is nothing to manage."""

    test: cst.BaseExpression
    then: cst.BaseExpression | None
    otherwise: cst.BaseExpression | None
    made: cst.CSTNode | None = None  # the statement that gives the manager a name


def switched(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such blocks in what may be part of a forward, by name."""
    found = {name: blocks for name, module in project.modules.items() if (blocks := _blocks(module))}
    if not found:
        return {}
    inside = _inside(project)
    plain: dict[str, Plain] = {}
    for name, blocks in found.items():
        module = project.modules[name]
        chosen = {i: switch for i, (scope, switch) in blocks.items() if _recorded(scope, switch, i, inside, project)}
        if chosen:
            plain[name] = _Writer(module, chosen).plain()
    return plain


def _blocks(module: ModuleInfo) -> dict[int, tuple[Scope, Switch]]:
    """The blocks whose mode is decided at run time, by id, with the scopes that they stand in."""
    if module.uses_mindspore or not module.says(ASKED):
        return {}
    found: dict[int, tuple[Scope, Switch]] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            around = (stmt.node,) if type(stmt.node) is cst.With else ()
            for node in (*stmt.modes, *around):
                if id(node) not in found and not stmt.off and (switch := _switch(node, stmt, module)) is not None:
                    found[id(node)] = scope, switch
    return found


def _switch(node: cst.With, stmt: Stmt, module: ModuleInfo) -> Switch | None:
    if len(node.items) != 1 or node.items[0].asname is not None or node.asynchronous is not None:
        return None
    item = node.items[0].item
    if type(item) is cst.IfExp:
        return _either(item, module)
    name = dotted(item.func if type(item) is cst.Call and not item.args else item)
    if name and "." not in name and (made := _bound(name, stmt)) is not None:
        value = made.value
        if type(value) is cst.IfExp and type(item) is cst.Call:
            body, orelse = (item.with_changes(func=side) for side in (value.body, value.orelse))
            value = value.with_changes(body=body, orelse=orelse)
        found = _either(value, module) if type(value) is cst.IfExp else None
        return None if found is None else found._replace(made=made)
    return _flagged(item, module) if type(item) is cst.Call else None


def _either(item: cst.IfExp, module: ModuleInfo) -> Switch | None:
    """`no_grad() if frozen else nullcontext()`."""
    kinds = {_mode(item.body, module), _mode(item.orelse, module)}
    if "" in kinds or "off" not in kinds:
        return None
    return Switch(item.test, *(_kept(side, module) for side in (item.body, item.orelse)))


def _bound(name: str, stmt: Stmt) -> cst.Assign | None:
    """The statement that gives a manager the name which one block uses, shortly before."""
    scope = stmt.block.scope
    makers = [s for s in scope.body.walk() if name in s.defs]
    uses = [n for n in descend(scope.node) if type(n) is cst.Name and n.value == name]
    if len(makers) != 1 or len(uses) != 2 or makers[0].block is not stmt.block:
        return None
    asked = {root(use) for use in makers[0].uses}
    between = (s for s in stmt.block.stmts if makers[0].number < s.number < stmt.number)
    changed = any(asked & {root(d) for d in s.all_defs | s.all_muts} for s in between)
    node = makers[0].node
    return node if type(node) is cst.Assign and not changed else None


def _flagged(item: cst.Call, module: ModuleInfo) -> Switch | None:
    """`set_grad_enabled(flag)`, `inference_mode(flag)` of a flag that is not written out."""
    last = qualified(item.func, module.imports).rpartition(".")[2]
    if last not in ("set_grad_enabled", "inference_mode") or len(item.args) != 1 or not _mode(item, module):
        return None
    flag = item.args[0]
    if isinstance(constant(flag.value), bool) or flag.star:
        return None
    sides = (item.with_changes(args=[flag.with_changes(value=cst.Name(word))]) for word in ("True", "False"))
    on, without = sides
    return Switch(flag.value, on, without) if last == "set_grad_enabled" else Switch(flag.value, on, None)


def _mode(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """What a manager does to gradients: off, on, nothing; "" where it does something else."""
    name = qualified(node.func if type(node) is cst.Call else node, module.imports)
    if type(node) is not cst.Call:
        return ""
    if name in NOTHING:
        return "" if node.args else "nothing"
    if name not in flow.TRANSPARENT or name.rpartition(".")[2] not in MODES:
        return ""
    return "off" if off(node, module) else "on"


def _kept(node: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    return None if _mode(node, module) == "nothing" else node


# --- where it matters


def _inside(project: Project) -> set[int]:
    """Ids of the functions that may run in the forward of something, by their nodes."""
    named = inside_of(project)
    work: list[FunctionInfo] = []
    for module in project.modules.values():
        work += [i for i in module.functions.values() if i.cls is not None and i.name in LAYERS]
        for scope in module.scope.walk():
            if any(_goes_backward(stmt) for stmt in scope.body.walk()):
                work += [i for stmt in scope.body.stmts for i in named.of(stmt.node, module)]
    return {id(info.scope.node) for info in named.reached(work, callees)}


def _goes_backward(stmt: Stmt) -> bool:
    return any(type(c.func) is cst.Attribute and c.func.attr.value in ("backward", "grad") for c in stmt.calls)


def _recorded(scope: Scope, switch: Switch, block: int, inside: set[int], project: Project) -> bool:
    """What the block makes may be differentiated with the mode on and off."""
    body = [s for s in scope.body.walk() if any(id(m) == block for m in (*s.modes, s.node)) or _under(s, block)]
    if any(name_called(c) in BACKWARD for s in body for c in s.calls):
        return False
    if trains := [s for s in scope.body.walk() if _goes_backward(s)]:
        return not all(_asked(stmt, code(switch.test)) for stmt in trains)
    return id(scope.node) in inside and not _told_by_callers(scope, switch, project)


def _under(stmt: Stmt, block: int) -> bool:
    return any(id(around.node) == block or any(id(m) == block for m in around.modes) for around in stmt.ancestors())


def _asked(stmt: Stmt, test: str) -> bool:
    """The statement only runs where the test holds."""
    for around in stmt.ancestors():
        if type(around.node) is cst.If and test in _conjuncts(around.node.test):
            return True
    return False


def _conjuncts(test: cst.BaseExpression) -> Iterator[str]:
    if type(test) is cst.BooleanOperation and type(test.operator) is cst.And:
        yield from _conjuncts(test.left)
        yield from _conjuncts(test.right)
    else:
        yield code(test)


def _told_by_callers(scope: Scope, switch: Switch, project: Project) -> bool:
    """Whoever calls the function asks the flag before it goes backward, or says that gradients are on."""
    name = dotted(switch.test)
    if name not in scope.params or any(name in s.defs for s in scope.body.walk()):
        return False
    seen = False
    for module in project.modules.values():
        for caller in module.scope.walk():
            for stmt in caller.body.walk():
                for call in (c for c in stmt.calls if name_called(c) == scope.name):
                    seen = True
                    if not _agrees(call, name, scope, [s for s in caller.body.walk() if _goes_backward(s)]):
                        return False
    return seen


def _agrees(call: cst.Call, name: str, scope: Scope, trains: list[Stmt]) -> bool:
    position = [p for p in scope.params if p not in ("self", "cls")].index(name)
    given = [a.value for n, a in enumerate(call.args) if (a.keyword is None and n == position)
             or (a.keyword is not None and a.keyword.value == name)]  # fmt: skip
    if any(a.star for a in call.args) or not given:
        return False
    flag = constant(given[0])
    if isinstance(flag, bool):
        return flag or not trains
    return bool(trains) and all(_asked(stmt, code(given[0])) for stmt in trains)


# --- how it is written


class _Writer(Suites):
    """One module, with branches for such blocks."""

    def __init__(self, module: ModuleInfo, chosen: dict[int, Switch]) -> None:
        super().__init__(module)
        self.chosen = chosen
        self.gone = {id(switch.made) for switch in chosen.values() if switch.made is not None}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else super().small(node)

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        switch = self.chosen.get(id(original))
        if switch is None:
            return super().compound(original, updated)
        assert isinstance(original, cst.With) and isinstance(updated, cst.With)
        body = layout.opened(updated.body)
        again = self.copied(body, comments=False)
        assert isinstance(again, cst.IndentedBlock)
        then, otherwise = (self.block(original, m, b) for m, b in ((switch.then, body), (switch.otherwise, again)))
        test = switch.test.with_changes(lpar=[], rpar=[]) if "\n" not in code(switch.test) else switch.test
        made = cst.If(test, then, orelse=cst.Else(otherwise), leading_lines=updated.leading_lines)
        self.number(made, original)
        lines = {self.line, self.numbers[id(switch.made)][0] if switch.made is not None else self.line}
        self.findings += [Finding("T2M301", Tier.EXACT, "gradient mode block", WHY, line=n) for n in sorted(lines)]
        return [made], ()

    def block(self, node: cst.With, manager: cst.BaseExpression | None, body: cst.IndentedBlock) -> cst.IndentedBlock:
        if manager is None:
            return body
        made = cst.With([cst.WithItem(manager)], body)
        self.number(made, node)
        return cst.IndentedBlock([made])


__all__ = ["switched"]
