"""Assignments: writes of weights and learning rates, new leaves, new modules."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, qualified
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.api.template import atomic
from torch2ms.findings import Tier
from torch2ms.rewrite import layout, named_settings, rates
from torch2ms.rewrite.gradmodes import stopper, unrecorded
from torch2ms.rewrite.inplace import apart, views
from torch2ms.rewrite.inplace.callers import behind, default, key
from torch2ms.rewrite.inplace.holders import holders, taken_as_tensor
from torch2ms.rewrite.inplace.kept import copied, held_elsewhere, repeated, without_graph
from torch2ms.rewrite.inplace.nested import widens
from torch2ms.rewrite.inplace.scattered import scattered
from torch2ms.rewrite.inplace.seen import into_view
from torch2ms.rewrite.inplace.sharing import collected, is_data, is_parameter
from torch2ms.rewrite.inplace.stores import COPIED, InPlace
from torch2ms.rewrite.layers.evaluated import EVALUATION, Hidden, kept_modes
from torch2ms.rewrite.layers.modes import in_module_class, starts_in_training
from torch2ms.rewrite.layers.owned import bound_beside
from torch2ms.rewrite.layers.rows import of_rows
from torch2ms.rewrite.parameters.leaves import Leaves
from torch2ms.rewrite.settings import steers
from torch2ms.rewrite.tensors.arrays import SHIFTS
from torch2ms.rewrite.tensors.attributes import COUNTED
from torch2ms.rewrite.tensors.subscripts import WHOLE, whole, without_surplus
from torch2ms.rewrite.writer import Writer

ASSIGNING = {cst.AddAssign: ("assign_add", "+"), cst.SubtractAssign: ("assign_sub", "-"), cst.MultiplyAssign: ("", "*"),
             cst.DivideAssign: ("", "/")}  # fmt: skip


NORMALISED = ("torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d")
NORMALISATION = {"momentum": "set_momentum", "eps": "set_eps"}  # setting -> function of `rules/definitions`
SURPLUS = "torch drops leading dimensions of size 1 of what is stored, MindSpore fails on them"
FLOATS = ("weight_decay", "dampening", "eps")  # settings of groups that MindSpore's optimizers take as floats only
OTHERS = {"jax", "tensorflow", "mxnet", "paddle", "cupy"}  # libraries whose arrays are not those of torch
SHARED = "assumed: what it gets the values of is not read after they changed: torch gives both one memory"
# kinds of what other objects keep in an attribute called data
OF_OTHERS = {"int", "float", "bool", "str", "none", "list", "dict", "tuple", "set", "numpy"}


class Assignments:
    """Plain and augmented assignments whose translation is more than that of their expressions."""

    def __init__(self, writer: Writer, in_place: InPlace) -> None:
        self.writer = writer
        self.module = writer.module
        self.in_place = in_place
        self.leaves = Leaves(writer)

    def assign(self, stmt: Stmt, node: cst.Assign) -> list[cst.BaseStatement] | None:
        if (beside := bound_beside(node, self.writer)) is not None:
            return beside
        if len(node.targets) != 1:
            return rates.and_named(node, self.writer) or self.stored_and_named(node)
        target = node.targets[0].target
        named = qualified(target, self.module.imports) if type(target) is cst.Attribute else ""
        if is_foreign(named) and "." in named and (steers(named, self.writer) or named.startswith("torch.backends.")):
            return []
        if (beside := apart.stored(stmt, target, node.value, self.writer)) is not None:
            return beside
        if (type(target) is cst.Attribute or type(target) is cst.Subscript) and views.copied(target, self.module):
            self.lost(target)
            return None
        if is_data(target, self.module):
            assert type(target) is cst.Attribute
            return self.data(stmt, target, node)
        if type(target) is cst.Attribute and (made := self.normalised(target, node.value)):
            return made
        if of_rows(target, self.module) and (weight := self.plain_parameter(node.value)) is not None:
            self.writer.needs.add("ms")
            return self.writer.text(f"{{0}} = ms.Parameter({self.in_rows(target, weight)}.copy())", target, weight)
        if type(target) is cst.Attribute and target.attr.value == "requires_grad":
            value = self.module.value(target.value)
            place = dotted(target.value)
            on = constant(node.value) is True and value.kind == "tensor"
            if on and (made := self.leaves.begun(stmt, target.value)):
                return made
            if (
                value.kind == "tensor"
                and value.name not in ("module_param", "parameter")
                and place
                and not self.leaves.trained(place)
            ):
                if not value.likely:
                    why = "gradient functions name what they differentiate: dropped"
                    self.writer.tell("T2M303", "requires_grad", why)
                    return []
                if constant(node.value) is True and place in self.writer.scope.locals:
                    why = (
                        "dropped, as gradient functions name what they differentiate; "
                        f"assumed: `{place}` is no parameter"
                    )
                    self.writer.tell("T2M303", "requires_grad", why, Tier.ASSUMED)
                    return []
            return None
        if rates.shown(target, node.value, self.module):
            self.writer.tell("T2M502", "_last_lr of a scheduler", "MindSpore's are the rates themselves: dropped")
            return []
        if type(target) is cst.Attribute and target.attr.value in COUNTED:
            if self.module.value(target.value).kind == "scheduler":
                name = target.attr.value
                self.writer.needs.add("ops")
                self.writer.tell("T2M502", f"{name} of a scheduler", "a Parameter: written with ops.assign")
                return self.writer.text(f"ops.assign({{0}}.{COUNTED[name]}, {{1}})", target.value, node.value)
        if type(target) is cst.Subscript:
            value = self.module.value(target)
            if value.name == "param_group_item" and key(target) == "lr":
                return rates.written(target, node.value, self.writer)
            if value.name == "param_group_item" and key(target) in FLOATS and type(node.value) is cst.Integer:
                return self.writer.text(f"{{0}} = {float(node.value.evaluated_value)}", target)
            if (made := named_settings.written(stmt, target, node.value, self.writer)) is not None:
                return made
            if held := without_surplus(target, node.value, self.module):
                self.writer.tell("T2M601", "tensor stored under an index", SURPLUS)
                return self.writer.text(f"{{0}} = {held}", target, node.value)
            if self.writer.differentiated and (made := into_view(stmt, target, node.value, self.writer)):
                return made
            if made := scattered(stmt, target, node.value, self.writer):
                return made
            if whole(target, node.value, self.module):
                why = f"[...] would give the tensor the memory of the other: [{WHOLE}] copies"
                self.writer.tell("T2M611", "whole tensor stored", why)
                return self.writer.text(f"{{0}}[{WHOLE}] = {{1}}", target.value, node.value)
            return None
        made = self.leaves.made(stmt, node, target)
        if made is not None:
            return made
        if type(node.value) is cst.Call and self.module.value(node.value.func).name.startswith("torch.nn.init."):
            lines = self.in_place.drawn(stmt, node.value)
            if lines is not None:
                given = self.in_place.spread(stmt, node.value).args
                filled = next(a.value for a in given if a.keyword is None or a.keyword.value == "tensor")
                return [*lines, *self.writer.text(f"{code(target)} = {{0}}", filled)]
        return self.constructed(stmt, node, target)

    def lost(self, target: cst.BaseExpression) -> None:
        """`z.real[0] = 1`, `z.imag += y`"""
        self.writer.plan.expressions.setdefault(id(target), code(target))
        self.writer.refuse("T2M610", f"write into {code(target)}", COPIED, "make the whole tensor anew")

    def normalised(self, target: cst.Attribute, given: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`bn.momentum = 0.03`, `bn.eps = 1e-3`: the operator of the layer has had the number since it was made."""
        written, layer = NORMALISATION.get(target.attr.value, ""), self.module.value(target.value)
        if not written or layer.kind != "module" or layer.name not in NORMALISED or constant(given) is None:
            return None
        self.writer.needs.add(written)
        why = "written into the operator as well; assumed: no function that uses the layer was compiled before"
        self.writer.tell("T2M505", f"{layer.name}.{target.attr.value}", why, Tier.ASSUMED)
        self.writer.plan.expressions.setdefault(id(target), code(target))
        return self.writer.text(f"{written}({{0}}, {{1}})", target.value, given)

    def stored_and_named(self, node: cst.Assign) -> list[cst.BaseStatement] | None:
        """`advantages[t] = last = value`, where what is stored has a dimension too many for its place."""
        named = [t.target for t in node.targets if isinstance(t.target, cst.Name)]
        places = [t.target for t in node.targets if isinstance(t.target, cst.Subscript)]
        if len(node.targets) != 2 or len(named) != 1 or len(places) != 1:
            return None
        (name,), (place,) = named, places
        if any(isinstance(n, cst.Name) and n.value == name.value for n in descend(place)):
            return None
        if not (held := without_surplus(place, name, self.module)):
            return None
        self.writer.tell("T2M601", "tensor stored under an index", SURPLUS)
        return [
            *self.writer.text("{0} = {1}", name, node.value),
            *self.writer.text(f"{{0}} = {held}", place, name),
        ]

    def in_rows(self, target: cst.BaseExpression, given: cst.BaseExpression) -> str:
        """A template of a weight in the shape that a layer has for it in MindSpore."""
        self.writer.tell("T2M601", f"write of {code(target)}", "MindSpore's weight has an axis more")
        return f"{'{1}' if atomic(given) else '({1})'}.reshape({{0}}.shape)"

    def plain_parameter(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What `nn.Parameter(weight)` is given, where that is all."""
        if not isinstance(node, cst.Call) or self.module.value(node.func).name != "torch.nn.Parameter":
            return None
        return node.args[0].value if len(node.args) == 1 and not node.args[0].star else None

    def data(self, stmt: Stmt, target: cst.Attribute, node: cst.Assign) -> list[cst.BaseStatement] | None:
        base = target.value
        value = self.module.value(base)
        if value.kind == "unknown" and self.module.value(node.value).kind in OF_OTHERS:
            return None
        if is_parameter(base, value, self.module, self.writer.plan) or value.kind == "unknown":
            if self.shares_weights(base, node.value):
                why = "the two share their memory in torch from then on, each with gradients of its own"
                todo = "tie the parameters themselves, or copy with copy_"
                self.writer.refuse("T2M611", "write of .data", why, todo)
                return None
            self.writer.needs.add("ops")
            tier = Tier.EXACT if value.kind != "unknown" else Tier.ASSUMED
            why = "ops.assign, which compiled code sees too"
            if _of_somebody(node.value, stmt, self.module):
                why, tier = f"{why}; {SHARED}", Tier.ASSUMED
            self.writer.tell("T2M611", "write of .data", why, tier)
            given = self.in_rows(base, node.value) if of_rows(base, self.module) else "{1}"
            return self.writer.text(f"ops.assign({{0}}, {given})", base, node.value)
        if isinstance(base, cst.Name):
            scope = self.writer.scope
            outer = scope.is_function and base.value not in scope.locals and base.value not in scope.params
            unseen = self.given_unseen(stmt, base.value)
            if outer or self.given_by_callers(stmt, base) or unseen and not _returned(base.value, scope):
                holds = "the scope around holds" if outer else "callers hold too"
                self.writer.tell("T2M611", "write of .data", f"written into the tensor, which {holds}")
                return self.writer.text("{0}.copy_({1})", base, node.value)
            why, tier = "the local tensor is bound again", Tier.EXACT
            if unseen:
                why, tier = f"{why}; assumed: callers go on with what the function returns", Tier.ASSUMED
            self.writer.tell("T2M611", "write of .data", why, tier)
            return self.writer.text("{0} = {1}", base, node.value)
        return None

    def shares_weights(self, base: cst.BaseExpression, given: cst.BaseExpression) -> bool:
        """`a.weight.data = b.weight.data`: the memory of another parameter."""
        shown = views.peeled(given)
        if not isinstance(shown, (cst.Name, cst.Attribute)) or code(shown) == code(base):
            return False
        value = self.module.value(shown)
        return value.name != "buffer" and is_parameter(shown, value, self.module, self.writer.plan)

    def augmented(self, stmt: Stmt, node: cst.AugAssign) -> list[cst.BaseStatement] | None:
        if (made := apart.changed(stmt, node, self.writer)) is not None:
            return made
        target: cst.CSTNode = node.target
        if (type(target) is cst.Attribute or type(target) is cst.Subscript) and views.copied(target, self.module):
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
        weight = is_parameter(target, value, self.module, self.writer.plan)
        if not weight and (reached := self.through(stmt, node, target, value)) is not None:
            return reached
        group = isinstance(target, cst.Subscript) and value.name == "param_group_item" and key(target) == "lr"
        if isinstance(target, cst.Subscript) and value.name == "param_group_item" and not group:
            operator = code(node.operator).strip()
            return named_settings.written(stmt, target, node.value, self.writer, operator)
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
        unsure = value.kind == "unknown" or value.kind == "tensor" and value.likely
        if unsure and (_counts(name, self.writer.scope, self.module) or _of_others(self.module, value)):
            return None
        shown = value.kind == "unknown" and taken_as_tensor(name, self.writer.scope, self.module)
        if unsure and self.given_by_callers(stmt, target, tensors=not shown):
            return self.written_into(stmt, target, node)
        others = stmt.muts - {name}  # other names of the same memory
        if value.kind != "tensor" and not shown and not (value.kind == "unknown" and value.deps and others):
            return None
        others |= holders(name, stmt, self.module, self.writer.project)
        if value.likely and not value.deps and not others:
            return None
        for other in self.writer.scope.body.walk():
            if name in other.defs and other.number < stmt.number:
                others |= views.sources(name, other, self.module)
            elif other.number < stmt.number:
                others |= {d for d in other.defs if name in views.sources(d, other, self.module)}
            if type(other.node) is cst.Assign and type(other.node.value) is cst.Name:
                held = self.module.value(other.node.value)
                pair = {other.node.value.value, *(dotted(t.target) for t in other.node.targets)}
                sure = held.kind == "tensor" and (not held.likely or bool(held.deps))
                if name in pair and other.number < stmt.number and sure:
                    others |= pair - {name}
        if not (self.writer.differentiated and value.deps):
            others |= collected(name, stmt)
        later = [s for s in self.writer.scope.body.walk() if s.number > stmt.number]
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        seen = others & {name for s in (*later, *loops) for use in s.uses for name in (use, root(use))}
        seen |= {place for place in others if "." in place}  # other methods read it
        if not seen and not self.given_by_callers(stmt, target):
            return None
        return self.written_into(stmt, target, node)

    def of_container(
        self, stmt: Stmt, node: cst.AugAssign, target: cst.Subscript, value: Value
    ) -> list[cst.BaseStatement] | None:
        """`kept["h"] += 1`: the tensor in the container has another name, which shows the change."""
        held = self.module.value(target.value).kind in ("list", "tuple", "dict") and value.kind == "tensor"
        others = {place for place in stmt.muts - {dotted(target.value)} if "." not in place}
        later = [s for s in self.writer.scope.body.walk() if s.number > stmt.number]
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        seen: object = held and others & {use for s in (*later, *loops) for use in s.uses}
        again = held and copied(target, self.writer.scope) or repeated(target, self.writer.scope, self.module)
        if not seen and not again and (
            value.kind not in ("tensor", "unknown") or not self.given_by_callers(stmt, target, tensors=True)
        ):
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
        self, stmt: Stmt, target: cst.Name | cst.Attribute, node: cst.AugAssign
    ) -> list[cst.BaseStatement] | None:
        self.writer.tell("T2M611", "in-place change", "written into the tensor, which another name holds too")
        name, symbol = dotted(target), code(node.operator).strip().removesuffix("=")
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
        return self.in_place.written(stmt, target, name, text)

    def given_by_callers(self, stmt: Stmt, node: cst.BaseExpression, *, tensors: bool = False) -> bool:
        """The tensor is the caller's own, who reads it again after the call; `tensors`: callers know it for one."""
        scope = self.writer.scope
        given = behind(node, stmt, scope)
        if given and scope.name in self.writer.project.written_as_values:
            return True
        if any(self.module.value(d).kind == "tensor" for g in given if (d := default(g.parameter, scope)) is not None):
            return True  # a default is made once: the next call has it as this one leaves it
        homes = [(h, m) for m in self.writer.project.modules.values() for h in m.scope.walk()] if given else []
        return any(one.read_again(scope, home, m, self.writer.project, tensors) for home, m in homes for one in given)

    def given_unseen(self, stmt: Stmt, name: str) -> bool:
        """The tensor may be that of a caller, and nothing here calls the function."""
        scope = self.writer.scope
        if self.writer.differentiated or not behind(cst.Name(name), stmt, scope):
            return False
        stmts = (s for m in self.writer.project.modules.values() for h in m.scope.walk() for s in h.body.walk())
        return not any(dotted(c.func).rpartition(".")[2] == scope.name for s in stmts for c in s.calls)

    def constructed(self, stmt: Stmt, node: cst.Assign, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """Modules of torch start in training mode, cells do not."""
        if self.writer.scope.node.__class__ is cst.ClassDef:
            return None
        if in_module_class(self.writer.scope, self.module) and not self.writer.differentiated:
            return None  # the network that it becomes a part of sets its mode; not if that runs already
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, node.value)]
        if (
            type(target) is cst.Tuple
            and type(node.value) is cst.Tuple
            and len(target.elements) == len(node.value.elements)
        ):
            pairs = [(t.value, v.value) for t, v in zip(target.elements, node.value.elements, strict=False)]
        project = self.writer.project
        begun = {dotted(p): made for p, made in pairs if dotted(p) and starts_in_training(made, self.module, project)}
        if not begun:
            return None
        above: list[cst.BaseStatement] = []
        below: list[cst.BaseStatement] = []
        for name, made in begun.items():
            self.writer.tell("T2M306", "new module", "torch modules start in training mode, cells do not: set_train()")
            below += self.writer.text(f"{name}.set_train()")
            for part, mode in self.kept_modes(name, made, stmt).items():
                flag = "False" if mode == EVALUATION else self.unused(f"{part.replace('.', '_')}_training")
                if mode != EVALUATION:
                    above += self.writer.text(f"{flag} = {part}.training")
                below += self.writer.text(f"{part}.set_train({flag})")
        lines = [*above, layout.line(stmt, self.writer.expression(node)), *below]
        stmt.trailing = None
        return lines

    def unused(self, name: str) -> str:
        """A name that nothing in the module has."""
        while name in self.module.bound:
            name += "_"
        return name

    def kept_modes(self, name: str, made: cst.BaseExpression, stmt: Stmt) -> dict[str, str]:
        """Parts of a new module that are not in training mode."""
        try:
            return kept_modes(name, made, stmt, self.module, self.writer.project)
        except Hidden:
            why = "its constructor, or that of a part, leaves something in evaluation mode that cannot be named here"
            self.writer.refuse("T2M306", "new module", why, "call set_train(False) of these parts behind set_train()")
            return {}


def _of_others(module: ModuleInfo, value: Value) -> bool:
    """Torch is not there, and the file works with the arrays of another library, or nothing says what the value is."""
    origins = {origin.partition(".")[0] for origin in module.imports.table.values()}
    return "torch" not in origins and (bool(origins & OTHERS) or value.kind == "unknown")


def _of_somebody(value: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """The value is a tensor that somebody keeps: an attribute, what a loop takes, an item that is not stored anew."""
    while type(value) is cst.Attribute and value.attr.value == "data" or _detached(value):
        value = value.value if type(value) is cst.Attribute else value.func.value  # type: ignore[attr-defined]
    if type(value) is cst.Name:
        return any(a.is_loop and value.value in a.defs for a in stmt.ancestors())
    if type(value) is not cst.Subscript:
        return type(value) is cst.Attribute
    kept = _container(value)
    stored = (t.target for node in module.of_kind(cst.Assign) for t in node.targets)
    return all(type(target) is not cst.Subscript or _container(target) != kept for target in stored)


def _container(node: cst.BaseExpression) -> str:
    while type(node) is cst.Subscript:
        node = node.value
    return dotted(node)


def _detached(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "detach"


def _returned(name: str, scope: Scope) -> bool:
    """The function gives the tensor back."""
    given = (s.node.value for s in scope.body.walk() if isinstance(s.node, cst.Return) and s.node.value is not None)
    return any(isinstance(n, cst.Name) and n.value == name for node in given for n in descend(node))


def _counts(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """The name is a number: a layer has so many features, a loop so many turns, or a part of a sequence ends there."""
    for stmt in scope.body.walk():
        if any(_measures(call, module) for call in stmt.calls if any(dotted(a.value) == name for a in call.args)):
            return True
        if name in stmt.uses and any(dotted(bound) == name for n in stmt.nodes for bound in _bounds(n)):
            return True
    return False


def _measures(call: cst.Call, module: ModuleInfo) -> bool:
    """A call of a layer, or of `range`."""
    func = module.value(call.func)
    made = func.name
    layer = func.kind != "module" and made.startswith("torch.nn.") and made.rpartition(".")[2][:1].isupper()
    return dotted(call.func) == "range" or layer and made not in ("torch.nn.Parameter", "torch.nn.ParameterList")


def _bounds(node: cst.CSTNode) -> list[cst.BaseExpression]:
    return [b for b in (node.lower, node.upper, node.step) if b is not None] if type(node) is cst.Slice else []
