"""`def backward(self, loss, **kwargs): loss.backward(**kwargs)` without the options that no call of it gives.

So are options that may be left out, `step_kwargs=None` that becomes `{}`, where nobody gives them. What a gradient call
or an initialiser is given behind stars is not seen, and where it is nothing there need not be any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.suites import Suites

OPTIONS = re.compile(r"\.(?:backward|step|zero_grad)\(\s*\*\*\w+\s*\)|\binit\.\w+_\([^()]*\*\*\w+\s*\)")
UNSEEN = re.compile(r"(?:backward|step|zero_grad|\w+_)$")  # what must not be given anything unseen
OF_TORCH = ("tensor", "param", "optimizer", "scheduler", "scaler", "api", "dict", "list")
Options = dict[int, frozenset[str]]  # names of options, by id of the definition


def without_options(project: Project) -> dict[str, Plain]:
    """What becomes of the modules whose functions have options that nobody gives, by name."""
    modules = [m for m in project.modules.values() if not m.uses_mindspore]
    if not any(m.says(OPTIONS) for m in modules):
        return {}
    functions = {f.scope.name: f for m in modules for f in m.functions.values()}
    idle = {id(f.scope.node): names for m in modules for f in m.functions.values() if (names := _options(f))}
    calls = [(m, f, c) for m in modules for f in (None, *m.functions.values()) for c in _calls(f, m)]
    while given := _given(idle, calls, project) if functions else None:
        idle = {key: left for key, names in idle.items() if (left := names - given.get(key, frozenset()))}
    idle = _wanted(idle, calls)
    plain = {}
    for module in modules:
        if any(id(f.scope.node) in idle for f in module.functions.values()):
            plain[module.name] = _Options(module, idle).plain()
    return plain


def _options(info: FunctionInfo) -> frozenset[str]:
    """`**options`, and `options=None` that becomes `{}`, of which nothing is made but to hand them on behind stars."""
    node = info.scope.node
    if type(node) is not cst.FunctionDef or info.scope.off:
        return frozenset()
    star = node.params.star_kwarg
    left_out = [p for p in (*node.params.params, *node.params.kwonly_params) if _none(p.default)]
    names = {p.name.value for p in left_out} | ({star.name.value} if star is not None else set())
    handed = {n for a in _starred(node) if (n := dotted(a.value)) in names}
    if not handed:
        return frozenset()
    emptied = {name: _emptied(node.body, name) for name in handed}
    mentions = [n.value for n in descend(node) if type(n) is cst.Name and n.value in handed]
    found = set()
    for name in handed:
        passed = sum(dotted(a.value) == name for a in _starred(node))
        own = 1 + (0 if star is not None and star.name.value == name else 2 * len(emptied[name]))
        if mentions.count(name) == passed + own and (len(emptied[name]) == 1) != (own == 1):
            found.add(name)
    return frozenset(found)


def _none(default: cst.BaseExpression | None) -> bool:
    return default is not None and constant(default) is None


def _starred(node: cst.CSTNode) -> list[cst.Arg]:
    return [n for n in descend(node) if type(n) is cst.Arg and n.star == "**"]


def _emptied(body: cst.BaseSuite, name: str) -> list[cst.If]:
    """`if name is None: name = {}` among the statements of a body."""
    return [s for s in body.body if isinstance(s, cst.If) and s.orelse is None and _empties(s, name)]


def _empties(stmt: cst.If, name: str) -> bool:
    test, lines = stmt.test, stmt.body.body
    asked = isinstance(test, cst.Comparison) and dotted(test.left) == name and len(test.comparisons) == 1
    if not asked or type(test.comparisons[0].operator) is not cst.Is or len(lines) != 1:  # type: ignore[attr-defined]
        return False
    small = lines[0].body if isinstance(lines[0], cst.SimpleStatementLine) else lines
    made = small[0] if len(small) == 1 else None
    if not isinstance(made, cst.Assign) or [dotted(t.target) for t in made.targets] != [name]:
        return False
    none = constant(test.comparisons[0].comparator) is None  # type: ignore[attr-defined]
    return none and isinstance(made.value, cst.Dict) and not made.value.elements


def _calls(info: FunctionInfo | None, module: ModuleInfo) -> Iterator[cst.Call]:
    scope = info.scope if info is not None else module.scope
    return (c for stmt in scope.body.walk() for c in stmt.calls)


def _given(
    idle: Options, calls: list[tuple[ModuleInfo, FunctionInfo | None, cst.Call]], project: Project
) -> dict[int, frozenset[str]]:
    """The options that some call may give, by id of the definition."""
    found: dict[int, frozenset[str]] = {}
    words = [n for m in project.modules.values() for n in m.of_kind(cst.SimpleString)]
    said = {n.raw_value for n in words if isinstance(n, cst.SimpleString)}
    for module in project.modules.values():
        for info in module.functions.values():
            key = id(info.scope.node)
            if key in idle and (info.name in said or _elsewhere(info, project)):
                found[key] = idle[key]
            elif key in idle:
                own = (_by(c, info, around, idle) for m, around, c in calls if _names(c, info, m))
                if names := frozenset().union(*own):
                    found[key] = names & idle[key]
    return {key: names for key, names in found.items() if names}


def _wanted(idle: Options, calls: list[tuple[ModuleInfo, FunctionInfo | None, cst.Call]]) -> Options:
    """Those that reach a gradient call or an initialiser, through other functions too."""
    kept: Options = {}
    names: set[str] = set()
    handing = [(f, c, idle[id(f.scope.node)]) for _, f, c in calls if f is not None and id(f.scope.node) in idle]
    handing = [(f, c, own) for f, c, own in handing if any(a.star == "**" and dotted(a.value) in own for a in c.args)]
    while True:
        before = len(kept)
        for info, call, own in handing:
            called = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            if UNSEEN.match(called) or called in names:
                kept[id(info.scope.node)] = own
                names.add(info.name)
        if len(kept) == before:
            return kept


def _names(call: cst.Call, info: FunctionInfo, module: ModuleInfo) -> bool:
    """A call may be one of the function."""
    func = call.func
    if type(func) is cst.Attribute:
        return func.attr.value == info.name and module.value(func.value).kind not in OF_TORCH
    return type(func) is cst.Name and (func.value == info.name or module.imports.table.get(func.value, "").endswith(
        f".{info.name}"))  # fmt: skip


def _by(call: cst.Call, info: FunctionInfo, around: FunctionInfo | None, idle: Options) -> frozenset[str]:
    """The options that a call gives, or may give."""
    node = info.scope.node
    assert isinstance(node, cst.FunctionDef)
    mine, own = idle[id(node)], idle.get(id(around.scope.node), frozenset()) if around is not None else frozenset()
    method = info.cls is not None and not info.static
    positional = [p.name.value for p in node.params.params][method:]
    known = {*positional, *(p.name.value for p in node.params.kwonly_params)}
    given = positional[: sum(a.keyword is None and not a.star for a in call.args)]
    for arg in call.args:
        if arg.star and (arg.star != "**" or dotted(arg.value) not in own):
            return mine
        if arg.keyword is not None and arg.keyword.value in known:
            given.append(arg.keyword.value)
        elif arg.keyword is not None:
            return mine
    return mine.intersection(given)


def _elsewhere(info: FunctionInfo, project: Project) -> bool:
    """The function is mentioned without being called."""
    for module in project.modules.values():
        called = {id(c.func) for c in module.of_kind(cst.Call) if isinstance(c, cst.Call)}
        if info.cls is None:
            attrs = {id(n.attr) for n in module.of_kind(cst.Attribute) if isinstance(n, cst.Attribute)}
            names = [n for n in module.of_kind(cst.Name) if n.value == info.name and id(n) not in called | attrs]
            defined = [n for n in module.of_kind(cst.FunctionDef) if n.name.value == info.name]
            brought = [n for n in module.of_kind(cst.ImportAlias) if dotted(n.name) == info.name]
            if len(names) > len(defined) + len(brought):
                return True
        elif any(n.attr.value == info.name and id(n) not in called and module.value(n.value).kind not in OF_TORCH
                 for n in module.of_kind(cst.Attribute) if isinstance(n, cst.Attribute)):  # fmt: skip
            return True
    return False


class _Options(Suites):
    """One module without the options."""

    def __init__(self, module: ModuleInfo, found: Options) -> None:
        super().__init__(module)
        self.found = found
        nodes = [n for f in module.functions.values() if type(n := f.scope.node) is cst.FunctionDef and id(n) in found]
        self.args = {id(a) for node in nodes for a in _starred(node) if dotted(a.value) in found[id(node)]}
        self.gone = {id(s) for node in nodes for name in found[id(node)] for s in _emptied(node.body, name)}

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> tuple[list[cst.BaseStatement], tuple[()]]:
        return ([], ()) if id(original) in self.gone else super().compound(original, updated)  # type: ignore[return-value]

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        names = self.found.get(id(original), frozenset())
        if not names:
            return updated
        params = updated.params
        star = params.star_kwarg if params.star_kwarg is None or params.star_kwarg.name.value not in names else None
        kept = [p for p in params.params if p.name.value not in names]
        only = [p for p in params.kwonly_params if p.name.value not in names]
        if kept and star is None and not only and not isinstance(params.star_arg, cst.Param):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        bare = isinstance(params.star_arg, cst.ParamStar) and not only
        params = params.with_changes(params=kept, kwonly_params=only, star_kwarg=star)
        return updated.with_changes(params=params.with_changes(star_arg=cst.MaybeSentinel.DEFAULT) if bare else params)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if not any(id(a) in self.args for a in original.args):
            return updated
        args = [u for o, u in zip(original.args, updated.args, strict=True) if id(o) not in self.args]
        if args:
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated.with_changes(args=args)


__all__ = ["without_options"]
