"""torch.distributed where one process runs: its rank is 0, and nobody takes part in what it reduces or gathers."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, is_foreign, name_called, qualified
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.wrappers.trainers.objects import keyword

MODELS = {
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.parallel.DataParallel", "torch.nn.DataParallel", "torch.nn.parallel.data_parallel.DataParallel",
}  # fmt: skip
VALUES = {"get_rank": "0", "get_world_size": "1", "get_node_local_rank": "0", "is_available": "True",
          "is_initialized": "False", "is_nccl_available": "False", "is_torchelastic_launched": "False",
          "new_group": "None", "get_process_group_ranks": "[0]", "get_global_rank": "0", "get_group_rank": "0",
          "get_backend": "'gloo'"}  # fmt: skip
NOTHING = {"init_process_group", "destroy_process_group", "barrier", "monitored_barrier", "all_reduce", "broadcast",
           "reduce", "broadcast_object_list", "all_reduce_coalesced"}  # fmt: skip
# the parameters of a call, what is received of one process, and what was sent
RECEIVED = {
    "all_gather": (("tensor_list", "tensor"), "tensor_list[0]", "tensor"),
    "all_gather_object": (("object_list", "obj"), "object_list[0]", "obj"),
    "all_gather_into_tensor": (("output_tensor", "input_tensor"), "output_tensor", "input_tensor"),
    "gather": (("tensor", "gather_list"), "gather_list[0]", "tensor"),
    "gather_object": (("obj", "object_gather_list"), "object_gather_list[0]", "obj"),
    "scatter": (("tensor", "scatter_list"), "tensor", "scatter_list[0]"),
    "scatter_object_list": (
        ("scatter_object_output_list", "scatter_object_input_list"),
        "scatter_object_output_list[0]", "scatter_object_input_list[0]",
    ),
    "reduce_scatter": (("output", "input_list"), "output", "input_list[0]"),
    "reduce_scatter_tensor": (("output", "input"), "output", "input"),
    "all_to_all": (("output_tensor_list", "input_tensor_list"), "output_tensor_list[0]", "input_tensor_list[0]"),
    "all_to_all_single": (("output", "input"), "output", "input"),
}  # fmt: skip
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


def started(call: cst.Call, module: ModuleInfo) -> bool:
    """The module itself starts the processes above this statement of its own, and does not end them between."""
    running = False
    for line in module.tree.body:
        if any(n is call for n in descend(line)):
            return running and not isinstance(line, (cst.FunctionDef, cst.ClassDef))
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            name = name_of(small.value, module)
            running = name == "init_process_group" or running and name != "destroy_process_group"
    return False


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


def received(call: cst.Call, name: str) -> cst.BaseSmallStatement | None:
    """`all_gather(parts, part)` as `parts[0] = part`, `scatter(x, parts)` as `x.copy_(parts[0])`."""
    params, target, source = RECEIVED[name]
    given = {a.keyword.value if a.keyword is not None else params[i] if i < len(params) else "": a.value
             for i, a in enumerate(call.args)}  # fmt: skip
    if not set(params) <= set(given) or waited_for(call) or any(a.star for a in call.args):
        return None
    if not dotted(given[target.removesuffix("[0]")]):
        return None
    taken = _part(source, given)
    if "obj" not in source:  # tensors that are received are others, without a gradient
        taken = f"({taken})" if not re.fullmatch(r"[\w.\[\]()]+", taken) else taken
        taken += ".detach().clone()" if target.endswith("[0]") else ".detach()"
    form = "{} = {}" if target.endswith("[0]") else "{}.copy_({})"
    made = cst.parse_statement(form.format(_part(target, given), taken))
    return cst.ensure_type(made, cst.SimpleStatementLine).body[0]


def _part(text: str, given: dict[str, cst.BaseExpression]) -> str:
    """What is given under a name, or the first of it."""
    name, first, _ = text.partition("[0]")
    value = given[name]
    if first and isinstance(value, cst.List) and value.elements:
        return code(value.elements[0].value)
    return code(value) + first


def waited_for(call: cst.Call) -> bool:
    """The call gives something to wait for."""
    later = keyword(call, "async_op")
    return later is not None and dotted(later) != "False"
