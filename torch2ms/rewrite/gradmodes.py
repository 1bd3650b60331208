"""Gradient modes: the blocks of `with torch.no_grad()` and the like dissolve into what surrounds them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad, off
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import WATCHING
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant, descend, gathered
from torch2ms.analysis.values import Value, is_weight
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.consumed import refuse_yielded
from torch2ms.rewrite.refilled import refilled, refuse_filled
from torch2ms.rewrite.writer import Writer
from torch2ms.tape.opened import opened_functions
from torch2ms.tape.plan import Text

TENSORS = ("tensor", "unknown", "tuple", "list", "dict")
RECORDS = ("tuple", "object")
TENSOR_ATTRIBUTES = ("data", "grad", "requires_grad", "grad_fn", "is_leaf", "values", "indices")
NUMBERS = ("of float", "of int", "of str", "of bool")  # lists without tensors
PLAIN = ("int", "float", "bool", "str", "none", "numpy", "size", "dtype", "device", "module", "optimizer", "class")
WHOLE = "without_gradient"
JUMPS = (cst.Break, cst.Continue, cst.Return)


def opened(mode: cst.With, stmt: Stmt, writer: Writer) -> layout.Lines:
    """The block begins: its comments; what only some ways through it bind is cut from the graph where it is bound."""
    refuse_yielded(mode, stmt, writer)
    if writer.differentiated and cuts(mode, writer):
        stmts = [s for s in stmt.block.stmts if mode in s.modes]
        for inner, name in _bound_inside(stmts, writer.module):
            writer.plan.behind.setdefault(id(inner), []).append(Text(_stopped(name, [inner], writer)))
        refuse_filled(stmts, writer)
    lines = tuple(mode.leading_lines)
    asked = [i.item.func if isinstance(i.item, cst.Call) else i.item for i in mode.items]
    aside = all(qualified(func, writer.module.imports) in WATCHING for func in asked)
    why = "it watches or steers PyTorch itself" if aside else "MindSpore records only inside gradient functions"
    writer.findings.append(Finding("T2M301", Tier.EXACT, "block that watches" if aside else "gradient mode block",
                                 f"{why}: dissolved",
                                 line=stmt.block.scope.transparent.get(id(mode), stmt.lineno)))  # fmt: skip
    return lines + layout.with_comments(mode)


def closed(
    mode: cst.With, stmts: list[Stmt], writer: Writer, placed: bool
) -> tuple[list[cst.BaseStatement], layout.Lines]:
    """The block ends: what it leaves behind is cut from the graph, where it is bound, and its last comments."""
    footer = mode.body.footer if isinstance(mode.body, cst.IndentedBlock) else ()
    nodes: list[cst.BaseStatement] = []
    if writer.differentiated and cuts(mode, writer):
        here = [s for s in stmts if placed or id(s) not in writer.plan.moved]
        certain = _certain(here)
        for name in _kept(stmts, writer.module):
            if name in certain:
                stopped, there = _stopped(name, stmts, writer), _there(name, writer)
                nodes += writer.text(f"if {there}:\n    {stopped}" if there else stopped)
        for text in refilled(here, writer):
            writer.needs.add("without_gradient")
            nodes += writer.text(text)
    return nodes, layout.comments_only(footer)


def _there(name: str, writer: Writer) -> str:
    """A test whether the place is there: methods of several classes may run, and objects of several be held."""
    held, _, last = name.rpartition(".")
    if _of_some(name, writer):
        return f"hasattr(self, {last!r})"
    if not held.startswith("self."):
        return ""
    outer = _there(held, writer)
    return f"{outer} and hasattr({held}, {last!r})" if outer else f"hasattr({held}, {last!r})"


def _of_some(name: str, writer: Writer) -> bool:
    """An attribute which the methods of classes below this one bind, and not all of those may have it."""
    cls = writer.module.classes.get(writer.scope.cls.name) if writer.scope.cls is not None else None
    held, _, last = name.rpartition(".")
    if cls is None or held != "self":
        return False
    return not any(last in c.bound for c in cls.lineage()) and any(last in c.bound for c in cls.below())


def _stopped(name: str, stmts: list[Stmt], writer: Writer) -> str:
    """The place is bound to what it held, without its graph; the operator knows tensors and plain containers only."""
    held = [i.out[name] for stmt in stmts for i in stmt.walk() if name in i.defs and name in i.out]
    of_objects = held and (held[-1].kind == "object" or held[-1].name == "of object")
    if held and (held[-1].kind in RECORDS and held[-1].keys is not None or of_objects):
        known = True
    else:
        known = not (held and held[-1].kind in ("list", "dict")) and _has_fields(name, writer)
    writer.needs.add("without_gradient" if known else "ops")
    return f"{name} = without_gradient({name})" if known else f"{name} = ops.stop_gradient({name})"


def _has_fields(name: str, writer: Writer) -> bool:
    """The function looks into it as nobody looks into a tensor: `target.logits`."""
    for node in descend(writer.scope.node):
        if type(node) is cst.Attribute and dotted(node.value) == name:
            attr = node.attr.value
            if writer.rules.find(f"torch.Tensor.{attr}") is None and attr not in TENSOR_ATTRIBUTES:
                return True
    return False


def _kept(stmts: list[Stmt], module: ModuleInfo) -> list[str]:
    """What may hold tensors of the block when it has run, and is read later, in the order in which it is made."""
    names: dict[str, None] = {}
    for inner in (i for stmt in stmts for i in stmt.walk()):
        for place in sorted(d for d in inner.defs if d.strip("_") and not d.endswith(".data")):  # nobody reads `_`
            value = inner.out.get(place)
            record = value is not None and value.kind == "object" and bool(value.keys) and bool(value.deps)
            if value is None or counts(value) or "." in place and value.kind == "unknown" and not value.deps:
                continue
            if record or value.kind in TENSORS and value.name not in NUMBERS:
                names.setdefault(place)
        gone = inner.defs if isinstance(inner.node, cst.Del) else _cut(inner)
        if isinstance(inner.node, cst.AugAssign) and has_graph(inner.node.target, module):
            gone = inner.defs  # written into its memory alone
        names = {n: None for n in names if n not in gone}
    block = stmts[-1].block
    read = liveness.read_after(block, stmts, block.stmts.index(stmts[-1])) if names else set()
    return [n for n in names if "." in n or n in read]


def _certain(stmts: list[Stmt]) -> set[str]:
    """The places that the statements bind on every way through them."""
    plain = (s for s in stmts if not s.blocks or isinstance(s.node, cst.With))
    return set().union(*(liveness.definite(s) for s in stmts), *(s.defs for s in plain))


def _bound_inside(stmts: list[Stmt], module: ModuleInfo) -> Iterator[tuple[Stmt, str]]:
    """The small statements under conditions and in loops that bind such places last, each with the place."""
    certain = _certain(stmts)
    for name in _kept(stmts, module):
        if name in certain:
            continue
        makers = [i for s in stmts for i in s.walk() if name in i.defs and not i.blocks and name not in _cut(i)]
        for maker in makers:
            block = maker.block.stmts
            later = block[block.index(maker) + 1 :]
            until = next((n for n, s in enumerate(later) if s in makers), None)
            between = later[:until] if until is not None else []
            leaves = any(isinstance(i.node, JUMPS) for s in between for i in s.walk())
            if until is None or leaves:
                yield maker, name


def cuts(mode: cst.With, writer: Writer) -> bool:
    for item in mode.items:
        if off(item.item, writer.module):
            return True
    return False


def has_graph(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """A tensor that was computed of what has gradients."""
    value = module.value(node)
    return value.kind == "tensor" and not value.leaf and any(not dep.startswith("@") for dep in value.deps)


def counts(value: Value) -> bool:
    """A tensor of integers or truth values: it has no gradient."""
    return value.kind == "tensor" and value.dtype.startswith(("bool", "int", "uint"))


def stopper(value: Value, wanted: bool) -> str:
    """What takes the graph from a returned value: of a tensor, or of whatever may hold some; "" where there is none."""
    if not wanted or value.kind in PLAIN or counts(value):
        return ""
    return "ops.stop_gradient" if value.kind in ("tensor", "param") else WHOLE


def unrecorded(stmt: Stmt, writer: Writer) -> bool:
    """The statement runs inside of a gradient function, in a block or a function that torch does not record."""
    return writer.differentiated and _silent(stmt, writer)


def may_be_recorded(stmt: Stmt, writer: Writer) -> bool:
    """Code that is not seen may run the statement inside of a gradient function, and torch records it then."""
    info = writer.module.functions.get(id(stmt.block.scope))
    return info is not None and id(info) in opened_functions(writer.project) and not _silent(stmt, writer)


def _silent(stmt: Stmt, writer: Writer) -> bool:
    return any(cuts(mode, writer) for mode in stmt.modes) or _runs_unrecorded(stmt.block.scope, writer)


def _runs_unrecorded(scope: Scope, writer: Writer) -> bool:
    """The same of a whole function, asked for each of its statements."""
    known = writer.unrecorded.get(id(scope))
    if known is None:
        known = writer.unrecorded[id(scope)] = _reached_unrecorded(scope, writer)
    return known


def _reached_unrecorded(scope: Scope, writer: Writer) -> bool:
    """A function is decorated so, or stands in another where nothing but calls that are unrecorded reach it."""
    node = scope.node
    if type(node) is not cst.FunctionDef:
        return False
    if scope.name in writer.project.silent or any(
        is_no_grad(each.decorator, writer.module) for each in node.decorators
    ):
        return True
    outer = scope.parent
    if outer is None or not outer.is_function:
        return False
    nodes = gathered(outer.node)
    callees = {id(n.func) for n in nodes if type(n) is cst.Call}
    names = [n for n in nodes if type(n) is cst.Name and n.value == scope.name and n is not node.name]
    if not names or any(id(n) not in callees for n in names):
        return False
    calls = [s for s in outer.body.walk() for c in s.calls if dotted(c.func) == scope.name]
    blocks = len(calls) == len(names) and all(any(cuts(m, writer) for m in s.modes) for s in calls)
    return blocks or _runs_unrecorded(outer, writer)


def _cut(stmt: Stmt) -> set[str]:
    """What a statement itself cuts from the graph: `x.detach_()`, `x = y.detach()`."""
    node = stmt.node
    value = node.value if isinstance(node, (cst.Expr, cst.Assign)) else None
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return set()
    if isinstance(node, cst.Expr) and value.func.attr.value == "detach_":
        return {dotted(value.func.value)}
    return stmt.defs if value.func.attr.value in ("detach", "detach_") else set()


def asserts_flag(node: cst.Assert, module: ModuleInfo) -> bool:
    """`assert not x.requires_grad`, `assert x.requires_grad == True` of a tensor that is no weight."""
    test = node.test
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        test = test.left if isinstance(constant(test.comparisons[0].comparator), bool) else test
    if not isinstance(test, cst.Attribute) or test.attr.value != "requires_grad":
        return False
    value = module.value(test.value)
    return value.kind in ("tensor", "unknown") and not value.leaf and not is_weight(value)
