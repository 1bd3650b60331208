"""`args = (x, 0.2, True)` and `F.leaky_relu(*args)`: whether a call changes what it is given stands in the call.

`inplace` and `out` decide where the result goes, and are looked for among the arguments. Where a star or the name of a
constant hides them, and what it holds is written down once in the same scope, they are written out; what was held for
that one call alone is no longer.
"""

from __future__ import annotations

import re
from collections import Counter

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.api.rules import Rules
from torch2ms.api.stars import in_place
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

HELD = re.compile(r"^[ \t]*(\w+) *= *(?:True|False|\(.*|\{.*|dict\(.*)$", re.MULTILINE)
STAR = re.compile(r"[(,]\s*\*{1,2}\w+\s*[,)]")
FLAG = re.compile(r"^[ \t]*\w+ *= *True\b", re.MULTILINE)
WORD = re.compile(r"\w+")
CHANGING = {"inplace", "out"}
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


@each_module
def in_the_call(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module whose calls hide such arguments."""
    if not module.says(HELD) or not (module.says(STAR) or module.says(FLAG)):
        return None
    writer = _Writer(module)
    return writer.plain() if writer.found else None


class _Writer(Suites):
    """One module with the arguments written out."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.found: dict[int, list[cst.Arg]] = {}  # of calls, by id
        self.gone: set[int] = set()  # statements that held arguments for nobody else
        for scope in module.scope.walk():
            self.hiding(scope)

    def hiding(self, scope: Scope) -> None:
        """The calls of a scope that hide whether they change their arguments, with these written out."""
        held = {name: stmt for stmt in scope.body.walk() if (name := _named(stmt)) and _steady(name, scope)}
        for stmt in scope.body.walk() if held else ():
            for call in stmt.calls if not stmt.off else ():
                named = {a.value.value for a in call.args if type(a.value) is cst.Name and a.value.value in held}
                args = _written_out(call, held, scope, self.module) if named else None
                if args is None:
                    continue
                self.found[id(call)] = args
                named -= {a.value.value for a in args if type(a.value) is cst.Name}  # these are asked for as before
                alone = [held[n] for n in named if _mentioned(n, self.module) == 2 and held[n].block is stmt.block]
                self.gone |= {id(each.node) for each in alone}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else super().small(node)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        args = self.found.get(id(original))
        return updated if args is None else updated.with_changes(args=[arg.deep_clone() for arg in args])


def _mentioned(name: str, module: ModuleInfo) -> int:
    return _words(module)[name]


@once
def _words(module: ModuleInfo) -> Counter[str]:
    """How often the source has each name, comments and strings included."""
    return Counter(WORD.findall(module.source))


def _named(stmt: Stmt) -> str:
    """The name that the statement gives to a constant, or to what a star spreads; "" for others."""
    node = stmt.node
    if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.targets[0].target) is not cst.Name:
        return ""
    plain = type(node.value) in (cst.Tuple, cst.Dict) or isinstance(constant(node.value), bool)
    return node.targets[0].target.value if plain or _is_dict(node.value) else ""


def _is_dict(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Call and dotted(node.func) == "dict" and all(a.keyword is not None for a in node.args)


def _steady(name: str, scope: Scope) -> bool:
    """One statement at most binds it, and none changes it."""
    stmts = [s for s in scope.body.walk() if not s.blocks or type(s.node) is not cst.FunctionDef]
    bound = sum(name in s.defs for s in stmts if not s.blocks or type(s.node) is cst.For)
    return bound + (name in scope.params) <= 1 and not any(name in s.muts and _is_filled(name, s) for s in stmts)


def _is_filled(name: str, stmt: Stmt) -> bool:
    """An item of it is bound: tensors that are changed in place are the same tensors."""
    places: list[cst.CSTNode] = [t.target for t in stmt.node.targets] if type(stmt.node) is cst.Assign else []
    places += [c.func for c in stmt.calls if type(c.func) is cst.Attribute and c.func.attr.value in ("update", "pop")]
    return any(dotted(place.value) == name for place in places if isinstance(place, (cst.Subscript, cst.Attribute)))


def _written_out(call: cst.Call, held: dict[str, Stmt], scope: Scope, module: ModuleInfo) -> list[cst.Arg] | None:
    """The arguments of the call, where they hide something that decides; None for other calls."""
    args, changed = [], False
    for arg in call.args:
        bound = held.get(arg.value.value) if type(arg.value) is cst.Name else None
        known = bound.node.value if bound is not None and type(bound.node) is cst.Assign else None
        made: list[cst.Arg] | None = None
        if known is not None and arg.star:
            made = _items(known) if arg.star == "*" else _entries(known, dotted(arg.value), module)
        elif known is not None and isinstance(constant(known), bool):
            made = [arg.with_changes(value=known)]
        if made is not None and not all(_stays(each.value, scope, module) for each in made):
            return None
        args += [arg] if made is None else made
        changed = changed or made is not None
    if not changed or not _decides(call, args, module):
        return None
    return [*args[:-1], args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if args else args


def _items(node: cst.BaseExpression) -> list[cst.Arg] | None:
    if type(node) is not cst.Tuple or any(type(e) is cst.StarredElement for e in node.elements):
        return None
    return [cst.Arg(e.value, comma=_COMMA) for e in node.elements]


def _entries(node: cst.BaseExpression, name: str, module: ModuleInfo) -> list[cst.Arg] | None:
    """The entries of a dict that nothing but this one call asks for."""
    if _mentioned(name, module) != 2:
        return None
    if type(node) is cst.Call:
        return [cst.Arg(a.value, a.keyword, equal=_TIGHT, comma=_COMMA) for a in node.args]
    found = []
    for element in node.elements if type(node) is cst.Dict else ():
        key = constant(element.key) if type(element) is cst.DictElement else None
        if not isinstance(key, str) or not key.isidentifier():
            return None
        found.append(cst.Arg(element.value, cst.Name(key), equal=_TIGHT, comma=_COMMA))
    return found or None


def _stays(node: cst.BaseExpression, scope: Scope, module: ModuleInfo) -> bool:
    """What it is does not change between the place where it is held and the call."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(type(e) is cst.Element and _stays(e.value, scope, module) for e in node.elements)
    if type(node) is cst.Name:
        return _steady(node.value, scope)
    if type(node) is cst.Attribute:  # torch.float64
        return dotted(node).split(".")[0] in module.imports.table
    return constant(node) is not ...


def _decides(call: cst.Call, args: list[cst.Arg], module: ModuleInfo) -> bool:
    """Where the result goes is among the arguments, or stands in the name of what is called."""
    if any(arg.keyword is not None and arg.keyword.value in CHANGING for arg in args if arg not in call.args):
        return True
    name = call.func.attr.value if type(call.func) is cst.Attribute else dotted(call.func)
    value = module.value(call.func)
    if name.endswith("_") and not name.startswith("_"):
        return value.name.startswith("torch.") or module.value(getattr(call.func, "value", call)).kind == "tensor"
    rule = Rules.load().find(value.name) if value.name.startswith("torch.") else None
    if any(arg.keyword is not None and arg.keyword.value == "inplace" and arg in args for arg in call.args):
        return False  # it stands in the call
    whole = call.with_changes(args=args)
    return rule is not None and in_place(rule, whole, whole)


__all__ = ["in_the_call"]
