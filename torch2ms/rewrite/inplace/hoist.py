"""Functions that change their arguments: `torch.relu_(x)`, `torch.add(a, b, out=c)`.

What an expression evaluates first may as well stand on a line of its own above it; anything else stays refused.
Methods are in nested.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.chains import of_dict
from torch2ms.analysis.evaluation.activations import NAMED, subject
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import fresh, is_data
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.operands import atomic, parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Tier
from torch2ms.rewrite.gradmodes import counts, unrecorded
from torch2ms.rewrite.inplace.evaluated import evaluated_first
from torch2ms.rewrite.parameters.held import is_parameter

if TYPE_CHECKING:
    from torch2ms.rewrite.inplace.stores import InPlace


def hoisted(in_place: InPlace, stmt: Stmt) -> list[cst.BaseStatement]:
    """The in-place change that a statement begins with, as statements above; what is left of it is planned."""
    call = _first(in_place, stmt)
    plan = in_place.writer.plan
    if call is None or id(call) in plan.expressions or id(call) in plan.refused:
        return []
    if _out(call) is not None:
        lines, place = _written(in_place, stmt, call)
    elif _is_initialiser(in_place, call):
        lines = in_place.drawn(stmt, call) or []
        place = code(call.args[0].value) if lines else ""
    else:
        method = _as_method(call, in_place.module.value(call.func).name)
        lines = in_place.in_place(stmt, method) or []
        place = code(method.func.value) if lines else ""  # type: ignore[attr-defined]
        if not lines:  # told by in_place
            plan.refused.add(id(call))
    if place:
        plan.expressions[id(call)] = place
    return lines


def _first(in_place: InPlace, stmt: Stmt) -> cst.Call | None:
    """The call that changes a tensor and is evaluated before anything else of the statement."""
    for node in evaluated_first(stmt, in_place.module, in_place.writer.plan):
        if type(node) is not cst.Call:
            continue
        if _is_function(in_place, node) or _writes(in_place, node) or _is_initialiser(in_place, node):
            return node
    return None


def _is_initialiser(in_place: InPlace, call: cst.Call) -> bool:
    """`init.normal_(w)`, as a part of what the statement computes."""
    name = in_place.module.value(call.func).name
    held = call.args[0] if call.args else None
    if not name.startswith("torch.nn.init.") or held is None or held.keyword is not None:
        return False
    return bool(dotted(held.value)) or of_dict(held.value, in_place.module)


def _is_function(in_place: InPlace, call: cst.Call) -> bool:
    """`torch.relu_(x)`."""
    name = in_place.module.value(call.func).name
    changing = name.endswith("_") and not name.endswith("__")
    plain = changing and name.startswith("torch.") and name.count(".") == 1 and is_foreign(name)
    first = subject(call)
    plain = plain and name not in NAMED  # see activated.py
    return plain and first is not None and bool(dotted(first.value))


def _writes(in_place: InPlace, call: cst.Call) -> bool:
    target = in_place.module.value(call.func)
    return _out(call) is not None and target.kind == "api" and target.name.startswith("torch.")


def _as_method(call: cst.Call, name: str) -> cst.Call:
    """`torch.relu_(x)` as `x.relu_()`, under whatever name it is called; `name` is the function's own."""
    first = subject(call)
    assert first is not None
    rest = [arg for arg in call.args if arg is not first]
    return cst.Call(cst.Attribute(first.value, cst.Name(name.rpartition(".")[2])), rest)


def _out(call: cst.Call) -> cst.BaseExpression | None:
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "out" and dotted(arg.value) != "None":
            return arg.value
    return None


def _written(in_place: InPlace, stmt: Stmt, call: cst.Call) -> tuple[list[cst.BaseStatement], str]:
    """`out=c`: the result is assigned to `c`, in the element type of `c`."""
    target = _out(call)
    module, writer = in_place.module, in_place.writer
    args = [arg for arg in call.args if arg.value is not target]
    if args:
        args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    if isinstance(target, cst.Attribute):
        return _stored(in_place, stmt, call.with_changes(args=args), target)
    if isinstance(target, cst.Call) and (dtype := _made_for_it(in_place, target)):
        return [], _unkept(in_place, call, call.with_changes(args=args), dtype)
    if isinstance(target, cst.Subscript):
        return _copied(in_place, stmt, call.with_changes(args=args), target)
    many = isinstance(target, cst.Tuple) and all(isinstance(e.value, cst.Name) for e in target.elements)
    held = module.value(target) if target is not None else None
    if target is None or held is None or not (many or isinstance(target, cst.Name)):
        return [], ""
    names = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    loop = any(owner.is_loop for owner in stmt.ancestors())
    unshared = all(fresh(name, writer.scope, but=None if loop else stmt) for name in names)
    unshared = unshared and not {code(name) for name in names} & writer.captured
    if not unshared and (many or held.kind != "tensor"):
        return [], ""
    if held.kind != "tensor" and module.value(call).kind != "tuple":  # lists of pieces: torch returns None there
        return [], ""
    made = writer.expression(call.with_changes(args=args))
    assert isinstance(made, cst.BaseExpression)
    place = code(target)
    stop = f"{writer.alias('ops')}.stop_gradient" if unrecorded(stmt, writer) and not many else ""
    if held.kind == "tensor" and (not held.dtype or module.value(call).dtype != held.dtype or held.likely):
        text = code(made) if atomic(made) else f"({code(made)})"
        made = cst.parse_expression(f"{text}.astype({place}.dtype)")
    if stop:
        writer.needs.add("ops")
        made = cst.parse_expression(f"{stop}({code(made)})")
    if unshared:
        writer.tell("T2M611", "out=", "the result is assigned")
        lines = writer.text(f"{place.strip('()')} = {code(made)}")
        floats = [n for n in names if many and unrecorded(stmt, writer) and not counts(module.value(n))]
        lines += [line for n in floats for line in writer.text(f"{code(n)} = ops.stop_gradient({code(n)})")]
        writer.needs |= {"ops"} if floats else set()
        return lines, place
    if held.odd == "empty" and not writer.differentiated:
        writer.tell("T2M611", "out=", f"`{place}` takes the result, and its shape, for all that have it")
        return writer.translated(f"{place}.assign_value({code(made)})"), place
    why = f"written into `{place}`, which has other names; assumed: it has the shape of the result"
    writer.tell("T2M611", "out=", why, Tier.ASSUMED)
    return in_place.written(stmt, target, place, code(made)) or [], place


_FACTORIES = {f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "tensor", "empty_like", "zeros_like")}


def _made_for_it(in_place: InPlace, target: cst.Call) -> str:
    """The element type of a tensor that is made in `out=torch.empty(0)` itself, so that nobody else has it."""
    if in_place.module.value(target.func).name not in _FACTORIES:
        return ""
    held = in_place.module.value(target)
    return held.dtype if held.kind == "tensor" and not held.likely else ""


def _unkept(in_place: InPlace, call: cst.Call, left: cst.Call, dtype: str) -> str:
    """The result itself, in the element type of the tensor that nobody has."""
    made = in_place.writer.expression(left)
    assert isinstance(made, cst.BaseExpression)
    in_place.writer.tell("T2M611", "out=", "nobody has the tensor that it would be written into")
    if in_place.module.value(call).dtype == dtype:
        return code(made)
    in_place.writer.needs.add("ms")
    return f"{code(parenthesised(made))}.astype(ms.{dtype})"


def _copied(
    in_place: InPlace, stmt: Stmt, call: cst.Call, target: cst.Subscript
) -> tuple[list[cst.BaseStatement], str]:
    """`out=table[1]`: as `table[1].copy_(...)`."""
    method = cst.Call(cst.Attribute(target, cst.Name("copy_")), [cst.Arg(call)])
    lines = in_place.in_place(stmt, method) or []
    return lines, code(in_place.writer.expression(target)) if lines else ""


def _stored(
    in_place: InPlace, stmt: Stmt, call: cst.Call, target: cst.Attribute
) -> tuple[list[cst.BaseStatement], str]:
    """`out=param.data`: the result is assigned to the parameter, or written into the tensor."""
    module, writer = in_place.module, in_place.writer
    whole: cst.BaseExpression = target
    while isinstance(whole, cst.Attribute) and is_data(whole, module):
        whole = whole.value
    held = module.value(whole)
    if held.kind not in ("tensor", "param", "unknown") or not dotted(whole):  # torch takes nothing but a tensor there
        return [], ""
    made = writer.expression(call)
    assert isinstance(made, cst.BaseExpression)
    place = code(writer.expression(whole))
    parameter = is_parameter(whole, held, module, writer.plan)
    why = "the result is assigned" if parameter else f"written into `{place}`; assumed: it has the shape of the result"
    writer.tell("T2M611", "out=", why, Tier.EXACT if parameter else Tier.ASSUMED)
    return in_place.store(stmt, whole, held, place, made, alone=False) or [], place
