"""Changes in place: MindSpore's methods and functions change nothing on CPU, so the result is stored."""

from __future__ import annotations

from typing import cast

import libcst as cst

from torch2ms.analysis.chains import TYPED, base, is_change, of_dict
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import fresh, is_data, is_gradient, kept, makes, shares_whole
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.api import Rules
from torch2ms.api.stars import in_place, written_out
from torch2ms.editing import layout
from torch2ms.rewrite.gradmodes import unrecorded
from torch2ms.rewrite.initial import put_in, viewed
from torch2ms.rewrite.inplace import apart, seen, views
from torch2ms.rewrite.inplace.callers import give_weights, out_of_weights
from torch2ms.rewrite.inplace.holders import given_by_keepers, handed_over, shown_by_property
from torch2ms.rewrite.inplace.widening import widens
from torch2ms.rewrite.layers.rows import of_rows
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.tensors.picked import picks
from torch2ms.rewrite.tensors.subscripts import WHOLE
from torch2ms.rewrite.writer import Writer

CAST = {"float", "double", "half", "type", "to", "detach", "contiguous"}  # the same memory where it is such already
TURNING = {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_"}
RESHAPING = {*TURNING, "resize_", "resize_as_", "set_", "as_strided_"}

COPIED = "it shows a part of another tensor, which MindSpore copies"

# what needs not what was there
UNSAVED = {"add_", "sub_", "neg_", "zero_", "fill_", "copy_", "relu_", "exp_", "sigmoid_", "tanh_", "sqrt_", "t_",
           "masked_fill_", "detach_", "unsqueeze_", "squeeze_", "transpose_"}  # fmt: skip


class InPlace:
    """Statements that change a tensor without an assignment."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = writer.module
        self.rules = writer.rules

    def in_place(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`x.add_(y).mul_(z)`: MindSpore's in-place methods do nothing on CPU, so the result is assigned."""
        chain: list[cst.Call] = []
        methods: list[str] = []
        node: cst.BaseExpression = call
        while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value.endswith("_"):
            chain.append(node)
            methods.append(node.func.attr.value)
            node = node.func.value
        target = apart.peeled(node, self.writer)
        value = self.module.value(target)
        if views.copied(target, self.module):
            self.writer.refuse("T2M610", f"Tensor.{methods[0]}", COPIED, "make the whole tensor anew")
            return None
        viewed = views.turned(target, self.module)
        turned = viewed is not None and self.reached(viewed)
        if viewed is not None and not turned and (lines := self.reshaped(stmt, target, viewed, chain)):
            return lines
        plain = isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)) and viewed is None
        if not (turned or plain) or isinstance(target, cst.Subscript) and not _plain_index(target, stmt, self.module):
            why = "an in-place change of a temporary"
            self.writer.refuse("T2M610", f"Tensor.{methods[0]}", why, "assign the result")
            return None
        weight = is_parameter(target, value, self.module, self.writer.plan)
        if len(chain) == 1 and methods[0] in ("uniform_", "normal_") and weight:
            return self.initialised(chain[0], target)
        planned = self.writer.plan.expressions.get(id(node)) or self.writer.plan.expressions.get(id(target))
        if planned is None and is_gradient(target) and id(target) not in self.writer.plan.about:
            return None  # gradient code that is refused, or that waits for the second step, stands as it stood
        place = planned or code(self.writer.expression(target))
        held = apart.tensor(node, stmt, self.writer)
        alone = held is None and self.alone(stmt, target)
        plain = held is not None or alone or weight or unrecorded(stmt, self.writer) or not self.saves(chain[-1])
        own = "" if plain else ".copy()"
        result = self.computed(chain, value, place, own)
        if result is None:
            return None
        if turned and not RESHAPING & set(methods):
            self.writer.tell("T2M611", "in-place tensor method", "written through the view")
            return self.writer.translated(f"{place}[{WHOLE}] = {code(result)}")
        if not alone and set(methods) <= TURNING and isinstance(target, cst.Name):
            alone = not self.held_twice(stmt, target.value)  # a view of the memory that everybody goes on to show
            given = not alone and target.value in self.writer.scope.params
            alone = alone or given and handed_over(target.value, self.writer.scope, self.module, self.writer.project)
        if not alone and RESHAPING & set(methods):
            self.writer.refuse("T2M610", f"Tensor.{methods[0]}", "other names hold the tensor, and its shape changes",
                        "assign the result to each of them")  # fmt: skip
            return None
        if isinstance(target, cst.Subscript) and (
            lines := apart.part(target, code(result), stmt, self.writer, cut=target is not node)
        ):
            return lines
        if held is not None:
            return apart.whole(held, code(result), stmt, self.writer)
        copied = methods[0] == "copy_"
        through_data = isinstance(node, cst.Attribute) and node.attr.value == "data" and self.writer.differentiated
        if not (alone or weight or "detach_" in methods) and (through_data or unrecorded(stmt, self.writer)):
            self.writer.needs.add("ops")  # MindSpore records what copy_ writes, into buffers too
            result = cst.parse_expression(f"{self.writer.alias('ops')}.stop_gradient({code(result)})")
        lines = self.store(stmt, target, value, place, result, alone and not copied, copied)
        if lines is not None:
            why = "the result is assigned: in-place methods do nothing on CPU"
            self.writer.tell("T2M611", "in-place tensor method", why)
        return lines

    def computed(self, chain: list[cst.Call], value: Value, place: str, own: str) -> cst.BaseExpression | None:
        """What the methods of a chain come to, of `place` and `own` behind it; None where one has no counterpart."""
        result: cst.BaseExpression = cst.parse_expression(place + own)
        for link in reversed(chain):
            assert isinstance(link.func, cst.Attribute)
            method = link.func.attr.value
            made = self.functional(link, method, result, place)
            if made is None:
                return None
            standing = layout.standing(made)
            assert isinstance(standing, cst.BaseExpression)
            result = standing
            if method in TYPED or widens(link, value, self.module):
                result = cst.parse_expression(f"{code(parenthesised(result))}.astype({place}.dtype)")
        return cast(cst.BaseExpression, layout.bare(None, result))

    def reshaped(
        self, stmt: Stmt, target: cst.BaseExpression, whole: cst.BaseExpression, chain: list[cst.Call]
    ) -> list[cst.BaseStatement] | None:
        """`m.view(-1).index_add_(0, i, x)` where nobody else sees `m`: it is what came of it, in its own shape."""
        if not isinstance(whole, cst.Name) or not views.of_all(target) or not self.alone(stmt, whole):
            return None
        result = cast(cst.BaseExpression, self.writer.expression(target))
        for link in reversed(chain):
            assert isinstance(link.func, cst.Attribute)
            name = link.func.attr.value
            if name in RESHAPING | TYPED or widens(link, self.module.value(target), self.module):
                return None
            made = self.functional(link, name, result, code(result))
            if made is None:
                return None
            result = cast(cst.BaseExpression, layout.standing(made))
        name = code(self.writer.expression(whole))
        self.writer.tell("T2M611", "in-place tensor method", "the result is assigned, in the shape of the whole tensor")
        return self.writer.translated(f"{name} = {code(parenthesised(result))}.reshape({name}.shape)")

    def reached(self, viewed: cst.BaseExpression) -> bool:
        """Whether `[()]` of a view writes into the tensor; one of a Parameter makes later assignments fail."""
        value = self.module.value(viewed)
        weight = value.leaf or is_parameter(viewed, value, self.module, self.writer.plan)
        return isinstance(viewed, cst.Name) and not self.writer.differentiated and not weight

    def saves(self, call: cst.Call) -> bool:
        """The gradient of the method needs the tensor as it was: MindSpore refuses what was changed since."""
        if not self.writer.differentiated or not isinstance(call.func, cst.Attribute):
            return False
        name = call.func.attr.value
        scaled = name in ("mul_", "div_") and len(call.args) == 1 and self.number(call.args[0].value)
        return name not in UNSAVED and not scaled

    def number(self, node: cst.BaseExpression) -> bool:
        return constant(node) is not ... or self.module.value(node).kind in ("int", "float")

    def of_gradient(self, stmt: Stmt, node: cst.CSTNode) -> list[cst.BaseStatement] | None:
        """`p.grad.data.clamp_(a, b)` in the second of two steps, which finds everything else translated."""
        if type(node) is not cst.Expr or type(node.value) is not cst.Call or not is_change(node.value):
            return None
        return self.in_place(stmt, node.value) if is_gradient(base(node.value)) else None

    def changed(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`F.relu(x, inplace=True)` as a statement: the tensor gets the result."""
        given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "input"]
        target = given[0] if given else None
        part = isinstance(target, cst.Subscript) and _plain_index(target, stmt, self.module)
        if target is None or not (part or isinstance(target, (cst.Name, cst.Attribute))):
            return None
        place, alone = code(self.writer.expression(target)), self.alone(stmt, target)
        name = name_called(call).removesuffix("_") + "_"
        if not alone and self.writer.differentiated and name not in UNSAVED and not unrecorded(stmt, self.writer):
            self.writer.plan.expressions[id(target)] = f"{place}.copy()"
        made = self.writer.expression(call)
        if code(made) == code(call):  # refused
            return None
        assert isinstance(made, cst.BaseExpression)
        self.writer.tell("T2M611", "in-place function", "the result is assigned: MindSpore's functions change nothing")
        return self.store(stmt, target, self.module.value(target), place, made, alone)

    def drawn(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`init.normal_(w)` of a tensor that is no parameter, `init.normal_(w[i])`: it is bound to what was drawn."""
        call = self.spread(stmt, call)
        given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "tensor"]
        target = given[0] if given else None
        target = target.func.value if target is not None and viewed(target) else target  # type: ignore[attr-defined]
        whole = apart.peeled(target, self.writer) if target is not None else None
        row = isinstance(whole, cst.Subscript) and (self.of_parameter(whole) or self.of_tensor(whole))
        target = whole if row else target  # MindSpore's `w[i].data` has memory of its own
        if target is None or not (row or isinstance(target, (cst.Name, cst.Attribute)) or of_dict(target, self.module)):
            return None
        value = self.module.value(target)
        if value.kind != "tensor" or value.likely or is_parameter(target, value, self.module, self.writer.plan):
            return None
        self.writer.plan.drawn.add(id(call))
        made, place = self.writer.expression(call), code(self.writer.expression(target))
        if (content := put_in(made)) is None:
            return None
        alone = self.alone(stmt, target)
        self.writer.tell("T2M611", "initialised tensor", "it is no parameter: the new values are assigned")
        held = target.value if is_data(target, self.module) else None  # type: ignore[union-attr]
        if isinstance(held, cst.Name) and self.of_network(held):  # an index would make a view of it
            return self.store(stmt, held, self.module.value(held), place, content, alone)
        return self.store(stmt, target, value, place, content, alone)

    def spread(self, stmt: Stmt, call: cst.Call) -> cst.Call:
        """The call with what it spreads as arguments of their own."""
        rule = self.rules.find(self.module.value(call.func).name)
        return written_out(call, call, rule, self.module, stmt)[0] if rule is not None else call

    def initialised(self, call: cst.Call, target: cst.CSTNode) -> list[cst.BaseStatement] | None:
        """`w.data.uniform_(a, b)` is `init.uniform_(w, a, b)`."""
        assert isinstance(call.func, cst.Attribute)
        rule = self.rules.find(f"torch.nn.init.{call.func.attr.value}")
        if rule is None or any(a.keyword is not None and a.keyword.value not in ("mean", "std") for a in call.args):
            return None
        work = self.writer.translation()
        args = [cst.Arg(target), *call.args]  # type: ignore[arg-type]
        asked = call.with_changes(args=args)
        updated = asked.with_changes(args=[a.with_changes(value=self.writer.expression(a.value)) for a in args])
        made = work.take(work.apply(rule, asked, updated), updated)
        self.writer.absorb(work.notes)
        return [cst.SimpleStatementLine([cst.Expr(made)])]

    def functional(
        self, call: cst.Call, name: str, receiver: cst.BaseExpression, place: str
    ) -> cst.BaseExpression | None:
        """The value `receiver` has after the in-place call."""
        writer = self.writer
        rules = [
            r for r in map(self.rules.find, (f"torch.Tensor.{name}", f"torch.Tensor.{name[:-1]}")) if r is not None
        ]
        if rules and any(arg.star for arg in call.args):
            call = written_out(call, call, rules[0], self.module, writer.stmt)[0]
        if any(arg.star for arg in call.args):
            why = "what it is given is not seen"
            writer.refuse("T2M610", f"Tensor.{name}", why, "name the arguments")
            return None
        args = [writer.expression(a.value) for a in call.args]
        if name == "zero_":
            writer.needs.add("ops")
            return cst.parse_expression(f"{writer.alias('ops')}.zeros_like({place})")
        if name == "fill_" and len(args) == 1:
            writer.needs.add("ops")
            return cst.parse_expression(f"{writer.alias('ops')}.full_like({place}, {code(args[0])})")
        if name == "copy_" and args:
            return args[0]  # type: ignore[return-value]
        work = writer.translation()
        updated = call.with_changes(
            func=cst.Attribute(receiver, cst.Name(name[:-1])),
            args=[a.with_changes(value=v) for a, v in zip(call.args, args, strict=False)],
        )
        if rules:
            if rules[0].name.endswith("_"):
                updated = updated.with_changes(func=cst.Attribute(receiver, cst.Name(name)))
            outcome = work.filled(rules[0], call, updated)
            work.take(outcome, updated)
            writer.absorb(work.notes)
            return outcome.node
        self.writer.refuse(
            "T2M610", f"Tensor.{name}", "no rule for this in-place method", "assign the result of the functional form"
        )
        return None

    def alone(self, stmt: Stmt, target: cst.CSTNode) -> bool:
        """Nobody else sees the tensor that the statement changes: its name can be bound again."""
        if isinstance(target, cst.Name) and target.value in self.writer.captured:
            return False
        if is_gradient(target) and (id(target) in self.writer.plan.expressions or id(target) in self.writer.plan.about):
            return not kept(stmt, self.writer.scope)
        loop = any(owner.is_loop for owner in stmt.ancestors())
        own = fresh(target, self.writer.scope, but=None if loop else stmt)
        named = target.value if own and isinstance(target, cst.Name) else ""
        return own and not (named and given_by_keepers(named, stmt, self.module, self.writer.project))

    def held_twice(self, stmt: Stmt, name: str) -> bool:
        """Somebody else has the very tensor by now, no view of it: `y = x`, `seen.append(x)`, a caller."""
        loop, stmts = any(owner.is_loop for owner in stmt.ancestors()), self.writer.scope.body.walk()
        return self.from_outside(name) or any(shares_whole(s, name) for s in stmts if loop or s.number < stmt.number)

    def held_by_others(self, stmt: Stmt, name: str) -> bool:
        """The name stands for a tensor that has another name, or a place in a container, already."""
        stmts = self.writer.scope.body.walk()
        again = {id(s) for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()}
        taken = (shares_whole(s, name) for s in stmts if s.number < stmt.number or id(s) in again)
        return self.from_outside(name) or any(taken) or not all(makes(s, name) for s in stmts if name in s.defs)

    def from_outside(self, name: str) -> bool:
        """The name is not, or not only, the function's own."""
        scope = self.writer.scope
        return name in self.writer.captured or name in scope.params or name not in scope.locals

    def store(
        self,
        stmt: Stmt,
        target: cst.CSTNode,
        value: Value,
        place: str,
        result: cst.BaseExpression,
        alone: bool,
        copied: bool = False,
    ) -> list[cst.BaseStatement] | None:
        """Write a new value where others may see it: parameters are assigned, local tensors are bound again.

        A `copied` value has a memory of its own, which must not become that of the place.
        """
        text = code(result)
        if is_parameter(target, value, self.module, self.writer.plan):
            self.writer.needs.add("ops")
            if copied and (spread(stmt, self.module) or lower(stmt, target, self.module)):
                text = f"{code(parenthesised(result))}.broadcast_to({place}.shape)"
            elif copied and of_rows(target, self.module):
                text = f"{code(parenthesised(result))}.reshape({place}.shape)"
            return self.writer.translated(f"{self.writer.alias('ops')}.assign({place}, {text})")
        if alone or isinstance(target, cst.Subscript) and self.of_parameter(target):
            return self.writer.translated(f"{place} = {text}")
        return self.written(stmt, target, place, text)

    def written(self, stmt: Stmt, target: cst.CSTNode, place: str, text: str) -> list[cst.BaseStatement] | None:
        """Write into the memory that every alias, and the caller, shows."""
        if self.writer.differentiated and isinstance(target, cst.Subscript):
            before = len(self.writer.marked)
            lines = seen.into(stmt, target, lambda: text, self.writer)
            if lines is not None or len(self.writer.marked) > before:
                return lines
        if isinstance(target, cst.Name) and not self.writer.differentiated and self.of_weight(target.value):
            self.writer.needs.add("ops")
            return self.writer.translated(f"{self.writer.alias('ops')}.assign({place}, {text})")
        shown = views.memory(target, stmt, self.writer.scope, self.module)
        shown = shown_by_property(target, self.module, self.writer.project) or shown
        if shown == views.VIEW and not self.writer.differentiated:
            return self.writer.translated(f"{place}[{WHOLE}] = {text}")
        if shown in (views.LOST, views.VIEW):
            self.writer.refuse("T2M610", "in-place tensor method", COPIED, "write into the other tensor by index")
            return None
        if shown == views.WHOLE or isinstance(target, cst.Subscript) and self.contained(target):
            if self.writer.differentiated and not text.startswith(f"{self.writer.alias('ops')}.stop_gradient("):
                return self.recorded(stmt, target, place, text)
            value = self.module.value(target)
            unindexed = isinstance(target, cst.Name) and (value.dtype == "bfloat16" or value.odd == "empty")
            if apart.of_callers(target, self.writer):
                return None
            return self.writer.translated(f"{place}.copy_({text})" if unindexed else self.whole(place, text))
        if isinstance(target, cst.Subscript) and place.startswith("strided("):
            place = code(target.with_changes(value=self.writer.expression(target.value)))  # read in another form
        known = isinstance(target, cst.Subscript) and self.module.value(target.value).kind in views.TENSORS
        return self.writer.translated(f"{place} = {text}" if known else f"{place}[{WHOLE}] = {text}")

    def whole(self, place: str, text: str) -> str:
        """All of a tensor is written. `copy_` reaches nothing through a slice and raises for one that stands at the
        start of its memory; an index reaches no view where gradients are recorded (nor does `copy_` before 2.9), and
        makes a view of a Parameter, which an attribute may be: `ops.assign` then raises."""
        recorded = self.writer.differentiated or "." in place
        return f"{place}.copy_({text})" if recorded and self.writer.plan.records else f"{place}[()] = {text}"

    def recorded(self, stmt: Stmt, target: cst.CSTNode, place: str, text: str) -> list[cst.BaseStatement] | None:
        """Written where gradients are recorded: MindSpore's gradient of `copy_` is wrong for views, and writes by
        index into what shows another tensor do not reach that tensor."""
        shown = views.through(target, stmt, self.writer.scope)
        made = stmt.out.get(target.value, UNKNOWN) if isinstance(target, cst.Name) else UNKNOWN
        outer = code(target) in self.writer.captured and made.kind == "tensor" and not made.deps
        if not shown and (outer or isinstance(target, cst.Attribute) and self.graphless(stmt, target)):
            self.writer.needs.add("ops")  # what is around the function gets no graph
            stopped = f"{self.writer.alias('ops')}.stop_gradient({text})"
            return self.writer.translated(self.whole(place, stopped))
        if not shown and seen.by_others(stmt, target, self.writer):
            self.writer.refuse("T2M610", "in-place tensor method", seen.STALE, "take the view again after the change")
            return None
        if not shown:
            return self.writer.translated(f"{place}[{WHOLE}] = {text}")
        constant_change = all(self.number(a.value) for call in stmt.calls for a in call.args)
        if shown & views.CUT or constant_change and seen.of_buffer(target, self.writer):
            self.writer.needs.add("ops")
            stopped = f"{self.writer.alias('ops')}.stop_gradient({text})"
            return self.writer.translated(self.whole(place, stopped))
        return seen.whole(stmt, target, text, self.writer)

    def graphless(self, stmt: Stmt, target: cst.Attribute) -> bool:
        """What an object keeps and what comes into it have no graph, like the noise of a layer."""
        given = [self.module.value(a.value) for call in stmt.calls for a in call.args]
        known = all(v.kind in ("tensor", "int", "float") and not v.deps and not v.likely for v in given)
        return bool(given) and known and not self.module.value(target).deps

    def contained(self, target: cst.Subscript) -> bool:
        """An entry of a container, which is a tensor of its own."""
        return self.module.value(target.value).kind in ("list", "tuple", "dict", "params")

    def of_weight(self, name: str) -> bool:
        """`w = p.data.float()`, or a Parameter of callers: after a write by index MindSpore assigns nothing to it."""
        scope, plan = self.writer.scope, self.writer.plan
        if give_weights(name, scope, self.writer.project, plan) or out_of_weights(name, scope, self.module, plan):
            return True
        made = [s.node for s in self.writer.scope.body.walk() if name in s.defs and s.is_small]
        for node in made:
            shown = node.value if isinstance(node, cst.Assign) else None
            while isinstance(shown, cst.Call) and name_called(shown) in CAST and isinstance(shown.func, cst.Attribute):
                shown = shown.func.value
            while shown is not None and is_data(shown, self.module):
                shown = shown.value  # type: ignore[attr-defined]
            if shown is not None and shown is not node.value and self.of_network(shown):  # type: ignore[union-attr]
                return True
        return False

    def of_network(self, node: cst.BaseExpression) -> bool:
        """What `parameters()` gave, of a network that may not be seen."""
        return is_parameter(node, self.module.value(node), self.module, self.writer.plan)

    def of_tensor(self, target: cst.Subscript) -> bool:
        """A row or a slice of a tensor with a name, by numbers and slices: MindSpore's would be a copy."""
        plain = all(self.module.value(e.slice.value).kind == "int" for e in target.slice if type(e.slice) is cst.Index)
        held = self.module.value(target.value)
        return plain and isinstance(target.value, cst.Name) and held.kind == "tensor" and not held.likely

    def of_parameter(self, target: cst.Subscript) -> bool:
        """A row or a slice of a parameter, which gives copies in MindSpore; written by index it changes."""
        base: cst.BaseExpression = target.value
        while isinstance(base, cst.Attribute) and is_data(base, self.module):
            base = base.value
        indices = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
        if any(self.module.value(i).kind in ("tensor", "list", "numpy") for i in indices):
            return False  # torch changes a copy as well
        return self.of_network(base)


def spread(stmt: Stmt, module: ModuleInfo) -> bool:
    """`w.copy_(x)` with a number, or with a dimension of one element: torch repeats what it copies."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    if isinstance(given, cst.Subscript):
        parts = [e.slice.value for e in given.slice if isinstance(e.slice, cst.Index)]
        return module.value(given).kind == "tensor" and any(constant(part) is None for part in parts)
    value = module.value(given) if given is not None else UNKNOWN
    if value.kind == "tensor" and value.rank == 0 and not value.likely or given is not None and _one(given, module):
        return True
    shaped = isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute)
    if not shaped or value.kind != "tensor" or given.func.attr.value not in ("view", "reshape", "unsqueeze"):  # type: ignore[union-attr]
        return False
    return given.func.attr.value == "unsqueeze" or any(constant(a.value) == 1 for a in given.args)  # type: ignore[union-attr]


def _one(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`2 * x.abs().mean() / root`: one number, of whatever tensor."""
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        others = [side for side in sides if not _one(side, module)]
        return len(others) < 2 and all(module.value(side).kind in ("int", "float") for side in others)
    called = node.func if isinstance(node, cst.Call) and not node.args else None
    return isinstance(called, cst.Attribute) and called.attr.value in ("mean", "sum", "std", "norm")


def lower(stmt: Stmt, target: cst.CSTNode, module: ModuleInfo) -> bool:
    """`fc.weight.copy_(row)`: a vector for a matrix, whose rows all get it."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    given = module.value(call.args[0].value) if isinstance(call, cst.Call) and call.args else UNKNOWN
    if given.kind != "tensor" or given.likely or given.rank != 1 or not isinstance(target, cst.Attribute):
        return False
    layer = module.value(target.value).name
    return target.attr.value == "weight" and layer.startswith(("torch.nn.Linear", "torch.nn.Embed", "torch.nn.Conv"))


def changes(name: str, call: cst.Call) -> bool:
    """Whether a call of torch.nn.functional changes its input."""
    if name.endswith("_"):
        return True
    flags = [arg for arg in call.args if constant(arg.value) is True]
    if any(arg.keyword is not None and arg.keyword.value == "inplace" for arg in flags):
        return True
    rule = Rules.load().find(name) if any(arg.keyword is None for arg in flags) else None
    return rule is not None and in_place(rule, call, call)  # `F.leaky_relu(x, 0.2, True)`


def _plain_index(node: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> bool:
    """Integer and slice subscripts: writing through them reaches the tensor."""
    if module.value(node.value).kind in views.TENSORS and picks(node, stmt, module):
        return False
    for element in node.slice:
        part = element.slice
        if not isinstance(part, cst.Index) or module.value(part.value).kind == "int":
            continue
        plain = (cst.Integer, cst.SimpleString, cst.Name, cst.Attribute, cst.UnaryOperation, cst.Ellipsis)
        if not isinstance(part.value, plain):
            return False
    return True
