"""Views that objects keep of tensors that they write into: `self.last = self.slots[-1]`.

In MindSpore a view that was made outside of a gradient function does not show all that is written inside.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.inplace import views


def kept_view(held: cst.BaseExpression, scope: Scope, module: ModuleInfo) -> str:
    """The attribute in which the class keeps a view of the tensor, "" where there is none."""
    place = dotted(held)
    if scope.cls is None or not place.startswith("self."):
        return ""
    for inner in scope.cls.walk():
        for stmt in inner.body.walk():
            target = stmt.node.targets[0].target if type(stmt.node) is cst.Assign else None
            kept = dotted(target) if type(target) is cst.Attribute else ""
            if kept.startswith("self.") and kept != place and place in views.sources(kept, stmt, module):
                return kept
    return ""
