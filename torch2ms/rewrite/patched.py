"""Statements that put something of the program's under a name of torch: `F.gelu = mine`, `del torch.compile`.

What calls that name is translated to MindSpore's, which such a statement does not reach: the program would go on with
what was to be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.editing import layout
from torch2ms.rewrite.settings import steers
from torch2ms.rewrite.translation import FullNames
from torch2ms.rewrite.writer import Writer

SETTERS = ("setattr", "delattr")
# what is written there steers how torch runs and compiles, not what it computes
SETTINGS = ("torch.backends.", "torch._dynamo.config.", "torch._inductor.config.", "torch._functorch.config.")
WHY = "MindSpore's own stays what it is, whatever torch's name is bound to"
TODO = "call the function, or use a class derived from the layer, where it is meant"


def is_setting(name: str, writer: Writer) -> bool:
    """`torch.backends.cudnn.benchmark`, and what a rule says is one: a statement that writes it may go."""
    return steers(name, writer) or name.startswith(SETTINGS)


def patched(stmt: Stmt, node: cst.BaseSmallStatement, writer: Writer) -> list[cst.BaseStatement] | None:
    """The statement as it was, under a mark, where it binds or removes an attribute of torch's modules or classes."""
    name = next((_name(target, writer.module) for target in _targets(node) if _is_torchs(target, writer.module)), "")
    return _kept(stmt, node, name, writer) if name else None


def set_on_torch(stmt: Stmt, call: cst.Call, writer: Writer) -> list[cst.BaseStatement] | None:
    """`setattr(torch.nn.Linear, "reset_parameters", skip)`."""
    if dotted(call.func) not in SETTERS or len(call.args) < 2:
        return None
    owner, said = call.args[0].value, constant(call.args[1].value)
    place = cst.Attribute(owner, cst.Name(said)) if isinstance(said, str) and said.isidentifier() else None
    if not _is_torchs(place or cst.Attribute(owner, cst.Name("attribute")), writer.module):
        return None
    return _kept(stmt, cst.Expr(call), _name(place or owner, writer.module), writer)


def _kept(stmt: Stmt, node: cst.BaseSmallStatement, name: str, writer: Writer) -> list[cst.BaseStatement]:
    writer.refuse("T2M617", f"{name} bound anew", WHY, f"{TODO} ({WHY})")
    kept = node.visit(FullNames(writer.module, writer.needs))
    assert isinstance(kept, cst.BaseSmallStatement)
    return [layout.line(stmt, kept)]


def _targets(node: cst.BaseSmallStatement) -> Iterator[cst.BaseExpression]:
    listed = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]  # type: ignore[attr-defined]
    for target in listed:
        yield from (e.value for e in target.elements) if isinstance(target, cst.Tuple) else (target,)


def _name(target: cst.BaseExpression, module: ModuleInfo) -> str:
    return qualified(target, module.imports)


def _is_torchs(target: cst.BaseExpression, module: ModuleInfo) -> bool:
    """An attribute of `F`, of `torch.nn.Linear`: of a module, class or function of torch."""
    if not isinstance(target, cst.Attribute) or not is_foreign(_name(target, module)):
        return False
    return module.value(target.value).kind == "api"
