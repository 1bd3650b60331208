"""Gradient code that nobody spoke of is refused where it stands: none is left, or dropped, in silence.

The tape, the rules and the wrappers each speak of what they know. What is left has a receiver that is not seen
(`engine.backward(loss)`, `super().zero_grad()`), or stands in a class that stays as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import is_change
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign, name_called
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import FullNames
from torch2ms.rewrite.writer import Writer
from torch2ms.tape.ledger.events import find

HOOK = ("T2M115", "hook", "use the gradients that the gradient function returns, or a hook of the Cell")
CUT = ("T2M115", "use of gradients", "write ops.stop_gradient where it is a tensor")
FLAG = ("T2M115", "requires_grad_", "set the flag of each parameter of a network; of a tensor, drop it")
METHODS = {
    "backward": ("T2M110", "backward call",
                 "write the statements that feed the loss as a function and take its gradient with ms.value_and_grad"),
    "zero_grad": ("T2M112", "reset of gradients",
                  "MindSpore keeps no gradients: drop it once the backward call is translated"),
    "step": ("T2M113", "optimizer step", "call the optimizer with the gradients"),
    "detach": CUT, "detach_": CUT, "retain_grad": CUT, "requires_grad_": FLAG,
    "register_backward_hook": HOOK,
    "register_full_backward_hook": HOOK, "register_full_backward_pre_hook": HOOK, "register_forward_hook": HOOK,
    "register_forward_pre_hook": HOOK,
}  # fmt: skip
TAKERS = {"backward": ("T2M110", "backward call"), "gradcall": ("T2M210", "torch.autograd.grad")}
OPTIMIZER = re.compile(r"optim|opt(?![a-z])", re.IGNORECASE)  # `.step()` is the name of much else
STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
SPEAKING = re.compile(r"T2M[1-4]|T2M53")  # codes of findings on gradients
UNSEEN = "what has this method is not seen"
KEPT = "take it in the bprop of the Cell that takes the place of the class around it, which stays as it is"


def refuse_left(stmt: Stmt, writer: Writer) -> None:
    """Refuse the calls of a statement that touch gradients, where no finding speaks of it."""
    for call in stmt.calls if not writer.module.uses_mindspore else ():
        func = call.func
        name = func.attr.value if type(func) is cst.Attribute else ""
        if name not in METHODS or id(call) in writer.plan.refused or not _unseen(call, stmt, writer.module):
            continue
        if name == "step" and not OPTIMIZER.search(_named(func.value, stmt)):  # type: ignore[attr-defined]
            continue
        if _spoken_of(name, stmt, writer) or name == "detach" and _written_through(call, stmt, writer):
            continue
        code, what, todo = METHODS[name]
        writer.refuse(code, what, UNSEEN, f"{todo} ({UNSEEN})")
    if type(stmt.node) is cst.With and any(_hook(item.item) for item in stmt.node.items):
        why = "the handles of hooks are no contexts in MindSpore"
        writer.refuse("T2M115", "hook", why, f"remove it behind the block ({why})")


def _hook(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and name_called(node) in METHODS and METHODS[name_called(node)] is HOOK


def _unseen(call: cst.Call, stmt: Stmt, module: ModuleInfo) -> bool:
    """No class or function of the project, and no other library, is called."""
    func = call.func
    assert isinstance(func, cst.Attribute)
    receiver, called = module.value(func.value), module.value(func)
    node = stmt.node
    if func.attr.value == "backward" and type(node) is cst.Assign and node.value is call:
        if isinstance(
            node.targets[0].target, (cst.Tuple, cst.List)
        ):  # `x, log_det = flow.backward(z)`: torch gives None
            return False
    if receiver.kind == "builtin_super":
        owner = stmt.block.scope.cls
        cls = module.classes.get(owner.name) if owner is not None else None
        return cls is None or not any(parent.method(func.attr.value) is not None for parent in cls.parents)
    if called.kind in ("method", "function", "class") and receiver.kind not in ("tensor", "param", "unknown"):
        return False
    return receiver.kind != "api" or is_foreign(receiver.name) or func.attr.value == "step"


def _named(node: cst.BaseExpression, stmt: Stmt) -> str:
    """The name of an object, and of what a loop around takes it from."""
    name = dotted(node)
    taken = [" ".join(sorted(s.uses)) for s in stmt.ancestors() if s.is_loop and name and name in s.defs]
    return " ".join([name, *taken])


def _spoken_of(name: str, stmt: Stmt, writer: Writer) -> bool:
    last = stmt.end_lineno or stmt.lineno
    for finding in writer.findings:
        if stmt.lineno <= finding.line <= last and (SPEAKING.match(finding.code) or name.strip("_") in finding.what):
            return True
    return False


def _written_through(call: cst.Call, stmt: Stmt, writer: Writer) -> bool:
    """`p.detach().zero_()`: the write itself was spoken of, and nobody takes what is detached."""
    node = stmt.node.value if type(stmt.node) is cst.Expr else None
    while node is not call:
        if not (type(node) is cst.Call and type(node.func) is cst.Attribute and is_change(node)):
            return False
        node = node.func.value
    return any(f.line == stmt.lineno and f.code == "T2M611" for f in writer.findings)


def kept_whole(node: cst.ClassDef, scope: Scope, why: str, writer: Writer) -> cst.ClassDef:
    """A class that stays torch's: its short names in full, and a mark above each gradient that is taken in it."""
    marks: dict[int, str] = {}
    for call, code, what, line in _taken(scope, writer.module):
        finding = Finding(code, Tier.REFUSED, what, why, KEPT, line)
        writer.findings.append(finding)
        if writer.counts(finding):
            marks[id(call)] = finding.mark
    kept = node.visit(_Kept(writer.module, writer.needs, marks))
    assert isinstance(kept, cst.ClassDef)
    return kept


def _taken(cls: Scope, module: ModuleInfo) -> Iterator[tuple[cst.CSTNode, str, str, int]]:
    """The calls in the methods of a class that take gradients: code and construct of each, and its line."""
    for scope in cls.walk():
        for event in find(scope, module):
            if event.kind in TAKERS:
                yield event.node, *TAKERS[event.kind], event.lineno
        for stmt in scope.body.walk():
            for call in stmt.calls:
                name = module.value(call.func).name
                if name.startswith(("torch.autograd.functional.", "torch.func.")):
                    yield call, "T2M220", name, stmt.lineno


class _Kept(FullNames):
    """Puts marks above the statements with certain calls."""

    def __init__(self, module: ModuleInfo, needs: set[str], marks: dict[int, str]) -> None:
        super().__init__(module, needs)
        self.marks = marks
        self.waiting: list[list[str]] = []  # by statement, outermost first

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, STATEMENTS):
            self.waiting.append([])
        elif id(node) in self.marks:
            self.waiting[-1].append(self.marks[id(node)])
        return True

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        made = super().on_leave(original, updated)
        marks = self.waiting.pop() if isinstance(original, STATEMENTS) else []
        if not marks:
            return made  # type: ignore[return-value]
        lines = (layout.comment_line(mark) for mark in dict.fromkeys(marks))
        return made.with_changes(leading_lines=[*made.leading_lines, *lines])  # type: ignore[union-attr]
