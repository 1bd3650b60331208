"""`p.grad = q.grad` in a loop over two networks: what the one has is read out before it is stored in the other.

`for p, q in zip(net.parameters(), fast.parameters()): p.grad = q.grad.clone()` becomes a loop over the parameters of
`net` and a list of the gradients of `fast`, which is a fill (see `filled`) or a sum (see `added`) like any other. So
are written first-order MAML, workers that share a network (`shared.grad = own.grad`), and clients with their server.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import overlaps
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

EVENTS = {"backward", "step", "zero_grad"}
STORED = re.compile(r"\._?grad\b[^\n]*[=(][^\n]*\.grad\b")
PARAMETERS = re.compile(r"[\w.]+\.parameters\(\)")


class Row(NamedTuple):
    """One of the things that a loop goes through together."""

    name: str
    held: str  # what its gradient is called
    at: int
    alone: bool  # nothing but the gradient is used of what the name holds


@each_module
def taken_over(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such loops."""
    if not module.says(STORED):
        return None
    loops = (n for n in module.of_kind(cst.For) if type(n.iter) is cst.Call and dotted(n.iter.func) == "zip")
    found = {id(loop): rows for loop in loops if (rows := _rows(loop, module))}
    return _Writer(module, found).plain() if found else None


def _rows(loop: cst.For, module: ModuleInfo) -> list[Row]:
    """The networks whose gradients are read, where those of one other are written, and of no more."""
    call, target = loop.iter, loop.target
    assert isinstance(call, cst.Call)
    if type(target) is not cst.Tuple or any(a.star or a.keyword is not None for a in call.args):
        return []
    names = [dotted(e.value) for e in target.elements]
    if len(names) != len(call.args) or not all(names) or len({*names}) != len(names):
        return []
    whole = {name: at for at, (name, a) in enumerate(zip(names, call.args, strict=True))
             if PARAMETERS.fullmatch(code(a.value))}  # fmt: skip
    if len(whole) < 2:
        return []
    grads = [n for n in descend(loop.body) if type(n) is cst.Attribute and n.attr.value == "grad"]
    used = {dotted(n.value) for n in grads}
    changed = [part for n in descend(loop.body) for target in _targets(n) for part in descend(target)]
    if any(type(n) is cst.Call and name_called(n) in EVENTS for n in descend(loop.body)):
        return []
    written = {dotted(n.value) for n in changed if type(n) is cst.Attribute and n.attr.value == "grad"}
    read = [name for name in names if name in used - written]
    if len(written) != 1 or not used <= whole.keys():
        return []
    places = {name: _place(call.args[whole[name]].value, module) for name in used}
    (one,) = written
    if not all(places.values()) or any(overlaps(places[name], places[one]) for name in read):
        return []
    taken = {n.value for n in module.of_kind(cst.Name)}
    return [Row(name, _fresh(f"{name}_grad", taken), whole[name], _alone(name, loop)) for name in read]


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _targets(node: cst.CSTNode) -> list[cst.CSTNode]:
    """What a statement or a call writes into, whatever it is part of: `p.grad, q.grad = ...`, `p.grad.add_(...)`."""
    if type(node) is cst.Assign:
        return [t.target for t in node.targets]
    if type(node) is cst.AugAssign or type(node) is cst.AnnAssign or type(node) is cst.NamedExpr:
        return [node.target]
    if type(node) is cst.Del:
        return [node.target]
    changes = type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value.endswith("_")
    return [node.func.value] if changes else []  # type: ignore[attr-defined]


def _place(params: cst.BaseExpression, module: ModuleInfo) -> str:
    """The place of the network that has the parameters."""
    method = params.func if isinstance(params, cst.Call) else None
    return module.value(method.value).place if isinstance(method, cst.Attribute) else ""


def _alone(name: str, loop: cst.For) -> bool:
    reads = [n for n in descend(loop.body) if type(n) is cst.Name and n.value == name]
    grads = [n for n in descend(loop.body) if type(n) is cst.Attribute and dotted(n) == f"{name}.grad"]
    return len(reads) == len(grads)


class _Writer(Suites):
    """One module with loops over the gradients themselves."""

    def __init__(self, module: ModuleInfo, found: dict[int, list[Row]]) -> None:
        super().__init__(module)
        self.found = found
        self.read: list[dict[str, str]] = []  # in the loops around: names of parameters, and of their gradients

    def visit_For(self, node: cst.For) -> None:
        self.read.append({row.name: row.held for row in self.found.get(id(node), ())})

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For:
        self.read.pop()
        rows = self.found.get(id(original), ())
        if not rows:
            return updated
        assert isinstance(updated.iter, cst.Call) and isinstance(updated.target, cst.Tuple)
        targets, args = list(updated.target.elements), list(updated.iter.args)
        for name, held, at, alone in rows:
            listed = cst.parse_expression(f"[{name}.grad for {name} in {code(args[at].value)}]")
            if alone:
                targets[at] = targets[at].with_changes(value=cst.Name(held))
                args[at] = args[at].with_changes(value=listed)
            else:
                targets.append(cst.Element(cst.Name(held)))
                args.append(cst.Arg(listed))
        call = updated.iter.with_changes(args=args)
        return updated.with_changes(target=updated.target.with_changes(elements=targets), iter=call)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        if not self.read or updated.attr.value != "grad" or not isinstance(updated.value, cst.Name):
            return updated
        held = next((names[updated.value.value] for names in self.read if updated.value.value in names), "")
        return cst.Name(held) if held else updated


__all__ = ["taken_over"]
