"""What an optimizer remembers of a parameter, where a program looks at it: `optimizer.state[p]["exp_avg_sq"]`.

MindSpore's optimizers keep moments in rows beside their parameters. A function gives those of one parameter under
PyTorch's names; the tensors are the moments themselves. What a program puts into that dict, no step of MindSpore finds.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

STATE_OF = "state_of"
NAMED = frozenset(f"torch.optim.{name}" for name in ("SGD", "Adam", "AdamW"))  # whose moments have counterparts
COMPUTING = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)


def remembered(
    original: cst.Attribute, updated: cst.Attribute, work: Translation, where: Positions
) -> cst.BaseExpression | None:
    """`state_of(optimizer)` for `optimizer.state`, which gets the parameter that the subscript around it names."""
    receiver, module, stmt = work.module.value(original.value), work.module, work.stmt
    if receiver.kind != "optimizer" or receiver.name not in NAMED or id(original) not in where.indexed or stmt is None:
        return None
    if module.skips or module.grows or work.project.in_rows:  # each parameter has a count of its own, or another shape
        return None
    item = next(n for n in stmt.nodes if type(n) is cst.Subscript and n.value is original)
    if not _only_read(item, stmt, module):
        return None
    work.notes.needs.add(STATE_OF)
    work.tell("T2M605", "torch.optim.Optimizer.state", "the moments of the parameter, under PyTorch's names")
    return cst.Call(cst.Name(STATE_OF), [cst.Arg(updated.value)])


def of_parameter(original: cst.Subscript, updated: cst.Subscript) -> cst.Call | None:
    """`state_of(optimizer, p)`, where the subscript took what is remembered of a parameter."""
    call = updated.value
    if type(call) is not cst.Call or dotted(call.func) != STATE_OF or type(original.value) is not cst.Attribute:
        return None
    index = updated.slice[0].slice
    assert isinstance(index, cst.Index)
    first = call.args[0].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(args=[first, cst.Arg(index.value)])


def _only_read(node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """Nothing is put into the dict that the expression gives, nor into what a name keeps of it."""
    if _looked_into(node, stmt, module):
        return True
    kept = stmt.node.targets if type(stmt.node) is cst.Assign and stmt.node.value is node else ()
    name = dotted(kept[0].target) if len(kept) == 1 else ""
    if not name or "." in name or stmt.block.scope.children:
        return False
    using = [s for s in stmt.block.scope.body.walk() if name in s.uses | s.defs | s.muts]
    return all(n is kept[0].target or _looked_into(n, s, module) for s in using for n in _named(name, s))


def _looked_into(node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """An item of it is read, or it is asked what it holds."""
    for outer in _own(stmt):
        if type(outer) is cst.Subscript and outer.value is node:
            return _read(outer, stmt, module)
        if type(outer) is cst.Comparison and any(part.comparator is node for part in outer.comparisons):
            return all(type(part.operator) in (cst.In, cst.NotIn) for part in outer.comparisons)
        if type(outer) is cst.Call and any(arg.value is node for arg in outer.args):
            return dotted(outer.func) == "len"
    return False


def _read(item: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> bool:
    """A tensor of it is computed with, or changed right there; a name that it gets is not changed."""
    node = stmt.node
    for outer in _own(stmt):
        if type(outer) in (cst.Attribute, cst.Subscript) and outer.value is item:  # type: ignore[attr-defined]
            return True
        if type(outer) in COMPUTING and any(part is item for part in outer.children):
            return True
        if type(outer) is cst.ComparisonTarget and outer.comparator is item:
            return True
        if type(outer) is cst.Call and any(arg.value is item for arg in outer.args):
            return module.value(outer.func).kind in ("api", "builtin") and not dotted(outer.func).endswith("_")
    if type(node) is not cst.Assign or len(node.targets) != 1:
        return False
    row = [e.value for e in node.value.elements] if type(node.value) is cst.Tuple else [node.value]
    stmts = stmt.block.scope.body.walk()
    changed = {d for s in stmts for d in (s.muts | s.defs if type(s.node) is cst.AugAssign else s.muts)}
    return any(part is item for part in row) and not stmt.defs & changed and not any("." in d for d in stmt.defs)


def _named(name: str, stmt: Stmt) -> list[cst.Name]:
    nodes = _own(stmt)
    others = {id(n.attr) for n in nodes if type(n) is cst.Attribute}
    others |= {id(n.keyword) for n in nodes if type(n) is cst.Arg}
    return [n for n in nodes if type(n) is cst.Name and n.value == name and id(n) not in others]


def _own(stmt: Stmt) -> list[cst.CSTNode]:
    """The nodes of a statement without those of the statements in it, whose own they are."""
    inner = {id(n) for block in stmt.blocks for s in block.walk() for n in s.nodes}
    return [n for n in stmt.nodes if id(n) not in inner]
