"""`module.load_state_dict(...)` as a statement: copies between modules, and loads that training goes on after.

`ms.load_param_into_net` gives the parameters new storage. It shares the values with whoever holds the dictionary, it
takes Parameters only, and an optimizer that has made a step (it is compiled then) goes on with the old storage: the
module would never change again. `ops.assign` does none of that.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.findings import Tier
from torch2ms.rewrite.naming import unused
from torch2ms.rewrite.parameters.given_states import bound_to, of_network, stated
from torch2ms.rewrite.parameters.keys import by_torch_names
from torch2ms.rewrite.parameters.parts import is_part
from torch2ms.rewrite.parameters.renewed import between, stepped, unseen
from torch2ms.rewrite.parameters.second_names import second_names
from torch2ms.rewrite.writer import Writer


def loaded(writer: Writer, stmt: Stmt, call: cst.Call, func: cst.Attribute) -> list[cst.BaseStatement] | None:
    """The lines for a load that is not plainly `ms.load_param_into_net`, None for one that is."""
    likely = writer.module.value(func.value).kind != "module"
    tier, seen = (Tier.ASSUMED, f"; assumed: `{code(func.value)}` is a network") if likely else (Tier.EXACT, "")
    if (source := _own_state(writer, call)) is not None:
        writer.needs.add("ops")
        why = "values are assigned: load_param_into_net would share them between both modules"
        writer.tell("T2M507", "load_state_dict", why + seen, tier)
        pairs = "zip({0}.get_parameters(), {1}.get_parameters())"
        loop = f"for target_param, source_param in {pairs}:\n    ops.assign(target_param, source_param)"
        return writer.text(loop, func.value, source)
    given = call.args[0].value if call.args else None
    if given is None:
        return None
    at_work = of_network(given, stmt, writer.module)  # it changes with the network
    torchs = by_torch_names(given, writer.module, writer.project)
    again = second_names(writer.project) or is_part(func.value, writer.scope, writer.module, writer.project)
    if not (torchs or again or at_work or _computed(writer, stmt, given) or not likely and _goes_on(writer, stmt)):
        return None
    writer.needs.add("ops")
    why = "values are assigned: load_param_into_net would share them, and an optimizer at work would not see them"
    writer.tell("T2M507", "load_state_dict", why + seen, tier)
    name, value = (unused(n, writer.module, writer.plan) for n in ("name", "value"))
    held = "dict({0}.parameters_and_names())" if again else "{0}.parameters_dict()"
    if torchs:
        writer.needs.add("named_state")
        held = "named_state({0})"
    write = f"ops.assign({held}[{name}], {value})"
    if any(a.keyword is not None and a.keyword.value == "strict" and constant(a.value) is False for a in call.args):
        write = f"if {name} in {held}:\n        {write}"
    return writer.text(f"for {name}, {value} in {{1}}.items():\n    {write}", func.value, given)


def _own_state(writer: Writer, call: cst.Call) -> cst.BaseExpression | None:
    """The module whose own state dict a module loads; what is asked for a state there is one, if it is not seen."""
    return _asked(writer, call.args[0].value) if len(call.args) == 1 else None


def _asked(writer: Writer, given: cst.BaseExpression) -> cst.BaseExpression | None:
    """The module in `net.state_dict()`"""
    return stated(given, writer.module)


def _computed(writer: Writer, stmt: Stmt, given: cst.BaseExpression) -> bool:
    """The dictionary holds values that are no Parameters, or somebody looks at it again."""
    if isinstance(given, (cst.Dict, cst.DictComp)):
        return True
    value = writer.module.value(given)
    place = dotted(given)
    if _made_by_function(writer, stmt, given):
        return True
    body = list(writer.scope.body.walk())
    if place and any(place in s.muts for s in body if not s.blocks and s is not stmt):
        return True
    if value.kind != "dict" or not place:
        return False
    after = any(place in s.uses and s.number > stmt.number for s in body)
    return value.keys is not None or bool(value.name) and (value.name != "state_dict" or after)


def _made_by_function(writer: Writer, stmt: Stmt, given: cst.BaseExpression) -> bool:
    """A function of the project returned the dictionary: `average([net.state_dict() for net in clients])`."""
    given = bound_to(given, stmt)
    return isinstance(given, cst.Call) and writer.module.value(given.func).kind == "function"


def _goes_on(writer: Writer, stmt: Stmt) -> bool:
    """An optimizer may step before the load and again after it."""
    scope, project = writer.scope, writer.project
    if not project.moving:
        return False
    steps = stepped(scope, project) or unseen(stmt, scope)
    return between(stmt, scope, steps, project) if steps else scope.is_function and scope.name != "__init__"
