"""What a sample of a dataset is made of: from its `__getitem__`, or from how the batches of loaders are taken apart."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.containers import element
from torch2ms.analysis.names import dotted
from torch2ms.analysis.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.tree import descend
from torch2ms.analysis.values import UNKNOWN, Value

BARE = ("tensor", "numpy", "int", "float", "dict")
HOLDING = ("tuple", "list", "dict", "none")  # among others: no column of arrays
PASSING = ("enumerate", "tqdm", "iter", "next")  # what stands around a loader without changing what it yields


def columns(dataset: Value, module: ModuleInfo, project: Project) -> int | None:
    """How many values a sample has, 0 for one that is no tuple, None where it is not seen."""
    sample = _sample(dataset, module, project)
    if sample.kind == "tuple" and sample.items:
        return 0 if any(item.kind in HOLDING for item in sample.items) else len(sample.items)
    if sample.kind in BARE and not sample.likely:
        return 0
    taken = {count for m in project.modules.values() for count in _taken(m)}
    if len(taken) > 1 and isinstance(project.find(dataset.name, module), ClassInfo):
        return 0  # put together as torch does it, whatever a sample is
    return taken.pop() if len(taken) == 1 else None


def _sample(dataset: Value, module: ModuleInfo, project: Project) -> Value:
    """One item of what a loader is given."""
    if dataset.kind == "dataset" and not dataset.items:
        found = project.find(dataset.name, module)
        method = found.method("__getitem__") if isinstance(found, ClassInfo) else None
        return method.returns if method is not None and method.returns is not None else UNKNOWN
    return element(dataset)


def _taken(module: ModuleInfo) -> Iterator[int]:
    """How many names each loop over a loader takes a batch apart into, 0 for one that gives it a single name."""
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            if isinstance(node, cst.For):
                yield from _parts(node.target, node.iter, module)
            elif isinstance(node, cst.Assign) and "next" in stmt.uses | {dotted(c.func) for c in stmt.calls}:
                for target in node.targets:
                    yield from _parts(target.target, node.value, module)
            elif not stmt.blocks:
                for part in descend(node):
                    if isinstance(part, cst.CompFor):
                        yield from _parts(part.target, part.iter, module)


def _parts(target: cst.BaseExpression, iterated: cst.BaseExpression, module: ModuleInfo) -> Iterator[int]:
    while module.value(iterated).kind != "loader" and isinstance(iterated, cst.Call) and iterated.args:
        name = dotted(iterated.func).rpartition(".")[2]
        if name not in PASSING:
            return
        if name == "enumerate":
            if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
                return
            target = target.elements[1].value
        iterated = iterated.args[0].value
    if module.value(iterated).kind == "loader":
        yield len(target.elements) if isinstance(target, (cst.Tuple, cst.List)) else 0
