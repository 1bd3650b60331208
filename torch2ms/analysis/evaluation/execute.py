"""What each statement makes of the places of its scope."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.evaluation import guess, masked, twins
from torch2ms.analysis.evaluation.assign import LIVING, bind, iteration
from torch2ms.analysis.evaluation.containers import LEARNERS, chosen, in_loop
from torch2ms.analysis.evaluation.effects import effects, stored
from torch2ms.analysis.evaluation.env import Changes
from torch2ms.analysis.evaluation.evaluate import Evaluator
from torch2ms.analysis.evaluation.handed_on import read_around
from torch2ms.analysis.evaluation.methods import taken_for
from torch2ms.analysis.evaluation.modes import entered
from torch2ms.analysis.evaluation.narrow import narrowed
from torch2ms.analysis.evaluation.transfer import returned
from torch2ms.analysis.evaluation.usage import turned
from torch2ms.analysis.program.families import called_in
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.sources import follows
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import NO_DEPS, NONE, ROW, UNKNOWN, Value, is_row, replace

CHANGED = re.compile(r"\.\w+\(|\[[^\n=]*\]\s*[-+*/|&]?=[^=]|\s*[+*]=")  # behind the name of a list
PARAM_GROUPS = re.compile(r"\bparam_groups\b")
GROUP = Value("dict", name="param_group", likely=True)
CATCHING = (cst.Try, cst.TryStar, cst.With)  # `with suppress(ValueError)`
_NUMBERS = {cst.Integer, cst.Float, cst.Name, cst.UnaryOperation, cst.BinaryOperation}  # what begins data, maybe
NO_METHODS: frozenset[str] = frozenset()
DEEPEST = 4  # loops in loops that are gone through twice each: more would double the work again and again


def block(body: Block, ev: Evaluator) -> None:
    """Run the statements of a block in order."""
    for stmt in body.stmts:
        outer_cut = ev.cut
        for mode in stmt.modes:
            ev.cut = entered(mode, ev)
        _statement(stmt, ev)
        ev.cut = outer_cut


def _statement(stmt: Stmt, ev: Evaluator) -> None:
    around, ev.entered = ev.entered, ()
    how = _BY_TYPE.get(stmt.node.__class__)
    if how is not None:
        how(stmt, stmt.node, ev)
    elif type(stmt.node) not in (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal):
        ev.everything(stmt.node)
    effects(stmt, ev)
    changed = stmt.muts.union(ev.entered) if ev.entered else stmt.muts
    if ev.twins and changed:
        twins.follow(changed, stmt, ev)
    stmt.out = {d: ev.env.get(d, UNKNOWN) for d in stmt.defs | changed}
    ev.entered = around


# --- simple statements


def _assign(stmt: Stmt, node: cst.Assign, ev: Evaluator) -> None:
    value = masked.number(node.value, ev.ev(node.value))
    if ev.flagged and value.kind == "tensor" and dotted(node.targets[0].target) in ev.flagged:
        value = ev.memo[id(node.value)] = replace(value.cut(), leaf=True)
    if type(node.value) is cst.List or type(node.value) is cst.Tuple:
        value = _of_numbers(node, node.value, value, ev)
    for target in node.targets:
        bind(target.target, value, ev)
        if value.kind in LIVING:  # `opt = self.opt = SGD(...)`: one thing, which lives at the first of the places
            value = ev.memo.get(id(target.target), value)
    if value.kind in twins.CHANGED:
        twins.note(stmt, node, ev)
    if value.kind == "unknown" and type(node.value) is cst.Call:
        taken_for(ev.memo.get(id(node.targets[0].target), UNKNOWN), node.value, ev)
    if ev.module.annotated and (was := ev.module.annotated.get(id(node.targets[0].target))) is not None:
        ev.annotation(was.annotation)


def _of_numbers(node: cst.Assign, written: cst.List | cst.Tuple, value: Value, ev: Evaluator) -> Value:
    """`data = [[1.0, 2.0]]`, which nothing changes: the type and rank that a tensor of it has."""
    first: cst.CSTNode = written
    while (type(first) is cst.List or type(first) is cst.Tuple) and first.elements:
        first = first.elements[0].value
    if type(first) not in _NUMBERS or len(node.targets) != 1 or type(node.targets[0].target) is not cst.Name:
        return value
    if follows(ev.module.source, node.targets[0].target.value, CHANGED):
        return value
    dtype, rank = shapes.literal(written, value)
    return replace(value, dtype=dtype, rank=rank)


def _annotated(stmt: Stmt, node: cst.AnnAssign, ev: Evaluator) -> None:
    ev.annotation(node.annotation)
    if node.value is not None:
        bind(node.target, ev.ev(node.value), ev)
    elif kind := guess.ANNOTATIONS.get(qualified(node.annotation.annotation, ev.module.imports)):
        if kind in ("optimizer", "module", "tensor") and isinstance(node.target, cst.Name):
            bind(node.target, Value(kind, place=node.target.value, likely=True), ev)
        elif kind == "int" and isinstance(node.target, cst.Name) and type(stmt.block.scope.node) is cst.ClassDef:
            bind(node.target, Value(kind), ev)  # a field of a dataclass


def _augmented(stmt: Stmt, node: cst.AugAssign, ev: Evaluator) -> None:
    given = ev.ev(node.value)
    if is_row(given) and in_loop(stmt):  # `params += list(layer.parameters())` of some layers
        given = chosen(given, stmt, dotted(node.target))
    value = ev.binary(ev.ev(node.target), given, cst.Divide() if type(node.operator) is cst.DivideAssign else None)
    old = ev.memo.get(id(node.target), UNKNOWN)
    value = shapes.shaped(value, (old.dtype, old.rank) if old.kind == "tensor" else shapes.UNKNOWN_SHAPE)
    if old.kind == value.kind == "tensor" and not old.likely:
        value = replace(value, likely=False)  # changed in place, whatever is added
    if old.leaf or old.kind in ("param", "module") or old.name in ("buffer", "module_param"):
        value = old
    elif old.name == "parameter list":  # it holds what is added
        value = replace(old, items=None)
    elif value.kind == "list" and type(node.value) is cst.List and _of_parameters(old, node.value, ev):
        value = replace(value, name=ROW, items=None)  # as `append` would have filled it
    if dotted(node.target):
        bind(node.target, value, ev)
    elif type(node.target) is cst.Subscript and value is not old:  # what changes in place stands there as before
        stored(node.target, value, ev)


def _of_parameters(old: Value, added: cst.List, ev: Evaluator) -> bool:
    """`weights += [p]` of a list that is empty or holds parameters."""
    empty = old.kind == "list" and old.items == () and not old.name
    return (empty or old.name == ROW) and all(ev.memo[id(e.value)].kind == "param" for e in added.elements)


def _return(stmt: Stmt, node: cst.Return, ev: Evaluator) -> None:
    value = ev.ev(node.value) if node.value is not None else NONE
    if ev.function is not None:
        ev.exchange.give(ev.function, returned(value, ev.function.scope.params))


def _function(stmt: Stmt, node: cst.FunctionDef, ev: Evaluator) -> None:
    for decorator in node.decorators:
        ev.ev(decorator.decorator)
    stars = [p for p in (node.params.star_arg, node.params.star_kwarg) if type(p) is cst.Param]
    for param in [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params, *stars]:
        if param.default is not None:
            ev.ev(param.default)
        if param.annotation is not None:
            ev.annotation(param.annotation)
    if node.returns is not None:
        ev.annotation(node.returns)
    name = node.name.value
    handed = type(stmt.block.scope.node) is not cst.ClassDef and name in ev.module.handed
    ev.env[name] = Value("function", name, read_around(stmt, ev) if handed else NO_DEPS)


def _class(stmt: Stmt, node: cst.ClassDef, ev: Evaluator) -> None:
    for decorator in node.decorators:
        ev.ev(decorator.decorator)
    for arg in node.bases:
        ev.ev(arg.value)
    ev.env[node.name.value] = Value("class", name=f"{ev.module.name}.{node.name.value}")


# --- control flow


def _for(stmt: Stmt, node: cst.For, ev: Evaluator) -> None:
    iterated = ev.ev(node.iter)
    name = dotted(node.target)
    grouped = _sets_rates(stmt, name) and not _to_be(stmt, node) and ev.project.says(PARAM_GROUPS)
    ran = name in ev.uses and any(dotted(c.func) == name for s in stmt.walk() for c in s.calls)
    asked = name in ev.uses and not ran  # for its parameters, and for nothing that it computes
    asked_each = name in ev.uses or not name and not stmt.defs.isdisjoint(ev.uses)

    def start_turn() -> None:
        one = iteration(node.iter, iterated, ev)
        if one.kind == "unknown" and iterated.name != LEARNERS:
            one = GROUP if grouped else _of_family(one, called_in(stmt, name) if name else NO_METHODS, ev)
        if asked and one.kind == "unknown" and one.deps and all(d.startswith("@") for d in one.deps):
            one = Value("module", owns=one.deps, likely=True)  # whose parameters those of the caller's networks are
        if asked_each and one.kind in ("unknown", "tuple"):
            one = turned(node, one, ev.memo) or one
        bind(node.target, one, ev)

    _loop(stmt, ev, start_turn)


def _of_family(item: Value, methods: frozenset[str], ev: Evaluator) -> Value:
    """What a loop goes through, of a class if the methods that it calls on each say so."""
    cls = ev.exchange.family(methods) if methods else ""
    return Value("object", cls, item.deps, likely=True) if cls else item


def _to_be(stmt: Stmt, node: cst.For) -> bool:
    """The loop goes over what the constructor of an optimizer is given: plain dicts that become its groups."""
    scope = stmt.block.scope
    bases = scope.cls.node.bases if scope.cls is not None and isinstance(scope.cls.node, cst.ClassDef) else ()
    given = scope.name == "__init__" and dotted(node.iter) in scope.params
    return given and any(dotted(base.value).endswith("Optimizer") for base in bases)


def _sets_rates(loop: Stmt, name: str) -> bool:
    """What the loop goes through gets other learning rates: `name["lr"] *= 0.5`."""
    targets = [
        target
        for stmt in (loop.walk() if name else ())
        for target in ([stmt.node.target] if type(stmt.node) is cst.AugAssign else _targets(stmt.node))
    ]
    return any(type(t) is cst.Subscript and dotted(t.value) == name and code(t.slice[0]).strip("'\"") == "lr"
               for t in targets)  # fmt: skip


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    return [t.target for t in node.targets] if type(node) is cst.Assign else []


def _while(stmt: Stmt, node: cst.While, ev: Evaluator) -> None:
    _loop(stmt, ev, lambda: ev.ev(node.test))


def _loop(stmt: Stmt, ev: Evaluator, start_turn: Callable[[], object]) -> None:
    """Go through the body twice, so that what one turn leaves reaches the next, except far inside other loops."""
    ev.env.push()
    for _ in range(2 if sum(s.is_loop for s in stmt.ancestors()) < DEEPEST else 1):
        ev.env.begin_turn()
        start_turn()
        block(stmt.blocks[0], ev)
        if not ev.env.end_turn() and ev.exchange.hold():
            break
    ev.env.keep()
    for extra in stmt.blocks[1:]:
        block(extra, ev)


def _if(stmt: Stmt, node: cst.If, ev: Evaluator) -> None:
    ev.ev(node.test)
    left = _left_by(stmt)
    _branches(stmt.blocks, ev, complete=len(stmt.blocks) == 2, known=narrowed(node.test, ev), left=left)


def _left_by(branching: Stmt) -> tuple[type, ...]:
    """Statements that end the function, where they stand last in a branch; what stands around may catch an error."""
    caught = any(type(a.node) in CATCHING for a in branching.ancestors())
    return (cst.Return,) if caught else (cst.Return, cst.Raise)


def _try(stmt: Stmt, node: cst.Try | cst.TryStar, ev: Evaluator) -> None:
    for handler in node.handlers:
        if handler.type is not None:
            ev.ev(handler.type)
    _branches(stmt.blocks, ev, complete=False)


def _match(stmt: Stmt, node: cst.Match, ev: Evaluator) -> None:
    ev.ev(node.subject)
    for case in node.cases:
        for part in descend(case.pattern):
            if type(part) is cst.MatchClass or type(part) is cst.MatchValue:
                ev.ev(part.cls if isinstance(part, cst.MatchClass) else part.value)
        if case.guard is not None:
            ev.ev(case.guard)
    _branches(stmt.blocks, ev, complete=False, left=_left_by(stmt))


def _with(stmt: Stmt, node: cst.With, ev: Evaluator) -> None:
    for item in node.items:
        value = ev.ev(item.item)
        if item.asname is not None:
            bind(item.asname.name, value if value.kind != "api" else UNKNOWN, ev)
    block(stmt.blocks[0], ev)


def _branches(
    blocks: list[Block],
    ev: Evaluator,
    complete: bool,
    known: dict[str, Value] | None = None,
    left: tuple[type, ...] = (),
) -> None:
    """Run blocks of which one is taken, or none unless they are `complete`; `known` holds in the first.

    What stands behind them never sees what a block did that ends in one of the statements by which it is `left`.
    """
    results: list[Changes] = [] if complete else [{}]
    for branch in blocks:
        ev.env.push()
        inside = known or {}
        known = None
        ev.env.update(inside)
        block(branch, ev)
        changes = ev.env.pop()
        for place, value in inside.items():
            if changes.get(place) is value:
                del changes[place]
        if not branch.stmts or type(branch.stmts[-1].node) not in left:
            results.append(changes)
    ev.env.merge(results or [{}])


_BY_TYPE: dict[type, Callable[[Stmt, Any, Evaluator], None]] = {
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Return: _return,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.For: _for,
    cst.While: _while,
    cst.If: _if,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.Match: _match,
    cst.With: _with,
}
