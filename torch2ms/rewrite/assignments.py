"""Assignments: writes of weights and learning rates, new leaves, new modules."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.layer_modes import in_module_class, starts_in_training
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import is_data
from torch2ms.analysis.syntax.assigned import side_by_side
from torch2ms.analysis.syntax.names import dotted, is_foreign, qualified
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNKNOWN
from torch2ms.editing import layout
from torch2ms.findings import Tier
from torch2ms.rewrite import group_writes, rates
from torch2ms.rewrite.augmented import Augmented
from torch2ms.rewrite.inplace import apart, views
from torch2ms.rewrite.inplace.callers import key
from torch2ms.rewrite.inplace.held_views import kept_view
from torch2ms.rewrite.inplace.scattered import scattered
from torch2ms.rewrite.inplace.seen import into_view
from torch2ms.rewrite.inplace.swapped import changed_while_shared
from torch2ms.rewrite.iterators import asked_again
from torch2ms.rewrite.layers.evaluated import EVALUATION, Hidden, kept_modes
from torch2ms.rewrite.layers.owned import bound_beside
from torch2ms.rewrite.layers.pinned import MODES, kept_mode
from torch2ms.rewrite.layers.replaced import set_among
from torch2ms.rewrite.layers.rows import of_rows
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.parameters.leaves import Leaves
from torch2ms.rewrite.patched import is_setting, patched
from torch2ms.rewrite.tensors.attributes import COUNTED
from torch2ms.rewrite.tensors.subscripts import WHOLE, whole, without_surplus
from torch2ms.rewrite.writer import Writer

NORMALISED = ("torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d")
BIASED = ("torch.nn.Linear", *(f"torch.nn.{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)))
NORMALISATION = {"momentum": "set_momentum", "eps": "set_eps"}  # setting -> function of `rules/definitions`
SURPLUS = "torch drops leading dimensions of size 1 of what is stored, MindSpore fails on them"
FLOATS = ("weight_decay", "dampening", "eps")  # settings of groups that MindSpore's optimizers take as floats only
SHARED = "assumed: what it gets the values of is not read after they changed: torch gives both one memory"
# kinds of what other objects keep in an attribute called data
OF_OTHERS = {"int", "float", "bool", "str", "none", "list", "dict", "tuple", "set", "numpy", "object", "loader",
             "dataset"}  # fmt: skip


class Assignments:
    """Plain assignments whose translation is more than that of their expressions."""

    def __init__(self, writer: Writer, augmented: Augmented) -> None:
        self.writer = writer
        self.module = writer.module
        self.augmented = augmented
        self.leaves = Leaves(writer)

    def assign(self, stmt: Stmt, node: cst.Assign) -> list[cst.BaseStatement] | None:
        if (beside := bound_beside(node, self.writer)) is not None:
            return beside
        if len(node.targets) != 1:
            made = group_writes.rate_and_names(node, self.writer) or self.stored_and_named(node)
            return made or patched(stmt, node, self.writer)
        called = node.value.func if type(node.value) is cst.Call else None
        asks = type(called) is cst.Name and called.value == "iter"
        if asks and (iterator := asked_again(node, self.writer)) is not None:
            return iterator
        target = node.targets[0].target
        named = qualified(target, self.module.imports) if type(target) is cst.Attribute else ""
        if is_foreign(named) and "." in named:
            if is_setting(named, self.writer):
                return []
            if (kept := patched(stmt, node, self.writer)) is not None:
                return kept
        if (beside := apart.stored(stmt, target, node.value, self.writer)) is not None:
            return beside
        if (type(target) is cst.Attribute or type(target) is cst.Subscript) and views.copied(target, self.module, stmt):
            self.augmented.lost(target)
            return None
        if is_data(target, self.module):
            assert type(target) is cst.Attribute
            return self.data(stmt, target, node)
        if type(target) is cst.Attribute:
            bias = target.attr.value == "bias"
            if made := self.unbiased(target, node.value) if bias else self.normalised(target, node.value):
                return made
        if type(target) is cst.Attribute and target.attr.value in MODES:
            if (made := kept_mode(stmt, target, node.value, self.writer)) is not None:
                return made
        if (made := set_among(target, node.value, self.writer)) is not None:
            return made
        if of_rows(target, self.module) and (weight := self.plain_parameter(node.value)) is not None:
            self.writer.needs.add("ms")
            own = f"{self.in_rows(target, weight)}.copy(), name={{0}}.name"
            return self.writer.text(f"{{0}} = ms.Parameter({own})", target, weight)
        if type(target) is cst.Attribute and target.attr.value == "requires_grad":
            return self.flagged(stmt, target, node.value)
        if rates.shown(target, node.value, self.module):
            self.writer.tell("T2M502", "_last_lr of a scheduler", "MindSpore's are the rates themselves: dropped")
            return []
        if type(target) is cst.Attribute and target.attr.value in COUNTED:
            inside = self.writer.scope.name != "__init__"  # of a class of its own: it is no Parameter before
            if inside and self.writer.translation().schedules(self.module.value(target.value)):
                name = target.attr.value
                self.writer.needs.add("ops")
                self.writer.tell("T2M502", f"{name} of a scheduler", "a Parameter: written with ops.assign")
                return self.writer.text(f"ops.assign({{0}}.{COUNTED[name]}, {{1}})", target.value, node.value)
        if type(target) is cst.Subscript:
            return self.under_index(stmt, target, node.value)
        if (made := self.leaves.made(stmt, node, target)) is not None:
            return made
        if (made := self.initialised(stmt, target, node.value)) is not None:
            return made
        return self.constructed(stmt, node, target)

    def flagged(self, stmt: Stmt, target: cst.Attribute, given: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`x.requires_grad = True`: of a tensor it goes, of a parameter it stays."""
        value, place = self.module.value(target.value), dotted(target.value)
        on = constant(given) is True and value.kind == "tensor"
        if on and (made := self.leaves.begun(stmt, target.value)):
            return made
        plain = value.kind == "tensor" and value.name not in ("module_param", "parameter")
        if not plain or not place or self.leaves.trained(place):
            return None
        if not value.likely:
            self.writer.tell("T2M303", "requires_grad", "gradient functions name what they differentiate: dropped")
            return []
        if constant(given) is not True or place not in self.writer.scope.locals:
            return None
        why = f"dropped, as gradient functions name what they differentiate; assumed: `{place}` is no parameter"
        self.writer.tell("T2M303", "requires_grad", why, Tier.ASSUMED)
        return []

    def under_index(
        self, stmt: Stmt, target: cst.Subscript, given: cst.BaseExpression
    ) -> list[cst.BaseStatement] | None:
        """`x[i] = value`: of a group of parameters, of settings, and of tensors."""
        value = self.module.value(target)
        if value.name == "param_group_item" and key(target) == "lr":
            return group_writes.rate(target, given, self.writer)
        if value.name == "param_group_item" and key(target) in FLOATS and type(given) is cst.Integer:
            return self.writer.text(f"{{0}} = {float(given.evaluated_value)}", target)
        if (made := group_writes.setting(target, given, self.writer)) is not None:
            return made
        if self.writer.differentiated and (view := kept_view(target.value, self.writer.scope, self.module)):
            why = f"`{view}` is a view of it, which does not show what is written in gradient functions"
            self.writer.refuse("T2M611", f"write into {code(target.value)}", why, "take the part where it is read")
            return None
        if held := without_surplus(target, given, self.module):
            self.writer.tell("T2M601", "tensor stored under an index", SURPLUS)
            return self.writer.text(f"{{0}} = {held}", target, given)
        if self.writer.differentiated and (made := into_view(stmt, target, given, self.writer)):
            return made
        if made := self.leaves.stored(target, given) or scattered(stmt, target, given, self.writer):
            return made
        if whole(target, given, self.module):
            why = f"[...] would give the tensor the memory of the other: [{WHOLE}] copies"
            self.writer.tell("T2M611", "whole tensor stored", why)
            return self.writer.text(f"{{0}}[{WHOLE}] = {{1}}", target.value, given)
        return None

    def initialised(
        self, stmt: Stmt, target: cst.BaseExpression, given: cst.BaseExpression
    ) -> list[cst.BaseStatement] | None:
        """`w = nn.init.xavier_uniform_(w)`: the draw, and the name for what it fills."""
        if type(given) is not cst.Call or not self.module.value(given.func).name.startswith("torch.nn.init."):
            return None
        lines = self.augmented.in_place.drawn(stmt, given)
        if lines is None:
            return None
        args = self.augmented.in_place.spread(stmt, given).args
        filled = next(a.value for a in args if a.keyword is None or a.keyword.value == "tensor")
        return [*lines, *self.writer.text(f"{code(target)} = {{0}}", filled)]

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

    def unbiased(self, target: cst.Attribute, given: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`layer.bias = None`: the layer is told that it has none, too."""
        layer = self.module.value(target.value)
        if constant(given) is not None or layer.kind != "module" or layer.name and layer.name not in BIASED:
            return None
        self.writer.tell(
            "T2M505", f"{layer.name or 'layer'}.bias", "MindSpore's layer asks has_bias whether to add one"
        )
        return self.writer.text("{0}.bias = None\n{0}.has_bias = False", target.value)

    def stored_and_named(self, node: cst.Assign) -> list[cst.BaseStatement] | None:
        """`advantages[t] = last = value`, where what is stored has a dimension too many for its place."""
        named = [t.target for t in node.targets if isinstance(t.target, cst.Name)]
        places = [t.target for t in node.targets if isinstance(t.target, cst.Subscript)]
        if len(node.targets) != 2 or len(named) != 1 or len(places) != 1:
            return None
        (name,), (place,) = named, places
        if any(isinstance(n, cst.Name) and n.value == name.value for n in descend(place)):
            return None
        if not (held := without_surplus(place, name, self.module, True)):
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
        if value.kind == "unknown" and self.of_others(node.value):
            return None
        if is_parameter(base, value, self.module, self.writer.plan) or value.kind == "unknown":
            given = node.value
            somebody = _of_somebody(given, stmt, self.module)
            if changed_while_shared(given, stmt, self.writer):
                why = "what the weights show in torch changes with them, or they with it, before they get other memory"
                self.writer.refuse("T2M611", "write of .data", why, "give the weights a clone of what is kept")
                return None
            if self.shares_weights(base, given) or self.written_later(given, stmt):
                why = "the two share their memory in torch from then on, each with gradients of its own"
                todo = "tie the parameters themselves, or copy with copy_"
                self.writer.refuse("T2M611", "write of .data", why, todo)
                return None
            self.writer.needs.add("ops")
            tier = Tier.EXACT if value.kind != "unknown" else Tier.ASSUMED
            why = "ops.assign, which compiled code sees too"
            if somebody:
                why, tier = f"{why}; {SHARED}", Tier.ASSUMED
            self.writer.tell("T2M611", "write of .data", why, tier)
            rows = self.in_rows(base, given) if of_rows(base, self.module) else "{1}"
            return self.writer.text(f"ops.assign({{0}}, {rows})", base, given)
        if isinstance(base, cst.Name):
            scope = self.writer.scope
            outer = scope.is_function and base.value not in scope.locals and base.value not in scope.params
            unseen = self.augmented.given_unseen(stmt, base.value)
            if outer or self.augmented.given_by_callers(stmt, base) or unseen and not _returned(base.value, scope):
                holds = "the scope around holds" if outer else "callers hold too"
                self.writer.tell("T2M611", "write of .data", f"written into the tensor, which {holds}")
                return self.writer.text("{0}.copy_({1})", base, node.value)
            if self.augmented.in_place.held_by_others(stmt, base.value):
                return self.seen_by_others(stmt, base, node.value)
            why, tier = "the local tensor is bound again", Tier.EXACT
            if unseen:
                why, tier = f"{why}; assumed: callers go on with what the function returns", Tier.ASSUMED
            self.writer.tell("T2M611", "write of .data", why, tier)
            return self.writer.text("{0} = {1}", base, node.value)
        return self.seen_by_others(stmt, base, node.value) if value.kind == "tensor" and _of_itself(node) else None

    def seen_by_others(
        self, stmt: Stmt, base: cst.BaseExpression, given: cst.BaseExpression
    ) -> list[cst.BaseStatement] | None:
        """`shadow = self.shadows[key]; shadow.data = ...`: the tensor stays where it stands, with other values."""
        why, tier = "written into the tensor, which somebody else holds too", Tier.EXACT
        if not _of_itself(stmt.node):
            why, tier = f"{why}; assumed: what it gets has its shape and type", Tier.ASSUMED
        self.writer.tell("T2M611", "write of .data", why, tier)
        place, text = (code(self.writer.expression(each)) for each in (base, given))
        return self.augmented.in_place.written(stmt, base, place, text)

    def of_others(self, given: cst.BaseExpression) -> bool:
        """No tensor, or an object of another library's class: `config.data = SimpleNamespace(size=32)`."""
        if self.module.value(given).kind in OF_OTHERS:
            return True
        made = self.module.value(given.func) if isinstance(given, cst.Call) else UNKNOWN
        return made.kind == "api" and not is_foreign(made.name) and made.name.rpartition(".")[2][:1].isupper()

    def shares_weights(self, base: cst.BaseExpression, given: cst.BaseExpression) -> bool:
        """`a.weight.data = b.weight.data`: the memory of another parameter."""
        shown = views.peeled(given)
        if not isinstance(shown, (cst.Name, cst.Attribute)) or code(shown) == code(base):
            return False
        value = self.module.value(shown)
        return value.name != "buffer" and is_parameter(shown, value, self.module, self.writer.plan)

    def written_later(self, given: cst.BaseExpression, stmt: Stmt) -> bool:
        """`p.data = flat[i:j].view_as(p)`, where the program writes into `flat` from then on."""
        parts = views.shown_by(given, self.module)
        turns = {s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()} if parts else set()
        later = (s for s in stmt.block.scope.body.walk() if parts and (s.number > stmt.number or s in turns))
        return any(parts & (s.defs | s.muts if type(s.node) is cst.AugAssign else s.muts) for s in later)

    def constructed(self, stmt: Stmt, node: cst.Assign, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """Modules of torch start in training mode, cells do not."""
        if self.writer.scope.node.__class__ is cst.ClassDef:
            return None
        if in_module_class(self.writer.scope, self.module) and not self.writer.differentiated:
            return None  # the network that it becomes a part of sets its mode; not if that runs already
        project, pairs = self.writer.project, side_by_side(target, node.value)
        begun = {dotted(p): made for p, made in pairs if dotted(p) and starts_in_training(made, self.module, project)}
        if not begun:
            return None
        above: list[cst.BaseStatement] = []
        below: list[cst.BaseStatement] = []
        for name, made in begun.items():
            self.writer.tell("T2M306", "new module", "torch modules start in training mode, cells do not: set_train()")
            below += self.writer.text(self.in_training(name))
            for part, mode in self.kept_modes(name, made, stmt).items():
                flag = "False" if mode == EVALUATION else self.unused(f"{part.replace('.', '_')}_training")
                if mode != EVALUATION:
                    above += self.writer.text(f"{flag} = {part}.training")
                below += self.writer.text(f"{part}.set_train({flag})")

        def line() -> list[cst.BaseStatement]:
            return [layout.line(stmt, self.writer.expression(node))]

        lines = [*above, *(self.writer.marked_apart(line) if above else line()), *below]
        stmt.trailing = None
        return lines

    def in_training(self, name: str) -> str:
        """A new network is in training mode without a call of `train`, which a layer inside may have of its own."""
        classes = (c for m in self.writer.project.modules.values() for c in m.classes.values())
        if not any("add_flags_recursive" in c.methods for c in classes):
            return f"{name}.set_train()"
        cell = self.unused("cell")
        return f"for _, {cell} in {name}.cells_and_names():\n    {cell}.add_flags(training=True)"

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


def _of_itself(node: cst.CSTNode) -> bool:
    """`x.data = x.data * 2`"""
    target = node.targets[0].target if isinstance(node, cst.Assign) else None
    parts = descend(node.value) if isinstance(node, cst.Assign) else ()
    return target is not None and any(isinstance(n, cst.Attribute) and n.deep_equals(target) for n in parts)


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
