"""Attributes that are read: of tensors, layers, optimizers and loaders."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.known.torchapi import PACKED
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import ClassInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.api import definitions
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.layers import either, rows_among
from torch2ms.rewrite.layers.as_made import as_made
from torch2ms.rewrite.layers.class_names import class_name
from torch2ms.rewrite.layers.derived import BATCHES, base_layer, counts
from torch2ms.rewrite.layers.rows import of_rows
from torch2ms.rewrite.parameters.lists import own_parameters
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.remembered import remembered
from torch2ms.rewrite.tensors.of_tensors import GRADIENTS, data, of_tensor
from torch2ms.rewrite.tensors.reading import Read, by_rule
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


Form = Callable[[Read], cst.BaseExpression | None]


def attribute(
    original: cst.Attribute, updated: cst.Attribute, work: Translation, where: Positions
) -> cst.BaseExpression:
    """An attribute of a variable, by what is known of the variable."""
    receiver = work.module.value(original.value)
    read = Read(original, updated, work, where, receiver, original.attr.value, id(original) in where.stores)
    if receiver.kind == "object" and receiver.name in FAMILIES and not read.stored:
        what = f"{FAMILIES[receiver.name]}: {read.attr}"
        return read.refuse(what, "it has no counterpart in MindSpore", "write what it is by hand", code="T2M532")
    for form in BY_NAME.get(read.attr, ()):
        if (made := form(read)) is not None:
            return made
    name = "" if read.stored and (receiver.kind == "scheduler" or read.attr in COUNTED) else _ruled(read)
    name = name or _inherited(receiver, read.attr, work)
    if receiver.name.startswith("torch.distributions.") and not read.stored and _unwritten(read, name):
        todo = "compute it from the parameters of the distribution"
        return read.refuse(name, f"its form in MindSpore has no {read.attr}", todo)
    if read.stored and _taken_as_it_is(read, name):
        return updated
    if name and (rule := work.rules.find(name)) is not None:
        if read.stored and name.startswith("torch.nn.") and rule.returns in PLAIN and not _computes(receiver, work):
            why = "a cell of MindSpore reads its arguments once, when it is made"
            return read.refuse(name, why, "make the layer anew")
        return by_rule(rule, read)
    if read.attr == "data" and (made := data(read)) is not None:
        return made
    if read.stored and read.attr in ("size_average", "reduce") and receiver.name.endswith("Loss"):
        work.tell("T2M602", f"{receiver.name}.{read.attr}", "torch reads it only when the loss is made")
        return updated
    if receiver.kind == "module" and (made := _argument(read, name)) is not None:
        return made
    if receiver.kind in ("tensor", "param"):
        return of_tensor(read)
    if receiver.kind == "unknown" and read.attr == "grad" and id(original) not in work.plan.refused:
        work.refuse("T2M115", "Tensor.grad", *GRADIENTS)
    if read.stored and read.attr in either.OF:
        either.set_of_unseen_class(receiver, read.attr, work)
    for unseen in () if read.stored else (either.read, either.of_unseen_class):
        if (found := unseen(receiver, original, updated, work)) is not updated:
            return found
    return _of_layer(receiver, read.attr, updated, work)


# -- by the attribute's name -------------------------------------------------------------------------------------------


def _of_function(read: Read) -> cst.BaseExpression | None:
    """`Function.apply` as a value: the cell, or a new one at each call."""
    if read.work.module.value(read.original).kind != "autograd":
        return None
    cls = read.work.class_of(read.receiver)
    if cls is None or cls.refused:
        return read.updated
    name = read.updated.value
    return cst.parse_expression(f"(lambda *inputs: {code(name)}()(*inputs))") if cls.remembers else cst.Call(name)


def _of_optimizer(read: Read) -> cst.BaseExpression | None:
    return None if read.stored else remembered(read.original, read.updated, read.work, read.where)


def _of_class(read: Read) -> cst.BaseExpression | None:
    return class_name(read.original, read.updated, read.work)


def _reparametrised(read: Read) -> cst.BaseExpression | None:
    if read.receiver.kind not in ("module", "unknown") or read.stored:
        return None
    why = "a cell of MindSpore has its parameters of a weight under names of their own"
    return read.refuse("torch.nn.Module.parametrizations", why, "read what the reparametrisation made")


def _of_wrapper(read: Read) -> cst.BaseExpression | None:
    wrapped = read.receiver.name != "torch.optim.swa_utils.AveragedModel"
    if read.receiver.kind != "module" or read.stored or not wrapped:
        return None
    return _unwrapped(read.receiver, read.updated, read.work)


def _mode(read: Read) -> cst.BaseExpression | None:
    """`nn.Linear(2, 3).training`, which is True, and that of a criterion, which has none."""
    original, receiver, work = read.original, read.receiver, read.work
    if type(original.value) is cst.Call and receiver.name.startswith("torch.nn."):
        if work.module.value(original.value.func).name == receiver.name:  # a cell that is made does not train yet
            work.tell("T2M601", "Module.training", "it is True of a layer that was just made")
            return cst.Name("True")
    if read.stored or not bare(receiver):
        return None
    why = "a criterion is a function in MindSpore"
    return read.refuse("torch.nn.Module.training", why, "keep the mode yourself")


def _own_parameters(read: Read) -> cst.BaseExpression | None:
    listed = read.receiver.kind == "module" and id(read.original) in read.where.listing
    return own_parameters(read.updated, read.work) if listed else None


def _forward(read: Read) -> cst.BaseExpression | None:
    if not runs(read.receiver, read.work):
        return None
    read.work.tell("T2M601", "Module.forward", "construct, which cells call, an own one of an object as well")
    return read.updated.with_changes(attr=cst.Name("construct"))


def _device_type(read: Read) -> cst.BaseExpression | None:
    if read.receiver.kind != "device" or read.stored:
        return None
    tier = Tier.ASSUMED if read.receiver.likely else Tier.EXACT
    read.work.notes.findings.append(Finding("T2M601", tier, "torch.device.type", "what stands before the colon"))
    of = read.original.value
    own = isinstance(of, cst.Attribute) and of.attr.value == "device"
    lower = ".lower()" if own else ""  # MindSpore's tensors write CPU
    return cst.parse_expression(f"{code(read.updated.value)}.partition(':')[0]{lower}")


def _device_index(read: Read) -> cst.BaseExpression | None:
    """`device.index`: the number behind the colon, where there is one."""
    if read.receiver.kind != "device" or read.stored:
        return None
    of, place = read.updated.value, code(read.updated.value)
    if isinstance(of, cst.SimpleString):
        made = str(constant(of)).partition(":")[2] or "None"
    elif dotted(of):
        made = f"(int({place}.partition(':')[2]) if ':' in {place} else None)"
    else:
        why, todo = "devices are strings in MindSpore", "read what stands behind the colon"
        return read.refuse("torch.device.index", why, todo)
    read.work.tell("T2M601", "torch.device.index", "what stands behind the colon")
    return cst.parse_expression(made)


def _shape_of_rows(read: Read) -> cst.BaseExpression | None:
    if not of_rows(read.original.value, read.work.module):
        return None
    read.work.tell("T2M601", "Conv1d.weight.shape", "MindSpore's weight has an axis more")
    return cst.parse_expression(f"{code(read.updated.value)}.squeeze(2).shape")


def _perhaps_of_rows(read: Read) -> cst.BaseExpression | None:
    if not read.work.project.in_rows or read.stored:
        return None
    shape = rows_among.asked(read.original, read.updated, read.work)
    return None if shape is read.updated else shape


def _epoch(read: Read) -> cst.BaseExpression | None:
    own = read.receiver.kind == "object" and not read.stored and read.work.schedules(read.receiver)
    if not own or not read.work.project.says(_FRACTIONS):
        return None
    read.work.tell("T2M601", "LRScheduler.last_epoch", "a Parameter, which may be between two epochs")
    return cst.parse_expression(f"float({code(read.updated)})")


BY_NAME: dict[str, tuple[Form, ...]] = {
    "apply": (_of_function,),
    "state": (_of_optimizer,),
    "__name__": (_of_class,),
    "parametrizations": (_reparametrised,),
    "module": (_of_wrapper,),
    "training": (_mode,),
    "_parameters": (_own_parameters,),
    "forward": (_forward,),
    "type": (_device_type,),
    "index": (_device_index,),
    "last_epoch": (_epoch,),
    **dict.fromkeys(rows_among.ASKING, (_perhaps_of_rows,)),
    "shape": (_shape_of_rows, _perhaps_of_rows),
}


# -- by what the attribute is of ---------------------------------------------------------------------------------------


def _own_attribute(receiver: Value, attr: str, work: Translation) -> object:
    cls = work.class_of(receiver)
    return None if cls is None else cls.attr(attr) or cls.method(attr)


def _ruled(read: Read) -> str:
    """The name under which the rules may have an attribute of such an object."""
    receiver, attr, work = read.receiver, read.attr, read.work
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


def _unwritten(read: Read, name: str) -> bool:
    """A distribution or a transform that is written out without the attribute."""
    receiver, attr, work = read.receiver, read.attr, read.work
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
_PATCHED = re.compile(r"\.forward *=[^=]")


def runs(receiver: Value, work: Translation) -> bool:
    """`layer.forward = MethodType(f, layer)`, `old = Net.forward`; of what is not seen, where layers get others."""
    if receiver.kind == "class":
        return (cls := work.class_of(receiver)) is not None and cls.kind == "module"
    return receiver.kind == "module" or receiver.kind == "unknown" and work.module.says(_PATCHED)


def _taken_as_it_is(read: Read, name: str) -> bool:
    """What is set has no effect in torch or the same in MindSpore, or is refused: the statement stays as it is."""
    receiver, attr, work = read.receiver, read.attr, read.work
    if attr == "inplace" and receiver.kind == "module" and work.class_of(receiver) is None:
        return True  # a layer of MindSpore never writes into what it is given
    if attr in NORMALISING and not receiver.name and _may_normalise(read):
        why = "a normalisation of MindSpore reads it once, when it is made; whether this is one is not seen"
        work.refuse("T2M605", f"torch.nn.Module.{attr}", why, KEEPING if attr == TRACKING else ASKING)
        return True
    if name == READ_EACH_TIME and _sums_or_nothing(work):
        work.tell("T2M601", name, "MindSpore's loss reads it whenever it runs")
        return True
    return False


def _may_normalise(read: Read) -> bool:
    """A layer of no class that is seen, or what has no kind, where the program has the setting of such layers, too:
    `momenta[m] = m.momentum`, `for m in momenta: m.momentum = 0.1`."""
    if read.receiver.kind != "unknown":
        return read.receiver.kind == "module"
    module = read.work.module
    stmts = (s for scope in module.scope.walk() for s in scope.body.walk())
    asked = (n.value for s in stmts for n in s.nodes if type(n) is cst.Attribute and n.attr.value == read.attr)
    held = [value for value in map(module.value, asked) if value.kind == "module"]
    return any(not value.name or value.name.startswith("torch.nn.BatchNorm") for value in held)


def _argument(read: Read, name: str) -> cst.BaseExpression | None:
    """What a layer was made with, which MindSpore's does not keep."""
    receiver, attr, work = read.receiver, read.attr, read.work
    if not _lost_argument(receiver, attr, work):
        return None
    if not read.stored and (given := as_made(read.original, receiver.name, work)) is not None:
        work.tell("T2M601", f"{receiver.name}.{attr}", "what the layer was made with")
        return given
    return read.refuse(name, "MindSpore's layer does not keep this argument", "keep it beside the layer")


def _of_layer(receiver: Value, attr: str, updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """Attributes of layers that have another name in MindSpore."""
    if receiver.kind not in ("module", "unknown") or attr not in LAYER_ATTRIBUTES or receiver.name.startswith("torch."):
        return updated
    if any(attr in c.attrs for m in work.project.modules.values() for c in m.classes.values()):
        return updated  # a class of the project has an attribute of this name
    moved, layer = LAYER_ATTRIBUTES[attr]
    work.notes.findings.append(Finding("T2M505", Tier.ASSUMED, attr, f"the module is taken for {layer}"))
    return updated.with_changes(attr=cst.Name(moved))
