"""`opts = {"g": Adam(...), "d": Adam(...)}`, where each optimizer gets a name of its own.

The ledger keeps gradients by the place of an optimizer, and an item of a dict has none. Where the keys are seen, and
the dict is made once and stays as it is, `opts["g"]` is `opts_g` everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNPLACED, entries
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.boxes import Box, own_nodes, put_elsewhere, sees, untouched
from torch2ms.wrappers.passes import each_module

CHANGING = {"update", "pop", "popitem", "clear", "setdefault"}


@each_module
def keyed(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that keeps optimizers in such dicts."""
    if module.directives.off:
        return None
    stmts = [(scope, stmt) for scope in module.scope.walk() for stmt in scope.body.walk()]
    made = ((scope, stmt, table) for scope, stmt in stmts if (table := _table(stmt, scope, module)))
    tables = [t for scope, stmt, t in made if _alone(t, stmt, scope, module, project, put_elsewhere(project))]
    return Keyed(module, tables).plain() if tables else None


@dataclass(eq=False)
class Table:
    """A dict with optimizers: the statement that makes it, and the new name of each by its key."""

    node: cst.Assign
    names: dict[str, str]
    items: set[int]  # subscripts that take one of them
    values: set[int]  # calls of `values`


class Keyed(Suites):
    """One module, with the names."""

    def __init__(self, module: ModuleInfo, tables: list[Table]) -> None:
        super().__init__(module)
        self.made = {id(t.node): t for t in tables}
        self.items = {key: t for t in tables for key in t.items}
        self.values = {key: t for t in tables for key in t.values}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        table, made = self.made.get(id(node)), self.rewrite(node)
        if table is None:
            return [made]
        assert isinstance(node, cst.Assign) and isinstance(made, cst.Assign)
        if not isinstance(made.value, cst.Dict):
            place = code(node.targets[0].target)
            return [made, *(small_of(f"{n} = {place}[{key!r}]") for key, n in table.names.items())]
        above, elements = [], []
        for element in made.value.elements:
            assert isinstance(element, cst.DictElement)
            name = table.names.get(str(constant(element.key)))
            if name is not None:
                above.append(small_of(f"{name} = {code(element.value)}"))
                element = element.with_changes(value=cst.parse_expression(name))
            elements.append(element)
        return [*above, made.with_changes(value=made.value.with_changes(elements=elements))]

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        table = self.items.get(id(original))
        return updated if table is None else cst.parse_expression(table.names[_key(original)])

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        table = self.values.get(id(original))
        return updated if table is None else cst.parse_expression(f"({', '.join(table.names.values())},)")


def _key(node: cst.Subscript) -> str:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = constant(index.value) if isinstance(index, cst.Index) else None
    return key if isinstance(key, str) else ""


def _table(stmt: Stmt, scope: Scope, module: ModuleInfo) -> Table | None:
    """The dict that a statement makes, if all that happens to it is seen."""
    node = stmt.node
    if type(node) is not cst.Assign or len(node.targets) != 1 or stmt.off:
        return None
    value = module.value(node.value)
    if value.kind != "dict":
        return None
    place = dotted(node.targets[0].target)
    held = {k: v for k, v in entries(value).items() if v.kind == "optimizer"}
    if not place or place.count(".") > place.startswith("self.") or not held:
        return None
    if any(v.place and not v.place.startswith(UNPLACED) for v in held.values()):
        return None
    if not all(k.isidentifier() and sure for k, sure in value.keys or ()):
        return None
    if type(node.value) is cst.Dict and not all(type(e) is cst.DictElement for e in node.value.elements):
        return None
    names = {key: f"{place}_{key}" for key in held}
    taken = {n for s in module.scope.walk() for n in s.locals} | {d for s in module.scope.walk() for t in s.body.walk()
                                                                  for d in t.defs}  # fmt: skip
    found = Table(node, names, set(), set())
    if taken & set(names.values()) or not _seen(found, place, scope, module, len(held) == len(entries(value))):
        return None
    return found


def _alone(
    table: Table, stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project, elsewhere: list[tuple[int, str, str]]
) -> bool:
    """No other class and no function that is given the dict puts anything into it."""
    box = Box(dotted(table.node.targets[0].target), table.node, stmt, scope, {key: [] for key in table.names})
    return untouched(box, set(), module, project, elsewhere) and not box.open and not box.changed


def _seen(table: Table, place: str, home: Scope, module: ModuleInfo, alone: bool) -> bool:
    """Fill in where the optimizers are taken out of the dict; False where something else changes it."""
    for scope in module.scope.walk():
        if not sees(scope, home, root(place)):
            continue
        for stmt in scope.body.walk():
            if stmt.node is not table.node and (place in stmt.defs or stores_into(stmt, place)):
                return False
            for node in own_nodes(stmt):
                if type(node) is cst.Subscript and dotted(node.value) == place and _key(node) in table.names:
                    table.items.add(id(node))
                if type(node) is cst.Call and type(node.func) is cst.Attribute and not node.args:
                    if dotted(node.func.value) == place and node.func.attr.value == "values" and alone:
                        table.values.add(id(node))
    return bool(table.items)


def stores_into(stmt: Stmt, place: str) -> bool:
    """The statement writes an item, or calls a method that may."""
    node = stmt.node
    targets: list[cst.BaseExpression] = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    if isinstance(node, (cst.Del, cst.AugAssign)):
        targets = [node.target]
    if any(isinstance(n, cst.Subscript) and dotted(n.value) == place for t in targets for n in descend(t)):
        return True
    calls = (c.func for c in stmt.calls if isinstance(c.func, cst.Attribute))
    return any(f.attr.value in CHANGING and dotted(f.value) == place for f in calls)
