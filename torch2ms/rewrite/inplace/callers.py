"""Tensors that a function was given by its callers, alone or in containers, and whether these look at them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.evaluation.guess import of_settings
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import is_data
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import UNKNOWN, Value, entries, of_tensors
from torch2ms.rewrite.inplace import views
from torch2ms.rewrite.inplace.holders import holders
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.tape.plan import Plan

DEPTH = 4  # functions that hand on what they were given

Keys = tuple[object, ...]  # numbers and texts, from the outside in


@dataclass(frozen=True)
class Given:
    """A parameter, or what is found in it under some keys: `first` of `first, second = pair`."""

    parameter: str
    keys: Keys = ()

    def read_again(self, scope: Scope, home: Scope, module: ModuleInfo, project: Project, tensors: bool) -> bool:
        """Some call in `home` gives the function `scope` this, and looks at it afterwards.

        `tensors`: where it is one for certain in `module`, that of `home`.
        """
        body = list(home.body.walk())
        for caller in body:
            for call in caller.calls:
                if not _calls(call, scope, module):
                    continue
                rest = self.keys[1:] if _starred(self.parameter, scope) else self.keys
                given = argument(call, self.parameter, scope, self.keys)
                if given is not None and rest and (shown := _within(given, rest, caller, body)) is not None:
                    given, rest = shown, ()
                if given is None or tensors and not _known(module.value(given), rest) or of_settings(dotted(given)):
                    continue  # `args.size` is a number
                inner = None  # `x` where `batch["x"]` of `batch = {"x": x}` is given
                if isinstance(given, cst.Subscript):
                    inner = _within(given.value, (key(given),), caller, body)
                if any(_looked_at(one, caller, body, module, project) for one in (given, inner) if one is not None):
                    return True
        return False


def _known(value: Value, keys: Keys) -> bool:
    """A tensor, or a container that has one under the keys."""
    for one in keys:
        if value.kind == "tensor" or of_tensors(value):
            return True
        inside = value.items or () if value.kind in ("list", "tuple") else ()
        inner = inside[one] if isinstance(one, int) and one < len(inside) else entries(value).get(str(one))
        value = inner or value.each or UNKNOWN
    return value.kind == "tensor"


def _calls(call: cst.Call, scope: Scope, module: ModuleInfo) -> bool:
    """The call has the name of the function, or is one of a network whose forward it is."""
    if dotted(call.func).rpartition(".")[2] == scope.name:
        return True
    if scope.name != "forward" or scope.cls is None:
        return False
    value = module.value(call.func)
    return value.kind == "module" and value.name.rpartition(".")[2] == scope.cls.name


def behind(node: cst.CSTNode, stmt: Stmt, scope: Scope) -> list[Given]:
    """What callers gave whose memory an expression may show at a statement: a parameter, or `delta = init.detach()`."""
    node = views.peeled(node)
    if type(node) is cst.Subscript and (found := key(node)) is not None:
        return [Given(g.parameter, (*g.keys, found)) for g in behind(node.value, stmt, scope)]
    if not isinstance(node, cst.Name):
        return []
    name = node.value
    blocks = {id(stmt.block), *(id(a.block) for a in stmt.ancestors())}
    found = [Given(name)] if name in scope.params else []
    for earlier in scope.body.walk():
        if name not in earlier.defs or earlier.number >= stmt.number or type(earlier.node) is cst.AugAssign:
            continue
        value = earlier.node.value if isinstance(earlier.node, cst.Assign) else None
        keys = _path(earlier.node.targets[0].target, name) if isinstance(earlier.node, cst.Assign) else None
        sides = [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]
        given = [g for side in sides if side is not None for g in behind(side, earlier, scope)]
        found = [
            *(found if id(earlier.block) not in blocks else []),
            *(Given(g.parameter, (*g.keys, *(keys or ()))) for g in given),
        ]
    return found


def default(name: str, scope: Scope) -> cst.BaseExpression | None:
    """What stands for a parameter that a call does not give."""
    params = scope.node.params if isinstance(scope.node, cst.FunctionDef) else None
    every = (*params.posonly_params, *params.params, *params.kwonly_params) if params is not None else ()
    return next((p.default for p in every if p.name.value == name), None)


def _path(target: cst.BaseExpression, name: str) -> Keys | None:
    """Where a name stands among the targets of an assignment: (0, 1) in `(a, name), b`."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        return () if dotted(target) == name else None
    inside = ((i, _path(element.value, name)) for i, element in enumerate(target.elements))
    return next(((i, *keys) for i, keys in inside if keys is not None), None)


def _within(given: cst.BaseExpression, keys: Keys, caller: Stmt, body: list[Stmt]) -> cst.BaseExpression | None:
    """What stands under some keys of a container that the caller writes down, in the call or under a name before it."""
    for one in keys:
        if isinstance(given, cst.Name):
            made = [s.node for s in body if given.value in s.defs and s.number < caller.number]
            shown = made[-1].value if made and isinstance(made[-1], cst.Assign) else None
            given = shown if isinstance(shown, (cst.Tuple, cst.List, cst.Dict)) else given
        inside = _entry(given, one)
        if inside is None:
            return None
        given = inside
    return given


def _entry(shown: cst.BaseExpression, under: object) -> cst.BaseExpression | None:
    if isinstance(shown, (cst.Tuple, cst.List)) and isinstance(under, int) and under < len(shown.elements):
        return shown.elements[under].value
    pairs = shown.elements if isinstance(shown, cst.Dict) else ()
    return next((p.value for p in pairs if isinstance(p, cst.DictElement) and constant(p.key) == under), None)


def _looked_at(given: cst.BaseExpression, caller: Stmt, body: list[Stmt], module: ModuleInfo, project: Project) -> bool:
    """The caller reads what it gave after the call, or in the next turn of a loop; or what it took that out of."""
    kept = dotted(given.value if isinstance(given, cst.Subscript) else given)
    if not kept:
        return False
    turns = [s for owner in caller.ancestors() if owner.is_loop for s in owner.walk()]
    if turns and not any(kept in s.defs for s in turns) and not any(kept in a.defs for a in caller.ancestors()):
        return True  # the call itself reads it again in the next turn
    read = [s for s in (*(s for s in body if s.number > caller.number), *turns) if s is not caller]
    again = {root(u) for s in read for u in s.uses}
    own = set() if kept in caller.defs else {kept}  # ... it is bound to what the function returns
    held = {root(place) for place in (*own, *holders(kept, caller, module, project))}
    held |= {d for s in body if s.number < caller.number for d in s.defs if _shows(d, kept, s, module)}
    return "self" in held or bool(held & again)


def _shows(name: str, kept: str, made: Stmt, module: ModuleInfo) -> bool:
    """A statement makes the name one for the tensor, for a view of it, or for what a container holds."""
    given = made.node.value if isinstance(made.node, cst.Assign) else None
    given = given.value if isinstance(given, cst.Subscript) else given
    bound = dotted(given) if given is not None else ""
    return name != kept and (bound == kept or kept in views.sources(name, made, module, same=True))


def argument(call: cst.Call, name: str, scope: Scope, keys: Keys = ()) -> cst.BaseExpression | None:
    """What a call gives a function under one of its names; of `*args` what stands under the first key."""
    named = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == name), None)
    position = scope.params.index(name) - (scope.cls is not None and scope.params[0] == "self")
    if _starred(name, scope) and keys and isinstance(keys[0], int):
        position += keys[0]
    if named is not None or not 0 <= position < len(call.args):
        return named
    given = call.args[position]
    return given.value if given.keyword is None and not any(a.star for a in call.args[: position + 1]) else None


def give_weights(name: str, scope: Scope, project: Project, plan: Plan, depth: int = DEPTH) -> bool:
    """Some call hands the function a Parameter under one of its names, and none a part of a tensor."""
    if not depth or name not in scope.params or any(name in s.defs for s in scope.body.walk()):
        return False
    found = False
    for module in project.modules.values():
        for home in module.scope.walk() if scope.name in module.called else ():
            for call in (c for s in home.body.walk() for c in s.calls if _calls(c, scope, module)):
                given = argument(call, name, scope)
                while given is not None and is_data(given, module):
                    given = given.value  # type: ignore[attr-defined]
                if isinstance(given, (cst.Subscript, cst.Call)):
                    return False
                weight = given is not None and is_parameter(given, module.value(given), module, plan)
                handed = isinstance(given, cst.Name) and give_weights(given.value, home, project, plan, depth - 1)
                found = found or weight or handed
    return found


def out_of_weights(name: str, scope: Scope, module: ModuleInfo, plan: Plan) -> bool:
    """A loop goes through a list of what parameters hold: `kept = [p.data for p in net.parameters()]`."""
    lists = [dotted(given) for s in scope.body.walk() if name in s.defs for given in _gone_through(s.node, name)]
    made = [s.node.value for s in scope.body.walk() if isinstance(s.node, cst.Assign) and s.defs.intersection(lists)]
    for value in (m for m in made if isinstance(m, cst.ListComp)):
        held: cst.BaseExpression = value.elt
        while is_data(held, module):
            held = held.value  # type: ignore[attr-defined]
        if held is not value.elt and is_parameter(held, module.value(held), module, plan):
            return True
    return False


def _gone_through(loop: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    """What a loop takes a name out of: of `for a, b in zip(one, two)`, two for b."""
    if not isinstance(loop, cst.For):
        return
    if dotted(loop.target) == name:
        yield loop.iter
    elif isinstance(loop.target, cst.Tuple) and isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "zip":
        pairs = zip(loop.target.elements, loop.iter.args, strict=False)
        yield from (arg.value for element, arg in pairs if dotted(element.value) == name)


def _starred(name: str, scope: Scope) -> bool:
    """The name stands for all positional arguments that no other parameter takes."""
    star = scope.node.params.star_arg if isinstance(scope.node, cst.FunctionDef) else None
    return isinstance(star, cst.Param) and star.name.value == name


def key(node: cst.Subscript) -> object:
    """The number or text in the brackets; None where there is something else."""
    part = node.slice[0].slice
    held = constant(part.value) if len(node.slice) == 1 and isinstance(part, cst.Index) else None
    return held if isinstance(held, (int, str)) else None
