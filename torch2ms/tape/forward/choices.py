"""Expressions that choose which layers run: conditional ones, `getattr` by a name that is not written out, items."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, constant, descend, gathered
from torch2ms.analysis.values import PART, Value, any_overlap

# questions about shapes and kinds, which stay as they are while one trains
ATTRIBUTES = frozenset("shape ndim dtype device is_cuda requires_grad".split())
ASKING = (cst.Attribute, cst.Call, cst.Comparison)
METHODS = frozenset("size dim numel".split())
FUNCTIONS = frozenset("len type isinstance hasattr is_tensor torch.is_tensor".split())
BUILTINS = set(dir(builtins))
SEQUENTIAL = "torch.nn.Sequential"
LAYERS = ("torch.nn.ModuleList", "torch.nn.ModuleDict")
HOLDING = ("module", "list", "tuple", "dict")
PARAMETERS = ("parameter list", "torch.nn.ParameterDict")


def chosen(stmt: Stmt, module: ModuleInfo) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
    """What a statement decides by, and the places of the layers that run, or are named, in one case alone."""
    for node in stmt.nodes if stmt.is_small else gathered(own(stmt)):
        if type(node) is cst.IfExp:
            if sides := held(node.body, module) ^ held(node.orelse, module):
                yield node.test, sides
        elif type(node) is cst.Subscript:
            holder, item = module.value(node.value), module.value(node)
            holds = holder.kind in HOLDING or holder.name in PARAMETERS
            layers = _items(node.value, holder) if holds else frozenset()
            if item.kind == "module" and not item.name:  # layers were put into it one by one
                layers = layers or frozenset(d for d in item.deps if PART in d)
            if layers and moving(node):
                yield node, layers
        elif type(node) is cst.Call and type(node.func) is cst.Name and (asked := by_name(node)) is not None:
            net = module.value(node.args[0].value)
            if net.kind == "module" and net.place:
                yield asked, frozenset({net.place})


def by_name(node: cst.Call) -> cst.BaseExpression | None:
    """Of `getattr(net, name)`, what names the layer, unless it is written out."""
    if type(node.func) is not cst.Name or node.func.value != "getattr" or len(node.args) < 2:
        return None
    return node.args[1].value if constant(node.args[1].value) is ... else None


def moving(node: cst.Subscript) -> bool:
    """Which items it means is not written out."""
    return any(type(n) is cst.Name or type(n) is cst.Call for n in descend(node.slice[0].slice))


def one_item(test: cst.BaseExpression, stmt: Stmt) -> bool:
    """`heads[task]`: an item of which the loops around do not say which one it is, so that the others do not run."""
    if type(test) is not cst.Subscript or type(test.slice[0].slice) is not cst.Index:
        return False
    counting = {d for a in stmt.ancestors() if a.is_loop for s in (a, *a.walk()) for d in s.defs}
    counting |= {n.value for c in descend(own(stmt)) if type(c) is cst.CompFor for n in descend(c.target)
                 if type(n) is cst.Name}  # fmt: skip
    names = {root(u) for u in expression_uses(test.slice[0].slice.value, stmt)} - BUILTINS
    return bool(names) and not names & counting


def held(node: cst.CSTNode, module: ModuleInfo) -> frozenset[str]:
    """The layers that an expression runs or names."""
    value = module.value(node)
    if value.kind == "module" and value.place:
        return frozenset({value.place})
    return frozenset().union(*(held(child, module) for child in children(node)))


def one_of_all(test: cst.BaseExpression, stmts: list[Stmt]) -> bool:
    """`[actor(o) if j == i else acts[j] for j in range(n)]`: the test holds for one of what the list counts through."""
    sides = (test.left, test.comparisons[0].comparator) if type(test) is cst.Comparison else ()
    equal = bool(sides) and len(test.comparisons) == 1 and type(test.comparisons[0].operator) is cst.Equal  # type: ignore[attr-defined]
    if not equal or not all(type(side) is cst.Name for side in sides):
        return False
    names = {dotted(side) for side in sides}
    for made in (n for s in stmts for n in descend(own(s)) if type(n) is cst.ListComp):
        clause, chosen_here = made.for_in, made.elt
        counts = type(clause.iter) is cst.Call and dotted(clause.iter.func) in ("range", "enumerate")
        alone = not clause.ifs and clause.inner_for_in is None and len(clause.iter.args) == 1  # type: ignore[attr-defined]
        if counts and alone and type(chosen_here) is cst.IfExp and chosen_here.test is test:
            counter = clause.target.elements[0].value if type(clause.target) is cst.Tuple else clause.target
            return dotted(counter) in names and len(names) == 2
    return False


def tests_of(test: cst.BaseExpression, stmt: Stmt, loops: list[Stmt]) -> Iterator[tuple[cst.BaseExpression, set[str]]]:
    """What decides in the end, and its names: for what `loops` and comprehensions count with, what these run over."""
    ranges: dict[str, cst.BaseExpression] = {}
    for loop in (a.node for a in stmt.ancestors() if a in loops):
        if isinstance(loop, cst.For):
            ranges |= {n.value: loop.iter for n in descend(loop.target) if type(n) is cst.Name}
    asked = {root(u) for u in expression_uses(test, stmt)}
    kept: list[cst.BaseExpression] = []  # what keeps items from being taken: `enc[k](b[k]) for k in keys if k in b`
    for made in (n for n in descend(own(stmt)) if type(n) is cst.CompFor):
        counters = {n.value: made.iter for n in descend(made.target) if type(n) is cst.Name}
        ranges |= counters
        kept += [i.test for i in made.ifs if i.test is not test and asked & counters.keys()]
    for made in (n for n in descend(own(stmt)) if type(n) is cst.CompFor and any(i.test is test for i in n.ifs)):
        asked -= {n.value for n in descend(made.target) if type(n) is cst.Name}  # it is asked of each of them
    for source in (test, *(ranges[name] for name in sorted(asked & ranges.keys())), *kept):
        asks = but_for_shapes(source)
        names = {root(u) for part in asks for u in expression_uses(part, stmt)} - ranges.keys() - BUILTINS
        if names:
            yield source, names


def but_for_shapes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The largest parts of an expression in which nobody asks for a shape or a kind, or whether something is there.

    What a batch has is not settled: `batch.target is not None`.
    """
    if of_shape(node):
        return
    if any(n.__class__ in ASKING and of_shape(n) for n in gathered(node)):
        value = type(node) is cst.Attribute or type(node) is cst.Arg
        for child in [node.value] if value else children(node):  # type: ignore[attr-defined]
            yield from but_for_shapes(child)
    else:
        yield node


def of_shape(node: cst.CSTNode) -> bool:
    if type(node) is cst.Attribute:
        return node.attr.value in ATTRIBUTES
    if type(node) is cst.Call:
        method = type(node.func) is cst.Attribute and node.func.attr.value in METHODS
        return method or dotted(node.func) in FUNCTIONS
    asked = asked_there(node)
    return asked is not None and (type(asked) is cst.Name or dotted(asked).startswith("self."))


def asked_there(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Of what a comparison asks whether it is None."""
    if type(node) is not cst.Comparison or len(node.comparisons) != 1:
        return None
    target = node.comparisons[0]
    there = isinstance(target.operator, (cst.Is, cst.IsNot)) and constant(target.comparator) is None
    return node.left if there else None


def elsewhere(places: frozenset[str], stmt: Stmt, stmts: list[Stmt], module: ModuleInfo) -> frozenset[str]:
    """Those of some places that other statements do not run in any case."""
    inner = set(map(id, stmt.walk()))
    others = (c.func for s in stmts if id(s) not in inner for c in s.calls if dotted(c.func) not in stmt.defs)
    run = frozenset(v.place for v in map(module.value, others) if v.kind == "module" and v.place)
    return frozenset(p for p in places if not any_overlap(frozenset({p}), run))


def own(stmt: Stmt) -> cst.CSTNode:
    """What a statement evaluates itself."""
    node = stmt.node
    if type(node) is cst.For:
        return node.iter
    if type(node) is cst.If or type(node) is cst.While:
        return node.test
    return node if not stmt.blocks else cst.Pass()


def _items(node: cst.BaseExpression, value: Value) -> frozenset[str]:
    """The layers, or the parameters, in a list, tuple or dict of them."""
    if value.kind == "module" or value.name in PARAMETERS:
        return frozenset({value.place} if value.place and value.name in (SEQUENTIAL, *LAYERS, *PARAMETERS) else ())
    held = [v for item in (value.each, *(value.items or ())) if item is not None for v in (item, *(item.items or ()))]
    if any(v.kind == "module" and not v.place for v in held):
        return frozenset({f"{dotted(node)}{PART}>"})
    if value.each is not None:
        return frozenset(d for d in value.deps if d[0] not in "@^") if any(map(_trains, held)) else frozenset()
    layers = frozenset(v.place for v in value.items or () if v.place and (v.kind == "module" or _trains(v)))
    return layers if len(layers) > 1 else frozenset()


def _trains(value: Value) -> bool:
    return value.leaf or value.kind == "param"
