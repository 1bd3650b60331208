"""Attributes that are read: of tensors, layers, optimizers and loaders."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.known.torchapi import PACKED
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.api import apply_attribute, definitions
from torch2ms.api.rules import Rule
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.layers import either, rows_among
from torch2ms.rewrite.layers.as_made import as_made
from torch2ms.rewrite.layers.class_names import class_name
from torch2ms.rewrite.layers.derived import BATCHES, base_layer, counts
from torch2ms.rewrite.layers.rows import of_rows
from torch2ms.rewrite.parameters.lists import is_weight, own_parameters
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.remembered import remembered
from torch2ms.rewrite.translation import Translation

LAYER_ATTRIBUTES = {
    "running_mean": ("moving_mean", "a normalisation layer"),
    "running_var": ("moving_variance", "a normalisation layer"),
    "in_features": ("in_channels", "a linear layer"),
    "out_features": ("out_channels", "a linear layer"),
}  # attribute -> its name in MindSpore, and what must have it
SELECTION = {"cumulative_sizes": "ConcatDataset", "datasets": "ConcatDataset", "indices": "Subset", "dataset": "Subset"}
COUNTED = {name: name for name in ("last_epoch", "T_cur", "T_i", "best", "cooldown_counter")} | {
    "num_bad_epochs": "wait"
}  # numbers of a scheduler -> the Parameters that they are in MindSpore
_FRACTIONS = re.compile(r"\.step\([^()\n]*/")  # `scheduler.step(epoch + i / batches)`
PLAIN = ("int", "float", "bool", "str", "tuple", "unknown")  # what an attribute of a layer is, if no parameter
TRACKING = "track_running_stats"
ASKING = "ask for its class with isinstance"
KEEPING = (
    "keep moving_mean and moving_variance of these layers, and ops.assign them back behind what must not change them"
)
READ_EACH_TIME = "torch.nn.BCEWithLogitsLoss.reduction"
NORMALISING = ("momentum", TRACKING)  # settings that only normalisation layers have
GRADIENTS = ("MindSpore tensors carry no gradients", "use the gradients that the gradient function returns")


def _may_normalise(receiver: Value, attr: str, work: Translation) -> bool:
    """A layer of no class that is seen, or what has no kind, where the program has the setting of such layers, too:
    `momenta[m] = m.momentum`, `for m in momenta: m.momentum = 0.1`."""
    if receiver.kind != "unknown":
        return receiver.kind == "module"
    stmts = (s for scope in work.module.scope.walk() for s in scope.body.walk())
    read = (n.value for s in stmts for n in s.nodes if type(n) is cst.Attribute and n.attr.value == attr)
    held = [value for value in map(work.module.value, read) if value.kind == "module"]
    return any(not value.name or value.name.startswith("torch.nn.BatchNorm") for value in held)


def attribute(
    original: cst.Attribute, updated: cst.Attribute, work: Translation, where: Positions
) -> cst.BaseExpression:
    """An attribute of a variable, by what is known of the variable."""
    receiver = work.module.value(original.value)
    attr = original.attr.value
    stored = id(original) in where.stores
    if receiver.kind == "object" and receiver.name in FAMILIES and not stored:
        what = f"{FAMILIES[receiver.name]}: {attr}"
        work.refuse("T2M532", what, "it has no counterpart in MindSpore", "write what it is by hand")
        return updated
    if attr == "apply" and work.module.value(original).kind == "autograd":
        cls = work.class_of(receiver)
        return updated if cls is None or cls.refused else _applied(updated.value, cls)
    if attr == "state" and not stored and (made := remembered(original, updated, work, where)) is not None:
        return made
    if attr == "__name__" and (named := class_name(original, updated, work)) is not None:
        return named
    if attr == "parametrizations" and receiver.kind in ("module", "unknown") and not stored:
        why = "a cell of MindSpore has its parameters of a weight under names of their own"
        work.refuse("T2M605", "torch.nn.Module.parametrizations", why, "read what the reparametrisation made")
        return updated
    wrapped = receiver.name != "torch.optim.swa_utils.AveragedModel"
    if attr == "module" and receiver.kind == "module" and not stored and wrapped:
        if (made := _unwrapped(receiver, updated, work)) is not None:
            return made
    if attr == "training" and type(original.value) is cst.Call and receiver.name.startswith("torch.nn."):
        if work.module.value(original.value.func).name == receiver.name:  # a cell that is made does not train yet
            work.tell("T2M601", "Module.training", "it is True of a layer that was just made")
            return cst.Name("True")
    if attr == "training" and not stored and bare(receiver):
        why = "a criterion is a function in MindSpore"
        work.refuse("T2M605", "torch.nn.Module.training", why, "keep the mode yourself")
        return updated
    if attr == "_parameters" and receiver.kind == "module" and id(original) in where.listing:
        return own_parameters(updated, work)
    if attr == "forward" and runs(receiver, work):
        work.tell("T2M601", "Module.forward", "construct, which cells call, an own one of an object as well")
        return updated.with_changes(attr=cst.Name("construct"))
    if receiver.kind == "device" and attr == "type" and not stored:
        tier = Tier.ASSUMED if receiver.likely else Tier.EXACT
        work.notes.findings.append(Finding("T2M601", tier, "torch.device.type", "what stands before the colon"))
        own = isinstance(original.value, cst.Attribute) and original.value.attr.value == "device"
        lower = ".lower()" if own else ""  # MindSpore's tensors write CPU
        return cst.parse_expression(f"{code(updated.value)}.partition(':')[0]{lower}")
    if receiver.kind == "device" and attr == "index" and not stored:
        return _index(updated, work)
    if attr == "shape" and of_rows(original.value, work.module):
        work.tell("T2M601", "Conv1d.weight.shape", "MindSpore's weight has an axis more")
        return cst.parse_expression(f"{code(updated.value)}.squeeze(2).shape")
    if attr in rows_among.ASKING and work.project.in_rows and not stored:
        shape = rows_among.asked(original, updated, work)
        if shape is not updated:
            return shape
    own = attr == "last_epoch" and receiver.kind == "object" and not stored and work.schedules(receiver)
    if own and work.project.says(_FRACTIONS):
        work.tell("T2M601", "LRScheduler.last_epoch", "a Parameter, which may be between two epochs")
        return cst.parse_expression(f"float({code(updated)})")
    name = "" if stored and (receiver.kind == "scheduler" or attr in COUNTED) else _ruled(receiver, attr, work)
    name = name or _inherited(receiver, attr, work)
    if receiver.name.startswith("torch.distributions.") and not stored and _unwritten(receiver, attr, name, work):
        todo = "compute it from the parameters of the distribution"
        work.refuse("T2M605", name, f"its form in MindSpore has no {attr}", todo)
        return updated
    if stored and attr == "inplace" and receiver.kind == "module" and work.class_of(receiver) is None:
        return updated  # a layer of MindSpore never writes into what it is given
    if stored and attr in NORMALISING and not receiver.name and _may_normalise(receiver, attr, work):
        why = "a normalisation of MindSpore reads it once, when it is made; whether this is one is not seen"
        work.refuse("T2M605", f"torch.nn.Module.{attr}", why, KEEPING if attr == TRACKING else ASKING)
        return updated
    if stored and name == READ_EACH_TIME and _sums_or_nothing(work):
        work.tell("T2M601", name, "MindSpore's loss reads it whenever it runs")
        return updated
    if name and (rule := work.rules.find(name)) is not None:
        if stored and name.startswith("torch.nn.") and rule.returns in PLAIN and not _computes(receiver, work):
            why = "a cell of MindSpore reads its arguments once, when it is made"
            work.refuse("T2M605", name, why, "make the layer anew")
            return updated
        return _by_rule(rule, receiver, original, updated, work, stored)
    if attr == "data" and (made := _data(receiver, original, updated, work, where)) is not None:
        return made
    if stored and attr in ("size_average", "reduce") and receiver.name.endswith("Loss"):
        work.tell("T2M602", f"{receiver.name}.{attr}", "torch reads it only when the loss is made")
        return updated
    if receiver.kind == "module" and _lost_argument(receiver, attr, work):
        if not stored and (given := as_made(original, receiver.name, work)) is not None:
            work.tell("T2M601", f"{receiver.name}.{attr}", "what the layer was made with")
            return given
        work.refuse("T2M605", name, "MindSpore's layer does not keep this argument", "keep it beside the layer")
        return updated
    if receiver.kind in ("tensor", "param"):
        return _of_tensor(receiver, original, updated, work, stored)
    if receiver.kind == "unknown" and attr == "grad" and id(original) not in work.plan.refused:
        work.refuse("T2M115", "Tensor.grad", *GRADIENTS)
    if not stored and (found := either.read(receiver, original, updated, work)) is not updated:
        return found
    if not stored and (found := either.of_unseen_class(receiver, original, updated, work)) is not updated:
        return found
    return _of_layer(receiver, attr, updated, work)


def _applied(name: cst.BaseExpression, cls: ClassInfo) -> cst.BaseExpression:
    """`apply` as a value: the cell, or a new one at each call."""
    if not cls.remembers:
        return cst.Call(name)
    return cst.parse_expression(f"(lambda *inputs: {code(name)}()(*inputs))")


def _by_rule(
    rule: Rule, receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation, stored: bool
) -> cst.BaseExpression:
    """The form of a rule; what MindSpore computes takes no value."""
    outcome = apply_attribute(rule, original, updated, work.facts)
    if stored and not isinstance(outcome.node, (cst.Attribute, cst.Subscript, type(None))):
        if receiver.likely:  # PyTorch's object takes none either: it is something else
            return updated
        why, todo = "what MindSpore has in its place is computed, and takes no value", "set it where the object is made"
        work.refuse("T2M605", rule.name, why, todo)
        return updated
    return work.take(outcome, updated)


def _index(updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """`device.index`: the number behind the colon, where there is one."""
    place = code(updated.value)
    if isinstance(updated.value, cst.SimpleString):
        number = str(constant(updated.value)).partition(":")[2]
        made = number or "None"
    elif dotted(updated.value):
        made = f"(int({place}.partition(':')[2]) if ':' in {place} else None)"
    else:
        work.refuse(
            "T2M605", "torch.device.index", "devices are strings in MindSpore", "read what stands behind the colon"
        )
        return updated
    work.tell("T2M601", "torch.device.index", "what stands behind the colon")
    return cst.parse_expression(made)


def _own_attribute(receiver: Value, attr: str, work: Translation) -> object:
    cls = work.class_of(receiver)
    return None if cls is None else cls.attr(attr) or cls.method(attr)


def _ruled(receiver: Value, attr: str, work: Translation) -> str:
    """The name under which the rules may have an attribute of such an object."""
    if receiver.kind == "tuple" and receiver.name in ("return_types", "lu_types"):
        return f"torch.{'return_fields' if receiver.name == 'return_types' else receiver.name}.{attr}"
    if receiver.name == PACKED:
        return f"torch.nn.utils.rnn.PackedSequence.{attr}"
    if receiver.kind == "optimizer" and attr in ("state", "defaults"):
        return f"torch.optim.Optimizer.{attr}"
    if receiver.kind == "module" and attr in ("_modules", "_parameters", "_buffers"):
        return f"torch.nn.Module.{attr}"
    counted = attr in COUNTED and work.schedules(receiver)
    if counted or receiver.kind == "scheduler" and attr in ("base_lrs", "_last_lr"):
        return f"torch.optim.lr_scheduler.LRScheduler.{attr}"
    if receiver.kind == "loader":
        return f"torch.utils.data.DataLoader.{attr}"
    if receiver.kind == "unknown" and attr == "is_cuda":  # nothing but a tensor of torch, or what holds some, has it
        return "torch.Tensor.is_cuda"
    if receiver.kind == "dataset" and attr in SELECTION and _own_attribute(receiver, attr, work) is None:
        return f"torch.utils.data.{SELECTION[attr]}.{attr}"
    if receiver.kind == "dataset" or receiver.kind in ("object", "module") and receiver.name.startswith("torch."):
        return f"{receiver.name}.{attr}"
    return ""


def _unwritten(receiver: Value, attr: str, name: str, work: Translation) -> bool:
    """A distribution or a transform that is written out without the attribute."""
    rule, own = work.rules.find(receiver.name), work.rules.find(name)
    made = (rule.main.to or "").partition("(")[0] if rule is not None else ""
    if own is not None and ".Distribution." not in own.name and own.main.to != f"{{self}}.{attr}":
        return False
    return made in definitions.table() and attr not in definitions.names_in(made)


def _inherited(receiver: Value, attr: str, work: Translation) -> str:
    """The name of an attribute that a class of the project has from a layer of torch."""
    cls = work.class_of(receiver) if receiver.kind == "module" else None
    if cls is None or cls.method(attr) is not None or base_layer(cls, work) is None:
        return ""
    if attr == BATCHES and counts(cls):
        return ""
    name = f"{cls.torch_base}.{attr}"
    return name if cls.attr(attr) is None or _renamed(name, attr, work) else ""


def _renamed(name: str, attr: str, work: Translation) -> bool:
    """What torch's layer reads under one name, MindSpore's reads under another: a class that sets it sets that."""
    rule = work.rules.find(name)
    to = rule.main.to if rule is not None else None
    return to is not None and _PLACE.fullmatch(to) is not None and to != f"{{self}}.{attr}"


def _computes(receiver: Value, work: Translation) -> bool:
    """The class has a forward of its own, which reads its attributes each time."""
    cls = work.class_of(receiver)
    return cls is not None and cls.method("forward") is not None


def _sums_or_nothing(work: Translation) -> bool:
    """`criterion.reduction = "none"`: the gradient of a mean in MindSpore keeps the size of its first batch."""
    node = work.stmt.node if work.stmt is not None else None
    return isinstance(node, cst.Assign) and constant(node.value) in ("none", "sum")


def _lost_argument(receiver: Value, attr: str, work: Translation) -> bool:
    """Whether the attribute is an argument of a layer of torch, of which the rules know no place in MindSpore's."""
    rule = work.rules.find(receiver.name) if receiver.name.startswith("torch.nn.") else None
    return rule is not None and any(param.name == attr for form in rule.forms for param in form.signature.params)


def _unwrapped(receiver: Value, updated: cst.Attribute, work: Translation) -> cst.BaseExpression | None:
    """`model.module` of a model that was wrapped for several devices; None for an attribute that a class has."""
    cls = work.class_of(receiver)
    if cls is not None and _keeps_module(cls):
        return None
    unsure = receiver.likely or not receiver.name
    place = dotted(updated.value)
    if unsure and place and any(_keeps_module(c) for m in work.project.modules.values() for c in m.classes.values()):
        work.tell("T2M509", "model.module", "objects of the project have one; else the model itself")
        return cst.parse_expression(f'getattr({place}, "module", {place})')
    tier = Tier.ASSUMED if unsure else Tier.EXACT
    why = "there is no wrapper around the model: the model itself"
    work.notes.findings.append(Finding("T2M509", tier, "model.module", why))
    return updated.value


def _keeps_module(cls: ClassInfo) -> bool:
    return cls.attr("module") is not None or cls.method("module") is not None


_PLACE = re.compile(r"\{self\}\.\w+")
_ASKED = re.compile(r"\.requires_grad_\((?:requires_grad=)?(True|False|)\)$")
_PHASED = re.compile(r"set_grad_enabled\(\s*(?:mode\s*=\s*)?(?!True\b|False\b|mode\b)\w")  # by what a variable says
_PATCHED = re.compile(r"\.forward *=[^=]")


def runs(receiver: Value, work: Translation) -> bool:
    """`layer.forward = MethodType(f, layer)`, `old = Net.forward`; of what is not seen, where layers get others."""
    if receiver.kind == "class":
        return (cls := work.class_of(receiver)) is not None and cls.kind == "module"
    return receiver.kind == "module" or receiver.kind == "unknown" and work.module.says(_PATCHED)


_STOPPED = r"\.%s\.requires_grad(?:_\((?:requires_grad=)?False|\s*=\s*False)"  # of an attribute, by its name


def _of_tensor(
    receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation, stored: bool
) -> cst.BaseExpression:
    attr = original.attr.value
    computed = bool(receiver.deps) and not receiver.place and not receiver.leaf  # no Parameter, whatever else it is
    computed = computed or _input(original.value, work)
    if attr == "requires_grad" and receiver.kind == "tensor" and (not receiver.likely or computed):
        if (asked := _ASKED.search(code(original.value))) is not None:
            work.tell("T2M303", "Tensor.requires_grad", "it was asked for just now")
            return cst.Name(asked.group(1) or "True")
        if not stored and (known := _requires_grad(receiver, original.value, work)) is not None:
            return known
        if not is_weight(receiver):
            if not stored:
                work.refuse("T2M115", "Tensor.requires_grad", "tensors carry no such flag in MindSpore",
                            "leave it out: gradient functions name what they differentiate")  # fmt: skip
            return updated
    seen = attr == "is_leaf" and receiver.kind == "tensor" and not receiver.likely and not stored
    if seen and (known := _is_leaf(receiver, original.value, work)) is not None:
        return known
    if attr == "name" and work.module.has("get_parameters()"):  # what stands there is MindSpore's already
        return updated
    rule = work.rules.find(f"torch.Tensor.{attr}")
    if rule is not None:
        return _by_rule(rule, receiver, original, updated, work, stored)
    flagged = attr == "requires_grad" and not stored and not is_weight(receiver)
    if (flagged or attr in ("grad", "grad_fn", "is_leaf")) and id(original) not in work.plan.refused:
        work.refuse("T2M115", f"Tensor.{attr}", *GRADIENTS)
    return updated


def _data(
    receiver: Value, original: cst.Attribute, updated: cst.Attribute, work: Translation, where: Positions
) -> cst.BaseExpression | None:
    """`x.data`: the tensor itself, and a constant to the function that is being differentiated."""
    filled = id(original) in where.initialised and receiver.kind == "unknown"
    known = receiver.kind in ("tensor", "param") or filled
    varied = any(not dep.startswith("@") for dep in receiver.deps)
    if not known and not (receiver.kind == "unknown" and isinstance(original.value, cst.Name) and varied):
        return None
    read = id(original) not in where.stores | where.host
    inside = work.differentiated and bool(receiver.deps or receiver.kind == "param")
    inside = inside and not (known and _to_be_filled(original, work))
    if not read or not inside and not (varied and _carried_on(receiver, original, work)):
        return updated.value if known else None
    work.notes.needs.add("ops")
    tier = Tier.EXACT if known and not receiver.likely else Tier.ASSUMED
    why = "a constant to the gradient: ops.stop_gradient"
    why += "" if tier is Tier.EXACT else "; assumed: it is the data of a tensor"
    work.notes.findings.append(Finding("T2M302", tier, "Tensor.data", why))
    stopped = cst.Attribute(cst.Name(work.alias("ops")), cst.Name("stop_gradient"))
    return cst.Call(stopped, [cst.Arg(updated.value)])


def _to_be_filled(original: cst.Attribute, work: Translation) -> bool:
    """`weight_init(layer.weight.data)`: nothing is done with what the function returns, so that it writes there."""
    node = work.stmt.node if work.stmt is not None else None
    call = node.value if isinstance(node, cst.Expr) else None
    if type(call) is not cst.Call or type(call.func) is not cst.Name:
        return False
    given = any(arg.value is original for arg in call.args)
    return given and work.module.value(call.func).kind in ("unknown", "function", "api")


def _carried_on(receiver: Value, original: cst.Attribute, work: Translation) -> bool:
    """`hidden = new_hidden.data`: what a gradient function gave has its graph, and the next one would go into it."""
    node = work.stmt.node if work.stmt is not None else None
    if (
        not isinstance(node, (cst.Assign, cst.Return))
        or receiver.kind != "tensor"
        or receiver.leaf
        or is_weight(receiver)
    ):
        return False
    if node.value is None or not any(part is original for part in _put_together(node.value, work.module)):
        return False
    assert work.stmt is not None
    changed = {place for stmt in work.stmt.block.scope.body.walk() for place in stmt.muts}  # would be seen in both
    names = [dotted(target.target) for target in node.targets] if isinstance(node, cst.Assign) else []
    return all(name and name not in changed for name in names)


def _put_together(node: cst.BaseExpression, module: ModuleInfo) -> Iterator[cst.BaseExpression]:
    """The parts of what only puts together: `(h.data, c.data)`, `[h.data for h in hidden]`, `Variable(h.data)`."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _put_together(element.value, module)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from _put_together(node.elt, module)
    elif type(node) is cst.Call and len(node.args) == 1:
        if dotted(node.func) in ("tuple", "list") or module.value(node.func).name == "torch.autograd.Variable":
            yield from _put_together(node.args[0].value, module)
    else:
        yield node


def _is_leaf(receiver: Value, node: cst.BaseExpression, work: Translation) -> cst.BaseExpression | None:
    """What was made by the program itself, or without a gradient, where every source of the tensor is seen."""
    if receiver.name not in ("module_param", "parameter") and any(d.startswith(("@", "^")) for d in receiver.deps):
        return None
    made = receiver.leaf or receiver.name in ("module_param", "parameter")
    if not made and receiver.deps and work.module.says(_PHASED):
        return None  # torch may have recorded nothing
    if not made and not receiver.deps and any(_held(part, work) for part in descend(node)):
        return None
    if not receiver.deps and not made and _of_a_nameless_leaf(node, work):
        return None
    work.tell("T2M303", "Tensor.is_leaf", "what the analysis knows of it stands for it")
    return cst.Name(str(made or not receiver.deps))


def _requires_grad(receiver: Value, node: cst.BaseExpression, work: Translation) -> cst.BaseExpression | None:
    """What the analysis knows stands for the flag, where every source of the tensor is seen."""
    if receiver.name in ("module_param", "parameter") or any(d.startswith(("@", "^")) for d in receiver.deps):
        return None
    with_graph = receiver.leaf or bool(receiver.deps)
    if with_graph and not receiver.leaf and work.module.says(_PHASED):
        return None  # torch may have recorded nothing
    if isinstance(node, cst.Attribute) and work.project.says(re.compile(_STOPPED % node.attr.value)):
        return None  # not for good
    if not with_graph and any(_held(part, work) for part in descend(node)):
        return None  # other code may set the flag of what an object or a container holds, or store a leaf there
    if not with_graph and _of_a_nameless_leaf(node, work):
        return None
    work.tell("T2M303", "Tensor.requires_grad", "what the analysis knows of it stands for it")
    return cst.Name("True" if with_graph else "False")


def _input(node: cst.BaseExpression, work: Translation) -> bool:
    """What a network is called with: no Parameter, as far as networks go."""
    if not isinstance(node, cst.Name):
        return False
    forwards = (s for s in work.module.scope.walk() if s.name == "forward" and s.cls is not None)
    return any(node is n for f in forwards if node.value in f.params for s in f.body.walk() for n in s.nodes)


def _of_a_nameless_leaf(node: cst.BaseExpression, work: Translation) -> bool:
    """`c = torch.ones(2, requires_grad=True) + 2`: what has a graph though no leaf has a name."""
    if isinstance(node, cst.Name):
        made = re.compile(rf"\b{node.value}\s*=[^=].*\brequires_grad\s*=\s*True")
        return work.project.says(made)
    return "requires_grad" in code(node)


def _held(node: cst.CSTNode, work: Translation) -> bool:
    """An attribute of an object that is no tensor, or an item of a container."""
    if not isinstance(node, (cst.Attribute, cst.Subscript)):
        return False
    return work.module.value(node.value).kind in ("object", "unknown", "dict", "list", "tuple", "module")


def _of_layer(receiver: Value, attr: str, updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """Attributes of layers that have another name in MindSpore."""
    if receiver.kind not in ("module", "unknown") or attr not in LAYER_ATTRIBUTES or receiver.name.startswith("torch."):
        return updated
    if any(attr in c.attrs for m in work.project.modules.values() for c in m.classes.values()):
        return updated  # a class of the project has an attribute of this name
    moved, layer = LAYER_ATTRIBUTES[attr]
    work.notes.findings.append(Finding("T2M505", Tier.ASSUMED, attr, f"the module is taken for {layer}"))
    return updated.with_changes(attr=cst.Name(moved))
