"""What a sample of a dataset is made of: from its `__getitem__`, or from how the batches of loaders are taken apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from torch2ms.analysis.evaluation.containers import element
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import UNKNOWN, Value

BARE = ("tensor", "numpy", "int", "float", "dict")
HOLDING = ("tuple", "list", "dict", "none")  # among others: no column of arrays
LISTS = ("cat", "concat", "stack", "concatenate")  # functions of lists of tensors
DEEPEST = 4  # functions that hand a batch on
PASSING = ("enumerate", "tqdm", "iter", "next")  # what stands around a loader without changing what it yields


def columns(dataset: Value, module: ModuleInfo, project: Project) -> int | None:
    """How many values a sample has, 0 for one that is no tuple, None where it is not seen."""
    sample = _sample(dataset, module, project)
    if sample.kind in ("tuple", "list") and sample.items:
        if any(item.kind in HOLDING for item in sample.items):
            return 0
        unseen = tuple(i for i, item in enumerate(sample.items) if item.kind == "unknown" or item.likely)
        return 0 if unseen and _lists(project).among(unseen) else len(sample.items)
    if sample.kind in BARE and not sample.likely:
        return 0
    taken = _all_taken(project)
    if len(taken) > 1 and isinstance(project.find(dataset.name, module), ClassInfo):
        return 0  # put together as torch does it, whatever a sample is
    if len(taken) == 1 and _lists(project).among(tuple(range(max(taken)))):
        return 0  # a column that a loop takes apart is a list of tensors
    return max(taken) if len(taken) == 1 else None


@once
def _all_taken(project: Project) -> frozenset[int]:
    """The counts of all modules; every loader of a project asks for them."""
    return frozenset(count for module in project.modules.values() for count in _taken(module))


def _sample(dataset: Value, module: ModuleInfo, project: Project) -> Value:
    """One item of what a loader is given."""
    if dataset.kind in ("dataset", "object") and not dataset.items:  # any class can be one
        found = project.find(dataset.name, module)
        method = found.method("__getitem__") if isinstance(found, ClassInfo) else None
        return method.returns if method is not None and method.returns is not None else UNKNOWN
    return element(dataset)


def _taken(module: ModuleInfo) -> Iterator[int]:
    """How many names each loop over a loader takes a batch apart into, 0 for one that gives it a single name."""
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            if type(node) is cst.For:
                yield from _parts(node.target, node.iter, module)
            elif type(node) is cst.Assign and "next" in stmt.uses | {dotted(c.func) for c in stmt.calls}:
                for target in node.targets:
                    yield from _parts(target.target, node.value, module)
    for part in module.of_kind(cst.CompFor):
        yield from _parts(part.target, part.iter, module)


def _parts(target: cst.BaseExpression, iterated: cst.BaseExpression, module: ModuleInfo) -> Iterator[int]:
    batch = _batch(target, iterated, module)
    if batch is not None:
        yield len(batch.elements) if isinstance(batch, (cst.Tuple, cst.List)) else 0


def _batch(target: cst.BaseExpression, iterated: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    """What a loop over a loader binds to a batch; nothing for other loops."""
    while module.value(iterated).kind != "loader" and isinstance(iterated, cst.Call) and iterated.args:
        name = dotted(iterated.func).rpartition(".")[2]
        if name not in PASSING:
            return None
        if name == "enumerate":
            if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
                return None
            target = target.elements[1].value
        iterated = iterated.args[0].value
    return target if module.value(iterated).kind == "loader" else None


@once
def _lists(project: Project) -> _Lists:
    return _Lists(project)


class _Lists:
    """Which columns of batches are used as if they were lists, `images[0]`, `cat(images)`: every loader asks."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.functions: dict[str, list[FunctionInfo]] = defaultdict(list)  # of any scope, by name
        for info in (f for m in project.modules.values() for f in m.functions.values()):
            self.functions[info.name].append(info)
        self.uses: dict[int, _Uses] = {}  # of bodies, by their id
        self.known: dict[tuple[int, str, int], bool] = {}
        self.answers: dict[tuple[int, ...], bool] = {}

    @cached_property
    def batches(self) -> list[tuple[cst.BaseExpression, cst.CSTNode]]:
        """The targets that take what is perhaps a batch apart, and where their names are used."""
        return [
            (part, body)
            for module in self.project.modules.values()
            for scope in module.scope.walk()
            for stmt in scope.body.walk()
            for batch, body in _perhaps_batches(stmt.node, scope.node, module)
            for part in _columns(batch, body)
        ]

    def among(self, columns: tuple[int, ...]) -> bool:
        """Whether one of these columns is used as a list somewhere."""
        if columns not in self.answers:
            parts = ((part, body) for batch, body in self.batches for part in _at(batch, columns))
            self.answers[columns] = any(
                isinstance(part, (cst.Tuple, cst.List))
                or isinstance(part, cst.Name)
                and self.taken_apart(body, part.value, 0)
                for part, body in parts
            )
        return self.answers[columns]

    def taken_apart(self, body: cst.CSTNode, name: str, depth: int) -> bool:
        """Whether the name is used as a list, here or in a function that it is handed to."""
        key = (id(body), name, depth)
        if key not in self.known:
            if id(body) not in self.uses:
                self.uses[id(body)] = _uses(body)
            uses = self.uses[id(body)]
            self.known[key] = name in uses.lists or depth < DEEPEST and self.handed_on(uses, name, depth)
        return self.known[key]

    def handed_on(self, uses: _Uses, name: str, depth: int) -> bool:
        """Whether a function that a call may mean uses the parameter as a list that receives the name."""
        for called, position, keyword in uses.handed.get(name, ()):
            for info in self.functions.get(called, ()):
                params = info.scope.params[1:] if info.cls is not None and not info.static else info.scope.params
                inner = keyword or "".join(params[position : position + 1])
                if inner in params and self.taken_apart(info.scope.node, inner, depth + 1):
                    return True
        return False


@dataclass(slots=True)
class _Uses:
    """What a body does with names: those that it uses as lists, and the calls that it hands each to, by position or
    keyword."""

    lists: set[str] = field(default_factory=set)
    handed: dict[str, list[tuple[str, int, str]]] = field(default_factory=lambda: defaultdict(list))


def _uses(body: cst.CSTNode) -> _Uses:
    uses = _Uses()
    for part in descend(body):
        uses.lists.add(_as_list(part))
        if isinstance(part, cst.Call) and (called := dotted(part.func).rpartition(".")[2]):
            for i, arg in enumerate(part.args):
                if not arg.star and (name := dotted(arg.value)):
                    uses.handed[name].append((called, i, arg.keyword.value if arg.keyword is not None else ""))
    return uses


def _perhaps_batches(
    node: cst.CSTNode, scope: cst.CSTNode, module: ModuleInfo
) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """What is bound to batches, or to what comes out of things that a loader was perhaps handed to (generators,
    prefetchers), and where it is used."""
    if type(node) is cst.For:
        pairs = _pairs(node.target, node.iter)
        yield from ((target, node.body) for target, iterated in pairs if _perhaps_loader(iterated, module))
    elif type(node) is cst.Assign and isinstance(call := node.value, cst.Call) and dotted(call.func) == "next":
        if call.args and _perhaps_loader(call.args[0].value, module):
            yield from ((target.target, scope) for target in node.targets)


def _pairs(
    target: cst.BaseExpression, iterated: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Targets of a loop and what each of them runs over, through what stands around it."""
    name = dotted(iterated.func).rpartition(".")[2] if isinstance(iterated, cst.Call) else ""
    if not isinstance(iterated, cst.Call) or not iterated.args or name not in (*PASSING, "zip"):
        yield target, iterated
        return
    among = [e.value for e in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else []
    if name == "zip":
        for part, arg in zip(among, iterated.args, strict=False):
            yield from _pairs(part, arg.value)
    elif name != "enumerate" or len(among) == 2:
        yield from _pairs(among[1] if name == "enumerate" else target, iterated.args[0].value)


def runs_over_loader(node: cst.For, module: ModuleInfo) -> bool:
    """`for i, batch in enumerate(loader)`"""
    return any(module.value(iterated).kind == "loader" for _, iterated in _pairs(node.target, node.iter))


def _perhaps_loader(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    return module.value(node).kind in ("loader", "unknown", "object")


def _columns(batch: cst.BaseExpression, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The targets that take a batch apart: where it is bound, or its name later."""
    if isinstance(batch, (cst.Tuple, cst.List)):
        yield batch
    elif isinstance(batch, cst.Name):
        for part in descend(body):
            if isinstance(part, cst.Assign) and dotted(part.value) == batch.value:
                yield part.targets[0].target


def _at(batch: cst.BaseExpression, columns: tuple[int, ...]) -> list[cst.BaseExpression]:
    elements = batch.elements if isinstance(batch, (cst.Tuple, cst.List)) else ()
    return [elements[i].value for i in columns if i < len(elements)]


def _as_list(node: cst.CSTNode) -> str:
    """The name that is used as a list here, "" for none."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        return dotted(node.value) if isinstance(constant(node.slice[0].slice.value), (int, str)) else ""
    if isinstance(node, (cst.For, cst.CompFor)):
        passed = node.iter
        while isinstance(passed, cst.Call) and dotted(passed.func) in (*PASSING, "zip", "reversed") and passed.args:
            passed = passed.args[0].value
        return dotted(passed)
    if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, (cst.Tuple, cst.List)):
        return dotted(node.value)
    if isinstance(node, cst.Call) and node.args:
        name = dotted(node.func).rpartition(".")[2]
        kinds = name == "isinstance" and dotted(node.args[-1].value) in ("list", "tuple", "dict")
        return dotted(node.args[0].value) if kinds or name in LISTS else ""
    return ""
