"""Arguments that a call does not write itself: `f(*sizes, **options)`, and names for constants.

What a list, a tuple or a dictionary holds is seen where it stands in the call, or where its name is bound once and
changed nowhere. Each item becomes an argument of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.api import Rule, Rules
from torch2ms.api.signature import BindError, StarError, bind, literal

Calls = tuple[cst.Call, cst.Call]  # a call before and after the translation of its arguments
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_COMPARES: dict[type, Callable[[Any, Any], bool]] = {
    cst.Equal: eq, cst.NotEqual: ne, cst.LessThan: lt, cst.LessThanEqual: le,
    cst.GreaterThan: gt, cst.GreaterThanEqual: ge,
}  # fmt: skip
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def written_out(original: cst.Call, updated: cst.Call, rule: Rule, module: ModuleInfo, stmt: Stmt | None) -> Calls:
    """The call with the items of what it spreads as arguments of their own, as far as they are seen and asked for."""
    if not any(arg.star for arg in original.args):
        return original, updated
    if not _hiding(original, updated, rule) and not _of_one(original, updated, module, stmt):
        return original, updated
    return spread(original, updated, rule, module, stmt)


def _of_one(original: cst.Call, updated: cst.Call, module: ModuleInfo, stmt: Stmt | None) -> bool:
    """What is spread is a single item: one tensor instead of several, or a size instead of its numbers."""
    given = [arg for arg in original.args if arg.keyword is None]
    if len(given) != 1 or original.args[0].star != "*":
        return False
    items = _items(original.args[0], updated.args[0], stmt, module)
    return items is not None and len(items) == 1


def spread(original: cst.Call, updated: cst.Call, rule: Rule | None, module: ModuleInfo, stmt: Stmt | None) -> Calls:
    """The call with all that is seen of what it spreads as arguments of their own."""
    pairs: list[tuple[cst.Arg, cst.Arg]] = []
    for before, after in zip(original.args, updated.args, strict=True):
        items = None
        if before.star == "*":
            items = _items(before, after, stmt, module)
        elif before.star:
            items = _entries(before, after, stmt, module)
            items = _keys(before, after, rule, module) if items is None and rule is not None else items
        pairs += [(before, after)] if items is None else items
    return _with(original, [a for a, _ in pairs]), _with(updated, [b for _, b in pairs])


def of_two(rule: Rule, call: cst.Call, rules: Rules, module: ModuleInfo) -> Rule:
    """`torch.min(*pair)` of two tensors is torch.minimum: the arguments are no tensor and its dimension."""
    plain = rules.find(f"{rule.name}imum") if rule.name in ("torch.max", "torch.min") else None
    if plain is None or len(call.args) != 1 or call.args[0].star != "*":
        return rule
    value = module.value(call.args[0].value)
    items = value.items or () if value.kind == "tuple" else ()
    certain = [i for i in items if i.kind == "tensor" and (not i.likely or any(d[:1] not in "@^" for d in i.deps))]
    return plain if len(items) == len(certain) == 2 else rule


def _hiding(original: cst.Call, updated: cst.Call, rule: Rule) -> bool:
    """What is spread are parameters with names, not the items of one that takes any number."""
    for form in rule.forms:
        try:
            bind(form.signature, original, updated)
        except StarError:
            return True
        except BindError:
            continue
    return False


def in_place(rule: Rule, original: cst.Call, updated: cst.Call) -> bool:
    """The call says `inplace=True`."""
    for form in rule.forms:
        if "inplace" in form.signature.by_name:
            try:
                return bind(form.signature, original, updated).value("inplace") is True
            except BindError:
                continue
    return False


def constants(original: cst.Call, updated: cst.Call, module: ModuleInfo, stmt: Stmt | None) -> Calls:
    """The call as if the names of constants among its arguments were the constants: what they are decides the form."""
    args = []
    for arg in original.args:
        named = isinstance(arg.value, cst.Name) and constant(arg.value) is ... and not arg.star
        held = bound_once(arg.value.value, stmt, module) if named and isinstance(arg.value, cst.Name) else None
        plain = held is not None and isinstance(literal(held), (bool, int, float, str, tuple, type(None)))
        held = held if named else _decided(arg.value)
        plain = plain or not named and held is not None
        args.append(arg.with_changes(value=held) if plain and held is not None else arg)
    return original.with_changes(args=args), updated


def _decided(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a comparison of two numbers comes to: `keepdim=1 > 0`."""
    if type(node) is not cst.Comparison or len(node.comparisons) != 1:
        return None
    (target,) = node.comparisons
    values = [constant(side) for side in (node.left, target.comparator)]
    compare = _COMPARES.get(type(target.operator))
    if compare is None or not all(isinstance(value, (bool, int, float)) for value in values):
        return None
    return cst.Name(str(compare(*values)))


def bound_once(name: str, stmt: Stmt | None, module: ModuleInfo) -> cst.BaseExpression | None:
    """The expression that a name is bound to, where no other statement binds or changes it."""
    scope = stmt.block.scope if stmt is not None else None
    here = scope
    while scope is not None:
        if name in scope.params:
            return None
        if isinstance(scope.node, cst.ClassDef) and scope is not here:
            scope = scope.parent
            continue
        bound = [s for s in scope.body.walk() if name in s.defs]
        if bound:
            return _assigned(name, bound[0]) if len(bound) == 1 and not _changed(name, scope, module) else None
        scope = scope.parent
    return None


def _assigned(name: str, stmt: Stmt) -> cst.BaseExpression | None:
    node = stmt.node
    if isinstance(node, cst.AnnAssign) and dotted(node.target) == name:
        return node.value
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0].target
    if isinstance(target, cst.Tuple) and isinstance(node.value, cst.Tuple):  # `x, dim = torch.ones(2, 3), 1`
        parts = [dotted(element.value) for element in target.elements]
        plain = len(parts) == len(node.value.elements) and parts.count(name) == 1
        return node.value.elements[parts.index(name)].value if plain else None
    return node.value if dotted(target) == name else None


def _changed(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """Whether something other than the one assignment may change what the name stands for."""
    if scope.is_module and module.has(f".{name} ="):
        return True
    stmts = [s for inner in scope.walk() for s in inner.body.walk()]
    declaring = [s.node for s in stmts if type(s.node) is cst.Global or type(s.node) is cst.Nonlocal]
    declared = [n.name.value for node in declaring for n in node.names]
    return name in declared or bool([s for s in stmts if name in s.muts])


def _held(arg: cst.Arg, stmt: Stmt | None, module: ModuleInfo) -> cst.BaseExpression | None:
    named = isinstance(arg.value, cst.Name)
    return bound_once(arg.value.value, stmt, module) if named and isinstance(arg.value, cst.Name) else arg.value


def _items(
    before: cst.Arg, after: cst.Arg, stmt: Stmt | None, module: ModuleInfo
) -> list[tuple[cst.Arg, cst.Arg]] | None:
    """The items of `*[a, b]`, or of `*sizes` whose list is seen."""
    held = _held(before, stmt, module)
    if not isinstance(held, (cst.List, cst.Tuple)) or any(isinstance(e, cst.StarredElement) for e in held.elements):
        return None
    known = [e.value for e in held.elements]
    if held is not before.value:
        text = dotted(after.value)
        made = [_item(text, i, item) for i, item in enumerate(known)] if text else []
    else:
        made = [e.value for e in after.value.elements] if isinstance(after.value, (cst.List, cst.Tuple)) else []
    if len(made) != len(known):
        return None
    return [(cst.Arg(a, comma=_COMMA), cst.Arg(b, comma=_COMMA)) for a, b in zip(known, made, strict=True)]


def _item(name: str, place: int, item: cst.BaseExpression) -> cst.BaseExpression:
    """One of what a name holds; a list of sizes as the tuple that MindSpore takes."""
    sizes = literal(item) if isinstance(item, cst.List) else None
    listed = isinstance(sizes, list) and bool(sizes) and all(type(size) is int for size in sizes)
    return cst.parse_expression(f"tuple({name}[{place}])" if listed else f"{name}[{place}]")


def _entries(
    before: cst.Arg, after: cst.Arg, stmt: Stmt | None, module: ModuleInfo
) -> list[tuple[cst.Arg, cst.Arg]] | None:
    """The entries of `**{'a': b}`, or of `**options` whose dictionary is seen."""
    held = _held(before, stmt, module)
    known = dict(_named(held)) if held is not None else {}
    if held is None or not known or len(known) != _length(held):
        return None
    if held is not before.value:
        text = dotted(after.value)
        made = {key: cst.parse_expression(f"{text}[{key!r}]") for key in known} if text else {}
    else:
        made = dict(_named(after.value))
    if made.keys() != known.keys():
        return None
    return [(_keyword(key, value), _keyword(key, made[key])) for key, value in known.items()]


def _named(node: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The keys and values of a dictionary whose keys are names."""
    if isinstance(node, cst.Dict):
        for element in node.elements:
            key = constant(element.key) if isinstance(element, cst.DictElement) else None
            if isinstance(key, str) and key.isidentifier():
                yield key, element.value
    elif isinstance(node, cst.Call) and dotted(node.func) == "dict":
        yield from ((arg.keyword.value, arg.value) for arg in node.args if arg.keyword is not None)


def _length(node: cst.BaseExpression) -> int:
    return len(node.elements) if isinstance(node, cst.Dict) else len(node.args) if isinstance(node, cst.Call) else -1


def _keys(before: cst.Arg, after: cst.Arg, rule: Rule, module: ModuleInfo) -> list[tuple[cst.Arg, cst.Arg]] | None:
    """The keys of a dictionary that is changed on its way, as far as they are certain or have a default."""
    keys, place = module.value(before.value).keys, dotted(after.value)
    if keys is None or not place:
        return None
    found = []
    for key, sure in keys:
        default = next((p.default for p in rule.params if p.name == key), None)
        if not sure and default is None:
            return None
        text = f"{place}[{key!r}]" if sure else f"{place}.get({key!r}, {default})"
        arg = _keyword(key, cst.parse_expression(text))
        found.append((arg, arg))
    return found


def _keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    return cst.Arg(value, cst.Name(name), equal=_TIGHT, comma=_COMMA)


def _with(call: cst.Call, args: list[cst.Arg]) -> cst.Call:
    """The call with these arguments; the last one has no comma, so that nothing of the old layout hangs over."""
    last = [args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if args else []
    return call.with_changes(args=[*args[:-1], *last])
