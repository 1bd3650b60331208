"""Results that carry everything along: `return out, hidden`, of which `out` went through every layer in a row."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.tape.forward.differing import real


def carried_along(
    node: cst.BaseExpression, taken: list[object], places: frozenset[str], module: ModuleInfo, project: Project
) -> bool | None:
    """One of those that are taken of what a call returns, written out, depends on all that the others do; None where
    nothing that has all of them is written out. It is asked for the layers at these places."""
    info = _called(node, module, project) if isinstance(node, cst.Call) else None
    ends = [(s, _elements(s)) for s in info.scope.body.walk()] if info is not None else []
    fitting = [(s, elements) for s, elements in ends if elements and elements.keys() >= {*taken}]
    if info is None or not fitting:
        return None
    asked = frozenset(part for place in places for part in place.split("."))
    return all(_all_in_one(s, elements, taken, asked, info, project) for s, elements in fitting)


def _elements(stmt: Stmt) -> dict[object, cst.BaseExpression]:
    """What a statement returns, written out one by one, there or under the name it returns: by number, or by key."""
    value = stmt.node.value if isinstance(stmt.node, cst.Return) else None
    if isinstance(value, cst.Name):
        made = [s.node for s in stmt.block.scope.body.walk() if value.value in s.defs | s.muts]
        value = made[0].value if len(made) == 1 and isinstance(made[0], cst.Assign) else None
    if isinstance(value, cst.Call) and dotted(value.func) == "dict":
        return {arg.keyword.value: arg.value for arg in value.args if arg.keyword is not None}
    if isinstance(value, cst.Tuple):
        return {number: element.value for number, element in enumerate(value.elements)}
    if isinstance(value, cst.Dict):
        return {constant(e.key): e.value for e in value.elements if isinstance(e, cst.DictElement)}
    return {}


def _all_in_one(
    end: Stmt, elements: dict[object, cst.BaseExpression], taken: list[object], asked: frozenset[str],
    info: FunctionInfo, project: Project,
) -> bool:  # fmt: skip
    depends = {key: real(info.module.value(e)) for key, e in elements.items()}
    every = frozenset().union(*depends.values())
    return any(depends[key] == every and _uncut(elements[key], end, asked, info, project) for key in taken)


def _called(node: cst.Call, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    value = module.value(node.func)
    if value.kind == "module":
        cls = class_of(value, module, project)
        return cls.method("forward") if cls is not None else None
    found = project.find(value.name, module) if value.kind == "function" else None
    return found if isinstance(found, FunctionInfo) else None


def _uncut(node: cst.BaseExpression, stmt: Stmt, asked: frozenset[str], info: FunctionInfo, project: Project) -> bool:
    """Nothing on the way to an expression goes through a container of results, takes a part that is written out, or
    what the last turn of a loop left of layers that each work for themselves."""
    stmts = list(info.scope.body.walk())
    seen: set[tuple[str, int]] = set()
    waiting: list[tuple[cst.CSTNode, Stmt]] = [(node, stmt)]
    while waiting:
        whole, reader = waiting.pop()
        for part in descend(whole):
            if type(part) is cst.Subscript and _cuts(part, info) or _holds(part, asked, info, project):
                return False
            if type(part) is not cst.Name:
                continue
            for made in (s for s in stmts if part.value in s.defs and _reaches(s, reader)):
                if not _carries(made, part.value, reader) or _spreads(made):
                    return False
                if (part.value, id(made)) not in seen and isinstance(made.node, (cst.Assign, cst.AugAssign)):
                    seen.add((part.value, id(made)))
                    waiting.append((made.node.value, made))
    return True


def _spreads(stmt: Stmt) -> bool:
    """`first, second = (head(x) for head in self.heads)`: each name is of one layer."""
    node = stmt.node
    return isinstance(node, cst.Assign) and isinstance(node.targets[0].target, (cst.Tuple, cst.List)) and isinstance(
        node.value, cst.BaseComp)  # fmt: skip


def _reaches(made: Stmt, reader: Stmt) -> bool:
    """What is bound above a statement, or in another turn of a loop around both."""
    loops = {id(a) for a in reader.ancestors() if a.is_loop}
    return made.number < reader.number or any(id(a) in loops for a in made.ancestors())


def _holds(node: cst.CSTNode, asked: frozenset[str], info: FunctionInfo, project: Project) -> bool:
    """A list, tuple or dict of results of these layers, other than the output and the state of a recurrent layer."""
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
        return False
    value = info.module.value(node)
    behind = {part for d in real(value) for part in d.split(".")} if value.kind in ("list", "tuple", "dict") else set()
    if not behind & asked:
        return False
    layer = info.module.value(node.func) if isinstance(node, cst.Call) else None
    return layer is None or layer.kind != "module" or class_of(layer, info.module, project) is not None


def _cuts(node: cst.Subscript, info: FunctionInfo) -> bool:
    """An item that is written out, of what may be a container; a part of a tensor has the graph of all of it."""
    part = node.slice[0].slice
    named = isinstance(part, cst.Index) and isinstance(part.value, cst.Name)
    held = info.module.value(node.value)
    return not named and held.kind not in ("tensor", "param") and bool(real(held))


def _carries(stmt: Stmt, name: str, reader: Stmt) -> bool:
    """What a turn of a loop binds is read in that turn, or made of what the turn before left, there or by another
    statement of it."""
    loop = next((a for a in stmt.ancestors() if a.is_loop), None)
    if loop is None or any(a is loop for a in reader.ancestors()):
        return True
    first = next(s for block in loop.blocks for s in block.stmts if name in s.all_uses or name in s.all_defs)
    return name in first.all_uses
