"""`self.encoder.train = disabled_train`: a network whose mode nobody changes any more.

torch's networks call the `train` of every layer inside, MindSpore's `set_train` does not: what the program puts there
would not be called.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Tier
from torch2ms.rewrite.writer import Writer

MODES = ("train", "eval")
BOUND = ("__get__", "MethodType", "partial", "partialmethod")
WHY = "set_train does not call it"
TODO = "override add_flags_recursive, which set_train of the networks around calls with training=..."


def kept_mode(
    stmt: Stmt, target: cst.Attribute, given: cst.BaseExpression, writer: Writer
) -> list[cst.BaseStatement] | None:
    """The network keeps the mode that it is in where what is bound does nothing; a mark for all else."""
    place = code(target.value)
    value, idle = writer.module.value(target.value), _idle(given, writer)
    if value.kind != "module" and not (value.kind == "unknown" and idle):
        return None
    if not idle or target.attr.value != "train" or not _set_before(place, stmt):
        writer.plan.expressions.setdefault(id(target), code(target))
        writer.refuse("T2M306", f"{target.attr.value} of a network bound anew", WHY, TODO)
        return None
    why, tier = "set_train passes it by from now on", Tier.EXACT
    if value.kind == "unknown":
        why, tier = f"{why}; assumed: `{place}` is a network", Tier.ASSUMED
    writer.tell("T2M306", "train of a network bound anew", why, tier)
    writer.needs.add("keep_mode")
    return writer.text("keep_mode({0})", target.value)


def _idle(given: cst.BaseExpression, writer: Writer) -> bool:
    """A function that gives back what it was given, and does nothing."""
    if type(given) is cst.Lambda:
        return type(given.body) in (cst.Name, cst.Attribute)
    if type(given) is cst.Call and name_called(given) in BOUND:
        func, first = given.func, given.args[0].value if given.args else None
        bound = func.value if type(func) is cst.Attribute and name_called(given) == "__get__" else first
        return bound is not None and _idle(bound, writer)
    value = writer.module.value(given)
    info = writer.project.find(value.name, writer.module) if value.kind == "function" else None
    return isinstance(info, FunctionInfo) and _does_nothing(info)


def _does_nothing(info: FunctionInfo) -> bool:
    """`def disabled_train(self, mode=True): return self`"""
    stmts = [s for s in info.scope.body.stmts if not is_docstring(s.node) and type(s.node) is not cst.Pass]
    ends = [s.node.value for s in stmts if type(s.node) is cst.Return]
    return len(stmts) == len(ends) <= 1 and all(node is None or type(node) is cst.Name for node in ends)


def _set_before(place: str, stmt: Stmt) -> bool:
    """The statements in front of it say which mode the network is in: `self.encoder = encoder.eval()`."""
    block = stmt.block.stmts
    for other in block[: block.index(stmt)]:
        for call in other.calls:
            own = code(call.func) in (f"{place}.eval", f"{place}.train")
            if own or name_called(call) in MODES and place in other.defs:
                return True
    return False
