"""Gradients that are added up by hand, written as a list of sums that fills `.grad` once.

`if p.grad is None: p.grad = g` and otherwise `p.grad += g`, for each task of a batch: first-order MAML and its kin.
Between the clear before the loop and its end `.grad` holds that sum and nothing else, if no backward call reaches the
network meanwhile. A worker that fills the gradients of a shared network asks whether they
are there: then they never are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import bound_arguments, resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNKNOWN, Value, overlaps
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forward.choices import own
from torch2ms.wrappers.passes import each_module

WHY = "a list of sums fills them behind the loop; assumed: the loop has a turn, or the optimizer would be given zeros"
NAMES = (("summed_grads", "total_grads", "sums_of_grads"), ("total", "summed", "so_far"))
COPIES = re.compile(r"\.(clone|detach)\(\)")
RUN = ("module", "lossfn", "api", "builtin", "class")
TAPE = {"backward", "step", "zero_grad"}
DEEP = 4  # functions that call functions


class Net(NamedTuple):
    """A network by its name in a scope, and where its parameters are."""

    name: str
    place: str


class Added(NamedTuple):
    """A loop that adds gradients up, and the one around it before which they are cleared."""

    params: str  # what the loop runs over, and its names for a parameter and for all that it takes
    one: str
    names: tuple[str, ...]
    others: tuple[str, ...]
    value: str
    sums: str
    total: str
    torch: str
    alone: bool  # there is no loop around it


@each_module
def added(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that has such loops."""
    if not module.has(".grad is N") and not module.has(".grad is not N"):
        return None
    found = {id(loop.node): each for scope in module.scope.walk() for loop, each in _found(scope, module, project)}
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope, module: ModuleInfo, project: Project) -> Iterator[tuple[Stmt, tuple[Added, Stmt]]]:
    """The outermost loops, each with what its inner one does and that loop."""
    torch = next((name for name, target in module.imports.table.items() if target == "torch"), "")
    for loop in scope.body.walk():
        if type(loop.node) is not cst.For or loop.off or loop.node.orelse is not None or not torch:
            continue
        taken = _taken(loop.node)
        filled = _filled_once(loop.node, taken[0]) if taken is not None else None
        if taken is None or (value := filled or _summand(loop.node, taken[0])) is None:
            continue
        one, names, params, others = taken
        net = next(a.value.func.value for a in loop.node.iter.args if code(a.value) == params)  # type: ignore[attr-defined]
        named = Net(dotted(net), module.value(net).place)
        loops = [loop, *(a for a in loop.ancestors() if a.is_loop and not filled)] if named.place else []
        outer = next((a for a in loops if _begins_empty(a, loop, named, scope, module, project)), None)
        used = {n.value for n in module.of_kind(cst.Name)}
        sums, total = (next((n for n in choice if n not in used), "") for choice in NAMES)
        if outer is not None and sums and total:
            yield outer, (Added(params, one, names, others, value, sums, total, torch, outer is loop), loop)


def _taken(loop: cst.For) -> tuple[str, tuple[str, ...], str, tuple[str, ...]] | None:
    """Of `for p, g in zip(net.parameters(), grads)`: p, the names, the parameters, and what else is gone through."""
    call = loop.iter
    if type(call) is not cst.Call or dotted(call.func) != "zip" or type(loop.target) is not cst.Tuple:
        return None
    names = [dotted(e.value) for e in loop.target.elements]
    if len(names) != len(call.args) or not all(names) or any(a.star or a.keyword is not None for a in call.args):
        return None
    rows = [code(a.value) for a in call.args]
    body = code(loop.body)
    at = [n for n, row in enumerate(rows) if re.fullmatch(r"[\w.]+\.parameters\(\)", row)]
    whole = [n for n in at if re.search(rf"\b{names[n]}\.grad is ", body)]
    if len(whole) != 1:
        return None
    others = [n for n in range(len(rows)) if n != whole[0]]
    kept = (names[whole[0]], *(names[n] for n in others))
    return names[whole[0]], kept, rows[whole[0]], tuple(rows[n] for n in others)


def _summand(loop: cst.For, one: str) -> str | None:
    """What each turn adds to the gradient of the parameter: the loop does nothing else."""
    if not isinstance(loop.body, cst.IndentedBlock):
        return None
    first, *rest = loop.body.body
    if not isinstance(first, cst.If) or asks_for(first.test, one) is None:
        return None
    missing: cst.CSTNode | None = first.body
    there = first.orelse
    if not asks_for(first.test, one):
        missing, there = there.body if isinstance(there, cst.Else) else None, cst.Else(first.body)
    begun = only(missing)
    stored = code(begun.value) if isinstance(begun, cst.Assign) and _target(begun) == f"{one}.grad" else ""
    if isinstance(there, cst.Else) and not rest:
        more = _more(only(there.body), one)
        return more if more and stored and _bare(stored) == _bare(more) else None
    if there is None and len(rest) == 1 and re.fullmatch(rf"\w+\.zeros_like\({one}(\.data)?\)", stored):
        return _more(only(rest[0]), one)
    return None


def _filled_once(loop: cst.For, one: str) -> str | None:
    """What each turn stores, where the loop is left if a gradient is there already: it does nothing else."""
    lines = loop.body.body if isinstance(loop.body, cst.IndentedBlock) else ()
    first, last = lines if len(lines) == 2 else (None, None)
    if not isinstance(first, cst.If) or first.orelse is not None or asks_for(first.test, one) is not False:
        return None
    stored = only(last)
    if not isinstance(only(first.body), cst.Break) or not isinstance(stored, cst.Assign):
        return None
    reads = any(dotted(n) == f"{one}.grad" for n in descend(stored.value))
    return code(stored.value) if _target(stored) == f"{one}.grad" and not reads else None


def _bare(text: str) -> str:
    """An expression without the copies of values that are made in it."""
    node = cst.parse_expression(COPIES.sub("", text))
    return code(node.with_changes(lpar=[], rpar=[]))


def asks_for(test: cst.BaseExpression, one: str) -> bool | None:
    """Whether the condition is `p.grad is None`, or that it is not; None for any other."""
    known = {f"{one}.grad is None": True, f"{one}.grad is not None": False}
    return known.get(code(test.with_changes(lpar=[], rpar=[])))


def only(node: cst.CSTNode | None) -> cst.CSTNode | None:
    """The only small statement of a block or a line."""
    if isinstance(node, cst.IndentedBlock) and len(node.body) == 1:
        node = node.body[0]
    return node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None


def _target(node: cst.Assign) -> str:
    return dotted(node.targets[0].target) if len(node.targets) == 1 else ""


def _more(node: cst.CSTNode | None, one: str) -> str | None:
    """What `p.grad += g`, `p.grad = p.grad + g` and `p.grad.add_(g)` add."""
    grads = (f"{one}.grad", f"{one}.grad.data")
    made = None
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign) and dotted(node.target) in grads:
        made = node.value
    elif isinstance(node, cst.Assign) and _target(node) == grads[0] and isinstance(node.value, cst.BinaryOperation):
        plus = isinstance(node.value.operator, cst.Add) and dotted(node.value.left) == grads[0]
        made = node.value.right if plus else None
    elif isinstance(node, cst.Expr) and isinstance(call := node.value, cst.Call) and len(call.args) == 1:
        whose = dotted(call.func).removesuffix(".add_")
        made = call.args[0].value if whose != dotted(call.func) and whose in grads else None
        made = None if call.args[0].keyword is not None else made
    if made is None or any(dotted(n) == grads[0] for n in descend(made)):
        return None
    return code(made)


def _begins_empty(outer: Stmt, loop: Stmt, net: Net, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """The gradients of the network are cleared before the loop, and until its end nothing else has to do with them."""
    before: list[Stmt] = []
    for stmt in reversed([s for s in outer.block.stmts if s.number < outer.number]):
        if _clears(stmt, net, module):
            break
        before += stmt.walk()
    else:
        return False
    inner = set(map(id, loop.walk()))
    for stmt in [*before, *(s for s in outer.walk() if id(s) not in inner)]:
        if type(stmt.node) is cst.Return or stmt.off or stmt.modes or _names_gradients(stmt):
            return False
        if not all(_elsewhere(call, stmt, scope, net, module, project) for call in stmt.calls):
            return False
    return True


def _names_gradients(stmt: Stmt) -> bool:
    parts = [n for n in descend(own(stmt)) if type(n) is cst.Attribute and n.attr.value == "grad"]
    return any(not dotted(n).endswith("autograd.grad") for n in parts)


def _clears(stmt: Stmt, net: Net, module: ModuleInfo) -> bool:
    """`optimizer.zero_grad()` of the optimizer that has this network alone, or the network's own."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value != "zero_grad" or any(constant(a.value) is not True for a in call.args):
        return False
    whose = module.value(call.func.value)
    return dotted(call.func.value) == net.name or whose.kind == "optimizer" and whose.owns == frozenset({net.place})


def _elsewhere(
    call: cst.Call, stmt: Stmt, scope: Scope, net: Net, module: ModuleInfo, project: Project, deep: int = 0
) -> bool:
    """The call leaves the gradients of the network alone."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    if "clip_grad" in method:
        clipped = module.value(call.args[0].value) if call.args else UNKNOWN
        return bool(clipped.deps) and not _reaches(clipped, net)
    if method == "unscale_":
        return False
    info = resolve(call, scope, module, project)
    if info is None and method in TAPE:
        whose = module.value(call.func.value)  # type: ignore[attr-defined]
        own = {whose.place} if whose.kind == "module" and whose.place else whose.owns or ()
        places = {p for p in (whose.deps if method == "backward" else own) if not p.startswith("@")}
        return bool(places) and not any(p.startswith("^") or overlaps(p, net.place) for p in places)
    if info is None:
        known = module.value(call.func).kind in RUN or method == "deepcopy"
        return known or not any(_reaches(module.value(a.value), net) for a in call.args)
    if not uses_gradients(info, project, DEEP):
        return True
    if deep == DEEP:
        return False
    if any(_reaches(module.value(a.value), net) for a in call.args):
        return _lent(call, info, net, module, project, deep)
    if info.module is not module or info.cls is not _class_of(scope, module):
        return False  # it may know the network under another name
    stmts = list(info.scope.body.walk())
    if any(map(_names_gradients, stmts)):
        return False
    return all(_elsewhere(c, s, info.scope, net, module, project, deep + 1) for s in stmts for c in s.calls)


def _lent(call: cst.Call, info: FunctionInfo, net: Net, module: ModuleInfo, project: Project, deep: int) -> bool:
    """The function is given the network itself, and leaves its gradients alone: it copies it, and trains the copy."""
    given = bound_arguments(info, call)
    lent = [name for name, arg in given.items() if _reaches(module.value(arg.value), net)]
    if len(lent) != 1 or module.value(given[lent[0]].value).place != net.place or len(given) != len(call.args):
        return False
    stmts = list(info.scope.body.walk())
    if info.cls is not None or any(_names_gradients(s) or lent[0] in s.defs for s in stmts):
        return False
    own = Net(lent[0], lent[0])
    return all(_elsewhere(c, s, info.scope, own, info.module, project, deep + 1) for s in stmts for c in s.calls)


def _reaches(given: Value, net: Net) -> bool:
    """An argument is the network, or varied with it."""
    places = {*given.deps, given.place} if given.place else given.deps
    return any(p.startswith("^") or overlaps(p, net.place) for p in places)


def uses_gradients(info: FunctionInfo, project: Project, deep: int) -> bool:
    """The function, or one that it calls, goes backward, steps, clears or names gradients."""
    for stmt in info.scope.body.walk():
        if _names_gradients(stmt):
            return True
        for call in stmt.calls:
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            if method in TAPE or "clip_grad" in method:
                return True
            other = resolve(call, info.scope, info.module, project)
            if other is not None and (deep == 0 or uses_gradients(other, project, deep - 1)):
                return True
    return False


def _class_of(scope: Scope, module: ModuleInfo) -> ClassInfo | None:
    """The class that a method is of."""
    info = module.functions.get(id(scope))
    return info.cls if info is not None else None


def _binds_tighter(text: str) -> bool:
    """The expression can stand behind a plus as it is."""
    node = cst.parse_expression(text)
    if isinstance(node, cst.BinaryOperation):
        return bool(node.lpar) or isinstance(node.operator, (cst.Multiply, cst.Divide))
    return bool(node.lpar) or isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))


class _Writer(Suites):
    """One module, with lists of sums."""

    def __init__(self, module: ModuleInfo, found: dict[int, tuple[Added, Stmt]]) -> None:
        super().__init__(module)
        self.outer = found
        self.inner = {id(loop.node): each for each, loop in found.values()}

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if (each := self.inner.get(id(original))) is not None:
            assert isinstance(original, cst.For)
            updated = self.adding(original, each)
        if id(original) not in self.outer or (each := self.outer[id(original)][0]).alone:
            return [updated], ()  # type: ignore[list-item]
        begun = f"{each.sums} = [{each.torch}.zeros_like({each.one}) for {each.one} in {each.params}]"
        pairs = f"for {each.one}, {each.total} in zip({each.params}, {each.sums})"
        lines = [
            self.new(begun, original).with_changes(leading_lines=updated.leading_lines),  # type: ignore[attr-defined]
            self.renumbered(updated, leading_lines=()),  # type: ignore[arg-type]
            self.new(f"{pairs}:\n    {each.one}.grad = {each.total}", original),
        ]
        return lines, ()

    def adding(self, original: cst.For, each: Added) -> cst.BaseStatement:
        """The statement in the place of the inner loop."""
        self.findings.append(Finding("T2M512", Tier.ASSUMED, "gradients that are added up", WHY, line=self.line))
        names, rows = each.names, (each.params, *each.others)
        if each.alone:
            text = f"for {', '.join(names)} in zip({', '.join(rows)}):\n    {each.one}.grad = {each.value}"
        else:
            if re.search(rf"\b{each.one}\b", each.value) is None:
                names, rows = names[1:], rows[1:]
            pairs = f"{', '.join((each.total, *names))} in zip({', '.join((each.sums, *rows))})"
            value = each.value if _binds_tighter(each.value) else f"({each.value})"
            text = f"{each.sums} = [{each.total} + {value} for {pairs}]"
        above = {line.comment.value for line in original.leading_lines if line.comment is not None}
        inner = [c for c in layout.inner_comments(original) if c.comment is not None and c.comment.value not in above]
        return self.new(text, original).with_changes(leading_lines=[*original.leading_lines, *inner])

    def new(self, text: str, source: cst.CSTNode) -> cst.BaseStatement:
        made = cst.parse_statement(text, self.module.tree.config_for_parsing)
        for node in descend(made):
            if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                self.number(node, source)
        return made


__all__ = ["added"]
