"""Results of several layers that a function is given together, and uses some of at times: `loss_of(net(x), batch)`.

All layers ran, and those whose result is left out have no gradient in torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, gathered
from torch2ms.analysis.values import Value, entries
from torch2ms.tape.forward.choices import own, tests_of
from torch2ms.tape.forward.cut_short import beside, taken_out, uneven, written_out
from torch2ms.tape.forward.differing import NOTHING, Lists, real
from torch2ms.tape.forward.given import Given
from torch2ms.tape.forward.passed_over import COMPREHENSIONS, choosing, guards, innermost, only_last

Use = tuple[cst.BaseExpression, frozenset[str], bool]  # a condition, the layers, if it is another one at each step
Written = tuple[str, cst.BaseExpression]  # an attribute, and what it is given where the object is made
Items = dict[object, frozenset[str]]  # the layers behind each item
ANY = object()  # the key of what may be of any layer of a list


def at_times(call: cst.Call, stmt: Stmt, given: Given, scope: Scope, module: ModuleInfo, lists: Lists) -> Iterator[Use]:
    """The conditions of a called function, and the layers whose results it uses under them alone."""
    for name, items in _given(call, scope, module, lists):
        yield from _apart(name, items, given, list(scope.body.walk()))
        parts = {param for param, arg in _handed(call, scope) if uneven(arg, stmt, module)}
        for _, through, places in _beside(scope, {name: items}, parts) if parts else ():
            yield through, places, bool({n.value for n in gathered(through) if type(n) is cst.Name} & given.turning)


def _handed(call: cst.Call, scope: Scope) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The parameters of a called function, and what a call gives for each."""
    params = scope.params[1:] if scope.params[:1] == ["self"] else scope.params
    for position, arg in enumerate(call.args):
        if not arg.star:
            at = params[position] if position < len(params) else ""
            yield arg.keyword.value if arg.keyword is not None else at, arg.value


def _beside(
    scope: Scope, known: dict[str, Items], others: set[str]
) -> Iterator[tuple[Stmt, cst.BaseExpression, frozenset[str]]]:
    """What a function goes through together with results, that is among these names, and the layers behind them."""
    for stmt in scope.body.walk():
        for one, along in beside(stmt):
            if places := _read(one, known):
                yield from ((stmt, other, places) for other in along if dotted(other) in others)


def _given(call: cst.Call, scope: Scope, module: ModuleInfo, lists: Lists) -> Iterator[tuple[str, Items]]:
    """The parameters of a called function that are results of several layers."""
    for name, arg in _handed(call, scope):
        items = _items(module.value(arg), lists)
        if name and (ANY in items or len(set(items.values())) > 1):
            yield name, items


def _items(value: Value, lists: Lists) -> Items:
    if value.kind not in ("dict", "tuple", "list"):
        return {}
    if not value.items:
        among = frozenset(d for d in real(value) if lists(d))
        return {ANY: among} if among else {}
    known = entries(value) if value.kind == "dict" else dict(enumerate(value.items))
    return {key: innermost(real(item)) for key, item in known.items()}


def _apart(name: str, items: Items, given: Given, stmts: list[Stmt]) -> Iterator[Use]:
    sure, among = NOTHING, items.get(ANY, NOTHING)  # one layer of a list says nothing of the others
    found: list[Use] = []
    known = {name: items}  # the names of them all, and of single ones
    for stmt in stmts:
        if alias := _named(stmt, known, name):
            known |= alias
            continue
        read = _read(own(stmt), known)
        if read and (made := _collected(stmt)) and not any(choosing(stmt)):
            known[made] = {ANY: read} if among else {None: read}
            continue
        if isinstance(stmt.node, cst.For) and read:  # `for name, out in outputs.items():`
            known |= {d: items for d in stmt.defs}
            continue
        within = [a for a in stmt.ancestors() if isinstance(a.node, cst.If)]
        around = [(a, a.node.test) for a in (*within, *guards(stmt)) if isinstance(a.node, cst.If)]
        asked = [(_moves(test, branch, given), test) for branch, test in around]
        asked += [(True, test) for test, source in (choosing(stmt) if read else ()) if _read(source, known)]
        moves, test = next((each for each in asked if each[0]), asked[0] if asked else (False, None))
        if test is not None and read:
            found.append((test, read, moves))
        sure |= read - among if not moves else NOTHING
    yield from ((test, read - sure, True) for test, read, moves in found if moves and read - sure)
    yield from (each for each in found if not each[2])


def _collected(stmt: Stmt) -> str:
    """The name of what a comprehension makes of each of the results: `losses = [loss_of(out, y) for out in outs]`."""
    node = stmt.node
    made = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.value, COMPREHENSIONS)
    return dotted(node.targets[0].target) if made and isinstance(node, cst.Assign) else ""


def _moves(test: cst.BaseExpression, branch: Stmt, given: Given) -> bool:
    """The condition is another one from step to step, or for each of the results that a loop goes through."""
    loops = [a for a in branch.ancestors() if a.is_loop]
    return given.moves_test(test, branch) or any(
        names & given.turning for _, names in tests_of(test, branch, loops) if loops
    )


def never_used(
    call: cst.Call, scope: Scope, module: ModuleInfo, lists: Lists, made: Iterable[Written] = ()
) -> Iterator[Use]:
    """What a called function uses the last result of alone, takes some out of, or goes through beside a list of
    numbers, and the layers behind the results. `made`: how the object is made whose method it is."""
    numbers = {param for param, arg in _handed(call, scope) if written_out(module.value(arg))}
    numbers |= {place for place, arg in made if _numbers(arg)}
    for name, items in _given(call, scope, module, lists):
        places = frozenset().union(*items.values())
        stmts = list(scope.body.walk())
        for stmt in stmts:
            if isinstance(stmt.node, cst.For) and _read(stmt.node.iter, {name: items}) and only_last(stmt, module):
                yield stmt.node.iter, places, False
            yield from ((held, read, False) for held in taken_out(stmt, stmts) if (read := _read(held, {name: items})))
        yield from ((other, read, False) for _, other, read in _beside(scope, {name: items}, numbers) if numbers)


def _numbers(node: cst.BaseExpression) -> bool:
    """`[0.5, 0.3, None]`"""
    listed = isinstance(node, cst.List | cst.Tuple) and bool(node.elements)
    return listed and all(constant(e.value) is not ... for e in node.elements)  # type: ignore[attr-defined]


def written_for(cls: ClassInfo, module: ModuleInfo) -> Iterator[Written]:
    """What a module gives constructors of a class for the attributes that these set: `self.weights = weights`."""
    init = cls.method("__init__")
    if init is None or not module.has(f"{cls.scope.name}("):
        return
    kept = {dotted(s.node.value): d for s in init.scope.body.walk() if isinstance(s.node, cst.Assign) for d in s.defs}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            for call in stmt.calls:
                if dotted(call.func).rpartition(".")[2] == cls.scope.name:
                    yield from ((kept[param], arg) for param, arg in _handed(call, init.scope) if param in kept)


def _named(stmt: Stmt, known: dict[str, Items], name: str) -> dict[str, Items]:
    """What an assignment calls single items: `seg = outputs["seg"]`, `seg, depth = outputs`."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return {}
    target, value = node.targets[0].target, node.value
    if isinstance(target, cst.Name) and isinstance(value, cst.Subscript) and dotted(value.value) == name:
        return {target.value: {None: _read(value, known)}}
    if isinstance(target, cst.Tuple) and dotted(value) == name:
        return {dotted(e.value): {None: known[name].get(n, NOTHING)} for n, e in enumerate(target.elements)}
    return {}


def _read(node: cst.CSTNode, known: dict[str, Items]) -> frozenset[str]:
    """The layers behind what an expression reads."""
    found, single = NOTHING, set[int]()
    for part in gathered(node):
        if isinstance(part, cst.Subscript) and dotted(part.value) in known:
            index = part.slice[0].slice
            key = constant(index.value) if isinstance(index, cst.Index) else ...
            items = known[dotted(part.value)]
            if key in items or ANY in items:
                single.add(id(part.value))
                found |= items[key] if key in items else items[ANY]
        elif isinstance(part, cst.Name) and part.value in known and id(part) not in single:
            found |= frozenset().union(*known[part.value].values())
    return found
