"""`with accelerator.accumulate(model):`: which batches step, written as a condition on the index of the loop.

accelerate divides each loss by the number of steps, and makes `step` and `zero_grad` of what it prepared do nothing
except on every k-th batch and on the last one of the loader, where the count starts anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing import layout
from torch2ms.editing.rewriter import Rewriter
from torch2ms.wrappers.trainers.objects import member

NAME = "sync_gradients"
QUALIFIERS = ("tqdm", "trange", "track")  # progress bars around a loader


@dataclass
class Loop:
    """A loop over a prepared loader that accumulates gradients."""

    node: cst.For
    steps: str  # every how many batches
    loader: str
    index: str  # the name that counts the batches
    counted: bool  # the loop counts them already

    @property
    def condition(self) -> str:
        """Whether this batch steps."""
        steps = cst.parse_expression(self.steps)
        simple = isinstance(steps, (cst.Name, cst.Attribute, cst.Integer, cst.Subscript))
        divisor = self.steps if simple else f"({self.steps})"
        return f"({self.index} + 1) % {divisor} == 0 or {self.index} + 1 == len({self.loader})"


def found(node: cst.For, module: ModuleInfo) -> bool:
    """Whether a block of the loop's own body accumulates."""
    return any(accumulates(stmt, module) for stmt in node.body.body)


def accumulates(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`with accelerator.accumulate(model):`."""
    return isinstance(node, cst.With) and any(member(i.item, module)[1] == "accumulate" for i in node.items)


def read(node: cst.For, module: ModuleInfo, steps: str, prepared: set[str]) -> Loop | str:
    """The loop, or why its steps cannot be told."""
    if not steps:
        return "how many batches it accumulates is not seen"
    iterated: cst.BaseExpression = node.iter
    target: cst.BaseExpression = node.target
    index = ""
    if (inner := _wrapped(iterated, ("enumerate",))) is not None:
        if not isinstance(iterated, cst.Call) or len(iterated.args) != 1:
            return "the batches are not counted from zero"
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
            return "what counts the batches is not seen"
        index, iterated = dotted(target.elements[0].value), inner
    counted = bool(index)
    if (inner := _wrapped(iterated, QUALIFIERS)) is not None:
        iterated = inner
    loader = dotted(iterated)
    if loader not in prepared:
        return "the loader is not seen to be prepared"
    if problem := _order(node, module, prepared):
        return problem
    return Loop(node, steps, loader, index or "step", counted)


def _wrapped(node: cst.BaseExpression, names: tuple[str, ...]) -> cst.BaseExpression | None:
    if isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in names and node.args:
        return node.args[0].value
    return None


def _order(node: cst.For, module: ModuleInfo, prepared: set[str]) -> str:
    """Why the condition does not hold for all of the body, "" if it does."""
    body = list(node.body.body)
    blocks = [s for s in body if accumulates(s, module)]
    if len(blocks) != 1:
        return "several blocks of one loop accumulate"
    for stmt in body[: body.index(blocks[0])]:
        if any(guarded(n, prepared) for n in descend(stmt)):
            return "an optimizer is called before the block: it would go by the batch before"
        if any(isinstance(n, cst.Continue) for n in descend(stmt)):
            return "batches may be left out, and the count of them with it"
    for call in (n for n in descend(node.body) if type(n) is cst.Call):
        handed = [a.value for a in call.args if dotted(a.value) in prepared]
        if any(module.value(a).kind == "optimizer" for a in handed) and not member(call, module)[0]:
            return "the optimizer is handed to a function"
    return ""


def guarded(node: cst.CSTNode, prepared: set[str]) -> bool:
    """A call that accelerate makes do nothing while it accumulates."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in ("step", "zero_grad") and dotted(node.func.value) in prepared


def is_guard(node: cst.CSTNode) -> bool:
    """`if sync_gradients:` without another branch."""
    return isinstance(node, cst.If) and dotted(node.test) == NAME and node.orelse is None


def guard(line: cst.CSTNode) -> cst.If:
    """The statement under the condition."""
    return cst.If(cst.Name(NAME), cst.IndentedBlock([cst.SimpleStatementLine([line])]))  # type: ignore[list-item]


def merged(body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Neighbours under the condition become one block."""
    out: list[cst.BaseStatement] = []
    for stmt in body:
        last = out[-1] if out else None
        if last is None or not (is_guard(stmt) and is_guard(last)):
            out.append(stmt)
            continue
        assert isinstance(stmt, cst.If) and isinstance(last, cst.If)
        first, *rest = stmt.body.body
        if lines := layout.comments_only(stmt.leading_lines):
            first = layout.led(first, lines)  # type: ignore[arg-type]
        block = last.body.with_changes(body=[*last.body.body, first, *rest])
        out[-1] = last.with_changes(body=block)
    return out


def assignment(loop: Loop) -> cst.Assign:
    """The condition under its name."""
    return cst.Assign([cst.AssignTarget(cst.Name(NAME))], cst.parse_expression(loop.condition))


def finished(loop: Loop, node: cst.For, number: Callable[[cst.CSTNode, cst.CSTNode], None]) -> cst.For:
    """The loop counts its batches; a condition that is asked once stands where it is asked."""
    if not loop.counted:
        target: cst.BaseExpression = node.target
        if isinstance(target, cst.Tuple) and not target.lpar:
            target = target.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        elements = [cst.Element(cst.Name(loop.index)), cst.Element(target)]
        pair = cst.Tuple(elements, lpar=[], rpar=[])
        node = node.with_changes(target=pair, iter=cst.Call(cst.Name("enumerate"), [cst.Arg(node.iter)]))
    asked = sum(type(n) is cst.Name and n.value == NAME for n in descend(node.body)) - 1
    if asked > 1:
        return node
    made = _Inline(loop, number).rewrite(node)
    assert isinstance(made, cst.For)
    return made


class _Inline(Rewriter):
    """The condition where it is asked, without a name."""

    def __init__(self, loop: Loop, number: Callable[[cst.CSTNode, cst.CSTNode], None]) -> None:
        self.condition = loop.condition
        self.number = number

    def rewrite(self, node: cst.CSTNode) -> cst.CSTNode:
        updated = super().rewrite(node)
        if updated is not node:
            self.number(updated, node)
        return updated

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        if dotted(original.test) == NAME:
            return updated.with_changes(test=cst.parse_expression(self.condition))
        return updated

    def leave_IndentedBlock(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        names = [i for i, stmt in enumerate(original.body) if _names(stmt)]
        if not names:
            return updated
        body = list(updated.body)
        gone = body.pop(names[0])
        following = body[names[0]]
        if above := layout.leading(gone):
            kept = layout.strip_blank(layout.leading(following))
            body[names[0]] = following.with_changes(leading_lines=[*above, *kept])
            self.number(body[names[0]], following)
        return updated.with_changes(body=body)


def _names(stmt: cst.CSTNode) -> bool:
    """The statement that gives the condition its name."""
    first = stmt.body[0] if isinstance(stmt, cst.SimpleStatementLine) else None
    return isinstance(first, cst.Assign) and dotted(first.targets[0].target) == NAME


def read_literal(node: cst.BaseExpression | None) -> str:
    """A number of steps that is written out, "" otherwise."""
    value = constant(node)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
