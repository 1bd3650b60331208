"""What calls of torch, its companions and host libraries return."""

from __future__ import annotations

from torch2ms.analysis import arrays, oddities, shapes
from torch2ms.analysis.evaluation import activations, vision
from torch2ms.analysis.evaluation.arguments import Given
from torch2ms.analysis.evaluation.builtins import builtin
from torch2ms.analysis.evaluation.containers import element, housed
from torch2ms.analysis.evaluation.records import named_tuple
from torch2ms.analysis.known import paths, starts, torchapi
from torch2ms.analysis.known.attribute_dicts import LIBRARIES as ATTRIBUTE_DICTS
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import MIXED, NO_DEPS, NOT_RUN, UNKNOWN, Value, entries, of_groups, replace

HOST_LIBRARIES = {"numpy", "math", "random", "os", "time", "json", "logging", "argparse", "sys", "itertools",
                  "collections", "copy", "functools", "tqdm", "matplotlib", "pandas", "sklearn", "scipy", "pickle",
                  "datetime", "re"}  # fmt: skip
PASSING = {"itertools", "functools", "collections", "copy", "operator", "random"}  # they return what they are given
OF_GRAPHS = {"tensor", "list", "tuple", "dict", "unknown", "deque"}  # kinds of what may be, or hold, tensors
WRAPPERS = ("DataParallel", "DistributedDataParallel", "compile")
SETTINGS = ("save", "seed", "set_printoptions", "set_default_dtype", "set_num_threads")
CELLS = {"SequentialCell": "Sequential", "CellList": "ModuleList", "CellDict": "ModuleDict"}
OPTIMIZERS = "mindspore.experimental.optim."
OF_VALUES = ("check", "clamp_probs", "probs_to_logits", "logits_to_probs")  # what gives tensors among the distributions
EFFECTS = ("torch.cuda", "torch.backends", "torch.distributed")


def api_call(name: str, given: Given) -> Value | None:
    """The value of a call by its full name; None for a function of torch on tensors (see `tensor_function`)."""
    if name.startswith(OPTIMIZERS):  # in half-translated code
        return Value("scheduler", name=name) if ".lr_scheduler." in name else new_optimizer(name, given)
    if name.startswith("mindspore.nn."):
        last = name.rpartition(".")[2]
        layer = _layer(f"torch.nn.{CELLS.get(last, last)}", given)
        return replace(layer, name=name) if layer is not None else _host(name, given)
    if name == "mindspore.ops.stop_gradient":
        return given.first.cut()
    if name.startswith("mindspore.ops.") and not name.startswith("mindspore.ops.assign"):
        return tensor_function(f"torch.{name.rpartition('.')[2]}", given)
    if name.startswith(("mindspore.Tensor", "mindspore.tensor")):
        return Value("tensor", deps=given.deps)
    if name in ATTRIBUTE_DICTS or name == "collections.OrderedDict" and not given.args:
        return builtin("dict", given)
    if not is_foreign(name):
        return _host(name, given)
    if name in FAMILIES:
        return Value("object", name=name)
    if name == "torch.Size":
        return Value("size")
    first = given.first
    if name.startswith("torch.nn.init.") and first == Value("tensor", dtype=first.dtype, rank=first.rank):
        return first  # made in its own argument
    made = _object(name, given) or _layer(name, given)
    if made is not None:
        return made
    owner, _, last = name.rpartition(".")
    if name == "torch.autograd.grad":
        return _gradients(given)
    if last.endswith("clip_grad_norm_"):
        return Value("tensor")
    if owner.startswith(EFFECTS):
        return Value("bool" if last.startswith("is_") else "unknown")
    if last in SETTINGS:
        return Value("none")
    if last == "load":
        return Value("unknown")
    if (transformed := torchapi.transformed(name, given.node, given.args, given.deps)) is not None:
        return transformed
    if name in ("torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"):
        return Value("tensor", deps=given.deps)
    if name.startswith("torch.distributions.") and last in OF_VALUES:
        return Value("tensor", deps=given.deps if last != "check" else NO_DEPS)
    if name.startswith("torchvision.") and (seen := vision.called(name, given)) is not None:
        return seen
    if name.startswith(("torch.distributions.", "torch.func", "torchvision")):
        return Value("object" if "distributions" in name else "unknown", name=name, deps=given.deps)
    if name.startswith(("torch.nn.init.", "torch.utils.", "torch.multiprocessing.")) or not name.startswith("torch."):
        return Value("unknown", deps=given.deps)
    return None


def tensor_function(name: str, given: Given) -> Value:
    """What a function of torch on tensors returns."""
    shape = shapes.called(name.rpartition(".")[2], given.node, given.args)
    places = len(given.node.args) - 1 if not any(a.kind == "tensor" for a in given.args[1:]) else 0
    value = shapes.shaped(torchapi.result(name, given.deps, places), shape)
    if value.kind == "tensor" and (odd := oddities.called(name.rpartition(".")[2], given.node, given.args)):
        value = replace(value, odd=odd)
    return replace(value, leaf=True) if value.kind == "tensor" and given.on("requires_grad") else value


def _object(name: str, given: Given) -> Value | None:
    """Optimizers, data and other objects that are no layers."""
    last, first = name.rpartition(".")[2], given.first
    if name == "torch.optim.swa_utils.AveragedModel":
        return Value("module", name=name)
    if name.startswith("torch.optim.lr_scheduler.") or name == "torch.optim.swa_utils.SWALR":
        return Value("scheduler", name=name)
    if name.startswith("torch.optim.") and not name.startswith("torch.optim.swa_utils."):
        return new_optimizer(name, given)
    if last == "GradScaler":
        return Value("scaler", name=name)
    if last == "DataLoader":
        return Value("loader", name=name)
    if name.startswith("torch.utils.data.") and last.endswith("Sampler") and last != "BatchSampler":
        return Value("sampler", name=name)
    if last in ("Subset", "ConcatDataset", "random_split") and name.startswith("torch.utils.data."):
        return _selected(last, given)
    if name.startswith("torch.utils.data.") and last[:1].isupper():
        tensors = last == "TensorDataset" and not any(a.star for a in given.node.args)
        items = tuple(replace(a, deps=NO_DEPS) for a in given.args) if tensors else None
        return Value("dataset", name=name, items=items)
    if name == "torch.Generator":
        return Value("object", name=name)
    if last in ("device", "current_accelerator"):
        return Value("device")
    if last == "Variable":
        return replace(first, leaf=True) if given.on("requires_grad") else replace(first, kind="tensor")
    if name.startswith("torch.nn.utils.") and last in ("weight_norm", "spectral_norm"):
        return replace(first, place="")
    if name.startswith("torch.nn.utils.") and last.startswith("remove_") and first.kind == "module":
        return first
    if last == "Parameter":
        parameter = Value("tensor", leaf=True, name="parameter")
        return parameter if first.likely else shapes.shaped(parameter, (first.dtype, first.rank))
    if last == "ParameterList":
        return Value("params", name="parameter list")
    return first if last in WRAPPERS and first.kind in ("module", "function", "unknown") else None


def _selected(last: str, given: Given) -> Value:
    """Samples of a dataset: a part of it has the same."""
    whole = given.first
    if last == "ConcatDataset":
        whole = element(whole)
    if whole.kind != "dataset":
        whole = Value("dataset", name=f"torch.utils.data.{last}")
    part = replace(whole, place="")
    lengths = given.args[1].items if len(given.args) > 1 else None
    return Value("list", items=(part,) * len(lengths or "ab")) if last == "random_split" else part


MOVING = {"momentum", "weight_decay"}  # what moves a parameter with a gradient of zeros


def new_optimizer(name: str, given: Given) -> Value:
    """An optimizer over the parameters it is given; `name` is empty where the program chooses its class."""
    first, args = of_groups(given.first), given.node.args
    owns = first.deps if first.kind in ("params", "list", "named_params", "tuple") or first.deps else None
    if owns and first.name == NOT_RUN:  # whatever the function was given besides: settings of its caller
        owns = frozenset(d for d in owns if not d.startswith("@"))
    groups = [entries(group).get("params") for group in given.first.items or () if group.kind == "dict"]
    if any(held is not None and held.kind in ("unknown", "params") and not held.deps for held in groups):
        owns = None  # what one of the groups holds is not seen
    if (
        first.kind == "list"
        and not owns
        and all(i.kind == "unknown" and i.place.startswith("self.") for i in first.items or ())
    ):
        owns = frozenset(i.place for i in first.items or ())  # attributes that are not seen: leaves
    named = {a.keyword.value for a in args if a.keyword is not None and constant(a.value) != 0}
    named |= {key for group in first.items or () if first.kind == "list" for key in entries(group)}
    spread = any(a.star == "**" for a in args)
    few = sum(a.keyword is None for a in args) <= 2 and not MOVING & named and not spread
    # a step is -lr * gradient and nothing is remembered, or a gradient that is missing counts as zeros
    plain = name.endswith(".SGD") and few or name.endswith(".LBFGS")
    written = {a.keyword.value for a in args if a.keyword is not None}
    decays = "weight_decay" in named or spread or name.endswith(".AdamW") and "weight_decay" not in written
    ordered = first.kind == "params" and len(first.deps) == 1 and first.odd != MIXED
    kind = "plain" if plain else "decays" if decays else ""
    return Value("optimizer", name=name, owns=owns or None, dtype=kind, ordered=ordered)


def _layer(name: str, given: Given) -> Value | None:
    """A layer or a model that torch or torchvision has."""
    owner, _, last = name.rpartition(".")
    if name == "torch.nn.Embedding.from_pretrained":
        return Value("module", name="torch.nn.Embedding")
    models = owner.startswith("torchvision.models")
    if not models and owner not in ("torch.nn", "torch.nn.modules") and not owner.startswith("torch.nn.modules."):
        return None
    if not last[:1].isupper() or last in torchapi.NOT_LEARNED:
        return Value("module", name=name) if models else None
    chained = last == "Sequential" and given.args
    begins = starts.begins(given.first) if chained else activations.layer(name, given.node)
    items = tuple(given.args) if last == "Sequential" else given.first.items if last == "ModuleList" else None
    pairs = zip(given.node.args, items or (), strict=False)
    if any(arg.star or item.kind != "module" for arg, item in pairs):
        items = None
    if last in ("ModuleList", "ModuleDict") and not given.args:
        items = ()
    held = last in ("ModuleList", "ModuleDict", "Sequential") and given.first.kind in ("list", "dict")
    return Value("module", name=name, items=items, starts=begins, each=given.first.each if held else None)


def _gradients(given: Given) -> Value:
    """`autograd.grad`: as many tensors as there are inputs, varied only where a graph is kept."""
    inputs = given.keyword("inputs") or (given.args[1] if len(given.args) > 1 else UNKNOWN)
    one = Value("tensor", deps=given.deps if given.on("create_graph") else NO_DEPS)
    items = None
    if inputs.items is not None:
        items = (one,) * len(inputs.items)
    elif inputs.kind == "tensor":
        items = (one,)
    return Value("tuple", items=items, deps=one.deps, name="of tensor")


def _copied(name: str, original: Value) -> Value:
    """A copy; a deep one of a network that a function is handed shares no parameter with what its caller has."""
    own = frozenset({f"@{original.place}", original.place})
    if name == "copy.deepcopy" and original.kind == "module" and original.deps <= own:
        return replace(original, place="", deps=NO_DEPS, owns=None)
    return replace(original, place="")


def _networks(given: Given) -> Value | None:
    """`chain(encoders.values(), decoders.values())`: what it goes over are networks, and no parameters."""
    each = [(arg, part) for arg, a in zip(given.node.args, given.args, strict=False) for part in a.parts]
    if not each or any(p.kind != "module" for _, p in each) or any(not a.parts for a in given.args):
        return None
    deps = frozenset[str]().union(*(housed(part, arg.value).deps for arg, part in each))
    return Value("tuple", each=Value("module", deps=deps))  # no list: cells are not made of it


def _host(name: str, given: Given) -> Value:
    """A call into a library that knows nothing of gradients, as far as the name tells."""
    root = name.partition(".")[0]
    if root == "numpy":
        return arrays.numpy_made(name.rpartition(".")[2], given.node, given.args)
    if root == "copy" and given.args:
        return _copied(name, given.first)
    if name == "itertools.chain" and all(a.kind in ("params", "list") for a in given.args):
        return _networks(given) or Value("params", deps=given.deps)
    if name == "itertools.chain.from_iterable" and given.first.name in ("of params", "of list"):
        return Value("params", deps=given.deps)
    if root == "tqdm":
        return given.first
    if root == "math":
        return Value("float")
    if root == "pathlib":
        return paths.PATH
    if name == "collections.namedtuple":
        return named_tuple(given.node) or UNKNOWN
    if name == "collections.defaultdict" and given.first.kind == "function" and given.first.each is not None:
        return Value("dict", "of tensor")  # `defaultdict(lambda: torch.zeros(5))`
    if name == "collections.OrderedDict" and not given.args:
        return Value("dict")
    if name == "collections.OrderedDict" and given.first.kind == "named_params":
        return Value("dict", "of param", deps=given.deps)
    if root == "functools":  # `partial(net, flag=True)`, `reduce(add, losses)`: what functions read goes along
        function = name == "functools.partial" and given.first.kind in ("function", "method") and given.deps
        return Value("function" if function else "unknown", deps=given.deps)
    if root in PASSING:
        deps = frozenset().union(*(a.deps for a in given.args if a.kind in OF_GRAPHS))
        return Value("deque" if name == "collections.deque" else "unknown", deps=deps)
    return Value("unknown", deps=NO_DEPS if root in HOST_LIBRARIES else given.deps)
