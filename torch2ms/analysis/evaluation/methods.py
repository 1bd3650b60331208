"""What methods of tensors and modules return, and what calling one says about the object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.known import starts, torchapi
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import BOOL, PART, STR, UNKNOWN, Value, bounded, choices, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.arguments import Given
    from torch2ms.analysis.evaluation.evaluate import Evaluator

RETURNING_SELF = {"to", "type", "cuda", "cpu", "train", "eval", "float", "half", "double", "requires_grad_", "apply",
                  "bfloat16"}  # fmt: skip
PARAMETERS = {"parameters", "trainable_params", "get_parameters"}  # MindSpore's names stand in half-translated code
NAMED_PARAMETERS = {"named_parameters", "parameters_and_names"}
MODULE_METHODS = {"buffers", "children", "modules", "named_modules", "zero_grad", "state_dict",
                  *PARAMETERS, *NAMED_PARAMETERS}  # fmt: skip
# these make tensors of anything, so their argument need not be one
MAKERS = {"tensor", "as_tensor", "from_numpy", "zeros", "ones", "randn", "rand", "full", "cat", "stack", "arange",
          "Tensor"}  # fmt: skip


OF_TEXT = {"split": Value("list"), "replace": STR, "strip": STR, "startswith": BOOL, "endswith": BOOL}
_ITEMS = {"int": "int", "uint": "int", "bool": "bool", "complex": "complex"}  # else float


def tensor_method(name: str, receiver: Value, deps: frozenset[str], args: list[Value]) -> Value:
    """What a method of a tensor returns."""
    deps = receiver.deps if name in torchapi.SHAPED else deps | receiver.deps
    if name == "size":
        return Value("int" if args else "size")
    if name in ("cuda", "cpu", "to", "contiguous", "float", "double", "half", "requires_grad_", "type", "type_as"):
        leaf = (receiver.leaf and name == "contiguous" and not receiver.place) or (
            name == "requires_grad_" and not any(a.kind == "bool" and a.likely for a in args)
        )
        value = Value("tensor", deps=deps, leaf=leaf, likely=receiver.likely)
        return value if name != "type" or args else Value("str")
    if name == "item" and (kind := _ITEMS.get(receiver.dtype.rstrip("0123456789"))) and not receiver.likely:
        return Value(kind)
    if name == "numpy":  # of the same type and dimensions; one number is none of an array
        return Value("numpy", dtype=receiver.dtype if receiver.rank else "", rank=receiver.rank or None)
    value = torchapi.result(f"torch.Tensor.{name}", deps, sum(a.kind != "tensor" for a in args))
    return replace(value, likely=receiver.likely)


def of_text(name: str, call: cst.Call) -> Value | None:
    """`args.devices.replace(" ", "")`: a method that texts have, of texts alone."""
    kind = OF_TEXT.get(name)
    return kind if kind is not None and call.args and all(type(constant(a.value)) is str for a in call.args) else None


def module_method(name: str, receiver: Value, deps: frozenset[str]) -> Value:
    """What a method of a module returns."""
    own = receiver.own
    if name == "buffers":
        return Value("params", name="buffers")
    if name == "named_buffers":
        return Value("named_params", name="buffers")
    if name in PARAMETERS | NAMED_PARAMETERS and bare(receiver):
        return Value("params" if name in PARAMETERS else "named_params")
    if name in PARAMETERS or name == "values" and receiver.name == "torch.nn.ParameterDict":
        return Value("params", deps=own, place=receiver.place)
    if name in NAMED_PARAMETERS or name == "items" and receiver.name == "torch.nn.ParameterDict":
        return Value("named_params", deps=own, place=receiver.place)
    if name in RETURNING_SELF:
        return receiver
    if name == "state_dict":
        return Value("dict", name="state_dict")
    if name in ("children", "modules"):
        return Value("list", name="of module", place=receiver.place, starts=starts.within(receiver))
    if name in ("named_children", "named_modules") and receiver.place:
        layer = Value("module", place=receiver.place, starts=starts.within(receiver))
        named = Value("tuple", items=(Value("str"), layer))
        return Value("list", place=receiver.place, each=named)
    if name == "load_state_dict":
        return Value("tuple", name="return_types", items=(Value("list"), Value("list")))
    if name in ("zero_grad", "register_buffer", "add_module", "register_parameter"):
        return Value("none")
    return Value("unknown", deps=deps | own)


def bare(module: Value) -> bool:
    """A criterion of torch: it has no parameters."""
    name = module.name.rpartition(".")[2]
    return module.name.startswith("torch.nn.") and name.endswith("Loss") and name != "AdaptiveLogSoftmaxWithLoss"


def some_of(params: Value, container: Value, index: str) -> Value:
    """The parameters of `container[index]`, by the text of the index."""
    if not container.place or container.items:
        return params
    return replace(params, deps=frozenset({f"{container.place}{PART}{index.replace('.', '_')}>"}), place="")


def learn(node: cst.CSTNode, ev: Evaluator) -> None:
    """A use that only a tensor of torch answers makes the place a likely tensor."""
    place = dotted(node)
    held = ev.env.get(place)
    if place and held is not None and held.kind == "unknown":
        ev.env[place] = replace(held, kind="tensor", likely=True)


def taken_for(held: Value, node: cst.BaseExpression, ev: Evaluator) -> None:
    """`net = build(cfg).float()`, whose use says that it is a network: so was what the method was called on."""
    while held.kind == "module" and type(node) is cst.Call and type(node.func) is cst.Attribute:
        if node.func.attr.value not in torchapi.MODULES_TOO:
            return
        ev.memo[id(node)] = ev.memo[id(node.func.value)] = held
        node = node.func.value


def learn_argument(node: cst.Call, args: list[Value], name: str, ev: Evaluator) -> None:
    """What a function of torch is given first is a tensor, unless it makes one of anything."""
    if args and args[0].kind == "unknown" and name.count(".") <= 3 and name.rpartition(".")[2] not in MAKERS:
        learn(node.args[0].value, ev)


def kept_methods(held: Value, cls: ClassInfo) -> list[FunctionInfo]:
    """What `self.act()` may run where the object keeps methods of its own: `self.act = self.explore`, or another."""
    found = [cls.known(one.name) if one.place == "self" else None for one in choices(held)]
    return [info for info in found if info is not None] if None not in found else []


def named_layers(value: Value, given: Given, ev: Evaluator) -> Value:
    """A `ModuleDict` with the layers it is made with, where their names are seen."""
    node = given.node.args[0].value if len(given.node.args) == 1 else None
    layers: dict[str, Value] = {}
    if isinstance(node, cst.Dict):
        for element_ in node.elements:
            key = constant(element_.key) if isinstance(element_, cst.DictElement) else None
            if not isinstance(key, str):
                return value
            layers[key] = ev.memo.get(id(element_.value), UNKNOWN)
    elif isinstance(node, cst.Call) and dotted(node.func) == "dict":
        for arg in node.args:
            if arg.keyword is None:
                return value
            layers[arg.keyword.value] = ev.memo.get(id(arg.value), UNKNOWN)
    return replace(value, items=bounded(tuple(layers.values())), keys=tuple((name, True) for name in layers))
