"""Names of parameters: MindSpore's optimizers want different ones, and cells on their own may name theirs alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.known.torchapi import LAYERS_OF, RECURRENT
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.shown import target_places
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNPLACED, Value
from torch2ms.rewrite.parameters.growing import numbered
from torch2ms.rewrite.parameters.lists import parameter_modules
from torch2ms.rewrite.translation import Translation

SETS = re.compile(
    r"\bsetattr\((?!self,|cls,|torch,)[\w.\[\]]+,\s*(?=[^\s\"'])|(?<!self)\._modules\[[^]\n]+\]\s*=[^=]"
)  # a layer of what is found by its name
LEAVES = ("weight", "bias")
NUMBERS = {"0", "1", "2"}


def told_apart(original: cst.Call, updated: cst.Call, work: Translation) -> list[str]:
    """Lines that give the parameters of several cells, which one optimizer or compiled function takes, other names."""
    mine = work.module.value(original).owns or frozenset()
    owns = mine.union(*(group for group in work.plan.together if group & mine))
    if "CellList(" in code(updated):
        return []
    if len(owns) < 2:
        return _by_path(owns, work)
    lists = _joined_before(original, work)
    if original.args and dotted(original.args[0].value) in lists:
        return []
    joined = frozenset[str]().union(*lists.values())
    owns, mine = owns - joined, mine - joined
    cells: dict[str, Value] = {}
    for value in _alone(owns, work):  # what the place was given first: items of a list have its place as well
        if value.place not in cells or not cells[value.place].name:
            cells[value.place] = value
    held = {item.place for cell in cells.values() for item in cell.items or ()}
    cells = {place: cell for place, cell in cells.items() if place not in held}
    if len(cells) < 2 and (by_path := _by_path(frozenset(cells), work)):
        return by_path
    items = _items(original, work)
    lines_of_items = [f'{item}.update_parameters_name("{prefix}.")' for item, prefix in items.items()]
    lines_of_items = lines_of_items if len(items) + len(cells) > 1 else []
    if lines_of_items:
        work.tell("T2M506", "parameters of several modules", "each cell's get a prefix: they may have equal names")
    named = [dotted(node) for node in descend(original)]
    places = sorted(cells, key=lambda place: (named.index(place) if place in named else len(named), place))
    if mine < owns:  # only compiled code needs other names
        mine = frozenset(
            p for p in mine if any(_alike(cells[p], cells[o], work) for o in places if o != p and p in cells)
        )
    heads = [_heads(cell, work) for cell in cells.values()] if lists else []
    alike = any(found is None or found & NUMBERS for found in heads) or _replaces(work.project)
    if not alike and not any(_alike(cells[a], cells[b], work) for a in places for b in places if a < b):
        return lines_of_items
    if not lines_of_items:
        work.tell("T2M506", "parameters of several modules", "each cell's get a prefix: they may have equal names")
    prefixes = {place: place.removeprefix("self.").replace(".", "_") for place in places if place in mine}
    lines = [(place, f'{place}.update_parameters_name("{prefix}.")') for place, prefix in prefixes.items()]
    named_lines = [f"if {p} is not None:\n    {line}" if _perhaps_none(p, work) else line for p, line in lines]
    return [*named_lines, *lines_of_items]


def _by_path(owns: frozenset[str], work: Translation) -> list[str]:
    """A cell that is put in the place of another has the names of its parameters begin with its own."""
    if not _replaces(work.project):
        return []
    scope = work.stmt.block.scope if work.stmt is not None else work.module.scope
    known = {"self", *scope.locals, *scope.params} if scope.is_function else {root(p) for p in owns}
    held = {v.place for v in work.module.values.values() if v.kind == "module"} if owns else set()
    places = [p for p in owns if p in held and root(p) in known and all(n.isidentifier() for n in p.split("."))]
    if places:
        work.tell("T2M506", "parameters of layers set later", "named by their path: two layers may name theirs alike")
    return [f"{place}.update_parameters_name()" for place in places]


@once
def _replaces(project: Project) -> bool:
    """Layers are put in the place of others below a network: by name, under an index, as attributes of a part."""
    modules = project.modules.values()
    return any(SETS.search(m.source) for m in modules) or any(
        _is_below(t.target, m) and m.value(node.value).kind == "module"
        for m in modules
        for node in m.of_kind(cst.Assign)
        for t in node.targets
    )


def _is_below(target: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`net.layers[0]`, `net.head.fc`, and `layer.conv` of a layer that a loop goes to."""
    owner = target.value if type(target) is cst.Attribute or type(target) is cst.Subscript else None
    if owner is None or module.value(owner).kind != "module":
        return False
    if type(owner) is not cst.Name or type(target) is not cst.Attribute:
        return type(owner) is not cst.Name
    return owner.value in _of_loops(module)


@once
def _of_loops(module: ModuleInfo) -> frozenset[str]:
    """The names that loops and comprehensions bind."""
    targets = [*(n.target for n in module.of_kind(cst.For)), *(n.target for n in module.of_kind(cst.CompFor))]
    return frozenset(name for target in targets for name in target_places(target))


def _items(original: cst.Call, work: Translation) -> dict[str, str]:
    """Cells that a list or a dict holds, of which the call takes the parameters: `nets["a"]`, each with a prefix.

    They may stand in a list that was made before: `params = list(nets["a"].parameters()) + ...`.
    """
    found = {}
    around = work.stmt.nodes if work.stmt is not None else ()
    turns = {name for n in around if type(n) is cst.CompFor for name in target_places(n.target)}
    for node in (n for source in (original, *_gathered_before(original, work)) for n in descend(source)):
        asked = node.func if type(node) is cst.Call else None
        if type(asked) is not cst.Attribute or asked.attr.value not in ("parameters", "trainable_params"):
            continue
        item = asked.value
        if not isinstance(item, cst.Subscript) or len(item.slice) != 1 or not dotted(item.value):
            continue
        if root(dotted(item.value)) in turns:
            continue  # another one in each turn of a comprehension
        index = item.slice[0].slice
        key = constant(index.value) if isinstance(index, cst.Index) else ...
        held = work.module.value(item)
        if isinstance(key, (str, int)) and held.kind == "module" and _has_no_name(held):
            found[code(item)] = re.sub(r"\W", "_", f"{dotted(item.value).removeprefix('self.')}_{key}")
    return found


def _has_no_name(held: Value) -> bool:
    """Nothing but its container has it."""
    return not held.place or held.place.startswith(UNPLACED)


def _gathered_before(original: cst.Call, work: Translation) -> list[cst.CSTNode]:
    """The statements of the scope that put parameters into a list which the call is given under its name."""
    name = dotted(original.args[0].value) if original.args else ""
    if not name or work.stmt is None:
        return []
    stmts = (s for s in work.stmt.block.scope.body.walk() if s.number < work.stmt.number and not s.blocks)
    return [s.node for s in stmts if name in s.defs or name in s.muts]


def _perhaps_none(place: str, work: Translation) -> bool:
    """The place holds None where a condition did not ask for the cell."""
    body = work.stmt.block.scope.body.walk() if work.stmt is not None else ()
    values = [s.node.value for s in body if place in s.defs and isinstance(s.node, cst.Assign)]
    return any(isinstance(value, cst.Name) and value.value == "None" for value in values)


def _joined_before(original: cst.Call, work: Translation) -> dict[str, frozenset[str]]:
    """The names in the first argument under which parameters were joined by a CellList, which numbers its cells."""
    names = {dotted(n) for n in descend(original.args[0].value)} - {""} if original.args else set()
    found: dict[str, frozenset[str]] = {}
    for stmt in (s for scope in work.module.scope.walk() for s in scope.body.walk()):
        if not names & stmt.defs or not isinstance(stmt.node, cst.Assign):
            continue
        modules = parameter_modules(stmt.node.value, work.module) or ()
        if len(modules) > 1 or any(m.startswith("*") for m in modules):
            held = (work.module.value(n) for n in descend(stmt.node.value))
            found |= dict.fromkeys(names & stmt.defs, frozenset(v.place for v in held if v.kind == "module"))
    return found


def _alone(owns: frozenset[str], work: Translation) -> Iterator[Value]:
    """The cells of these places that are no part of another cell."""
    for value in work.module.values.values():
        if value.kind == "module" and value.place in owns:
            owner, _, attribute = value.place.rpartition(".")
            if attribute.isidentifier() and (not owner or owner == "self" and not work.in_cell):
                yield value


def _alike(one: Value, other: Value, work: Translation) -> bool:
    """Whether some of their parameters may have the same name."""
    first, second = _heads(one, work), _heads(other, work)
    return first is None or second is None or bool(first & second)


def _heads(value: Value, work: Translation) -> set[str] | None:
    """How the names of a cell's parameters may begin; None if that is not known."""
    cls = class_of(value, work.module, work.project)
    if cls is None or cls.kind != "module":
        return _heads_of(value.name)
    own = {name for each in cls.lineage() for name in each.attrs} | (NUMBERS if numbered(cls) else set())
    base = _heads_of(cls.torch_base) if cls.torch_base not in ("", "torch.nn.Module") else set()
    return own | base if base is not None else None  # `class Scaled(nn.Linear)` has its `weight` as well


def _heads_of(name: str) -> set[str] | None:
    """The same of a layer of torch's."""
    if name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        return NUMBERS  # whatever it holds: the first with parameters is among them
    if name == "torch.nn.ModuleDict" or name in LAYERS_OF:
        return None
    if name.rpartition(".")[2] in (*RECURRENT, "RNNCell", "LSTMCell", "GRUCell"):
        return {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}
    return set(LEAVES) if name.startswith("torch.nn.") else None


__all__ = ["told_apart"]
