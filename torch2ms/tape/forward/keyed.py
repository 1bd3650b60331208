"""The keys that a loop goes through, where a function fills the dict itself: with all that a network returns."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, gathered
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.choices import own

READING = frozenset("items keys values get".split())
JUMPS = (cst.Break, cst.Continue, cst.Return, cst.Raise)
ORDERS = ("list", "sorted", "tuple")


def goes_through(node: cst.BaseExpression, stmt: Stmt | None = None) -> str:
    """The container that an expression goes through all keys of: `d`, `d.keys()`, `d.items()`, `sorted(d)`.

    Of a loop, `stmt`, also where its keys have a name: `keys = list(d)`, `enumerate(keys)`.
    """
    if stmt is not None:
        node = node.args[0].value if _numbered(node) and isinstance(node, cst.Call) else node
        named = [s.node for s in stmt.block.scope.body.walk() if isinstance(node, cst.Name) and node.value in s.defs]
        made = named[0].value if len(named) == 1 and isinstance(named[0], cst.Assign) else None
        node = made if isinstance(made, cst.Call) and dotted(made.func) in ORDERS else node
    while isinstance(node, cst.Call) and dotted(node.func) in ORDERS and node.args:
        node = node.args[0].value
    keys = isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute)
    if keys and node.func.attr.value in ("keys", "items"):  # type: ignore[attr-defined]
        node = node.func.value  # type: ignore[attr-defined]
    return code(node)


def key_of(loop: cst.For) -> str:
    """What a loop calls the keys of a dict: `for key in d:`, `for key, value in d.items():`."""
    target: cst.BaseExpression = loop.target
    if isinstance(target, cst.Tuple) and len(target.elements) == 2 and code(loop.iter).endswith(".items()"):
        target = target.elements[0].value
    elif isinstance(target, cst.Tuple) and len(target.elements) == 2 and _numbered(loop.iter):
        target = target.elements[1].value
    return target.value if isinstance(target, cst.Name) else ""


def _numbered(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func) == "enumerate" and bool(node.args)


def filled_whole(name: str, holder: cst.BaseExpression, stmt: Stmt) -> bool:
    """Whenever a statement comes, a dict has the keys of a result as `holder` is: a loop over one filled it before.

    `for key, value in model(x).items(): features.setdefault(key, []).append(value)`; nothing else puts keys into it,
    and what was taken out of the result before is read of `holder` by itself.
    """
    scope = stmt.block.scope
    if name not in scope.locals or name in scope.params or not isinstance(holder, cst.Name):
        return False
    every = scope.body.walk()
    fills, emptied = list[Stmt](), list[Stmt]()
    for other in every:
        if isinstance(other.node, cst.FunctionDef) and name in other.uses:
            return False
        if name in other.defs:
            emptied.append(other)
            if not _empty(other.out.get(name)):
                return False
        elif isinstance(other.node, cst.For) and any(_puts(s, name, key_of(other.node)) for s in other.walk()):
            fills.append(other)
    known = {id(s) for f in fills for s in f.walk()} | set(map(id, emptied))
    if not all(id(s) in known or _only_reads(s, name) for s in every if not s.is_loop):
        return False
    around = {id(a) for a in stmt.ancestors()}
    before = [f for f in fills if f.number < stmt.number and all(id(a) in around for a in f.ancestors())]
    if not before or any(before[-1].number < e.number < stmt.number for e in emptied):
        return False
    return all(_all_of(f, name, holder.value, stmt, every) for f in fills)


def left_behind(node: cst.Subscript, stmt: Stmt) -> bool:
    """What a statement makes of each item goes into a dict of which the function reads some items alone.

    `for k in out: parts[k] = out[k] * 2`, and then `parts["a"]`: nothing is made of the others.
    """
    every = stmt.block.scope.body.walk()
    name, holder = _receiver(stmt), dotted(node.value)
    made = _made(holder, stmt, every) if name and holder else None
    keys = made.out[holder].keys if made is not None else None
    if made is None or keys is None:
        return False
    others = [s for s in every if s is not stmt]
    read = 0
    for part in (n for s in others for n in gathered(own(s)) if type(n) is cst.Subscript and code(n.value) == name):
        read += isinstance(part.slice[0].slice, cst.Index) and constant(part.slice[0].slice.value) is not ...
    uses = [
        n for s in others if name not in s.defs for n in gathered(own(s)) if type(n) is cst.Name and n.value == name
    ]
    if not read or read < len(uses):
        return False
    found = (_taken(name, others) or set()) | (_taken(holder, [s for s in others if s.number > made.number]) or set())
    return not {key for key, _ in keys} <= found


def _receiver(stmt: Stmt) -> str:
    """The dict that takes each item in: `parts[k] = ...`, `parts = {k: ... for k in out}`."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return ""
    target = node.targets[0].target
    if isinstance(target, cst.Subscript):
        return dotted(target.value)
    return dotted(target) if isinstance(node.value, cst.DictComp) else ""


def _empty(value: Value | None) -> bool:
    return value is not None and value.kind == "dict" and value.items == ()


def _puts(stmt: Stmt, name: str, key: str) -> bool:
    """`features[key] = [value]`, `features.setdefault(key, []).append(value)`"""
    node = stmt.node
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return code(node.targets[0].target) == f"{name}[{key}]"
    return any(code(c.func) == f"{name}.setdefault" and c.args and code(c.args[0].value) == key for c in stmt.calls)


def _only_reads(stmt: Stmt, name: str) -> bool:
    """Every mention reads an item, or goes through the items: nothing gets the dict itself, and nothing changes it."""
    node = stmt.node
    mentions = [n for n in gathered(own(stmt)) if type(n) is cst.Name and n.value == name]
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    if isinstance(node, (cst.AugAssign, cst.Del)):
        return not mentions
    if any(type(n) is cst.Name and n.value == name for t in targets for n in gathered(t)):
        return False
    read = 0
    for part in gathered(own(stmt)):
        if type(part) is cst.Subscript or type(part) is cst.Attribute and part.attr.value in READING:
            read += code(part.value) == name
        elif type(part) is cst.Comparison:
            read += sum(
                code(c.comparator) == name for c in part.comparisons if isinstance(c.operator, (cst.In, cst.NotIn))
            )
    return read == len(mentions)


def _all_of(fill: Stmt, name: str, holder: str, stmt: Stmt, every: list[Stmt]) -> bool:
    """A loop puts all keys of a result into the dict, but for those that are read of `holder` by themselves."""
    assert isinstance(fill.node, cst.For)
    inside = [s for s in fill.walk() if s is not fill]
    if any(isinstance(s.node, JUMPS) for s in inside):
        return False
    if not all(_always(s, name, fill) if _puts(s, name, key_of(fill.node)) else _only_reads(s, name) for s in inside):
        return False
    source = goes_through(fill.node.iter)
    one, other = _made(source, fill, every), _made(holder, stmt, every)
    if one is None or other is None or one.out[source].keys != other.out[holder].keys:
        return False
    keys = one.out[source].keys
    if keys is None or not all(sure for _, sure in keys):
        return False
    taken = _taken(source, [s for s in every if one.number < s.number < fill.number])
    apart = _taken(holder, [s for s in every if other.number < s.number and not isinstance(s.node, cst.Expr)])
    return taken is not None and apart is not None and {k for k, _ in keys} & taken <= apart


def _always(stmt: Stmt, name: str, fill: Stmt) -> bool:
    """A key is in the dict after every turn: at most it is asked whether it was there before."""
    assert isinstance(fill.node, cst.For)
    key = key_of(fill.node)
    around = [a.node for a in stmt.ancestors() if a.number > fill.number]
    asked = [code(a.test) for a in around if isinstance(a, cst.If)]
    return len(around) == len(asked) and all(a in (f"{key} in {name}", f"{key} not in {name}") for a in asked)


def _made(name: str, stmt: Stmt, every: list[Stmt]) -> Stmt | None:
    """What bound a name last before a statement, to a dict of which the keys are known."""
    bound = [s for s in every if name in s.defs and name in s.out and s.number < stmt.number]
    return bound[-1] if bound and bound[-1].out[name].kind == "dict" else None


def _taken(name: str, stmts: list[Stmt]) -> set[object] | None:
    """The keys, written out, that statements take out of a dict or read of it; None where they change it otherwise."""
    found = set[object]()
    for stmt in stmts:
        for call in (c for c in stmt.calls if code(c.func) in (f"{name}.pop", f"{name}.get")):
            keys = _constants(call.args[0].value, stmt) if call.args else set()
            if not keys and code(call.func).endswith(".pop"):
                return None
            found |= keys
        for part in (n for n in gathered(own(stmt)) if type(n) is cst.Subscript and code(n.value) == name):
            index = part.slice[0].slice
            found |= _constants(index.value, stmt) if isinstance(index, cst.Index) else set()
        pops = any(code(c.func) == f"{name}.pop" for c in stmt.calls)
        if name in stmt.muts and not pops:
            return None
    return found


def _constants(node: cst.BaseExpression, stmt: Stmt) -> set[object]:
    """The values that an expression has in turn: it is written out, or a loop goes through what is."""
    if (value := constant(node)) is not ...:
        return {value}
    for loop in (a.node for a in stmt.ancestors() if isinstance(a.node, cst.For)):
        if code(loop.target) == code(node) and isinstance(loop.iter, (cst.Tuple, cst.List)):
            values = {constant(e.value) for e in loop.iter.elements}
            return set() if ... in values else values
    return set()
