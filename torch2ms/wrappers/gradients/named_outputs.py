"""`grad(criterion(net(x), y), params, create_graph=True)`: the output that is differentiated gets a name.

A compiled function holds the statements that lead to an output. By parameters it has to be one that has a name;
derivatives by tensors are written as they stand.
"""

from __future__ import annotations

from itertools import count

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.gradients.components import GRAD, TWICE
from torch2ms.wrappers.passes import each_module


@each_module
def named_outputs(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such derivatives."""
    if not module.says(TWICE) or module.directives.off:
        return None
    stmts = [s for scope in module.scope.walk() for s in scope.body.walk()]
    outputs = {id(s.node): output for s in stmts if (output := _written_inside(s, module)) is not None}
    return _Named(module, outputs).plain() if outputs else None


def _written_inside(stmt: Stmt, module: ModuleInfo) -> cst.BaseExpression | None:
    """The output of the derivative by parameters that an assignment is about, where it has no name."""
    if not isinstance(stmt.node, cst.Assign):
        return None
    call = stmt.node.value.value if isinstance(stmt.node.value, cst.Subscript) else stmt.node.value
    if not isinstance(call, cst.Call) or module.value(call.func).name != GRAD:
        return None
    output, inputs = argument(call, 0, "outputs"), argument(call, 1, "inputs")
    if argument(call, 4, "create_graph") is None or inputs is None:
        return None
    by_parameters = module.value(inputs).kind in ("params", "list")
    return output if by_parameters and isinstance(output, (cst.Call, cst.BinaryOperation)) else None


class _Named(Suites):
    """One module: a statement that makes the output before that which differentiates it."""

    def __init__(self, module: ModuleInfo, outputs: dict[int, cst.BaseExpression]) -> None:
        super().__init__(module)
        self.outputs = outputs
        self.names = (name for n in count() if (name := f"output_{n}" if n else "output") not in module.bound)

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if (output := self.outputs.get(id(node))) is None:
            return [self.rewrite(node)]
        name = cst.Name(next(self.names))
        named = cst.ensure_type(node.deep_replace(output, name), cst.Assign)
        return [cst.Assign([cst.AssignTarget(name)], output.with_changes(lpar=[], rpar=[])), named]
