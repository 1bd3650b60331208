"""The places that a sort or a search gives beside its values: int64 in torch, int32 in MindSpore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.api import Outcome, Rule
from torch2ms.rewrite.translation import Translation

if TYPE_CHECKING:
    from torch2ms.rewrite.positions import Positions

_WIDENED = "long_places"


def values_only(target: cst.BaseExpression) -> bool:
    """`values, _ = ...`: nobody reads the places."""
    return isinstance(target, cst.Tuple) and len(target.elements) == 2 and dotted(target.elements[1].value) == "_"


def widened(rule: Rule, outcome: Outcome, original: cst.Call, work: Translation, where: Positions) -> Outcome:
    """The call with its places as int64, where somebody may read them."""
    tensors = outcome.form is not None and outcome.form.returns == "tuple:tensor,tensor:int"
    if not rule.narrow or outcome.node is None or not tensors or id(original) in where.valued:
        return outcome
    node = cst.Call(cst.Name(work.alias(_WIDENED)), [cst.Arg(outcome.node)])
    return replace(outcome, node=node, needs=outcome.needs | {_WIDENED})
