"""How the memory that a name shows can be written: MindSpore's `copy_` reaches whole tensors alone."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import is_change
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.shown import taken
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant

WHOLE, PART, VIEW, LOST = "whole", "part", "view", "lost"
TENSORS = ("tensor", "param")
SAME = frozenset({"detach", "contiguous", "requires_grad_", "to", "cuda", "cpu", "data"})
RESHAPED = frozenset(
    {"view", "reshape", "view_as", "reshape_as", "flatten", "ravel", "unflatten", "unsqueeze", "squeeze"}
)
CUT = frozenset({"data", "detach"})
TURNED = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "T", "mT", "narrow",
                    "select", "diagonal"})  # fmt: skip
ALWAYS = frozenset({"view", "view_as", "unflatten", "unsqueeze", "squeeze"})  # never copies
EXPANDED = frozenset({"expand", "expand_as"})
COPIED = frozenset({"unfold", "real", "imag", "view_as_real"}) | EXPANDED  # by MindSpore
SPLIT = frozenset({"chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes"})
VIEWING = SAME | RESHAPED | TURNED | COPIED | SPLIT  # what is made by them may show another tensor
DEPTH = 4  # names that stand for names


def memory(target: cst.CSTNode, stmt: Stmt, scope: Scope, module: ModuleInfo) -> str:
    """PART: elements that `y[()] = value` writes (`y[...] = value` binds `y` to other memory, where it shows no later
    change of the tensor); VIEW: those that it writes only where no gradients are recorded; LOST: nothing in
    MindSpore reaches them; else WHOLE."""
    if isinstance(target, cst.Subscript):
        return VIEW if isinstance(target.value, cst.Call) and _last(target.value) in SPLIT else PART
    return _named(target.value, stmt, scope, module, DEPTH) if isinstance(target, cst.Name) else WHOLE


def turned(node: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    """The tensor that `x.T`, `x.diagonal(1)`, `torch.permute(x, (1, 0))` are views of; None for what is none."""
    shown = False
    while (type(node) is cst.Call or type(node) is cst.Attribute) and _last(node) in TURNED | RESHAPED:
        inner = _receiver(node, module)
        if inner is None or module.value(inner).kind not in TENSORS:
            return None
        shown, node = True, inner
    return node if shown else None


def peeled(node: cst.CSTNode) -> cst.CSTNode:
    """The tensor whose memory methods and attributes show: `x` for `x.detach().view(-1)` and `x.T`."""
    while isinstance(node, (cst.Call, cst.Attribute)) and _last(node) in SAME | RESHAPED | TURNED:
        owner = node.func if isinstance(node, cst.Call) else node
        if not isinstance(owner, cst.Attribute):
            break
        node = owner.value
    return node


def in_order(node: cst.CSTNode) -> bool:
    """`p.data.view(-1)`: all elements of a tensor, in their order."""
    while isinstance(node, (cst.Call, cst.Attribute)) and _last(node) in SAME | RESHAPED:
        node = node.func.value if isinstance(node, cst.Call) else node.value  # type: ignore[attr-defined]
    return isinstance(node, cst.Name) or isinstance(node, cst.Attribute) and node.attr.value not in TURNED | COPIED


def of_all(node: cst.BaseExpression) -> bool:
    """`x.view(-1)`: all elements in their order, in the memory of `x` whatever its layout."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _last(node) in ALWAYS:
        node = node.func.value
    return isinstance(node, cst.Name)


def copied(node: cst.BaseExpression, module: ModuleInfo, stmt: Stmt | None = None) -> bool:
    """`z.real[0]`, `torch.view_as_real(z)`: elements that no write in MindSpore reaches.

    Of a name, `rows[0]` of `rows = x.unfold(0, 2, 1)`, where something reads `x` behind the statement."""
    while type(node) is cst.Subscript:
        node = node.value
    if type(node) is cst.Name and stmt is not None:
        made = _made(node.value, stmt)
        return copied(made, module) and any(read_again(source, stmt) for source in shown_by(made, module))
    inner = _receiver(node, module) if _last(node) in COPIED - EXPANDED else None
    return inner is not None and module.value(inner).kind in TENSORS


def _made(name: str, stmt: Stmt) -> cst.BaseExpression:
    """What a name was bound to last before a statement, itself where that is not seen."""
    before = (s for s in stmt.block.scope.body.walk() if name in s.defs and s.number < stmt.number)
    made = [s.node for s in before if isinstance(s.node, cst.Assign)]
    given = made[-1].value if made else None
    if isinstance(given, cst.Tuple):
        given = _beside(name, made[-1].targets[0].target, given)
    return given or cst.Name(name)


def read_again(name: str, stmt: Stmt) -> bool:
    """Something behind a statement reads the name, or in the next turn of a loop around it."""
    loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    later = [s for s in stmt.block.scope.body.walk() if s.number > stmt.number]
    return any(name in s.uses for s in (*later, *loops))


def parted(name: str, stmt: Stmt, module: ModuleInfo) -> set[str]:
    """The tensor of which a list holds the parts: `x` for `list(x)` and `parts = x.chunk(3)`."""
    node = made = _made(name, stmt)
    while isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple") and len(node.args) == 1:
        node = node.args[0].value
    if isinstance(node, cst.Call) and _last(node) in SPLIT and (whole := _receiver(node, module)) is not None:
        node = whole
    elif node is made:
        return set()
    place = dotted(peeled(node))
    return {place} if place and module.value(node).kind in TENSORS else set()


def through(target: cst.CSTNode, stmt: Stmt, scope: Scope, depth: int = DEPTH) -> set[str]:
    """The methods and attributes by which a name shows the memory of another tensor: `view` for `flat = x.view(-1)`."""
    found: set[str] = set()
    for other in scope.body.walk() if isinstance(target, cst.Name) and depth else ():
        if target.value not in other.defs or other.number > stmt.number or other is stmt:  # type: ignore[attr-defined]
            continue
        value = other.node.value if isinstance(other.node, cst.Assign) else None
        while isinstance(value, (cst.Call, cst.Attribute)):
            last = _last(value)
            if last not in SAME | RESHAPED and not is_change(value):
                break
            found |= {last} & (SAME | RESHAPED)
            value = value.value if isinstance(value, cst.Attribute) else value.func.value  # type: ignore[attr-defined]
        if isinstance(value, cst.Name):
            found |= through(value, other, scope, depth - 1)
    return found


def sources(name: str, stmt: Stmt, module: ModuleInfo, same: bool = False) -> set[str]:
    """The tensor of which a statement gives a part, or another shape, the name; nothing where it is not seen.

    `x.detach()` counts where the `same` elements do."""
    node = stmt.node
    value: cst.BaseExpression | None = node.value if isinstance(node, cst.Assign) else None
    if isinstance(node, cst.Assign) and isinstance(value, cst.Tuple):
        value = _beside(name, node.targets[0].target, value)
    if value is None or isinstance(value, (cst.Name, cst.Tuple)):
        return set()
    return shown_by(value, module, same) - {name}


def shown_by(value: cst.BaseExpression | None, module: ModuleInfo, same: bool = False) -> set[str]:
    """The tensor of which an expression shows a part, or another shape: `flat` for `flat[i:j].view_as(p)`."""
    shown = same
    while value is not None and not isinstance(value, cst.Name) and not _attribute(value):
        last = _last(value)
        inner = value.value if isinstance(value, cst.Subscript) else _receiver(value, module)
        part = isinstance(value, cst.Subscript) and isinstance(inner, cst.Call) and _last(inner) in SPLIT
        if inner is None or not part and module.value(inner).kind not in TENSORS:
            return set()
        if not isinstance(value, cst.Subscript) and last not in SAME | RESHAPED | TURNED | COPIED | SPLIT:
            return set()
        if isinstance(value, cst.Subscript) and not _plain(value, module):
            return set()
        shown = shown or last not in SAME
        value = inner
    return {dotted(value)} if shown and value is not None else set()


def _beside(name: str, target: cst.BaseExpression, given: cst.Tuple) -> cst.BaseExpression | None:
    """What the name gets in `row, column = x[0], x[:, 0]`."""
    if not isinstance(target, cst.Tuple) or len(target.elements) != len(given.elements):
        return None
    pairs = zip(target.elements, given.elements, strict=True)
    return next((v.value for t, v in pairs if isinstance(t.value, cst.Name) and t.value.value == name), None)


def _attribute(node: cst.BaseExpression) -> bool:
    """`self.memory`: what the object keeps, no part or other shape of it."""
    own = isinstance(node, cst.Attribute) and node.attr.value not in SAME | RESHAPED | TURNED | COPIED | SPLIT
    return own and bool(dotted(node))


def reshaped(node: cst.BaseExpression | None, name: str, module: ModuleInfo) -> bool:
    """`x.view(-1)`, `torch.flatten(x).unsqueeze(0)`: every element of `x` in its order, in another shape."""
    while node is not None and not isinstance(node, cst.Name) and not _attribute(node):
        if isinstance(node, cst.Subscript) or _last(node) not in RESHAPED:
            return False
        node = _receiver(node, module)
    return node is not None and dotted(node) == name


def _plain(node: cst.Subscript, module: ModuleInfo) -> bool:
    """An index of numbers and slices: one by tensors or lists gives a copy."""
    parts = [e.slice for e in node.slice]
    kinds = {module.value(p.value).kind for p in parts if isinstance(p, cst.Index)}
    return not kinds & {"tensor", "list", "numpy"}


def _named(name: str, stmt: Stmt, scope: Scope, module: ModuleInfo, depth: int) -> str:
    around = _around(stmt)
    found = _given(name, scope, module, depth) if name in scope.params and depth else set()
    for other in scope.body.walk():
        if name in other.defs and other.number <= stmt.number and other is not stmt:
            if isinstance(other.node, cst.Assign) and any(other.block is block for block in around):
                found.clear()  # what it held before is gone, whichever way leads here
            found.add(_bound(name, other, scope, module, depth))
    return next((sort for sort in (LOST, VIEW, PART) if sort in found), WHOLE)


def _around(stmt: Stmt) -> list[Block]:
    """The blocks that a statement stands in, inside its function."""
    blocks = [stmt.block]
    while (owner := blocks[-1].owner) is not None and owner.block.scope is stmt.block.scope:
        blocks.append(owner.block)
    return blocks


def _given(name: str, scope: Scope, module: ModuleInfo, depth: int) -> set[str]:
    """What the calls of this module hand to a function under the name of a parameter."""
    return {_shown(node, stmt, home, module, depth - 1) for node, stmt, home in handed(name, scope, module)}


def handed(name: str, scope: Scope, module: ModuleInfo) -> Iterator[tuple[cst.BaseExpression, Stmt, Scope]]:
    """What the calls of this module hand to a function under the name of a parameter, and where."""
    for home in module.scope.walk() if name in scope.params else ():
        for stmt in home.body.walk():
            for call in stmt.calls:
                method = isinstance(call.func, cst.Attribute)
                if (_last(call) if method else dotted(call.func)) != scope.name:
                    continue
                bound = method and scope.params[0] in ("self", "cls")
                place = scope.params.index(name) - bound
                for i, arg in enumerate(call.args):
                    if arg.keyword.value == name if arg.keyword is not None else i == place and not arg.star:
                        yield arg.value, stmt, home


def _bound(name: str, stmt: Stmt, scope: Scope, module: ModuleInfo, depth: int) -> str:
    """What a statement that binds a name makes of it."""
    node = stmt.node
    if isinstance(node, cst.For):
        over = taken(node.target, node.iter, name)
        if over is None or module.value(over).kind in TENSORS:
            return PART if over is not None else WHOLE
        return _elements(over.value, stmt, scope, module, depth - 1) if isinstance(over, cst.Name) and depth else WHOLE
    if not isinstance(node, cst.Assign):
        return WHOLE
    for target in node.targets:
        if isinstance(target.target, cst.Tuple):
            last = _last(node.value)
            if last in SPLIT:
                return VIEW
            if isinstance(node.value, cst.Tuple):
                pairs = zip(target.target.elements, node.value.elements, strict=False)
                mine = [v.value for t, v in pairs if isinstance(t.value, cst.Name) and t.value.value == name]
                return _shown(mine[0], stmt, scope, module, depth) if mine else WHOLE
            return PART if module.value(node.value).kind in TENSORS else WHOLE
    return _shown(node.value, stmt, scope, module, depth)


def _elements(name: str, stmt: Stmt, scope: Scope, module: ModuleInfo, depth: int) -> str:
    """What the elements show of what a loop runs over: a tensor, or a list that is written down."""
    found = set()
    for other in scope.body.walk():
        if name not in other.defs or other.number > stmt.number or not isinstance(other.node, cst.Assign):
            continue
        if isinstance(other.node.value, (cst.List, cst.Tuple)):
            found |= {_shown(e.value, other, scope, module, depth) for e in other.node.value.elements}
        elif module.value(other.node.value).kind in TENSORS:
            found.add(PART)
    return next((sort for sort in (LOST, VIEW, PART) if sort in found), WHOLE)


def shown(node: cst.BaseExpression, stmt: Stmt, scope: Scope, module: ModuleInfo) -> str:
    """The same of an expression."""
    return _shown(node, stmt, scope, module, DEPTH)


def _shown(node: cst.BaseExpression, stmt: Stmt, scope: Scope, module: ModuleInfo, depth: int) -> str:
    """What of another tensor an expression shows."""
    if isinstance(node, cst.Name):
        return _named(node.value, stmt, scope, module, depth - 1) if depth else WHOLE
    if isinstance(node, cst.Subscript):
        base = node.value
        if not _plain(node, module):
            return WHOLE
        if isinstance(base, cst.Call) and _last(base) in SPLIT:
            return VIEW
        if any(isinstance(e.slice, cst.Index) and constant(e.slice.value) is None for e in node.slice):
            return VIEW  # a new dimension
        kind = module.value(base).kind
        sliced = kind == "unknown" and any(isinstance(e.slice, cst.Slice) for e in node.slice)  # lists take no writes
        return PART if kind in TENSORS or sliced else WHOLE
    last = _last(node)
    inner = _receiver(node, module)
    if inner is None or module.value(inner).kind not in TENSORS:
        return WHOLE
    if last in TURNED:
        return VIEW
    if last in COPIED:
        return LOST
    if last not in SAME | RESHAPED:
        return WHOLE
    held = _shown(inner, stmt, scope, module, depth)
    return LOST if held == PART and last in RESHAPED else held


def _last(node: cst.BaseExpression) -> str:
    called = node.func if type(node) is cst.Call else node
    return called.attr.value if type(called) is cst.Attribute else ""


def _receiver(node: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    """The tensor that a method, an attribute or a function of torch shows."""
    if isinstance(node, cst.Call):
        if not isinstance(node.func, cst.Attribute):
            return None
        function = module.value(node.func).kind == "api" and module.value(node.func.value).kind == "api"
        return (node.args[0].value if node.args else None) if function else node.func.value
    return node.value if isinstance(node, cst.Attribute) else None
