"""Calls of methods: of tensors, modules, optimizers, and of what programs hold in variables of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import libcst as cst

from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.known.torchapi import PACKED
from torch2ms.analysis.known.torchcalls import HOST_LIBRARIES, PASSING
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.api import MISFIT
from torch2ms.api.detours import TYPES
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import rates
from torch2ms.rewrite.inplace.chains import base, is_change, is_temporary
from torch2ms.rewrite.inplace.nested import TYPED
from torch2ms.rewrite.inplace.sharing import is_gradient
from torch2ms.rewrite.layers.handed import OF_CONTAINERS
from torch2ms.rewrite.layers.keywords import positional
from torch2ms.rewrite.layers.own_modes import MODES, held, of_another
from torch2ms.rewrite.layers.rows import asked_rows
from torch2ms.rewrite.parameters import keys
from torch2ms.rewrite.parameters.lists import enumerated, named
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.tensors import strings
from torch2ms.rewrite.tensors.draws import draw
from torch2ms.rewrite.tensors.places import widened
from torch2ms.rewrite.translation import Translation

OWN_METHODS = {"forward": "construct", "train": "set_train"}
SPREADS = ("std", "var")
DEVICES = ("to", "cuda", "cpu")
OWNERS = {
    "optimizer": "torch.optim.Optimizer",
    "scaler": "torch.amp.GradScaler",
    "scheduler": "torch.optim.lr_scheduler.LRScheduler",
}  # kind of a receiver -> where the rules have its methods

CONTAINERS = ("Module", "Sequential", "ModuleList", "ModuleDict", "ParameterDict", "DataParallel")
NAMED = {"state_dict": keys.state, "named_buffers": keys.named_buffers, "named_parameters": keys.names_as_keys}
CRITERION = ("forward", "train", "eval", "to", "cuda", "cpu", "float", "double", "half", "requires_grad_", "zero_grad")

CHANGED_AMONG = ("pop", "popitem", "clear", "update", "setdefault", "move_to_end")  # change the layers of a module
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
         "register_full_backward_pre_hook", "register_backward_hook")  # fmt: skip

# what answers to these is no tensor of torch: it is NumPy's, or translated already
MINDSPORE_ONLY = {"asnumpy", "astype", "copy"}


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
        if func.attr.value == "format" and isinstance(text := strings.written(func.value), str):
            return strings.formatted(original, text, updated, self.work)
        if func.attr.value == "format" and any(strings.holds_tensors(arg, self.work) for arg in original.args):
            return strings.attributes_formatted(original, updated, self.work)
        receiver = self.module.value(func.value)
        name = func.attr.value
        if type(func.value) is cst.Attribute and func.value.attr.value == "_modules" and name in CHANGED_AMONG:
            return self.among_layers(name, updated)
        updated = asked_rows(func, updated, self.module)
        if type(updated.func) is not cst.Attribute:
            return updated
        if name == "numel" and self.is_shape(func.value):
            self.work.notes.needs.add("math")
            self.work.tell("T2M601", "torch.Size.numel", "math.prod: a shape is a tuple in MindSpore")
            return cst.parse_expression(f"{self.work.alias('math')}.prod({code(updated.func.value)})")
        if receiver.kind == "builtin_super":
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
        if receiver.likely and name in ("train", "eval") and receiver.kind in ("tensor", "lossfn"):
            return self.of_unknown(name, original, updated)  # no tensor has them
        if receiver.kind in ("tensor", "param"):
            return self.tensor_method(name, receiver, original, updated)
        cls = self.work.class_of(receiver)
        if name in ("detach", "detach_") and receiver.likely:  # nothing else has it, whatever it sounds like
            return self.tensor_method(name, Value("tensor", likely=True), original, updated)
        if cls is not None:
            if (own := cls.method(name)) is not None:
                named = own_name(own) if cls.kind == "module" and own.name == name else name
                return updated if named == name else renamed(updated, named)
            if name in HOOKS and cls.kind != "module" and not self.work.mixed:
                return self.hooked(name, original, updated)
            if cls.kind == "autograd" and name == "apply":
                if cls.refused:
                    what, todo = f"{cls.scope.name}.apply", "call the Cell that replaces it"
                    self.work.refuse("T2M402", what, "the function itself is refused", todo)
                    return updated
                return updated.with_changes(func=cst.Call(updated.func.value))
        other = receiver.kind == "unknown" or receiver.likely and receiver.kind != "module"
        if name in HOOKS and other and not self.work.mixed:
            return self.hooked(name, original, updated)
        unseen = receiver.kind == "unknown" or receiver.kind == "module" and (receiver.likely or not receiver.place)
        if name in MODES and cls is None and unseen:
            if of_another(original, self.work):
                return updated
            if name == "train" and dotted(func.value) and self.agents:
                return self.either(original, updated)
        if rates.remembered(original, self.work.stmt):
            why = "what another scheduler computed last: MindSpore's show the rates as they are now"
            self.work.refuse("T2M502", "learning rates of a scheduler", why, "keep the rates that it computed yourself")
            return updated
        computed = name == "get_last_lr" or name == "get_lr" and receiver.kind == "scheduler"
        whole = computed and not original.args and id(original) not in self.where.indexed
        if whole and self.work.schedules(receiver):
            self.work.tell("T2M502", "learning rates of a scheduler", "Parameters in MindSpore: read as numbers")
            return cst.parse_expression(f"[lr.item() for lr in {code(updated)}]")
        if receiver.kind == "object":
            return self.of_object(name, receiver, original, updated)
        unsure = receiver.kind in ("unknown", "none") or receiver.likely and receiver.kind in ("list", "tuple", "dict")
        if name in SPREADS and unsure and (made := self.spread(original, updated)) is not None:
            return made
        if receiver.kind == "unknown" and is_change(original) and is_temporary(base(original)):
            if self.work.rules.find(f"torch.Tensor.{name[:-1]}") is not None:  # nothing else has methods of such names
                return self.tensor_method(name, Value("tensor", likely=True), original, updated)
        if receiver.kind == "unknown":
            named_so = dotted(func.value) or name in DEVICES or name in MODES and held(func.value)
            return self.of_unknown(name, original, updated) if named_so else updated
        if receiver.kind == "module":
            return self.of_module(name, receiver, original, updated)
        if receiver.name == "parameter list" and name == "parameters" and not original.args:
            return cst.parse_expression(f"list({code(updated.func.value)})")
        if receiver.name == "parameter list" and name in ("append", "extend") and self.work.facts.grows:
            return updated
        if receiver.name == "parameter list" and name in ("append", "extend", "insert"):
            todo = "collect the parameters in a list first"
            self.work.refuse("T2M605", f"torch.nn.ParameterList.{name}", "a ParameterTuple does not grow", todo)
            return updated
        if receiver.name == "parameter list" and self.work.rules.find(f"torch.nn.Module.{name}") is not None:
            todo = "ask the module that the list belongs to"
            self.work.refuse("T2M605", f"torch.nn.ParameterList.{name}", "a ParameterTuple is no cell", todo)
            return updated
        if receiver.kind == "optimizer" and name == "state_dict" and id(original) in self.where.indexed:
            why, todo = "MindSpore's state has names of parameters", "keep what you need yourself"
            self.work.refuse("T2M605", "torch.optim.Optimizer.state_dict", why, todo)
            return updated
        if receiver.kind == "optimizer" and name == "load_state_dict" and self.steps_on(original):
            why = "torch's optimizers share the moments from then on, and both go on"
            self.work.refuse("T2M605", "torch.optim.Optimizer.load_state_dict", why, "load a deep copy of the state")
            return updated
        if receiver.kind == "optimizer" and name == "add_param_group" and self.work.module.grows:
            self.work.notes.needs.add(name)
            self.work.tell("T2M605", f"torch.optim.Optimizer.{name}", "a group whose moments begin now")
            return cst.Call(cst.Name(name), [cst.Arg(updated.func.value), *updated.args])
        if receiver.name == "param_group" and name in ("keys", "values", "items"):
            why = "a group of MindSpore's optimizer has fewer and other settings"
            self.work.refuse("T2M605", "torch.optim.Optimizer.param_groups", why, "name the settings")
            return updated
        if receiver.name == "param_group" and name == "setdefault" and _other_setting(original):
            self.work.tell("T2M502", "setting of a group", "a number that MindSpore keeps in the group as torch does")
            return updated
        if receiver.name == "param_group" and name in ("update", "setdefault", "pop"):
            why = "the learning rate of a group is a Parameter, which a number in its place leaves as it was"
            self.work.refuse("T2M605", "torch.optim.Optimizer.param_groups", why, "write each setting by its name")
            return updated
        if receiver.name == PACKED:
            return self.work.ruled(f"torch.nn.utils.rnn.PackedSequence.{name}", original, updated)
        if receiver.kind in OWNERS:
            return self.work.ruled(f"{OWNERS[receiver.kind]}.{name}", original, updated)
        return updated

    def steps_on(self, load: cst.Call) -> bool:
        """`twin.load_state_dict(optimizer.state_dict())`, and the other optimizer is used again."""
        given, stmt = load.args[0].value if load.args else None, self.work.stmt
        asked = given.func if isinstance(given, cst.Call) else None
        if stmt is None or not isinstance(asked, cst.Attribute) or asked.attr.value != "state_dict":
            return False
        place = dotted(asked.value)
        if not place or code(asked.value) == code(load.func.value):  # type: ignore[attr-defined]
            return False
        stmts = stmt.block.scope.body.walk()
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        again = [s for s in (*(s for s in stmts if s.number > stmt.number), *loops) if s is not stmt]
        if any(place in s.defs for s in again):  # the one takes the place of the other
            return False
        return any(place in s.uses for s in again)

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
        return self.work.take(replace(outcome, findings=tuple(_assumed(f, why) for f in outcome.findings)), updated)

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
        if modes or name in ("named_parameters", "state_dict", "load_state_dict", "reset_parameters"):
            return self.work.ruled(f"torch.nn.Module.{name}", original, updated)
        return updated

    def spread(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
        """`values.std()` of what may be a tensor or NumPy's: MindSpore divides by n as NumPy does, torch by n - 1."""
        assert isinstance(original.func, cst.Attribute) and isinstance(updated.func, cst.Attribute)
        receiver = original.func.value
        plain = len(original.args) < 2 and all(a.keyword is None and not a.star for a in original.args)
        if not plain or self.foreign(receiver):
            return None
        given, text = "".join(f"{code(a.value)}, " for a in updated.args), code(updated.func.value)
        held = asked = text
        if any(isinstance(n, cst.Call) for n in descend(receiver)):  # asked once
            if self.where.nested or self.work.stmt is None:
                return None
            held = "made" if "made" not in self.work.stmt.block.scope.locals else "made_now"
            asked = f"{held} := {text}"
        self.work.notes.needs.add("ms")
        why = "torch divides by n - 1, MindSpore and NumPy by n: it is asked which of them this is"
        self.work.tell("T2M601", f"Tensor.{original.func.attr.value}", why)
        asked = f"isinstance({asked}, {self.work.alias('ms')}.Tensor)"
        spread = updated.func.attr.value
        plainly = code(updated.with_changes(func=updated.func.with_changes(value=cst.parse_expression(held))))
        return cst.parse_expression(f"({held}.{spread}({given}ddof=1) if {asked} else {plainly})")

    def foreign(self, node: cst.BaseExpression) -> bool:
        """What a library for other arrays than tensors made, as the statement that binds its name says."""
        while isinstance(node, (cst.Call, cst.Subscript)):
            node = node.func if isinstance(node, cst.Call) else node.value
        name = root(dotted(node))
        stmt = self.work.stmt
        found = {name}
        for bound in stmt.block.scope.body.walk() if stmt is not None else ():
            if name in bound.defs and isinstance(bound.node, cst.Assign) and isinstance(bound.node.value, cst.Call):
                found.add(root(dotted(bound.node.value.func)))
        homes = {self.module.imports.table.get(made, "").partition(".")[0] for made in found}
        return bool(homes & (HOST_LIBRARIES - PASSING))

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

    def tensor_method(self, name: str, receiver: Value, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        assert isinstance(updated.func, cst.Attribute)
        if name in ("detach", "detach_"):
            assert isinstance(original.func, cst.Attribute)  # `g = p.grad.detach(); g.mul_(c)` changes the gradient
            alias = id(original) in self.where.called and is_gradient(original.func.value)
            if id(original) in self.where.host or alias:
                self.work.tell("T2M302", "Tensor.detach", "nothing is recorded here: dropped")
                return updated.func.value
        if name in ("retain_grad", "requires_grad_"):
            why = "gradient functions name what they differentiate: dropped"
            self.work.tell("T2M303", f"Tensor.{name}", why)
            return updated.func.value
        rule = self.work.rules.find(f"torch.Tensor.{name}")
        if drawn := draw(original, updated, self.module):
            self.work.notes.needs.add("ops")
            why = "a temporary filled in place: one draw of the same numbers"
            self.work.tell("T2M611", f"Tensor.{name}", why)
            return cst.parse_expression(drawn.replace("ops.", f"{self.work.alias('ops')}.", 1))
        if name.endswith("_") and not name.endswith("__"):
            if is_gradient(base(original)):
                return updated  # gradient code that is refused, or waits for the second step
            plain = rule or self.work.rules.find(f"torch.Tensor.{name[:-1]}")
            lone = id(original) in self.work.plan.temporaries or is_temporary(base(original), self.module)
            if lone and name in ("fill_", "zero_") and len(updated.args) == (name == "fill_"):
                if name == "zero_" and isinstance(made := updated.func.value, cst.Call) and _zeros(made):
                    return made
                like = "zeros_like" if name == "zero_" else "full_like"
                made = cst.parse_expression(f"{self.work.alias('ops')}.{like}()")
                assert isinstance(made, cst.Call)
                given = [updated.func.value, *(a.value for a in updated.args)]
                self.work.notes.needs.add("ops")
                why = "a temporary filled in place: a new tensor of its shape"
                self.work.tell("T2M611", f"Tensor.{name}", why)
                return made.with_changes(args=[cst.Arg(value) for value in given])
            if plain is not None and lone:  # a temporary: nobody else sees the change
                named = cst.Name(plain.name.rpartition(".")[2])
                asked = updated.with_changes(func=updated.func.with_changes(attr=named))
                made = self.work.take(self.work.apply(plain, original, asked), updated)
                return self.of_type(original, made) if name in TYPED else made
            if not self.work.marked:
                self.work.refuse("T2M610", f"Tensor.{name}", "an in-place change inside an expression",
                                 "write it as a statement of its own; "
                                 "MindSpore's in-place methods do nothing on CPU")  # fmt: skip
            return updated
        if rule is None:
            foreign = receiver.likely or name in MINDSPORE_ONLY or name in OF_CONTAINERS  # which tensors do not have
            return updated if foreign else self.work.unknown(f"torch.Tensor.{name}", updated)
        outcome = widened(rule, self.work.apply(rule, original, updated), original, self.work, self.where)
        if receiver.likely and any(finding.code == MISFIT for finding in outcome.findings):
            return updated  # a method of that name on something else: a logger's `log(name, value)`
        if receiver.likely and outcome.node is not None:
            why = "the receiver is taken for a tensor by its use"
            outcome = replace(outcome, findings=tuple(_assumed(f, why) for f in outcome.findings))
        return self.work.take(outcome, updated)

    def of_type(self, original: cst.Call, made: cst.BaseExpression) -> cst.BaseExpression:
        """`x.lt_(y)` as a value: what the comparison gives, in the element type of the tensor."""
        changed = base(original)
        assert isinstance(changed, cst.BaseExpression)
        if dtype := self.work.facts.dtype(changed):
            self.work.notes.needs.add("ms")
            return cst.parse_expression(
                f"{code(parenthesised(made))}.astype({self.work.alias('ms')}.{TYPES.get(dtype, dtype)})"
            )
        if dotted(changed):
            return cst.parse_expression(f"{code(parenthesised(made))}.astype({code(changed)}.dtype)")
        why = "the result has the element type of the tensor, which is not seen"
        self.work.refuse("T2M610", "in-place comparison", why, "write it as a statement of its own")
        return made


def _zeros(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in ("new_zeros", "zeros", "zeros_like")


def renamed(call: cst.Call, name: str) -> cst.Call:
    """The call with another method of the same receiver."""
    assert isinstance(call.func, cst.Attribute)
    return call.with_changes(func=call.func.with_changes(attr=cst.Name(name)))


def _assumed(finding: Finding, why: str) -> Finding:
    if finding.tier is not Tier.EXACT:
        return finding
    return replace(finding, tier=Tier.ASSUMED, why=f"{finding.why}; {why}" if finding.why else why)


def _other_setting(call: cst.Call) -> bool:
    """`group.setdefault("momentum", 0)`: another setting than the learning rate."""
    key = constant(call.args[0].value) if len(call.args) == 2 and not call.args[0].star else None
    return isinstance(key, str) and key not in ("lr", "params")
