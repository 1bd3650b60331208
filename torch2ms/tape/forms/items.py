"""Lists and dicts of losses that the two parts of a cut forward share: their items cross one by one.

`losses = [F.cross_entropy(a, y), F.mse_loss(b, z)]`, of which each is looked at by itself before their sum goes
backward: the first part gives the items, and the list is made of them anew where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.tape.forms.writer import Writer

AROUND = {cst.List: "[{}]", cst.Tuple: "({},)", cst.Dict: "{{{}}}"}


@dataclass(frozen=True)
class Items:
    """The items of a container: what gives each of them, their own names, and what puts them together again."""

    parts: list[str]
    names: list[str]
    made: str


def items_of(name: str, early: list[Stmt], scope: Scope, writer: Writer) -> Items | None:
    """The items of a list, tuple or dict of tensors that is written out, or filled line by line, and stays as it is."""
    every = scope.body.walk()
    bound = [s for s in every if name in s.all_defs and not s.blocks]
    filling = [s for s in every if name in s.all_muts and not s.blocks and s not in bound]
    if len(bound) != 1 or any(s not in early for s in (*bound, *filling)):
        return None
    node = bound[0].node
    literal = node.value if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if literal is None or dotted(node.targets[0].target) != name:  # type: ignore[union-attr]
        return None
    found = _written(literal)
    for stmt in filling if found is not None else ():
        more = _filled(stmt.node, name, isinstance(literal, cst.Dict), len(found))  # type: ignore[arg-type]
        if more is None or isinstance(literal, cst.Tuple):
            return None
        found = [*found, more]  # type: ignore[misc]
    values = [writer.module.value(value) for _, value in found or ()]
    keys = [key for key, _ in found or ()]
    words = [key if key.isdigit() else key[1:-1] for key in keys]
    if not values or any(v.kind != "tensor" or not v.deps for v in values) or len(set(words)) != len(words):
        return None
    if not all(f"_{word}".isidentifier() for word in words):
        return None
    names = [writer.fresh(f"{name}_{word}") for word in words]
    listed = [f"{k}: {n}" for k, n in zip(keys, names, strict=True)] if isinstance(literal, cst.Dict) else names
    around = AROUND[type(literal)].format(", ".join(listed))
    return Items([f"{name}[{key}]" for key in keys], names, f"{name} = {around}")


def by_keys(name: str, stmts: list[Stmt]) -> bool:
    """Statements take what a name holds for a dict, or ask whether it is: `out["loss"] if isinstance(out, dict)`."""
    for node in (n for s in stmts for n in s.nodes):
        if type(node) is cst.Subscript and type(node.slice[0].slice) is cst.Index:
            if dotted(node.value) == name and isinstance(constant(node.slice[0].slice.value), str):
                return True
        elif type(node) is cst.Call and dotted(node.func) == "isinstance" and len(node.args) == 2:
            if dotted(node.args[0].value) == name and not dotted(node.args[1].value).endswith("Tensor"):
                return True
    return False


def _written(node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
    """The items of a display, each with its number or key; none where it is not all written out."""
    if isinstance(node, (cst.List, cst.Tuple)):
        plain = all(isinstance(e, cst.Element) for e in node.elements)
        return [(str(n), e.value) for n, e in enumerate(node.elements)] if plain else None
    if isinstance(node, cst.Dict):
        pairs = [e for e in node.elements if isinstance(e, cst.DictElement) and _word(e.key)]
        return [(code(e.key), e.value) for e in pairs] if len(pairs) == len(node.elements) else None
    return None


def _filled(node: cst.CSTNode, name: str, keyed: bool, count: int) -> tuple[str, cst.BaseExpression] | None:
    """The item that `losses.append(loss)` or `losses["name"] = loss` adds."""
    if isinstance(node, cst.Assign) and keyed and len(node.targets) == 1:
        target = node.targets[0].target
        index = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
        if isinstance(index, cst.Index) and dotted(target.value) == name and _word(index.value):  # type: ignore[attr-defined]
            return code(index.value), node.value
    call = node.value if isinstance(node, cst.Expr) and not keyed else None
    if isinstance(call, cst.Call) and dotted(call.func) == f"{name}.append" and len(call.args) == 1:
        return str(count), call.args[0].value
    return None


def _word(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.SimpleString) and isinstance(constant(node), str) and code(node)[0] in "'\""
