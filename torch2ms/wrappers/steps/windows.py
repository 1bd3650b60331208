"""`loss = loss + term` in each turn of a loop, `loss.backward()` in every k-th: each term goes backward where it is.

No step lies between the terms of such a window, so that the gradients of the sum are those of its terms, added up.
Where the sum begins anew they are cleared; it is a value from then on, without a graph that spans turns of the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Suites, small_of
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.events import find
from torch2ms.tape.model import Event
from torch2ms.wrappers.passes import each_module

WHY = "each term goes backward in the turn that makes it: no step lies between the terms of the sum"
CLEARED = "gradients are cleared where the sum begins anew"
RESET = re.compile(r"^ *(\w+) *= *0(?:\.0*)?\s*(?:#.*)?$", re.MULTILINE)
BETWEEN = ("clip_norm", "clip_value", "grad_loop")  # what may stand between the backward call and the step
READ = r"\b{0}\b(?!\.(?:item|detach|data|cpu)\b)"  # the sum, where it is more than a value
AS_NUMBER = r"\bfloat\({0}\)"


@dataclass(eq=False)
class Window:
    """The statements, by what becomes of them."""

    total: str
    adding: Stmt
    term: cst.BaseExpression  # what is added
    name: str  # ... under a name
    weight: str  # what the sum is divided by where it goes backward, "" for nothing
    call: Stmt
    clears: list[Stmt]
    last: Stmt  # of the steps
    resets: list[Stmt] = field(default_factory=list)  # where the sum begins anew, but for the one behind the step


@each_module
def windowed(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such loops."""
    if not module.has(".backward(") or not module.says(RESET):
        return None
    found = [w for scope in module.scope.walk() for w in _found(scope, module)]
    return _Writer(module, found).plain() if found and not _remembering(project) else None


def _remembering(project: Project) -> bool:
    """A network goes on with what its last forward left in an attribute, whose graph spans turns of the loop."""
    for module in project.modules.values():
        for cls in module.classes.values():
            info = cls.methods.get("forward") if cls.kind == "module" else None
            stmts = info.scope.body.walk() if info is not None else []
            read: set[str] = set()
            for stmt in stmts:
                read |= stmt.uses
                value = stmt.node.value if type(stmt.node) is cst.Assign else None
                if value is not None and any(d.startswith("self.") and d in read for d in stmt.defs):
                    if any(not dep.startswith("@") for dep in module.value(value).deps):
                        return True
    return False


def _found(scope: Scope, module: ModuleInfo) -> Iterator[Window]:
    if not any(type(s.node) is cst.Assign and constant(s.node.value) in (0, 0.0) for s in scope.body.walk()):
        return
    events = find(scope, module)
    backward = [e for e in events if e.kind == "backward"]
    if len(backward) == 1 and (window := _window(backward[0], events, scope, module)) is not None:
        yield window


def _window(event: Event, events: list[Event], scope: Scope, module: ModuleInfo) -> Window | None:
    call, suite = event.stmt, event.stmt.block
    branch = suite.owner
    if branch is None or type(branch.node) is not cst.If:
        return None
    loop = branch.block.owner
    bare = isinstance(call.node, cst.Expr) and isinstance(call.node.value, cst.Call) and not call.node.value.args
    if loop is None or not loop.is_loop or not bare or len(event.roots) != 1 or loop.off:
        return None
    total, weight = _divided(event.roots[0])
    if not total or any(root(u) in {root(d) for d in loop.all_defs} for u in _names(weight)):
        return None
    bound = [s for s in scope.body.walk() if total in s.defs]
    resets = [s for s in bound if type(s.node) is cst.Assign and _is_reset(s.node)]
    adding = [s for s in bound if s not in resets]
    if len(adding) != 1 or adding[0].block is not branch.block or adding[0].number > branch.number or adding[0].modes:
        return None
    term = _added(adding[0].node, total)
    behind = [s for s in resets if s.block is suite and s.number > call.number]
    steps = [e.stmt for e in events if e.kind == "step"]
    clears = [e.stmt for e in events if e.kind == "clear"]
    if term is None or module.value(term).kind != "tensor" or not module.value(term).deps or not behind or not steps:
        return None
    if any(s.block is not suite or s.number < call.number or s.number > behind[0].number for s in steps):
        return None
    inside = [s for s in clears if s.block is suite]
    outermost = [a for a in call.ancestors() if a.is_loop][-1]
    if not inside or any(s not in inside and s.number > outermost.number for s in clears):
        return None
    others = [e for e in events if e.kind not in ("backward", "step", "clear")]
    if any(e.kind not in BETWEEN or e.stmt.block is not suite or e.stmt.number < call.number for e in others):
        return None
    first = [s for s in resets if s.number < outermost.number or s in outermost.walk()]
    rest = [s for s in first if s not in behind]
    cleared = {root(u) for s in inside for u in s.uses}
    if not rest or not all(_known(cleared, s, scope) for s in rest) or not _only_value(total, bound, call, scope):
        return None
    return Window(total, adding[0], term, _name(term, total, module), weight, call, inside, steps[-1], rest)


def _divided(node: cst.BaseExpression) -> tuple[str, str]:
    """The sum, and what it is divided by: `loss`, `(loss / k)`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        return (node.left.value, code(node.right)) if isinstance(node.left, cst.Name) else ("", "")
    return (node.value if isinstance(node, cst.Name) else "", "")


def _names(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def _is_reset(node: cst.Assign) -> bool:
    return len(node.targets) == 1 and type(constant(node.value)) in (int, float) and constant(node.value) == 0


def _added(node: cst.CSTNode, total: str) -> cst.BaseExpression | None:
    """What a statement adds to the sum: `loss += term`, `loss = loss + term`."""
    if isinstance(node, cst.AugAssign):
        return node.value if isinstance(node.operator, cst.AddAssign) else None
    value = node.value if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and not value.lpar:
        mentioned = re.search(rf"\b{total}\b", code(value.right))
        return value.right if dotted(value.left) == total and not mentioned else None
    return None


def _known(names: set[str], reset: Stmt, scope: Scope) -> bool:
    """What is cleared is there where the sum begins."""
    bound = {root(d) for s in scope.body.walk() if s.number < reset.number for d in s.defs}
    own = scope.locals if scope.is_function else names
    return all(name in bound or name in scope.params or name not in own for name in names)


def _only_value(total: str, bound: list[Stmt], call: Stmt, scope: Scope) -> bool:
    """Nobody else asks the sum for its graph."""
    read = [s for s in scope.body.walk() if total in s.uses and s not in bound and s is not call]
    for stmt in read:
        text = code(stmt.node) if stmt.is_small else ""
        if not text or re.search(READ.format(total), re.sub(AS_NUMBER.format(total), "", text)):
            return False
    inner = (s for child in scope.walk() if child is not scope and total not in child.locals for s in child.body.walk())
    return not any(total in s.uses for s in inner)


def _name(term: cst.BaseExpression, total: str, module: ModuleInfo) -> str:
    if isinstance(term, cst.Name):
        return term.value
    taken = {n.value for n in module.of_kind(cst.Name)}
    return next(name for name in (f"{total}_term", f"{total}_of_turn", f"{total}_term_") if name not in taken)


class _Writer(Suites):
    """One module, with the terms that go backward."""

    def __init__(self, module: ModuleInfo, windows: list[Window]) -> None:
        super().__init__(module)
        self.adding = {id(w.adding.node): w for w in windows}
        self.calls = {id(w.call.node) for w in windows}
        self.clears = {id(s.node) for w in windows for s in w.clears}
        self.stepped = {id(w.last.node): w for w in windows}
        self.resets = {id(s.node): w for w in windows for s in w.resets}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.calls:
            self.findings.append(Finding("T2M101", Tier.EXACT, "backward call", WHY, line=self.line))
            return []
        if id(node) in self.clears:
            self.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", CLEARED, line=self.line))
            return []
        if (window := self.adding.get(id(node))) is not None:
            return self.backward(window)
        if (window := self.stepped.get(id(node)) or self.resets.get(id(node))) is not None:
            clears = dict.fromkeys(code(s.node) for s in window.clears)
            return [*super().small(node), *(small_of(text) for text in clears)]
        return super().small(node)

    def backward(self, window: Window) -> list[cst.CSTNode]:
        name, total = window.name, window.total
        made = [] if isinstance(window.term, cst.Name) else [small_of(f"{name} = {code(window.term)}")]
        weighed = f"({name} / {window.weight})" if window.weight else name
        return [*made, small_of(f"{weighed}.backward()"), small_of(f"{total} = {total} + {name}.detach()")]
