"""Calls of methods of optimizers, of their groups, and of the schedulers around them."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.rewrite import rates
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

RATES = "learning rates of a scheduler"


def rates_of(
    name: str, receiver: Value, original: cst.Call, updated: cst.Call, work: Translation, where: Positions
) -> cst.BaseExpression | None:
    """`scheduler.get_last_lr()`; None for everything else."""
    if rates.remembered(original, work.stmt):
        why = "what another scheduler computed last: MindSpore's show the rates as they are now"
        work.refuse("T2M502", RATES, why, "keep the rates that it computed yourself")
        return updated
    if name == "get_last_lr" and rates.overtaken(original, work.stmt, work.module):
        why = "what it computed last: MindSpore's shows the rates as they are now, with what was written since"
        work.refuse("T2M502", RATES, why, "keep the rates that it computed yourself")
        return updated
    computed = name == "get_last_lr" or name == "get_lr" and receiver.kind == "scheduler"
    whole = computed and not original.args and id(original) not in where.indexed
    if not whole or not work.schedules(receiver):
        return None
    work.tell("T2M502", RATES, "Parameters in MindSpore: read as numbers")
    number = "float(lr)" if rates.wrapped(work.project) else "lr.item()"
    return cst.parse_expression(f"[{number} for lr in {code(updated)}]")


def of_optimizer(
    name: str, original: cst.Call, updated: cst.Call, work: Translation, where: Positions
) -> cst.BaseExpression | None:
    """`optimizer.name(...)`, None where a rule says all."""
    if name == "state_dict" and id(original) in where.indexed:
        why, todo = "MindSpore's state has names of parameters", "keep what you need yourself"
        work.refuse("T2M605", "torch.optim.Optimizer.state_dict", why, todo)
        return updated
    if name == "load_state_dict" and _steps_on(original, work):
        why = "torch's optimizers share the moments from then on, and both go on"
        work.refuse("T2M605", "torch.optim.Optimizer.load_state_dict", why, "load a deep copy of the state")
        return updated
    if name == "add_param_group" and work.module.grows:
        assert isinstance(updated.func, cst.Attribute)
        work.notes.needs.add(name)
        work.tell("T2M605", f"torch.optim.Optimizer.{name}", "a group whose moments begin now")
        return cst.Call(cst.Name(name), [cst.Arg(updated.func.value), *(cst.Arg(a.value) for a in updated.args)])
    return None


def _steps_on(load: cst.Call, work: Translation) -> bool:
    """`twin.load_state_dict(optimizer.state_dict())`, and the other optimizer is used again."""
    given, stmt = load.args[0].value if load.args else None, work.stmt
    asked = given.func if isinstance(given, cst.Call) else None
    if stmt is None or not isinstance(asked, cst.Attribute) or asked.attr.value != "state_dict":
        return False
    place = dotted(asked.value)
    if not place or code(asked.value) == code(load.func.value):  # type: ignore[attr-defined]
        return False
    stmts = stmt.block.scope.body.walk()
    loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    again = [s for s in (*(s for s in stmts if s.number > stmt.number), *loops) if s is not stmt]
    if any(place in s.defs for s in again):  # the one takes the place of the other
        return False
    return any(place in s.uses for s in again)


def of_group(name: str, original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`group.name(...)` of a dict in `param_groups`, None where it stays as it is."""
    if name in ("keys", "values", "items"):
        why, todo = "a group of MindSpore's optimizer has fewer and other settings", "name the settings"
    elif name == "setdefault" and _other_setting(original):
        work.tell("T2M502", "setting of a group", "a number that MindSpore keeps in the group as torch does")
        return updated
    elif name in ("update", "setdefault", "pop"):
        why = "the learning rate of a group is a Parameter, which a number in its place leaves as it was"
        todo = "write each setting by its name"
    else:
        return None
    work.refuse("T2M605", "torch.optim.Optimizer.param_groups", why, todo)
    return updated


def _other_setting(call: cst.Call) -> bool:
    """`group.setdefault("momentum", 0)`: another setting than the learning rate."""
    key = constant(call.args[0].value) if len(call.args) == 2 and not call.args[0].star else None
    return isinstance(key, str) and key not in ("lr", "params")
