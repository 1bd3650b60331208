"""Iterators over parameters that are used again: `net.parameters()` gives each of them once, MindSpore gives a list.

`params = net.parameters()`, then a clip and a loop over `params`: torch's loop has no turns, as the clip took them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.sites import bound_arguments
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.plan import Plan

BOUND = re.compile(
    r"\b\w+\s*=\s*(?:[\w.]+\.(?:named_)?parameters\(\)\s*(?:$|[#;])"
    r"|(?:filter|map|iter|(?:\w+\.)?chain(?:\.from_iterable)?)\(|\(\s*\w+\s+for\b)",
    re.MULTILINE,
)
CLIPPED = re.compile(r"clip_grad_(?:norm|value)_\(\s*\w+\s*,")  # of a name, maybe a parameter of a function
GIVING = ("parameters", "named_parameters")
LAZY = {"filter", "map", "iter", "chain", "itertools.chain", "chain.from_iterable", "itertools.chain.from_iterable"}
TAKING = {"list", "tuple", "sum", "sorted", "set", "map", "filter", "zip", "enumerate", "any", "all", "max", "min"}
WHY = "torch's iterator over parameters gives each of them once, and was used before: what stands here finds none"
TODO = "leave this out to train as torch does, or ask for the parameters again if it is to find them"


def refuse_spent(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
    """Mark what finds such an iterator spent, and would find a list in MindSpore."""
    if module.uses_mindspore or not (module.says(BOUND) or module.says(CLIPPED)):
        return
    listed = [(name, made, False) for name, made in (*_bound(scope, module), *_handed(scope, module, project))]
    for name, made, taken in (*listed, *_kept(scope, module)):
        uses = _uses(scope, name, made, module)
        for number, (stmt, _) in enumerate(uses):
            spent = taken or any(sure and not before.excludes(stmt) for before, sure in uses[:number])
            if spent or uses[number][1] and _again(stmt, made):
                what = f"`{name}`, an iterator that was used before"
                plan.refuse(stmt, Finding("T2M505", Tier.REFUSED, what, WHY, TODO, stmt.lineno))
                break


def _uses(scope: Scope, name: str, made: Stmt | None, module: ModuleInfo) -> list[tuple[Stmt, bool]]:
    return [(s, sure) for s in scope.body.walk() if s is not made and (sure := _use(s, name, module)) is not None]


def _bound(scope: Scope, module: ModuleInfo) -> Iterator[tuple[str, Stmt | None]]:
    """The names of iterators that the scope makes itself, bound once."""
    for stmt in scope.body.walk():
        node = stmt.node
        if type(node) is cst.Assign and len(node.targets) == 1 and _is_iterator(node.value, module):
            name = dotted(node.targets[0].target)
            if name and sum(name in s.defs for s in scope.body.walk()) == 1:
                yield name, stmt


def _kept(scope: Scope, module: ModuleInfo) -> Iterator[tuple[str, Stmt | None, bool]]:
    """The iterators that another method keeps in an attribute, and whether one that is not this takes them."""
    info = module.functions.get(id(scope))
    methods = [i.scope for i in info.cls.methods.values()] if info is not None and info.cls is not None else []
    for other in (m for m in methods if m is not scope):
        for name, made in _bound(other, module):
            if name.startswith("self.") and sum(name in s.defs for m in methods for s in m.body.walk()) == 1:
                elsewhere = (u for m in methods if m is not scope for u in _uses(m, name, made, module))
                yield name, None, any(sure for _, sure in elsewhere)


def _handed(scope: Scope, module: ModuleInfo, project: Project) -> Iterator[tuple[str, Stmt | None]]:
    """The parameters of a function that are such an iterator in every call."""
    info = module.functions.get(id(scope)) if module.says(CLIPPED) else None
    clips = [c for s in scope.body.walk() for c in s.calls if _clips(c)] if info is not None else []
    bound = {d for s in scope.body.walk() for d in s.defs} if clips else set()
    names = {dotted(c.args[0].value) for c in clips} & set(scope.params) - bound
    if not names or info is None:
        return
    stmts = [(s, m) for m in project.modules.values() for each in m.scope.walk() for s in each.body.walk()]
    calls = [(c, m) for s, m in stmts for c in s.calls if _may_call(c, scope.name, m)]
    for name in names:
        given = [(a[name].value, m) for c, m in calls if name in (a := bound_arguments(info, c))]
        if given and all(_is_iterator(node, m) for node, m in given):
            yield name, None


def _may_call(call: cst.Call, name: str, module: ModuleInfo) -> bool:
    if name == "__call__":
        return module.value(call.func).kind == "object"
    return dotted(call.func).rpartition(".")[2] == name


def _is_iterator(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`net.parameters()`, or what goes through it as it is gone through itself."""
    lazy = type(node) is cst.GeneratorExp or type(node) is cst.Call and dotted(node.func) in LAZY
    return _gives(node, module) or lazy and any(_gives(n, module) for n in descend(node))  # type: ignore[arg-type]


def _gives(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute or node.func.attr.value not in GIVING:
        return False
    own = module.value(node.func).kind == "method"  # which may give a list
    return module.value(node).kind in ("params", "named_params") and not own


def _clips(call: cst.Call) -> bool:
    return dotted(call.func).rpartition(".")[2] in ("clip_grad_norm_", "clip_grad_value_") and bool(call.args)


def _use(stmt: Stmt, name: str, module: ModuleInfo) -> bool | None:
    """Whether the statement goes through the iterator: None if it does not, False if what it calls may."""
    if name not in stmt.uses or type(stmt.node) in (cst.FunctionDef, cst.ClassDef):
        return None
    if type(stmt.node) is cst.For and dotted(stmt.node.iter) == name:
        return True
    inner = {id(n) for n in stmt.nodes if type(n) is cst.Lambda for n in descend(n)}
    found: bool | None = None
    for call in stmt.calls:
        if id(call) in inner:
            continue
        if any(dotted(a.value) == name for a in call.args):
            found = found or dotted(call.func) in TAKING or _clips(call)
        if module.value(call).kind == "optimizer":  # `Adam([{"params": params}])`
            given = (n for a in call.args for n in descend(a.value))
            found = found or any(type(n) in (cst.Name, cst.Attribute) and dotted(n) == name for n in given)
    loops = (n for n in stmt.nodes if type(n) is cst.CompFor) if stmt.is_small else ()
    return True if any(dotted(n.iter) == name for n in loops) else found


def _again(stmt: Stmt, made: Stmt | None) -> bool:
    """A loop comes back to the statement without a new iterator."""
    around = {id(a) for a in made.ancestors()} if made is not None else set()
    return any(a.is_loop and id(a) not in around for a in stmt.ancestors())
