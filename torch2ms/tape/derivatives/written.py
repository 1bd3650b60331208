"""Losses without a second derivative in MindSpore, written out in functions whose gradient is differentiated again.

`ops.cross_entropy`, `ops.log_softmax` and `ops.binary_cross_entropy_with_logits` fail where their compiled gradient is
differentiated; logarithms of sums, softplus and products do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import Value
from torch2ms.tape.derivatives.paths import Around, calls_run
from torch2ms.tape.forms.graphmode import EINSUM, measured, read_when_run
from torch2ms.tape.plan import Copy, Item, Text

CROSS_ENTROPY = ("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy")
KINDS = {
    **dict.fromkeys(CROSS_ENTROPY, "cross_entropy"),
    "torch.nn.BCEWithLogitsLoss": "logits",
    "torch.nn.functional.binary_cross_entropy_with_logits": "logits",
    "torch.nn.NLLLoss": "likelihood",
    "torch.nn.functional.nll_loss": "likelihood",
    "torch.nn.functional.log_softmax": "log_softmax",
    "torch.log_softmax": "log_softmax",
}
PLACES = {"input": 0, "target": 1, "dim": 1}  # of arguments that are given by name
DEFAULTS = {"weight": None, "pos_weight": None, "ignore_index": -100, "label_smoothing": 0, "size_average": None}
REDUCED = {"mean": ".mean()", "sum": ".sum()", "none": ""}
SCORES = "the scores are (batch, classes), the labels class indices, and none of them is -100"


def kind_of(node: cst.Call, module: ModuleInfo) -> str:
    """Which of these a call is, "" for any other."""
    value = module.value(node.func)
    if value.kind in ("api", "lossfn", "module"):
        return KINDS.get(value.name, "")
    method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "log_softmax"
    return "log_softmax" if method and module.value(node.func.value).kind in ("tensor", "unknown") else ""  # type: ignore[attr-defined]


def found_in(stmts: list[Stmt], module: ModuleInfo) -> dict[int, Stmt]:
    """The calls of such losses, by id, with their statements."""
    return {id(c): s for s in stmts for c in s.calls if kind_of(c, module)}


def within(
    stmts: list[Stmt], around: Around, bare: Callable[[str], bool], *, direct: bool = False
) -> tuple[dict[int, str], str]:
    """The calls of such losses in functions that the statements call: which they are; and why that cannot be.

    `direct`: those in the statements themselves as well.
    """
    own = set() if direct else {id(c) for s in stmts for c in s.calls}
    found: dict[int, str] = {}
    for node, home in calls_run(stmts, around):
        if id(node) in own or not (kind := kind_of(node, home)):
            continue
        if home is not around.module:
            return {}, "a cross entropy in another module has no second derivative here"
        if problem := problem_of(node, home, bare):
            return {}, problem
        found[id(node)] = kind
    return found, ""


def problem_of(node: cst.Call, module: ModuleInfo, bare: Callable[[str], bool]) -> str:
    """Why a call cannot be written out; `bare`: wherever a layer is made, it is without arguments."""
    kind, value = kind_of(node, module), module.value(node.func)
    if kind == "log_softmax":
        return "" if len(parts(node)) == 2 else "a log_softmax without a dimension"
    given = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
    others = {n for n, v in given.items() if n not in (*PLACES, "reduction") and not _left_at_default(n, v)}
    if len(parts(node)) != 2 or others or any(a.star for a in node.args) or _reduction(node) not in REDUCED:
        return "a cross entropy with options has no second derivative here"
    if value.kind != "api" and not bare(value.name):
        return "a cross entropy with options has no second derivative here"
    return ""


def _left_at_default(name: str, value: cst.BaseExpression) -> bool:
    """`weight=None`: what the option is without being given."""
    return name in DEFAULTS and constant(value) == DEFAULTS[name]


def unmeasured(stmts: list[Stmt], around: Around) -> str:
    """A function or layer in a forward that has no second derivative, as far as it is known."""
    fails = measured("fails", "twice")
    for node, home in calls_run(stmts, around):
        value = home.value(node.func)
        if value.name in fails and not kind_of(node, home) and value.kind in ("api", "module", "lossfn"):
            return value.name
        if value.name == EINSUM and read_when_run(node):
            return value.name
        if value.kind == "module":
            made = [] if value.items else _made(value.name, home, around.project)
            layers = _inside(value) | {each.value(call.func).name for stmt, each in made for call in stmt.calls}
            if found := sorted(n for n in layers & fails - KINDS.keys() if n.rpartition(".")[2][:1].isupper()):
                return found[0]
    return ""


def _inside(value: Value) -> set[str]:
    """The layers of a container whose items are known."""
    return {value.name}.union(*(_inside(item) for item in value.items or ()))


def _made(name: str, home: ModuleInfo, project: Project) -> Iterator[tuple[Stmt, ModuleInfo]]:
    """The statements that make the layers of a network: those of its class, or any outside of classes."""
    found = project.find(name, home) if name else None
    if isinstance(found, ClassInfo):
        for cls in found.lineage():
            yield from ((s, cls.module) for info in cls.methods.values() for s in info.scope.body.walk())
    elif name in ("", "torch.nn.Sequential", "torch.nn.ModuleList"):
        for module in project.modules.values():
            for scope in module.scope.walk():
                if scope.cls is None and not isinstance(scope.node, cst.ClassDef):
                    yield from ((s, module) for s in scope.body.walk())


def assumed_of(node: cst.Call, module: ModuleInfo) -> set[str]:
    """What writing a call out assumes."""
    return {SCORES} if kind_of(node, module) in ("cross_entropy", "likelihood") else set()


def write_out(
    stmt: Stmt, sources: list[cst.CSTNode], module: ModuleInfo, fresh: Callable[[str], str], expressions: dict[int, str]
) -> list[Item]:
    """What names the arguments of such calls in the nodes; adds the code of the calls to `expressions`."""
    inside = {id(n) for source in sources for n in descend(source)}
    items: list[Item] = []
    for node in (c for c in reversed(stmt.calls) if id(c) in inside and kind_of(c, module)):
        kind = kind_of(node, module)
        names = []
        for value, short in zip(parts(node), ("logits", "labels"), strict=False):
            if kind == "log_softmax" and short == "labels":
                continue
            name = dotted(value)
            if not name or "." in name:
                name = fresh(short)
                items.append(Text(f"{name} = {{0}}", [value], expressions))
            names.append(name)
        expressions[id(node)] = _text(kind, names, node)
    return items


def copied(
    stmt: Stmt, module: ModuleInfo, fresh: Callable[[str], str], expressions: dict[int, str]
) -> tuple[list[Item], set[str]]:
    """A statement of such a forward, and what is needed for it."""
    own = dict(expressions)
    items = write_out(stmt, [stmt.node], module, fresh, own)
    return [*items, Copy(stmt, own)], {"ops"} if items or len(own) > len(expressions) else set()


def parts(node: cst.Call) -> list[cst.BaseExpression]:
    """The arguments in their order, a method's tensor among them."""
    named = {PLACES[a.keyword.value]: a.value for a in node.args if a.keyword is not None and a.keyword.value in PLACES}
    values = [a.value for a in node.args if a.keyword is None] + [named[place] for place in sorted(named)]
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "log_softmax" and len(values) == 1:
        return [node.func.value, *values]
    if 0 in named and len(values) > len(named):  # `f(1, input=x)`
        return []
    return values


def _reduction(node: cst.Call) -> object:
    given = [a.value for a in node.args if a.keyword is not None and a.keyword.value == "reduction"]
    return constant(given[0]) if given else "mean"


def _text(kind: str, names: list[str], node: cst.Call) -> str:
    scores, reduced = names[0], REDUCED.get(str(_reduction(node)), "")
    if kind == "log_softmax":
        dim = cst.Module([]).code_for_node(parts(node)[1])
        return f"({scores} - ops.logsumexp({scores}, {dim}, True))"
    if kind == "logits":
        return f"(ops.softplus({scores}) - {scores} * {names[1]}){reduced}"
    picked = f"({scores} * ops.one_hot({names[1]}, {scores}.shape[1])).sum(1)"
    if kind == "likelihood":
        return f"-{picked}{reduced}"
    return f"(ops.logsumexp({scores}, 1) - {picked}){reduced}"
