"""torch.distributed where one process runs: its rank is 0, and nobody takes part in what it reduces or gathers."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, is_foreign, name_called, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.wrappers.trainers.objects import keyword

MODELS = {
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.parallel.DataParallel", "torch.nn.DataParallel", "torch.nn.parallel.data_parallel.DataParallel",
}  # fmt: skip
VALUES = {"get_rank": "0", "get_world_size": "1", "get_node_local_rank": "0", "is_available": "True",
          "is_initialized": "False", "is_nccl_available": "False", "is_torchelastic_launched": "False"}  # fmt: skip
NOTHING = {"init_process_group", "destroy_process_group", "barrier", "monitored_barrier", "all_reduce", "broadcast",
           "reduce", "broadcast_object_list"}  # fmt: skip
GATHERED = {"all_gather", "all_gather_object"}  # the one part of the list is the argument
SPAWN = {"torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"}


def mentioned(module: ModuleInfo) -> bool:
    """Whether the text of a module speaks of several processes."""
    words = ("torch.distributed", "import distributed", "DataParallel", "SyncBatchNorm", ".spawn(")
    return any(module.has(word) for word in words)


def name_of(call: cst.Call, module: ModuleInfo) -> str:
    """The name in torch.distributed that a call calls, "" for other calls."""
    name = qualified(call.func, module.imports)
    home, _, last = name.rpartition(".")
    return last if home in ("torch.distributed", "torch.distributed.distributed_c10d") else ""


QUIET = {"detach", "clone", "item", "to", "cpu", "cuda", "contiguous", "float", "double", "half", "long", "int", "view",
         "reshape", "flatten", "squeeze", "unsqueeze", "mean", "sum", "size", "get"}  # fmt: skip


def still_done(call: cst.Call, module: ModuleInfo) -> list[cst.BaseExpression]:
    """The arguments of a call that is dropped which do more than to give a value: `all_reduce(x.div_(n))`."""
    return [arg.value for arg in call.args if any(_acts(n, module) for n in descend(arg.value))]


def _acts(node: cst.CSTNode, module: ModuleInfo) -> bool:
    if type(node) is not cst.Call:
        return isinstance(node, (cst.Await, cst.NamedExpr))
    last = name_called(node).rpartition(".")[2]
    if last.endswith("_"):
        return True
    if is_foreign(qualified(node.func, module.imports)) or isinstance(node.func, cst.Attribute) and last in QUIET:
        return False
    return dotted(node.func) not in ("len", "int", "float", "bool", "str")


def model_of(call: cst.Call, updated: cst.Call, module: ModuleInfo) -> cst.BaseExpression | None:
    """The model that a call wraps for several processes or devices."""
    if qualified(call.func, module.imports) not in MODELS or not updated.args or updated.args[0].star:
        return None
    first = updated.args[0]
    return first.value if first.keyword is None else keyword(updated, "module")


def asks_for_wrapper(call: cst.Call, module: ModuleInfo) -> bool:
    """`isinstance(model, DistributedDataParallel)`."""
    if dotted(call.func) != "isinstance" or len(call.args) != 2:
        return False
    asked = call.args[1].value
    classes = [e.value for e in asked.elements] if isinstance(asked, cst.Tuple) else [asked]
    return are_wrappers(classes, module)


def are_wrappers(classes: list[cst.BaseExpression], module: ModuleInfo) -> bool:
    """All of them wrap a model for several processes or devices."""
    return bool(classes) and all(qualified(c, module.imports) in MODELS for c in classes)


def compares_wrapper(node: cst.Comparison, module: ModuleInfo) -> bool | None:
    """What `type(model) in (DataParallel, DistributedDataParallel)` comes to, None for other comparisons."""
    only = node.comparisons[0]
    if len(node.comparisons) != 1 or not isinstance(node.left, cst.Call) or dotted(node.left.func) != "type":
        return None
    among = isinstance(only.operator, (cst.In, cst.NotIn))
    if not among and not isinstance(only.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)):
        return None
    asked = only.comparator
    classes = [e.value for e in asked.elements] if isinstance(asked, (cst.Tuple, cst.List, cst.Set)) else [asked]
    if among is (classes == [asked]) or not all(qualified(c, module.imports) in MODELS for c in classes):
        return None
    return isinstance(only.operator, (cst.NotIn, cst.IsNot, cst.NotEqual))


def spawned(call: cst.Call, module: ModuleInfo) -> cst.Call | None:
    """`mp.spawn(main, args=(1, 2), nprocs=n)` as `main(0, 1, 2)`."""
    if qualified(call.func, module.imports) not in SPAWN or not call.args:
        return None
    positional = [a.value for a in call.args if a.keyword is None]
    function = keyword(call, "fn") or (positional[0] if positional else None)
    given = keyword(call, "args") or (positional[1] if len(positional) > 1 else None)
    if function is None:
        return None
    args = [cst.Arg(cst.Integer("0"))]
    if isinstance(given, cst.Tuple) and not any(isinstance(e, cst.StarredElement) for e in given.elements):
        args += [cst.Arg(e.value) for e in given.elements]
    elif given is not None:
        args.append(cst.Arg(given, star="*"))
    return cst.Call(function, args)


def gathered(call: cst.Call) -> cst.Assign | None:
    """`all_gather(parts, part)` as `parts[0] = part`."""
    if len(call.args) < 2 or call.args[0].keyword is not None or call.args[1].keyword is not None:
        return None
    parts, part = call.args[0].value, call.args[1].value
    if not dotted(parts) or keyword(call, "async_op") is not None:
        return None
    first = cst.Subscript(parts, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])
    return cst.Assign([cst.AssignTarget(first)], part)
