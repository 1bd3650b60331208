"""Calls of methods of tensors, and of what is taken for one."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis.chains import TYPED, base, is_temporary
from torch2ms.analysis.evaluation.torchcalls import HOST_LIBRARIES, PASSING
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.sharing import is_gradient
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value
from torch2ms.api import MISFIT, Rule
from torch2ms.api.detours import TYPES
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.layers.handed import OF_CONTAINERS
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.tensors.draws import draw
from torch2ms.rewrite.tensors.places import widened
from torch2ms.rewrite.translation import Translation

# what answers to these is no tensor of torch: it is NumPy's, or translated already
MINDSPORE_ONLY = {"asnumpy", "astype", "copy"}
# without an argument a method of distributions, own and published ones, rather than of a tensor at a guess
OF_DISTRIBUTIONS = {"mode"}


def method(
    name: str, receiver: Value, original: cst.Call, updated: cst.Call, work: Translation, where: Positions
) -> cst.BaseExpression:
    """`x.name(...)` of a tensor, or of what is taken for one."""
    assert isinstance(updated.func, cst.Attribute)
    if name in ("detach", "detach_"):
        assert isinstance(original.func, cst.Attribute)  # `g = p.grad.detach(); g.mul_(c)` changes the gradient
        alias = id(original) in where.called and is_gradient(original.func.value)
        if id(original) in where.host or alias:
            work.tell("T2M302", "Tensor.detach", "nothing is recorded here: dropped")
            return updated.func.value
    if name in ("retain_grad", "requires_grad_"):
        why = "gradient functions name what they differentiate: dropped"
        work.tell("T2M303", f"Tensor.{name}", why)
        return updated.func.value
    rule = work.rules.find(f"torch.Tensor.{name}")
    if drawn := draw(original, updated, work.module):
        work.notes.needs.add("ops")
        why = "a temporary filled in place: one draw of the same numbers"
        work.tell("T2M611", f"Tensor.{name}", why)
        return cst.parse_expression(drawn.replace("ops.", f"{work.alias('ops')}.", 1))
    if name.endswith("_") and not name.endswith("__"):
        return _in_place(name, rule, original, updated, work)
    if rule is None:
        foreign = receiver.likely or name in MINDSPORE_ONLY or name in OF_CONTAINERS  # which tensors do not have
        return updated if foreign else work.unknown(f"torch.Tensor.{name}", updated)
    if receiver.likely and name in OF_DISTRIBUTIONS and not original.args:
        return updated
    outcome = widened(rule, work.apply(rule, original, updated), original, work, where)
    if receiver.likely and any(finding.code == MISFIT for finding in outcome.findings):
        return updated  # a method of that name on something else: a logger's `log(name, value)`
    if receiver.likely and outcome.node is not None:
        why = "the receiver is taken for a tensor by its use"
        outcome = replace(outcome, findings=tuple(assumed(f, why) for f in outcome.findings))
    return work.take(outcome, updated)


def _in_place(
    name: str, rule: Rule | None, original: cst.Call, updated: cst.Call, work: Translation
) -> cst.BaseExpression:
    """A method that changes its tensor, inside an expression: right where nobody else sees the change."""
    assert isinstance(updated.func, cst.Attribute)
    if is_gradient(base(original)):
        return updated  # gradient code that is refused, or waits for the second step
    plain = rule or work.rules.find(f"torch.Tensor.{name[:-1]}")
    lone = id(original) in work.plan.temporaries or is_temporary(base(original), work.module)
    if lone and name in ("fill_", "zero_") and len(updated.args) == (name == "fill_"):
        return _filled(name, updated, work)
    if plain is not None and lone:  # a temporary: nobody else sees the change
        named = cst.Name(plain.name.rpartition(".")[2])
        asked = updated.with_changes(func=updated.func.with_changes(attr=named))
        made = work.take(work.apply(plain, original, asked), updated)
        return _of_type(original, made, work) if name in TYPED else made
    if not work.marked:
        work.refuse("T2M610", f"Tensor.{name}", "an in-place change inside an expression",
                         "write it as a statement of its own; "
                         "MindSpore's in-place methods do nothing on CPU")  # fmt: skip
    return updated


def _filled(name: str, updated: cst.Call, work: Translation) -> cst.BaseExpression:
    """`torch.empty_like(x).fill_(1)`: a new tensor of the same shape."""
    assert isinstance(updated.func, cst.Attribute)
    if name == "zero_" and isinstance(made := updated.func.value, cst.Call) and _zeros(made):
        return made
    like = "zeros_like" if name == "zero_" else "full_like"
    made = cst.parse_expression(f"{work.alias('ops')}.{like}()")
    assert isinstance(made, cst.Call)
    given = [updated.func.value, *(a.value for a in updated.args)]
    work.notes.needs.add("ops")
    why = "a temporary filled in place: a new tensor of its shape"
    work.tell("T2M611", f"Tensor.{name}", why)
    return made.with_changes(args=[cst.Arg(value) for value in given])


def _of_type(original: cst.Call, made: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """`x.lt_(y)` as a value: what the comparison gives, in the element type of the tensor."""
    changed = base(original)
    assert isinstance(changed, cst.BaseExpression)
    if dtype := work.facts.dtype(changed):
        work.notes.needs.add("ms")
        return cst.parse_expression(f"{code(parenthesised(made))}.astype({work.alias('ms')}.{TYPES.get(dtype, dtype)})")
    if dotted(changed):
        return cst.parse_expression(f"{code(parenthesised(made))}.astype({code(changed)}.dtype)")
    why = "the result has the element type of the tensor, which is not seen"
    work.refuse("T2M610", "in-place comparison", why, "write it as a statement of its own")
    return made


def spread(original: cst.Call, updated: cst.Call, work: Translation, where: Positions) -> cst.BaseExpression | None:
    """`values.std()` of what may be a tensor or NumPy's: MindSpore divides by n as NumPy does, torch by n - 1."""
    assert isinstance(original.func, cst.Attribute) and isinstance(updated.func, cst.Attribute)
    receiver = original.func.value
    plain = len(original.args) < 2 and all(a.keyword is None and not a.star for a in original.args)
    if not plain or _foreign(receiver, work):
        return None
    given, text = "".join(f"{code(a.value)}, " for a in updated.args), code(updated.func.value)
    held = asked = text
    if any(isinstance(n, cst.Call) for n in descend(receiver)):  # asked once
        if where.nested or work.stmt is None:
            return None
        held = "made" if "made" not in work.stmt.block.scope.locals else "made_now"
        asked = f"{held} := {text}"
    work.notes.needs.add("ms")
    why = "torch divides by n - 1, MindSpore and NumPy by n: it is asked which of them this is"
    work.tell("T2M601", f"Tensor.{original.func.attr.value}", why)
    asked = f"isinstance({asked}, {work.alias('ms')}.Tensor)"
    plainly = code(updated.with_changes(func=updated.func.with_changes(value=cst.parse_expression(held))))
    of_tensor = f"{held}.{updated.func.attr.value}({given}ddof=1)"
    if held == text and work.facts.varied(receiver):  # whose gradient is to be zero where all elements are equal
        rule = work.rules.find(f"torch.Tensor.{updated.func.attr.value}")
        made = work.apply(rule, original, updated) if rule is not None else None
        if made is not None and made.node is not None:
            work.notes.needs |= made.needs
            of_tensor = code(made.node)
    return cst.parse_expression(f"({of_tensor} if {asked} else {plainly})")


def _foreign(node: cst.BaseExpression, work: Translation) -> bool:
    """What a library for other arrays than tensors made, as the statement that binds its name says."""
    while isinstance(node, (cst.Call, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
    name = root(dotted(node))
    stmt = work.stmt
    found = {name}
    for bound in stmt.block.scope.body.walk() if stmt is not None else ():
        if name in bound.defs and isinstance(bound.node, cst.Assign) and isinstance(bound.node.value, cst.Call):
            found.add(root(dotted(bound.node.value.func)))
    homes = {work.module.imports.table.get(made, "").partition(".")[0] for made in found}
    return bool(homes & (HOST_LIBRARIES - PASSING))


def _zeros(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in ("new_zeros", "zeros", "zeros_like")


def assumed(finding: Finding, why: str) -> Finding:
    """The finding, as one that holds only if something does."""
    if finding.tier is not Tier.EXACT:
        return finding
    return replace(finding, tier=Tier.ASSUMED, why=f"{finding.why}; {why}" if finding.why else why)
