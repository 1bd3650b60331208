"""The value of every expression, evaluated abstractly in an environment of places."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import libcst as cst

from torch2ms.analysis import arrays, shapes
from torch2ms.analysis.evaluation import activations, calls, containers, lambdas, lookup, members
from torch2ms.analysis.evaluation.assign import bind, iteration
from torch2ms.analysis.evaluation.env import Env
from torch2ms.analysis.evaluation.exchange import Exchange
from torch2ms.analysis.evaluation.modes import recording
from torch2ms.analysis.evaluation.narrow import narrowed
from torch2ms.analysis.evaluation.usage import keyed, used
from torch2ms.analysis.known.paths import PATH, divided
from torch2ms.analysis.oddities import PICKED
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Block
from torch2ms.analysis.syntax.annotations import quoted, quotes
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, code, constant
from torch2ms.analysis.values import (
    BOOL,
    CHOSEN,
    COMPLEX,
    EITHER,
    FLOAT,
    FUNCTIONS,
    INT,
    MASKED,
    NO_DEPS,
    NONE,
    OF_FUNCTIONS,
    STICKY,
    STR,
    UNKNOWN,
    Value,
    bounded,
    choices,
    entries,
    is_row,
    join,
    joined_deps,
    replace,
)

HANDED = ("tensor", "int", "float", "str", "bool")  # what generators of samples hand out

ARRAYS = re.compile(r"\bimport numpy\b|\bfrom numpy\b")
PATHS = ("object", "str")  # kinds of what divides paths
WHOLE = (cst.FloorDivide, cst.Modulo)


class Evaluator:
    """Evaluates the expressions of one scope; remembers the value of each node in `module.values`."""

    def __init__(self, project: Project, module: ModuleInfo, env: Env, function: FunctionInfo | None,
                 cls: ClassInfo | None, demand: Callable[[FunctionInfo], None]) -> None:  # fmt: skip
        self.project = project
        self.module = module
        self.env = env
        self.function = function
        self.cls = cls
        self.cut = False  # inside no_grad
        self.uses: frozenset[str] = frozenset()  # places that are used as modules, and what is told
        self.flagged: frozenset[str] = frozenset()  # tensors that a later loop makes leaves
        self.memo = module.values
        self.former: dict[str, dict[int, str]] = {}  # local names of networks that are bound again, by the statement
        self.twins: dict[str, dict[str, Block]] = {}  # containers that have another name, and the block that gave it
        self.lambdas: dict[str, tuple[cst.Lambda, dict[str, Value]]] = {}  # with what their calls pass, by their names
        self.entered: tuple[str, ...] = ()  # places into which the functions that a statement calls put something
        self.exchange = Exchange(project, demand)

    def ev(self, node: cst.CSTNode) -> Value:
        how = _BY_TYPE.get(node.__class__)
        value = how(self, node) if how is not None else self.everything(node)
        if (
            self.cut
            and (value.deps or value.items)
            and not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
            and value.kind not in ("module", "optimizer", "params", "named_params", "object", "param")
            and not (type(node) is cst.Call and self.records(node))
        ):
            value = value.cut()
        self.memo[id(node)] = value
        return value

    def records(self, call: cst.Call) -> bool:
        """A call of a function that turns gradients on for itself: `@torch.enable_grad()`."""
        info = lookup.function_of(self.memo.get(id(call.func), UNKNOWN), self)
        if info is None or not isinstance(info.scope.node, cst.FunctionDef):
            return False
        return any(recording(each.decorator, info.module) for each in info.scope.node.decorators)

    def annotation(self, node: cst.Annotation) -> None:
        """What stands in quotes is read as well."""
        self.ev(node.annotation)
        for part in quotes(node.annotation):
            meant = self.module.quoted.get(id(part)) or quoted(part, self.module.imports)
            if meant is not None:
                self.module.quoted[id(part)] = meant
                self.ev(meant)

    def unary(self, node: cst.UnaryOperation) -> Value:
        value = self.ev(node.expression)
        if type(node.operator) is cst.Not:
            return BOOL
        if value.kind != "tensor":
            return value
        made = Value("tensor", deps=value.deps)
        return made if value.likely else shapes.shaped(made, (value.dtype, value.rank))

    def comparison(self, node: cst.Comparison) -> Value:
        values = [self.ev(node.left), *(self.ev(c.comparator) for c in node.comparisons)]
        tests = all(type(c.operator) in (cst.Is, cst.IsNot, cst.In, cst.NotIn) for c in node.comparisons)
        sure = any(v.kind == "tensor" and not v.likely for v in values)
        if not tests and not sure and any(v.kind == "numpy" and v.rank != 0 for v in values):
            return Value("numpy")
        if tests or not any(v.kind == "tensor" for v in values):
            return BOOL
        odd = PICKED if any(v.odd == PICKED for v in values) else ""
        return Value("tensor", dtype="bool", rank=shapes.promoted(values[0], values[-1])[1], odd=odd)

    def conditional(self, node: cst.IfExp) -> Value:
        self.ev(node.test)
        return join(self.ev(node.body), self.ev(node.orelse))

    def sequence(self, node: cst.Tuple | cst.List | cst.Set) -> Value:
        items = tuple(self.ev(e.value) for e in node.elements)
        starred = any(type(e) is cst.StarredElement for e in node.elements)
        kind = "tuple" if type(node) is cst.Tuple else "list"
        for value in items:  # a loop: this is gone through for every sequence
            if value.kind == "numpy" and kind == "tuple":
                pairs = zip(node.elements, items, strict=True)
                items = tuple(Value("int") if arrays.made_plain(e.value, v) else v for e, v in pairs)
                break
        begins = items[0].starts if items else NO_DEPS
        if starred:
            parts = [
                containers.element(v) if isinstance(e, cst.StarredElement) else v
                for e, v in zip(node.elements, items, strict=True)
            ]
            layers = all(part.kind == "module" for part in parts)
            each = containers.one_of(Value(kind), tuple(parts)) if layers else None
            return Value(kind, deps=joined_deps(items), starts=begins, each=each)
        functions = bool(items) and items[0].kind in FUNCTIONS and all(item.kind in FUNCTIONS for item in items)
        name = OF_FUNCTIONS if functions else ""
        return Value(kind, name, joined_deps(items), items=bounded(items), starts=begins)

    def dictionary(self, node: cst.Dict) -> Value:
        parts = [self.ev(e.value) for e in node.elements]
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                self.ev(element.key)
        keys = _keys(node)
        if keys is not None and len(dict(keys)) == len(parts):
            return Value("dict", deps=joined_deps(parts), keys=keys, items=bounded(tuple(parts)))
        chosen = parts and len({p.kind for p in parts}) == 1 and parts[0].kind in CHOSEN
        held = tuple(c for p in parts for c in choices(p)) if chosen else None
        return Value("dict", deps=joined_deps(parts), keys=keys if held is None else None, items=held)

    def boolean(self, node: cst.BooleanOperation) -> Value:
        left = self.ev(node.left)
        known = narrowed(node.left, self) if type(node.operator) is cst.And else {}
        if not known:
            return join(left, self.ev(node.right))
        self.env.push()  # what follows `and` is asked where the condition before it holds
        for place, value in known.items():
            self.env[place] = value
        right = self.ev(node.right)
        self.env.update({k: v for k, v in self.env.pop().items() if k not in known and v is not None})
        return join(left, right)

    def named(self, node: cst.NamedExpr) -> Value:
        value = self.ev(node.value)
        bind(node.target, value, self)
        return value

    def string(self, node: cst.ConcatenatedString | cst.FormattedString) -> Value:
        for part in getattr(node, "parts", ()):
            if type(part) is cst.FormattedStringExpression:
                self.ev(part.expression)
        if type(node) is cst.ConcatenatedString:
            self.ev(node.left)
            self.ev(node.right)
        return STR

    def yielded(self, node: cst.Yield) -> Value:
        """What a generator hands out; going over it yields that."""
        if isinstance(node.value, cst.From):
            handed = self.ev(node.value.item)
            if self.function is not None and handed.kind == "params":
                self.exchange.give(self.function, handed)
        if node.value is None or isinstance(node.value, cst.From):
            return join(self.everything(node), UNKNOWN)
        value = self.ev(node.value)
        if self.function is not None:
            plain = value.kind == "object" and bool(value.name) and not value.deps
            made = Value("list", name="of objects", each=value) if plain else Value("unknown", deps=value.deps)
            parts = value.items if value.kind == "tuple" else (value,)
            sample = not value.deps and all(p.kind in HANDED and not p.leaf for p in parts or ())
            if sample and any(p.kind == "tensor" for p in parts or ()):
                made = Value("list", each=value)
            if value.name == "param_group":
                made = Value("list", name="param_groups", place=value.place)
            if value.kind == "param" or value.name == "module_param":
                made = Value("params", deps=value.deps)
                body = self.function.scope.body
                stmt = next((s for s in body.walk() if s.is_small and any(n is node for n in s.nodes)), None)
                made = made if stmt is None else containers.chosen(made, stmt, self.function.name)
            self.exchange.give(self.function, made)
        return UNKNOWN

    def everything(self, node: cst.CSTNode) -> Value:
        deps = NO_DEPS
        for child in children(node):
            deps |= self.ev(child).deps
        return Value("unknown", deps=deps) if deps else UNKNOWN

    # --- names and attributes

    def name(self, node: cst.Name) -> Value:
        name = node.value
        if name in ("True", "False"):
            return BOOL
        if name == "None":
            return NONE
        found = self.env.get(name)
        if found is None:
            found = lookup.lookup(name, self)
        return used(found, name, self.uses)

    def attribute(self, node: cst.Attribute) -> Value:
        place = dotted(node)
        found = members.attribute(node, place, self)
        made = used(found, place, self.uses)
        return made if made is found or made.kind != "module" or not found.place else replace(made, place=found.place)

    # --- containers

    def subscript(self, node: cst.Subscript) -> Value:
        base = self.ev(node.value)
        for element in node.slice:
            for piece in children(element.slice):
                self.ev(piece)
        key = containers.known_key(base, node) if base.kind == "dict" else ""
        value = containers.subscript(base, node, self.memo)
        if value.kind == "unknown" and base.kind in ("unknown", "dict") and self.uses:
            if (known := keyed(base, node, self.uses)) is not None:
                return known
        return containers.housed(value, node.value, key)

    def comprehension(self, node: cst.CSTNode) -> Value:
        self.env.push()
        tests: list[str] = []
        clause = node.for_in  # type: ignore[attr-defined]
        while clause is not None:
            bind(clause.target, iteration(clause.iter, self.ev(clause.iter), self, named=False), self)
            for test in clause.ifs:
                self.ev(test.test)
                tests.append(code(test.test))
            clause = clause.inner_for_in
        if type(node) is cst.DictComp:
            self.ev(node.key)
            value = self.ev(node.value)
            kind = "dict"
            if value.kind == "optimizer" and (held := self.each_entry(node)):
                self.env.pop()
                return held
        else:
            value = containers.picked(self.ev(node.elt), " and ".join(tests))  # type: ignore[attr-defined]
            if type(node.elt) is cst.Subscript:  # type: ignore[attr-defined]
                value = containers.picked(value, "named")
            kind = "list"
        self.env.pop()
        if type(node) is cst.ListComp and (layers := containers.layers(node, value, " and ".join(tests))) is not None:
            return layers
        if (grouped := containers.grouped_optimizer(node)) is not None:
            optimizer = self.memo.get(id(grouped), UNKNOWN)
            if optimizer.kind == "optimizer":
                return Value("params", deps=optimizer.owns or NO_DEPS, place=optimizer.place)
        data = kind == "list" and value.kind == "tuple" and value.items is not None and not value.deps
        leaves = value.leaf and not value.place
        known = data or leaves or kind == "list" and lookup.of_data(value, self)
        each = value if known else containers.same_layer(value)
        made = type(node) is cst.ListComp and not known and lookup.made_here(node.elt, value, self)
        if made:
            return Value(kind, name=containers.LEARNERS, each=replace(value, several=True))
        arrays = value.likely and value.kind == "tensor" and self.project.says(ARRAYS)  # they may be NumPy's as well
        return Value(kind, deps=value.deps, name=f"of {value.kind}", each=each, likely=arrays)

    def each_entry(self, node: cst.DictComp) -> Value | None:
        """`{name: SGD(net.parameters()) for name, net in nets.items()}`: a dict with the keys of another."""
        clause, call = node.for_in, node.for_in.iter
        if clause.inner_for_in is not None or clause.ifs or not isinstance(call, cst.Call) or call.args:
            return None
        names = [dotted(e.value) for e in clause.target.elements] if isinstance(clause.target, cst.Tuple) else []
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "items" or len(names) != 2:
            return None
        iterated = self.memo.get(id(call.func.value), UNKNOWN)
        held = containers.layers_by_name(iterated) if iterated.kind == "module" else entries(iterated)
        held = held if iterated.kind in ("dict", "module") else {}
        certain = bool(held) and all(sure for _, sure in iterated.keys or ())
        if not certain or not all(names) or dotted(node.key) != names[0]:
            return None
        made, any_of_them = [], self.env.get(names[1])
        for value in held.values():
            self.env[names[1]] = value
            made.append(self.ev(node.value))
        self.env[names[1]] = any_of_them or UNKNOWN
        self.ev(node.value)  # what its parts are is what they are in each turn
        return Value("dict", deps=joined_deps(made), keys=iterated.keys, items=bounded(tuple(made)))

    def lambda_(self, node: cst.Lambda) -> Value:
        for param in lambdas.parameters(node):
            if param.default is not None:
                self.ev(param.default)
        name = f"{lambdas.PREFIX}{id(node)}"
        _, passed = self.lambdas.setdefault(name, (node, {}))
        body = lambdas.run(node, passed, self)
        known = body.kind in ("int", "float", "bool", "str") or body.kind == "tensor" and not body.deps
        each = body if known else None
        return Value("function", name, body.deps, each=each, starts=activations.of_lambda(node, self.memo))

    def binary(self, left: Value, right: Value, operator: cst.CSTNode | None = None) -> Value:
        deps = left.deps | right.deps
        kinds = {left.kind, right.kind}
        if type(operator) is cst.Divide and not kinds.isdisjoint(PATHS) and divided(left, right):
            return PATH
        if type(operator) in WHOLE and deps and kinds & {"unknown", "tensor"}:
            if all(v.likely or v.kind in ("unknown", "int") for v in (left, right)):
                return Value("unknown", EITHER, deps)  # tensors at a guess, and more often numbers that count
        if kinds == {"numpy", "tensor"}:
            array, other = (left, right) if left.kind == "numpy" else (right, left)
            if other.likely and array.rank != 0:  # beside an array, a guess at a tensor is hardly right
                return Value("numpy" if array.rank else "unknown", deps=deps, rank=array.rank)
        if "tensor" in kinds or "param" in kinds:
            name = MASKED if left.name in STICKY or right.name in STICKY else ""
            odd = PICKED if PICKED in (left.odd, right.odd) else ""
            value = Value("tensor", name, deps, likely=left.likely or right.likely, odd=odd)
            return shapes.shaped(value, shapes.combined(operator, left, right))
        if "numpy" in kinds:
            ranks = {v.rank for v in (left, right) if v.kind == "numpy"}
            alike = len(ranks) == 1 and kinds <= {"numpy", "int", "float", "api"}  # `np.pi`
            return Value("numpy", deps=deps, rank=ranks.pop() if alike else None)
        if EITHER in (left.name, right.name) and kinds <= {"unknown", "int", "float", "bool"}:
            return Value("unknown", EITHER, deps)
        if deps and "unknown" in kinds and not kinds & _SEQUENCES:
            return Value("tensor", deps=deps, likely=True)
        if kinds <= {"int", "bool"} and type(operator) is not cst.Divide:
            return INT
        if kinds <= {"int", "float", "bool", "complex"}:
            return COMPLEX if "complex" in kinds else FLOAT
        if kinds == {"str"} or left.kind == "str":
            return STR
        if type(operator) is cst.Subtract and is_row(left):
            return containers.picked(left, "left")
        if left.kind == right.kind and left.kind in ("list", "tuple", "params"):
            both = left.items is not None and right.items is not None
            items = bounded((*(left.items or ()), *(right.items or ()))) if both else None
            begins = right.starts if left.items == () else left.starts
            name = left.name if left.name == right.name else ""
            each = left.each if left.each == right.each else None
            return Value(left.kind, deps=deps, items=items, name=name, starts=begins, each=each)
        if "list" in kinds and "int" in kinds:
            listed = left if left.kind == "list" else right
            return replace(listed, items=None)
        return Value("unknown", deps=deps)


_SEQUENCES = {"list", "tuple", "dict", "str"}  # torch computes with none of them: what stands beside one is no tensor

_BY_TYPE: dict[type, Callable[[Evaluator, Any], Value]] = {
    cst.Name: Evaluator.name,
    cst.Attribute: Evaluator.attribute,
    cst.Call: lambda ev, node: calls.call(node, ev),
    cst.BinaryOperation: lambda ev, node: ev.binary(ev.ev(node.left), ev.ev(node.right), _computing(node)),
    cst.UnaryOperation: Evaluator.unary,
    cst.Comparison: Evaluator.comparison,
    cst.BooleanOperation: Evaluator.boolean,
    cst.IfExp: Evaluator.conditional,
    cst.Subscript: Evaluator.subscript,
    cst.Tuple: Evaluator.sequence,
    cst.List: Evaluator.sequence,
    cst.Set: Evaluator.sequence,
    cst.Dict: Evaluator.dictionary,
    cst.ListComp: Evaluator.comprehension,
    cst.GeneratorExp: Evaluator.comprehension,
    cst.SetComp: Evaluator.comprehension,
    cst.DictComp: Evaluator.comprehension,
    cst.Lambda: Evaluator.lambda_,
    cst.NamedExpr: Evaluator.named,
    cst.Integer: lambda ev, node: INT,
    cst.Float: lambda ev, node: FLOAT,
    cst.Imaginary: lambda ev, node: COMPLEX,
    cst.SimpleString: lambda ev, node: STR,
    cst.ConcatenatedString: Evaluator.string,
    cst.FormattedString: Evaluator.string,
    cst.Await: lambda ev, node: join(ev.everything(node), UNKNOWN),
    cst.Yield: Evaluator.yielded,
}


def _computing(node: cst.BinaryOperation) -> cst.CSTNode:
    """The operator; a power below zero is a fraction, as what is divided is."""
    right = node.right
    below = isinstance(right, cst.UnaryOperation) and isinstance(right.operator, cst.Minus)
    return cst.Divide() if below and isinstance(node.operator, cst.Power) else node.operator


def _keys(node: cst.Dict) -> tuple[tuple[str, bool], ...] | None:
    """The keys of a literal, None where one of them is no literal string."""
    names = [constant(e.key) if isinstance(e, cst.DictElement) else None for e in node.elements]
    return tuple((n, True) for n in names if isinstance(n, str)) if all(isinstance(n, str) for n in names) else None
