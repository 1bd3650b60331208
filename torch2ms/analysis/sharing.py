"""Who holds a tensor: whether other names see a change of it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import UNKNOWN

VIEWS = {"view", "reshape", "transpose", "t", "permute", "squeeze", "unsqueeze", "detach", "narrow", "select", "expand",
         "view_as", "flatten", "unbind", "chunk", "split", "contiguous", "to", "cuda", "cpu", "diagonal", "swapaxes",
         "float", "double", "long", "type", "get",
         "pop", "setdefault", "requires_grad_", "data", "numpy", "unfold", "expand_as", "broadcast_to",
         "movedim", "moveaxis", "swapdims", "unflatten", "ravel", "reshape_as", "as_strided", "hsplit", "vsplit",
         "tensor_split", "as_tensor", "asarray", "from_numpy", "view_as_real", "view_as_complex", "T", "mT", "real",
         "imag"}  # fmt: skip

RESHAPING = {"squeeze", "unsqueeze", "view", "reshape", "transpose", "permute", "flatten", "contiguous"}
COMPUTING = {
    "clone",
    "matmul",
    "bmm",
    "mm",
    "einsum",
    "addmm",
    "baddbmm",
    "cat",
    "stack",
    "softmax",
    "log_softmax",
    "sigmoid",
    "tanh",
    "exp",
    "log",
    "sum",
    "mean",
    "mul",
    "add",
    "sub",
    "div",
    "pow",
    "sqrt",
    "masked_fill",
    "where",
    "zeros",
    "ones",
    "full",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand",
    "randn",
}  # fmt: skip; tensors of their own, always
CONTAINERS = ("list", "tuple", "dict")


def fresh(target: cst.CSTNode, scope: Scope, but: Stmt | None = None) -> bool:
    """A local tensor of this scope that nothing else (`but` one statement) refers to: rebinding is enough."""
    if not isinstance(target, cst.Name):
        return False
    name = target.value
    once = but is not None and not any(owner.is_loop for owner in but.ancestors())
    since = begun(name, but) if once and but is not None else 0
    if name in scope.params and not since or name not in {*scope.locals, *scope.params}:
        return False
    if any(name in stmt.defs and not makes(stmt, name) for stmt in scope.body.walk() if stmt.number >= since):
        return False
    return not shared(name, scope, but, but if once else None, since)


def begun(name: str, stmt: Stmt) -> int:
    """The number of the last statement that is sure to have given the name a new tensor, or a number to which one is
    added, 0 if none is."""
    around = [stmt.block, *(owner.block for owner in stmt.ancestors())]
    made = (s for block in around for s in block.stmts if s.number < stmt.number and not s.blocks and name in s.defs)
    return max((s.number for s in made if type(s.node) is cst.Assign and _computes(s.node, name)), default=0)


def _computes(node: cst.Assign, name: str) -> bool:
    """`x = x * mask`, `x = x.clone()`: whatever the tensor was made of, it is another one."""
    if len(node.targets) != 1 or dotted(node.targets[0].target) != name:
        return False
    value = node.value
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in RESHAPING:
        value = value.func.value  # another shape of what is computed
    computed = isinstance(value, cst.Call) and name_called(value) in COMPUTING and root(dotted(value.func)) != "self"
    return computed or isinstance(value, cst.BinaryOperation) or isinstance(constant(value), int | float)


def shared(name: str, scope: Scope, but: Stmt | None = None, until: Stmt | None = None, since: int = 0) -> bool:
    """Something else than one statement has the tensor, too; who shares it after `until` shares what it is then, and
    who had what the name meant before `since` has that."""
    for stmt in scope.body.walk():
        if until is not None and stmt.number > until.number or stmt.number < since:
            continue
        if stmt is not but and any(root(u) == name for u in stmt.uses) and shares(stmt, name):  # `y = x.T` too
            return True
    return any(root(u) == name for child in scope.children for u in free_uses(child))


def makes(stmt: Stmt, name: str) -> bool:
    """What the statement binds to the name is new, or is what the name stood for."""
    node = stmt.node
    if isinstance(node, cst.AugAssign):
        return True
    given = next((value for target, value in assigned(node) if dotted(target) == name), None)
    if given is None:
        return False
    if isinstance(given, cst.Tuple):
        return all(isinstance(e.value, cst.Call) for e in given.elements)
    return changes_itself(node, name) or all(_new(value, stmt) for value in _either(given))


def changes_itself(node: cst.CSTNode, name: str) -> bool:
    """`x = x.mul_(2)`, `x = x.t().reshape(3, -1)`, `x = x[:, 1:]`: what had the name has it still, in another shape
    perhaps, or without a rest that nothing names any more."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or dotted(node.targets[0].target) != name:
        return False
    if isinstance(node.value, cst.Subscript):
        return dotted(node.value.value) == name
    if is_change(node.value):
        return dotted(base(node.value)) == name
    return isinstance(node.value, cst.Call) and shows(node.value) == {name}


def _either(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an expression may be: itself, or one of those it chooses from."""
    if isinstance(node, cst.IfExp):
        return [*_either(node.body), *_either(node.orelse)]
    if isinstance(node, cst.BooleanOperation):
        return [*_either(node.left), *_either(node.right)]
    return _either(node.value) if isinstance(node, cst.NamedExpr) else [node]


def _new(value: cst.BaseExpression, stmt: Stmt) -> bool:
    if dotted(value) == "None":
        return True
    if isinstance(value, cst.Call) and (stmt.shown or stmt.muts & {dotted(a.value) for a in value.args} - {""}):
        return False  # a helper that writes into what it is given may return it
    if isinstance(value, cst.Call):
        shared = isinstance(value.func, cst.Attribute) and value.func.attr.value in VIEWS
        return (not shared or not shows(value)) and (not is_change(value) or isinstance(base(value), cst.Call))
    return isinstance(value, (cst.BinaryOperation, cst.UnaryOperation))


def shares(stmt: Stmt, name: str) -> bool:
    """The statement stores the tensor itself somewhere: in another name, an attribute, a container."""
    node = stmt.node
    if name in stmt.shown and name not in stmt.defs:
        return True
    if isinstance(node, cst.Assign) and not changes_itself(node, name):
        values = (
            [e.value for e in node.value.elements] if isinstance(node.value, (cst.Tuple, cst.List)) else [node.value]
        )
        if any(name in _sources(value) for value in values) or _packed(node.value, name):
            return True
    keeping = [call for call in stmt.calls if _keeps(call)]
    if any(name in shows(a.value) for call in keeping for a in call.args):
        return True
    if type(node) is cst.Expr and yields(stmt, name):
        return True
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value in ("append", "extend", "insert", "put")
        and any(dotted(base(a.value)) == name for a in call.args)
        for call in stmt.calls
    )  # fmt: skip


def yields(stmt: Stmt, name: str) -> bool:
    """`yield x, y`: whoever asked has the tensor, too."""
    given = stmt.node.value.value if type(stmt.node) is cst.Expr and type(stmt.node.value) is cst.Yield else None
    parts = [e.value for e in given.elements] if isinstance(given, cst.Tuple) else [given]
    return any(isinstance(part, cst.BaseExpression) and name in shows(part) for part in parts)


def _packed(node: cst.CSTNode, name: str) -> bool:
    """A container that is written down holds it: `{"x": x}`, `[[x, y]]`."""
    for found in descend(node):
        if isinstance(found, (cst.DictElement, cst.Element)) and name in shows(found.value):
            return True
    return False


def keeps_part(stmt: Stmt, name: str) -> bool:
    """A container or an attribute gets a view of the tensor: `{"first": x[:8]}`, `rows.append(x[0])`."""
    if name not in stmt.uses or stmt.blocks:
        return False
    held = [n.value for n in descend(stmt.node) if isinstance(n, (cst.DictElement, cst.Element))]
    held += [a.value for c in stmt.calls if _keeps(c) or name_called(c) in _TAKING for a in c.args]
    node = stmt.node
    if type(node) is cst.Assign and not all(type(t.target) is cst.Name for t in node.targets):
        held.append(node.value)
    return any(type(value) is not cst.Name and name in shows(value) for value in held)


def given_on(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What a statement gives a name, an attribute, a container or a caller, each part of it."""
    node = stmt.node.value if type(stmt.node) is cst.Expr else stmt.node
    if isinstance(node, (cst.Assign, cst.AnnAssign, cst.Return, cst.Yield)) and isinstance(
        node.value, cst.BaseExpression
    ):
        yield from _parts(node.value)
    for call in stmt.calls:
        if _keeps(call) or name_called(call) in _TAKING:
            yield from (part for arg in call.args for part in _parts(arg.value))


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Each of `(mean, std)`, of `{"x": x}`, and what a comprehension collects."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Set, cst.Dict)):
        yield from (part for element in node.elements for part in _parts(element.value))
    elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        yield from _parts(node.elt)
    else:
        yield node.value if isinstance(node, cst.DictComp) else node


def _keeps(call: cst.Call) -> bool:
    """The call makes something that keeps what it is given: an object of a class, a dict."""
    last = dotted(call.func).rpartition(".")[2]
    return last == "dict" or last[:1].isupper()


_TAKING = {"append", "appendleft", "insert", "add", "put", "update", "extend"}
_HANDED_BACK = {"as_tensor", "asarray"}  # by functions of torch
_THEMSELVES = {"contiguous", "to", "type", "cuda", "cpu", "float", "double", "long", "requires_grad_", *_HANDED_BACK}


def shares_whole(stmt: Stmt, name: str) -> bool:
    """The statement gives a tensor, and no view of it, a second name or a place in a container."""
    node = stmt.node
    if len(pairs := assigned(node)) > 1:  # `part, alias = x[:2], y`
        return any(_named_again(value, {dotted(target)}, name) for target, value in pairs)
    if isinstance(node, cst.Assign):
        given, targets = node.value, {dotted(t.target) for t in node.targets}
        if isinstance(given, (cst.Tuple, cst.List, cst.Dict, cst.Set)) or len(node.targets) > 1:
            return name in stmt.uses or name in targets
        return _named_again(given, targets, name)
    return isinstance(node, cst.Return) or shares(stmt, name) if name in stmt.uses else False


def _named_again(given: cst.BaseExpression, targets: set[str], name: str) -> bool:
    """The very tensor of the name, or under it, has another one in what is assigned."""
    while isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute):
        last = given.func.attr.value
        if last not in _THEMSELVES and not is_change(given):
            return False
        given = given.args[0].value if last in _HANDED_BACK and given.args else given.func.value
    return bool(dotted(given)) and name in {dotted(given), *targets} and {dotted(given)} != targets


def collected(name: str, stmt: Stmt) -> set[str]:
    """The lists in which the tensor of the name stands when a statement changes it: `seen.append(x)`, `x += 1`."""
    stmts = list(stmt.block.scope.body.walk())
    rebound = [s for s in stmts if name in s.defs and type(s.node) is not cst.AugAssign]
    if any(s.out.get(name, UNKNOWN).kind != "tensor" for s in rebound):
        return set()  # `total = 0`: a number at first
    around = [owner for owner in stmt.ancestors() if owner.is_loop]
    kept = [loop for loop in around if not any(loop in s.ancestors() for s in rebound)]
    found = set()
    for other in stmts:
        held = {dotted(c.func.value) for c in other.calls if _collects_name(c, name)}  # type: ignore[attr-defined]
        before = other.number < stmt.number and not any(other.number < s.number < stmt.number for s in rebound)
        if held and (before or any(loop in other.ancestors() for loop in kept)):
            found |= held - {""}
    return found


def stashed(name: str, stmt: Stmt) -> bool:
    """A list has taken the tensor in without its graph: `history.append(loss.detach())`, `loss /= 2`."""
    before = (s for s in stmt.block.scope.body.walk() if s.number < stmt.number and name in s.uses)
    taking = (c for s in before for c in s.calls if _collects_name(c, name))
    return any(not isinstance(c.args[0].value, cst.Name) for c in taking)


def _collects_name(call: cst.Call, name: str) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("append", "appendleft", "add"):
        return False
    given = call.args[0].value if len(call.args) == 1 else None
    while isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and given.func.attr.value == "detach":
        given = given.func.value
    return isinstance(given, cst.Name) and given.value == name


def is_data(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`tensor.data`; an attribute of that name on anything else is the user's own."""
    if type(node) is not cst.Attribute or node.attr.value != "data":
        return False
    kind = module.value(node.value).kind
    if kind == "unknown" and type(node.value) is cst.Name:
        return not any("data" in cls.attrs for cls in module.classes.values() if cls.kind != "module")
    return kind in ("tensor", "param")


def _sources(node: cst.BaseExpression) -> set[str]:
    """The tensors whose memory an expression shows: also `c` for `torch.add(a, b, out=c)`."""
    written = [a.value for a in node.args if a.keyword is not None and a.keyword.value == "out"] if isinstance(
        node, cst.Call) else []  # fmt: skip
    found = shows(node)
    for target in written:
        parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
        found |= {place for part in parts for place in shows(part)}
    return found


def shows(node: cst.BaseExpression) -> set[str]:
    """The places whose memory an expression may show: `x`, `p.grad.detach()`, `x[0]`, `x.add_(1)`, `torch.relu_(x)`."""
    return {dotted(shown) for shown in shown_by(node)} - {""}


def shown_by(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What has the memory that an expression may show, also where it is no place: `slots[0].key`."""
    while True:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            last = node.func.attr.value
            if last not in VIEWS and not (last.endswith("_") and not last.endswith("__")):
                return []
            function = isinstance(node.func.value, cst.Name) and node.func.value.value == "torch" and node.args
            node = node.args[0].value if function else node.func.value
        elif isinstance(node, cst.Attribute) and node.attr.value in VIEWS or isinstance(node, cst.Subscript):
            node = node.value
        elif len(parts := _either(node)) > 1 or parts[0] is not node:
            return [shown for part in parts for shown in shown_by(part)]
        else:
            return [node]


def is_gradient(node: cst.CSTNode) -> bool:
    """`p.grad` or `p.grad.data`."""
    while type(node) is cst.Attribute and node.attr.value == "data":
        node = node.value
    return type(node) is cst.Attribute and node.attr.value == "grad"


def kept(stmt: Stmt, scope: Scope) -> bool:
    """Whether gradients that the statement changes may be held elsewhere: by a name of its loop, or in a list."""
    around = {id(a) for a in stmt.ancestors() if a.is_loop}
    for other in scope.body.walk():
        if other.blocks:
            continue
        if isinstance(other.node, (cst.Assign, cst.AnnAssign)) and other.node.value is not None:
            if is_gradient(other.node.value) and around <= {id(a) for a in other.ancestors()}:
                return True
        if any(_collects(node) for node in descend(other.node)):
            return True
    return False


def _collects(node: cst.CSTNode) -> bool:
    """A list or a call of `append` that takes gradients as they are."""
    if type(node) is cst.ListComp or type(node) is cst.GeneratorExp or type(node) is cst.SetComp:
        return is_gradient(node.elt)
    if type(node) is cst.List or type(node) is cst.Tuple:
        return any(is_gradient(e.value) for e in node.elements)
    if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "append":
        return any(is_gradient(a.value) for a in node.args)
    return False
