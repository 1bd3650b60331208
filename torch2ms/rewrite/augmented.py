"""Augmented assignments, whose tensor somebody else may hold: `x += y` writes into the memory that aliases show."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.layer_modes import in_module_class, starts_in_training
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import collected, is_data, stashed, yields
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.rewrite import group_writes
from torch2ms.rewrite.gradmodes import stopper, unrecorded
from torch2ms.rewrite.inplace import apart, views
from torch2ms.rewrite.inplace.callers import behind, default, key
from torch2ms.rewrite.inplace.holders import given_by_keepers, holders, keepers, taken_as_tensor, takes_tensors
from torch2ms.rewrite.inplace.kept import copied, held_elsewhere, of_state, repeated, without_graph
from torch2ms.rewrite.inplace.scattered import scattered
from torch2ms.rewrite.inplace.seen import into_view
from torch2ms.rewrite.inplace.stores import COPIED, InPlace
from torch2ms.rewrite.inplace.widening import widens
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.tensors.arrays import SHIFTS
from torch2ms.rewrite.tensors.subscripts import WHOLE
from torch2ms.rewrite.writer import Writer

ASSIGNING = {cst.AddAssign: ("assign_add", "+"), cst.SubtractAssign: ("assign_sub", "-"), cst.MultiplyAssign: ("", "*"),
             cst.DivideAssign: ("", "/")}  # fmt: skip
GROWING: dict[type, str] = {cst.AddAssign: "{1}", cst.MultiplyAssign: "list({0}) * ({1} - 1)"}
_ORDER = (cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual)
# `features` alone is a tensor as often as not
_MEASURE = re.compile(r"(^|_)(shape|size|dims?)$|^(in|out|n|num|hidden)_(features|channels)$", re.I)
OTHERS = {"jax", "tensorflow", "mxnet", "paddle", "cupy"}  # libraries whose arrays are not those of torch


class Augmented:
    """`x += y` of tensors, parameters, rates and containers."""

    def __init__(self, writer: Writer, in_place: InPlace) -> None:
        self.writer = writer
        self.module = writer.module
        self.in_place = in_place

    def changed(self, stmt: Stmt, node: cst.AugAssign) -> list[cst.BaseStatement] | None:
        if (made := apart.changed(stmt, node, self.writer)) is not None:
            return made
        target: cst.CSTNode = node.target
        if (type(target) is cst.Attribute or type(target) is cst.Subscript) and views.copied(target, self.module, stmt):
            self.lost(target)
            return None
        if type(target) is cst.Subscript and self.writer.differentiated:
            if made := into_view(stmt, target, node.value, self.writer, code(node.operator).strip()):
                return made
        if made := scattered(stmt, node.target, node.value, self.writer, code(node.operator).strip()):
            return made
        while is_data(target, self.module):
            target = target.value  # type: ignore[attr-defined]
        if (unseen := self.weight_unseen(target)) is not None:
            return self.written_into(stmt, unseen, node)
        value = self.module.value(target)
        if value.kind == "module" and (grown := self.grown(node, value)) is not None:
            return grown
        weight = is_parameter(target, value, self.module, self.writer.plan)
        if not weight and (reached := self.through(stmt, node, target, value)) is not None:
            return reached
        group = isinstance(target, cst.Subscript) and value.name == "param_group_item" and key(target) == "lr"
        if isinstance(target, cst.Subscript) and value.name == "param_group_item" and not group:
            operator = code(node.operator).strip()
            return group_writes.setting(target, node.value, self.writer, operator)
        if not group and not weight:
            if shift := SHIFTS.get(type(node.operator)) if value.kind == "tensor" else None:
                self.writer.needs.add("ops")
                self.writer.tell(
                    "T2M601", "shift of a tensor", f"ops.{shift}: MindSpore's tensors have no such operator"
                )
                return self.writer.text(f"{{0}} = ops.{shift}({{0}}, {{1}})", target, node.value)
            if (kept := self.of_own_type(node, target, value)) is not None:
                return kept
            return (
                None
                if target is node.target
                else self.writer.text(f"{{0}} {code(node.operator).strip()} {{1}}", target, node.value)
            )
        assign, symbol = ASSIGNING.get(type(node.operator), ("", ""))
        if not symbol:
            self.writer.refuse(
                "T2M611", "augmented assignment of a parameter", "this operator has no assigning form", "use ops.assign"
            )
            return None
        self.writer.needs.add("ops")
        self.writer.tell("T2M611", "in-place change of a parameter", "ops.assign, which compiled code sees too")
        right_side = self.module.value(node.value)
        number = constant(node.value) is not ... or right_side.kind in ("int", "float") or right_side.rank == 0
        if assign and not group and not number:  # it takes no value of another rank
            return self.writer.text(f"ops.{assign}({{0}}, {{1}})", target, node.value)
        self.writer.plan.expressions.setdefault(id(target), code(target))
        right = (
            "{1}"
            if isinstance(node.value, (cst.Name, cst.Attribute, cst.Call, cst.Integer, cst.Float, cst.Subscript))
            else "({1})"
        )
        old = "{0}.item()" if group else "{0}"
        return self.writer.text(f"ops.assign({{0}}, {old} {symbol} {right})", target, node.value)

    def grown(self, node: cst.AugAssign, value: Value) -> list[cst.BaseStatement] | None:
        """`layers += [...]` and `layers *= 2`: containers that have no such operator in MindSpore."""
        operator = type(node.operator)
        if value.name != "torch.nn.Sequential" or operator not in GROWING:
            return None
        self.writer.tell("T2M601", "torch.nn.Sequential in an operator", "its layers are appended")
        more, name, scope = GROWING[operator], "layer", self.writer.scope
        if not in_module_class(scope, self.module):
            more += ".set_train()" * starts_in_training(node.value, self.module, self.writer.project)
        while name in self.module.bound:
            name += "_"
        return self.writer.text(f"for {name} in {more}:\n    {{0}}.append({name})", node.target, node.value)

    def weight_unseen(self, target: cst.CSTNode) -> cst.Attribute | None:
        """The place of `net.head.weight.data` where nothing says what the network is."""
        place = target.value if isinstance(target, cst.Attribute) and target.attr.value == "data" else None
        if not isinstance(place, cst.Attribute) or place.attr.value not in ("weight", "bias"):
            return None
        return place if self.module.value(place).kind == "unknown" and dotted(place) else None

    def of_own_type(self, node: cst.AugAssign, target: cst.CSTNode, value: Value) -> list[cst.BaseStatement] | None:
        """`x += y` with `y` of a wider type: torch's tensor keeps its own, MindSpore's is bound to the result."""
        given = cst.Call(cst.Name("_"), [cst.Arg(node.value)])
        if not isinstance(target, (cst.Name, cst.Attribute)) or not widens(given, value, self.module):
            return None
        self.writer.tell("T2M611", "in-place change", "in the element type of the tensor, which torch keeps")
        symbol = code(node.operator).strip().removesuffix("=")
        right = "{1}" if atomic(node.value) else "({1})"
        return self.writer.text(f"{{0}} = ({{0}} {symbol} {right}).astype({{0}}.dtype)", target, node.value)

    def through(
        self, stmt: Stmt, node: cst.AugAssign, target: cst.CSTNode, value: Value
    ) -> list[cst.BaseStatement] | None:
        """`y = x; y += 1`: the change reaches `x`, where something still reads it."""
        if type(target) is cst.Subscript:
            return self.of_container(stmt, node, target, value)
        if self.module.value(node.value).kind in ("tuple", "list"):  # which no tensor takes: a sequence grows
            return None
        if isinstance(target, cst.Attribute):
            return self.written_into(stmt, target, node) if held_elsewhere(target, stmt, self.module) else None
        if not isinstance(target, cst.Name):
            return None
        name = target.value
        if value.leaf:
            through = target is not node.target and self.given_unseen(stmt, name)  # `.data` of a caller's tensor
            again = not self.writer.differentiated and (through or self.given_by_callers(stmt, target))
            return self.written_into(stmt, target, node) if again else None
        if value.kind == "unknown" and target is not node.target:  # `.data` of what is not seen: whoever has it too
            return self.written_into(stmt, target, node)
        shown = value.kind == "unknown" and taken_as_tensor(name, self.writer.scope, self.module)
        if self.hardly_a_tensor(name, value, shown):
            return None
        if value.kind == "unknown" and self.for_effect(stmt, node, name):
            return self.written_into(stmt, target, node)
        unsure = value.kind == "unknown" or value.kind == "tensor" and value.likely
        if unsure and self.given_by_callers(stmt, target, tensors=not shown):
            return self.written_into(stmt, target, node)
        return self.through_others(stmt, node, target, value, shown)

    def hardly_a_tensor(self, name: str, value: Value, shown: bool) -> bool:
        """What is not seen, or only guessed, counts or belongs to another library; `shown`: it is used as a tensor."""
        unsure = value.kind == "unknown" or value.kind == "tensor" and value.likely
        if unsure and (_counts(name, self.writer.scope, self.module) or _of_others(self.module, value)):
            return True
        return value.kind == "unknown" and not shown and _starts_as_number(name, self.writer.scope)

    def through_others(
        self, stmt: Stmt, node: cst.AugAssign, target: cst.Name, value: Value, shown: bool
    ) -> list[cst.BaseStatement] | None:
        """The change of a name that others have the memory of: names, attributes, containers, callers."""
        name = target.value
        others = {o for o in stmt.muts - {name} if not _changed_by_call(o, name, stmt)}  # names of the same memory
        around = name, stmt, self.module, self.writer.project
        if value.kind != "tensor" and not shown and not (value.kind == "unknown" and value.deps and others):
            # a number would not change where it was taken out of, and nobody would read it there again
            changes = value.kind == "unknown" and takes_tensors(name, self.writer.scope, self.module)
            if not changes or not holders(*around):
                return None
        keeping = keepers(*around)
        others |= holders(*around) | keeping
        varied = self.writer.differentiated and bool(value.deps)
        if varied and (keeping or stashed(name, stmt)):
            return self.written_into(stmt, target, node, stashed=True)
        if value.likely and not value.deps and not others:
            return None
        others |= self.named_alike(stmt, name) | (set() if varied else collected(name, stmt))
        if not self.read_behind(stmt, name, others) and not self.given_by_callers(stmt, target):
            if not given_by_keepers(*around):
                return None
        return self.written_into(stmt, target, node)

    def named_alike(self, stmt: Stmt, name: str) -> set[str]:
        """Names that statements before bind to the same memory, or to a view of it, either way."""
        found: set[str] = set()
        for other in (s for s in self.writer.scope.body.walk() if s.number < stmt.number):
            if name in other.defs:
                found |= views.sources(name, other, self.module)
            else:
                found |= {d for d in other.defs if name in views.sources(d, other, self.module)}
            if type(other.node) is cst.Assign and type(other.node.value) is cst.Name:
                held = self.module.value(other.node.value)
                pair = {other.node.value.value, *(dotted(t.target) for t in other.node.targets)}
                if name in pair and held.kind == "tensor" and (not held.likely or bool(held.deps)):
                    found |= pair - {name}
        return found

    def read_behind(self, stmt: Stmt, changed: str, others: set[str]) -> bool:
        """Somebody reads one of the others behind the change, in a later turn of a loop, or in another method; or what
        is changed is yielded."""
        stmts = list(self.writer.scope.body.walk())
        later = [s for s in stmts if s.number > stmt.number]
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        read = {name for s in (*later, *loops) for use in s.uses for name in (use, root(use))}
        if others & read or any("." in place for place in others):  # other methods read it
            return True
        return any(yields(s, changed) for s in stmts)

    def for_effect(self, stmt: Stmt, node: cst.AugAssign, name: str) -> bool:
        """`for kept in memory.items: kept *= 0.9`, and nothing reads the name behind that: it changes what is kept."""
        loop = next((a for a in stmt.ancestors() if name in a.defs), None)
        added = self.module.value(node.value).kind
        if loop is None or type(loop.node) is not cst.For or added not in ("int", "float", "tensor"):
            return False
        behind = [s for s in self.writer.scope.body.walk() if s.number > stmt.number]
        again = any(name in s.uses for a in stmt.ancestors() if a.is_loop and a.number > loop.number for s in a.walk())
        return not again and not any(name in s.uses for s in behind)

    def of_container(
        self, stmt: Stmt, node: cst.AugAssign, target: cst.Subscript, value: Value
    ) -> list[cst.BaseStatement] | None:
        """`kept["h"] += 1`: the tensor in the container has another name, which shows the change."""
        if of_state(target, stmt, self.module):
            self.writer.needs.add("ops")
            self.writer.tell("T2M611", "in-place change of a parameter", "ops.assign, which compiled code sees too")
            symbol = code(node.operator).strip().removesuffix("=")
            right = "{1}" if atomic(node.value) else "({1})"
            return self.writer.text(f"ops.assign({{0}}, {{0}} {symbol} {right})", target, node.value)
        parted = views.parted(dotted(target.value), stmt, self.module)
        listed = self.module.value(target.value).kind in ("list", "tuple", "dict")
        held = bool(parted) or listed and value.kind == "tensor"
        others = parted | {place for place in stmt.muts - {dotted(target.value)} if "." not in place}
        later = [s for s in self.writer.scope.body.walk() if s.number > stmt.number]
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        seen: object = held and others & {use for s in (*later, *loops) for use in s.uses}
        again = held and copied(target, self.writer.scope) or repeated(target, self.writer.scope, self.module)
        # where nothing is recorded a write is right whoever has the tensor: who does is seldom seen in full
        kept = listed and value.kind == "tensor" and not (value.likely or value.leaf or self.writer.differentiated)
        if not seen and not again and not kept:
            unseen = value.kind == "unknown" and taken_as_tensor(code(target), self.writer.scope, self.module)
            kind = value.kind in ("tensor", "unknown")
            if not kind or not self.given_by_callers(stmt, target, tensors=not unseen):
                return None
        self.writer.tell("T2M611", "in-place change", "written into the tensor, which another name holds too")
        place = code(self.writer.expression(target))
        index = f"{place}[{WHOLE}] = {{}}" if not value.leaf else f"{place}.copy_({{}})"  # a Parameter is no view
        right = code(self.writer.expression(node.value))
        right = right if atomic(node.value) else f"({right})"
        symbol = code(node.operator).strip().removesuffix("=")
        saved = symbol not in "+-" and not self.in_place.number(node.value)
        own = ".copy()" if saved and self.writer.differentiated else ""
        return self.writer.translated(index.format(f"{place}{own} {symbol} {right}"))

    def written_into(
        self, stmt: Stmt, target: cst.Name | cst.Attribute, node: cst.AugAssign, *, stashed: bool = False
    ) -> list[cst.BaseStatement] | None:
        """`stashed`: others have it without its graph, and a write by index would not reach them."""
        self.writer.tell("T2M611", "in-place change", "written into the tensor, which another name holds too")
        name = dotted(target) or code(self.writer.expression(target))
        symbol = code(node.operator).strip().removesuffix("=")
        value_text = "{0}" if atomic(node.value) else "({0})"
        value_text = value_text.format(code(self.writer.expression(node.value)))
        saved = symbol == "**" or symbol in ("*", "/") and not self.in_place.number(node.value)
        own = ".copy()" if saved and self.writer.differentiated else ""  # its gradient needs the tensor as it was
        text = f"{name}{own} {symbol} {value_text}"
        if shift := SHIFTS.get(type(node.operator)):
            self.writer.needs.add("ops")
            text = f"ops.{shift}({name}, {value_text})"
        attribute = target if isinstance(target, cst.Attribute) and self.writer.differentiated else None
        cut = attribute is not None and without_graph(attribute, node.value, self.module)
        if cut or unrecorded(stmt, self.writer) and stopper(self.module.value(node.value), wanted=True):
            self.writer.needs.add("ops")
            text = f"{self.writer.alias('ops')}.stop_gradient({text})"
        if stashed and self.writer.plan.records and not views.through(target, stmt, self.writer.scope):
            return self.writer.translated(f"{name}.copy_({text})")
        return self.in_place.written(stmt, target, name, text)

    def given_by_callers(self, stmt: Stmt, node: cst.BaseExpression, *, tensors: bool = False) -> bool:
        """The tensor is the caller's own, who reads it again after the call; `tensors`: callers know it for one."""
        scope = self.writer.scope
        given = behind(node, stmt, scope)
        if given and scope.name in self.writer.project.written_as_values and not self.counts(stmt, node):
            return True
        if any(self.module.value(d).kind == "tensor" for g in given if (d := default(g.parameter, scope)) is not None):
            return True  # a default is made once: the next call has it as this one leaves it
        modules = [m for m in self.writer.project.modules.values() if scope.name in m.called or scope.name == "forward"]
        homes = [(h, m) for m in modules for h in m.scope.walk()] if given else []
        return any(one.read_again(scope, home, m, self.writer.project, tensors) for home, m in homes for one in given)

    def counts(self, stmt: Stmt, node: cst.BaseExpression) -> bool:
        """`total += len(x)` of what the function gives back beside other things: as far as is seen, a number.

        So is `state["step"] += 1` of what nobody sees: a dict has the new one where callers look for it.
        """
        value = self.module.value(node)
        if type(node) is cst.Subscript and isinstance(stmt.node, cst.AugAssign) and value.kind == "unknown":
            return isinstance(key(node), str) and type(constant(stmt.node.value)) is int
        if not isinstance(node, cst.Name) or value.kind == "tensor" and not value.likely:
            return False
        added = stmt.node.value if isinstance(stmt.node, cst.AugAssign) else None
        item = isinstance(added, cst.Call) and name_called(added) == "item"
        if added is None or not (item or self.module.value(added).kind == "int"):
            return False
        returned = (s.node.value for s in self.writer.scope.body.walk() if type(s.node) is cst.Return)
        several = (value for value in returned if type(value) is cst.Tuple)
        return any(dotted(e.value) == node.value for value in several for e in value.elements)

    def given_unseen(self, stmt: Stmt, name: str) -> bool:
        """The tensor may be that of a caller, and nothing here calls the function."""
        scope = self.writer.scope
        if self.writer.differentiated or not behind(cst.Name(name), stmt, scope):
            return False
        return not any(scope.name in module.called for module in self.writer.project.modules.values())

    def lost(self, target: cst.BaseExpression) -> None:
        """`z.real[0] = 1`, `z.imag += y`"""
        self.writer.plan.expressions.setdefault(id(target), code(target))
        self.writer.refuse("T2M610", f"write into {code(target)}", COPIED, "make the whole tensor anew")


def _of_others(module: ModuleInfo, value: Value) -> bool:
    """Torch is not there, and the file works with the arrays of another library, or nothing says what the value is."""
    origins = {origin.partition(".")[0] for origin in module.imports.table.values()}
    return "torch" not in origins and (bool(origins & OTHERS) or value.kind == "unknown")


def _counts(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """The name is a number: it says so itself, a layer has so many features, a loop so many turns, a part of a sequence
    ends there, it begins as 2, or a branch goes by how large it is."""
    if _MEASURE.search(name):
        return True
    for stmt in scope.body.walk():
        if name in stmt.defs and type(stmt.node) is cst.Assign and _is_size(stmt.node.value):
            return True
        if type(stmt.node) in (cst.If, cst.While) and any(name in _ordered(n) for n in stmt.nodes):
            return True
        if any(_measures(call, module) for call in stmt.calls if any(dotted(a.value) == name for a in call.args)):
            return True
        if name in stmt.uses and any(dotted(bound) == name for n in stmt.nodes for bound in _bounds(n)):
            return True
    return False


def _changed_by_call(place: str, name: str, stmt: Stmt) -> bool:
    """`total += net.update(x)`: the call changes what `net` has, and `total` began as something of its own."""
    parts = [part for call in stmt.calls for part in (call.func, *(a.value for a in call.args))]
    if root(place) not in {root(use) for part in parts for use in expression_uses(part, stmt)}:
        return False
    made = [s.node for s in stmt.block.scope.body.walk() if name in s.defs and type(s.node) is not cst.AugAssign]
    values = [node.value if isinstance(node, cst.Assign) else None for node in made]
    computed = (cst.BinaryOperation, cst.UnaryOperation, cst.Integer, cst.Float)
    return name not in stmt.block.scope.params and all(isinstance(value, computed) for value in values)


def _starts_as_number(name: str, scope: Scope) -> bool:
    """`start = 0` is all that the name is given otherwise: what is not seen to be a tensor goes on as a number."""
    given = [s.node for s in scope.body.walk() if name in s.defs and type(s.node) is not cst.AugAssign]
    numbers = [n for n in given if type(n) is cst.Assign and isinstance(constant(n.value), int | float)]
    return bool(given) and len(numbers) == len(given) and name not in scope.params


def _measures(call: cst.Call, module: ModuleInfo) -> bool:
    """A call of a layer, or of `range`."""
    func = module.value(call.func)
    made = func.name
    layer = func.kind != "module" and made.startswith("torch.nn.") and made.rpartition(".")[2][:1].isupper()
    return dotted(call.func) == "range" or layer and made not in ("torch.nn.Parameter", "torch.nn.ParameterList")


def _is_size(node: cst.BaseExpression) -> bool:
    """A whole number with which no sum and no product begins."""
    value = constant(node)
    return type(value) is int and value > 1


def _ordered(node: cst.CSTNode) -> list[str]:
    """What a comparison calls larger or smaller."""
    if type(node) is not cst.Comparison or not isinstance(node.comparisons[0].operator, _ORDER):
        return []
    return [dotted(part) for part in (node.left, *(c.comparator for c in node.comparisons))]


def _bounds(node: cst.CSTNode) -> list[cst.BaseExpression]:
    return [b for b in (node.lower, node.upper, node.step) if b is not None] if type(node) is cst.Slice else []
