"""The places that a sort or a search gives beside its values: int64 in torch, int32 in MindSpore."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children
from torch2ms.api import Outcome, Rule
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

_WIDENED = "long_places"
_ANSWERING = {"eq", "ne", "lt", "le", "gt", "ge", "item", "tolist", "size", "dim", "numel"}  # the width does not show
_KEEPING = {"t", "view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "expand", "contiguous"}
_TAKING = {"gather", "index_select", "take_along_dim", "expand_as", "view_as", "eq", "ne"}


def widened(rule: Rule, outcome: Outcome, original: cst.Call, work: Translation, where: Positions) -> Outcome:
    """The call with its places as int64, where somebody may see the difference."""
    tensors = outcome.form is not None and outcome.form.returns == "tuple:tensor,tensor:int"
    if not rule.narrow or outcome.node is None or not tensors or id(original) in where.valued:
        return outcome
    if work.stmt is not None and _only_place(original, work.stmt):
        return outcome
    node = cst.Call(cst.Name(work.alias(_WIDENED)), [cst.Arg(outcome.node)])
    return replace(outcome, node=node, needs=outcome.needs | {_WIDENED})


def _only_place(call: cst.Call, stmt: Stmt) -> bool:
    """`_, pred = output.topk(k)` in a function, where `pred` does nothing but pick elements or be compared."""
    node, scope = stmt.node, stmt.block.scope
    if not isinstance(node, cst.Assign) or node.value is not call or len(node.targets) != 1 or not scope.is_function:
        return False
    target = node.targets[0].target
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return False
    name = dotted(target.elements[1].value)
    if not name.isidentifier() or any(name in s.all_uses for inner in scope.children for s in _all(inner)):
        return False
    return all(_hidden(name, s) for s in scope.body.walk() if name in s.uses | s.muts | s.defs and s is not stmt)


def _all(scope: Scope) -> list[Stmt]:
    return [s for part in scope.walk() for s in part.body.walk()]


def _hidden(name: str, stmt: Stmt) -> bool:
    """No use of the name in a statement shows whether it has 32 or 64 bits."""
    if stmt.blocks:
        return name not in stmt.uses | stmt.defs
    above = {id(child): node for node in stmt.nodes for child in children(node)}
    named = [n for n in stmt.nodes if isinstance(n, cst.Name) and n.value == name]
    return all(_harmless(n, name, above) for n in named)


def _harmless(node: cst.CSTNode, name: str, above: dict[int, cst.CSTNode]) -> bool:
    """What becomes of one use of the name, or of a view of what it stands for."""
    outer = above.get(id(node))
    if isinstance(outer, cst.Attribute):
        if outer.attr is node or outer.attr.value in ("shape", "ndim"):
            return True
        call = above.get(id(outer))
        if not isinstance(call, cst.Call) or call.func is not outer:
            return outer.attr.value in ("T", "mT") and _harmless(outer, name, above)
        method = outer.attr.value
        return method in _ANSWERING or method in _KEEPING and _harmless(call, name, above)
    if isinstance(outer, cst.Arg):
        call = above.get(id(outer))
        taken = call.func.attr.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else ""
        return outer.keyword is node or taken in _TAKING
    if isinstance(outer, cst.Subscript):
        return outer.value is node and _harmless(outer, name, above)
    if isinstance(outer, cst.Assign):
        return len(outer.targets) == 1 and dotted(outer.targets[0].target) == name
    return isinstance(outer, (cst.Index, cst.Comparison, cst.ComparisonTarget, cst.AssignTarget))
