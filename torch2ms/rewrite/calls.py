"""Calls of methods: of tensors, modules, optimizers, and of what programs hold in variables of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import libcst as cst

from torch2ms.analysis.chains import base, is_change, is_temporary
from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.evaluation.only_tensors import own_methods
from torch2ms.analysis.known.torchapi import PACKED
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.rewrite import optimizers, rates
from torch2ms.rewrite.layers import rows_among
from torch2ms.rewrite.layers.keywords import positional
from torch2ms.rewrite.layers.own_modes import MODES, held, of_another
from torch2ms.rewrite.layers.rows import asked_rows
from torch2ms.rewrite.parameters import keys
from torch2ms.rewrite.parameters.lists import enumerated, named, of_parameter_list
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.tensors import methods, strings
from torch2ms.rewrite.tensors.methods import assumed
from torch2ms.rewrite.translation import Translation

OWN_METHODS = {"forward": "construct", "train": "set_train"}
SPREADS = ("std", "var")
FILLED = {"fill_", "zero_", "normal_", "uniform_", "random_"}
DEVICES = ("to", "cuda", "cpu")
STATES = ("state_dict", "load_state_dict")  # what is made of them asks the object what it is
OWNERS = {
    "optimizer": "torch.optim.Optimizer",
    "scaler": "torch.amp.GradScaler",
    "scheduler": "torch.optim.lr_scheduler.LRScheduler",
}  # kind of a receiver -> where the rules have its methods

CONTAINERS = ("Module", "Sequential", "ModuleList", "ModuleDict", "ParameterDict", "DataParallel")
NAMED = {
    "state_dict": keys.state, "named_buffers": keys.named_buffers, "named_parameters": keys.names_as_keys,
    "load_state_dict": keys.loaded,
}  # fmt: skip
CRITERION = ("forward", "train", "eval", "to", "cuda", "cpu", "float", "double", "half", "requires_grad_", "zero_grad")

CHANGED_AMONG = ("pop", "popitem", "clear", "update", "setdefault", "move_to_end")  # change the layers of a module
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
         "register_full_backward_pre_hook", "register_backward_hook")  # fmt: skip


def own_name(method: FunctionInfo) -> str:
    """What a method of a module is called in MindSpore; a `train` that takes no mode switches none."""
    if method.name != "train":
        return OWN_METHODS.get(method.name, method.name)
    node = method.scope.node
    assert isinstance(node, cst.FunctionDef)
    return OWN_METHODS["train"] if all(_is_mode(p) for p in node.params.params[1:2]) else "train"


def _is_mode(param: cst.Param) -> bool:
    return param.name.value == "mode" or param.default is not None and isinstance(constant(param.default), bool)


def _switches(method: FunctionInfo | None) -> bool:
    """A `train` of an object that is no network, which is given a mode as that of a network is: an agent's."""
    node = method.scope.node if method is not None else None
    return isinstance(node, cst.FunctionDef) and any(_is_mode(p) for p in node.params.params[1:2])


def method_alias(original: cst.Name, updated: cst.Name, work: Translation) -> cst.Name:
    """A name in the body of a class of modules itself: `predict = forward`, `forward = predict`."""
    scope = work.stmt.block.scope if work.stmt is not None else None
    if scope is None or not isinstance(scope.node, cst.ClassDef):
        return updated
    cls = work.module.classes.get(scope.name)
    if cls is None or cls.scope is not scope or cls.kind != "module":
        return updated
    method = cls.methods.get(original.value)
    return updated.with_changes(value=own_name(method) if method is not None else OWN_METHODS[original.value])


class MethodCalls:
    """Translates `receiver.method(...)` by what is known of the receiver."""

    def __init__(self, work: Translation, where: Positions) -> None:
        self.work = work
        self.module = work.module
        self.where = where

    def inherited(self, name: str) -> bool:
        """A class that is no module has the method from another class of the project: it keeps its name."""
        owner = self.work.stmt.block.scope.cls if self.work.stmt is not None else None
        cls = self.module.classes.get(owner.name) if owner is not None else None
        if cls is None or cls.scope is not owner or cls.kind == "module":
            return False
        found = next((parent.method(name) for parent in cls.parents if parent.method(name) is not None), None)
        return found is not None and found.cls is not None and found.cls.kind != "module"

    def of_torch(self, name: str) -> bool:
        """`super()` means a layer of torch: no class of the project above has the method."""
        owner = self.work.stmt.block.scope.cls if self.work.stmt is not None else None
        cls = self.module.classes.get(owner.name) if owner is not None else None
        return cls is not None and cls.scope is owner and not any(p.method(name) is not None for p in cls.parents)

    def method(self, original: cst.Call, func: cst.Attribute, updated: cst.Call) -> cst.BaseExpression:
        if func.attr.value == "format" and isinstance(text := strings.template(func.value, self.work), str):
            return strings.formatted(original, text, updated, self.work)
        if func.attr.value == "format" and any(strings.holds_tensors(arg, self.work) for arg in original.args):
            return strings.attributes_formatted(original, updated, self.work)
        receiver = self.module.value(func.value)
        name = func.attr.value
        if type(func.value) is cst.Attribute and func.value.attr.value == "_modules" and name in CHANGED_AMONG:
            return self.among_layers(name, updated)
        updated = asked_rows(func, updated, self.module)
        if self.work.project.in_rows:
            rows_among.by_axis(original, self.work)
            shape = rows_among.asked(original, updated, self.work) if name in rows_among.ASKING else updated
            if shape is not updated:
                return shape
        if type(updated.func) is not cst.Attribute:
            return updated
        if name == "numel" and self.is_shape(func.value):
            self.work.notes.needs.add("math")
            self.work.tell("T2M601", "torch.Size.numel", "math.prod: a shape is a tuple in MindSpore")
            return cst.parse_expression(f"{self.work.alias('math')}.prod({code(updated.func.value)})")
        if receiver.kind == "builtin_super":
            return self.of_super(name, original, updated)
        modes = receiver.likely and name in ("train", "eval") and receiver.kind in ("tensor", "lossfn")
        if modes or receiver.kind in ("tensor", "param") and (name in NAMED or name in ("parameters", "buffers")):
            return self.of_unknown(name, original, updated)  # no tensor has them
        if receiver.kind in ("tensor", "param"):
            return methods.method(name, receiver, original, updated, self.work, self.where)
        cls = self.work.class_of(receiver)
        if name in ("detach", "detach_") and receiver.likely:  # nothing else has it, whatever it sounds like
            return methods.method(name, Value("tensor", likely=True), original, updated, self.work, self.where)
        if cls is not None and (made := self.of_class(name, cls, original, updated)) is not None:
            return made
        other = receiver.kind == "unknown" or receiver.likely and receiver.kind != "module"
        if name in HOOKS and other and not self.work.mixed:
            return self.hooked(name, original, updated)
        unseen = receiver.kind == "unknown" or receiver.kind == "module" and (receiver.likely or not receiver.place)
        if name in MODES and cls is None and unseen:
            if of_another(original, self.work):
                return updated
            if name == "train" and dotted(func.value) and self.agents:
                return self.either(original, updated)
        if (made := optimizers.rates_of(name, receiver, original, updated, self.work, self.where)) is not None:
            return made
        if receiver.kind == "object":
            return self.of_object(name, receiver, original, updated)
        unsure = receiver.kind in ("unknown", "none") or receiver.likely and receiver.kind in ("list", "tuple", "dict")
        made = methods.spread(original, updated, self.work, self.where) if name in SPREADS and unsure else None
        if made is not None:
            return made
        if receiver.kind == "unknown" and is_change(original) and is_temporary(base(original)):
            if self.work.rules.find(f"torch.Tensor.{name[:-1]}") is not None:  # nothing else has methods of such names
                return methods.method(name, Value("tensor", likely=True), original, updated, self.work, self.where)
        length = name == "norm" and receiver.kind == "unknown" and not original.args and self.differentiable(original)
        if length or name == "new" and receiver.kind == "unknown" and self.filled(original):
            return methods.method(name, Value("tensor", likely=True), original, updated, self.work, self.where)
        if receiver.kind == "unknown":
            named_so = dotted(func.value) or name in (*DEVICES, *STATES) or name in MODES and held(func.value)
            return self.of_unknown(name, original, updated) if named_so else updated
        if receiver.kind == "module":
            return self.of_module(name, receiver, original, updated)
        if receiver.name == "parameter list":
            made = of_parameter_list(name, original, updated, self.work)
        elif receiver.kind == "optimizer":
            made = optimizers.of_optimizer(name, original, updated, self.work, self.where)
        elif receiver.name == "param_group":
            made = optimizers.of_group(name, original, updated, self.work)
        if made is not None:
            return made
        if receiver.name == PACKED:
            return self.work.ruled(f"torch.nn.utils.rnn.PackedSequence.{name}", original, updated)
        if receiver.kind in OWNERS:
            return self.work.ruled(f"{OWNERS[receiver.kind]}.{name}", original, updated)
        return updated

    def of_super(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`super().name(...)`"""
        if rates.perhaps_none(original, self.work.stmt):
            why = "it is None where nobody gives one, and MindSpore's optimizers have a number from the beginning"
            self.work.refuse("T2M502", rates.WHAT, why, "give it a number, and decide by a setting of another name")
            return updated
        if self.inherited(name):
            return updated
        if name == "reset_parameters" and self.of_torch(name):
            self.work.notes.needs.add("reset_layer")
            self.work.tell("T2M505", "Module.reset_parameters", "no layer of MindSpore has it")
            return cst.parse_expression("reset_layer(self)")
        if name == "eval" and not original.args:
            return renamed(updated, OWN_METHODS["train"]).with_changes(args=[cst.Arg(cst.Name("False"))])
        return renamed(updated, OWN_METHODS[name]) if name in OWN_METHODS else updated

    def of_class(self, name: str, cls: ClassInfo, original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
        """A method of an instance of a class of the project, None where torch has it."""
        if (own := cls.method(name)) is not None:
            named = own_name(own) if cls.kind == "module" and own.name == name else name
            return updated if named == name else renamed(updated, named)
        if name in HOOKS and cls.kind != "module" and not self.work.mixed:
            return self.hooked(name, original, updated)
        if cls.kind != "autograd" or name != "apply":
            return None
        if cls.refused:
            what, todo = f"{cls.scope.name}.apply", "call the Cell that replaces it"
            self.work.refuse("T2M402", what, "the function itself is refused", todo)
            return updated
        assert isinstance(updated.func, cst.Attribute)
        return updated.with_changes(func=cst.Call(updated.func.value))

    @cached_property
    def agents(self) -> bool:
        """Something in the project that is no network has a `train` like those of networks."""
        classes = (c for m in self.work.project.modules.values() for c in m.classes.values())
        return any(c.kind == "object" and _switches(c.methods.get("train")) for c in classes)

    def either(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`model.train(False)` of what may be a network, or an agent with a `train` of its own."""
        self.work.notes.needs.add("nn")
        why = "a class of the project that is no network has a `train` like it: it is asked which of them this is"
        self.work.tell("T2M306", "Module.train", why)
        assert isinstance(updated.func, cst.Attribute)
        held, named = code(updated.func.value), renamed(updated, OWN_METHODS["train"])
        asked = f"isinstance({held}, {self.work.alias('nn')}.Cell)"
        made = f"{code(named)} if {asked} else {code(updated)}"
        stmt = self.work.stmt.node if self.work.stmt is not None else None
        alone = isinstance(stmt, cst.Expr) and stmt.value is original
        return cst.parse_expression(made if alone else f"({made})")

    def among_layers(self, name: str, updated: cst.Call) -> cst.BaseExpression:
        """`parent._modules.pop(name)`: a SequentialCell runs a list of its own."""
        held = updated.func.value  # type: ignore[attr-defined]
        if name != "pop" or len(updated.args) != 1 or updated.args[0].star:
            why, todo = "a SequentialCell would run the layers that it had", "set or take out one layer after the other"
            self.work.refuse("T2M605", f"Module._modules.{name}", why, todo)
            return updated
        self.work.notes.needs.add("take_cell")
        self.work.tell("T2M505", "layer taken out by its name", "a SequentialCell is told to run it no more: take_cell")
        return cst.Call(cst.Name("take_cell"), [cst.Arg(held.value), updated.args[0]])

    def is_shape(self, node: cst.BaseExpression) -> bool:
        """`x.shape`, `x.size()`, `torch.Size(...)`, or a name for one."""
        called = node.func if isinstance(node, cst.Call) else node
        last = called.attr.value if isinstance(called, cst.Attribute) else ""
        sized = isinstance(node, cst.Call) and not node.args and last == "size"
        return sized or last in ("shape", "Size") or self.module.value(node).kind == "size"

    def of_object(self, name: str, receiver: Value, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if receiver.name in FAMILIES and id(original) not in self.work.plan.refused:
            return self.wrapped(name, original, updated)
        if not receiver.name.startswith("torch."):
            return updated
        rule = self.work.rules.find(f"{receiver.name}.{name}")
        if rule is None:
            return self.work.unknown(f"{receiver.name}.{name}", updated)
        return self.work.take(self.work.apply(rule, original, updated), updated)

    def of_module(self, name: str, receiver: Value, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        project = self.work.project
        if name == "named_parameters" and not original.args and id(original) in self.where.handed:
            return enumerated("parameters", original, updated, self.work, self.where)
        if name in ("named_parameters", "buffers", "named_buffers") and bare(receiver) and not original.args:
            return enumerated(name, original, updated, self.work, self.where)
        if name == "named_parameters" and not original.args and not project.keeps_state and not project.renames:
            why = "no layer of the project keeps statistics or renames weights"
            self.work.tell("T2M505", "Module.named_parameters", why)
            return renamed(updated, "parameters_and_names")
        if name == "named_parameters" and (listed := named(original, updated, self.work, self.where)) is not None:
            return listed
        if name in ("buffers", "named_buffers"):
            original, updated = keys.without_defaults(original, updated)
        if name in ("parameters", "buffers") and not original.args:
            return enumerated(name, original, updated, self.work, self.where)
        if name in NAMED and (listed := NAMED[name](original, updated, self.work)) is not None:
            return listed
        if receiver.likely and name in MODES and len(original.args) > (name == "train"):
            return updated  # a name that sounds like a network: an agent or a trainer with a method of its own
        if bare(receiver) and name in CRITERION:  # it may be a function in MindSpore
            self.work.tell("T2M601", f"{receiver.name}.{name}", "a criterion has nothing but its value")
            if not isinstance(updated.func, cst.Attribute) or name != "forward":
                return updated.func.value if isinstance(updated.func, cst.Attribute) else updated
            return positional(original, updated, receiver).with_changes(func=updated.func.value)
        layer = f"{receiver.name}.{name}"
        own = receiver.name.startswith("torch.") and self.work.rules.find(layer) is not None
        known = own or name in OWN_METHODS.values() or self.work.rules.find(f"torch.nn.Module.{name}") is not None
        if not known and self.of_layer(receiver):
            return self.work.unknown(layer, updated)
        return self.work.ruled(layer if own else f"torch.nn.Module.{name}", original, updated)

    def hooked(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """Nothing but a network takes such hooks, seen or not."""
        rule = self.work.rules.find(f"torch.nn.Module.{name}")
        assert rule is not None
        outcome = self.work.apply(rule, original, updated)
        why = "what takes the hook is a network"
        return self.work.take(replace(outcome, findings=tuple(assumed(f, why) for f in outcome.findings)), updated)

    def of_layer(self, receiver: Value) -> bool:
        """A layer of torch itself, of whose methods the rules know all that there are."""
        home, _, name = receiver.name.rpartition(".")
        return home == "torch.nn" and name not in CONTAINERS and not receiver.likely and not self.work.mixed

    def of_unknown(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A receiver that is not seen, by methods that only one kind of object has."""
        if name in DEVICES:
            return self.work.ruled(f"torch.Tensor.{name}", original, updated) if self.places(original) else updated
        if name in ("parameters", "buffers") and not original.args:
            return enumerated(name, original, updated, self.work, self.where)
        if name == "named_parameters" and (listed := named(original, updated, self.work, self.where)) is not None:
            return listed
        if name in NAMED and (listed := NAMED[name](original, updated, self.work)) is not None:
            return listed
        modes = name in MODES and len(original.args) <= 1
        if modes or name in ("named_parameters", "reset_parameters", *STATES):
            return self.work.ruled(f"torch.nn.Module.{name}", original, updated)
        return updated

    def differentiable(self, original: cst.Call) -> bool:
        """`p.norm()` of what may be a tensor with a gradient, which is 0 at zero in torch alone."""
        assert isinstance(original.func, cst.Attribute)
        varied = id(original) not in self.where.host and self.work.facts.varied(original.func.value)
        return varied and original.func.attr.value not in own_methods(self.work.project)

    def filled(self, original: cst.Call) -> bool:
        """`rows[0].new(2, 3).fill_(pad)`: what is filled is a tensor, and so is what made it."""
        nodes = self.work.stmt.nodes if self.work.stmt is not None else ()
        return any(type(n) is cst.Attribute and n.value is original and n.attr.value in FILLED for n in nodes)

    def wrapped(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A method of an accelerator that one process cannot do without."""
        kind = FAMILIES[self.module.value(original.func.value).name]  # type: ignore[attr-defined]
        if (rule := self.work.rules.find(f"{kind}.{name}")) is not None:
            return self.work.take(self.work.apply(rule, original, updated), updated)
        why = "it has no counterpart in MindSpore"
        self.work.refuse("T2M532", f"{kind}: {name}", why, "write what it does by hand")
        return updated

    def places(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("cuda", "cpu"):
            return True
        return bool(call.args) and self.module.value(call.args[0].value).kind in ("device", "str")


def renamed(call: cst.Call, name: str) -> cst.Call:
    """The call with another method of the same receiver."""
    assert isinstance(call.func, cst.Attribute)
    return call.with_changes(func=call.func.with_changes(attr=cst.Name(name)))
