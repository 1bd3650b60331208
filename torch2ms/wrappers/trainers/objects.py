"""What the objects of accelerate and Lightning Fabric mean while one process runs in float32."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.wrappers.trainers import apex

ROOTS = ("accelerate.", "lightning.", "lightning_fabric.", "pytorch_lightning.", "apex.")

# attributes that are constants of one process
ATTRIBUTES = {
    "accelerate": {
        "is_main_process": "True", "is_local_main_process": "True", "is_last_process": "True", "process_index": "0",
        "local_process_index": "0", "num_processes": "1", "use_distributed": "False", "scaler": "None",
        "optimizer_step_was_skipped": "False", "mixed_precision": "'no'", "split_batches": "False",
    },
    "fabric": {
        "is_global_zero": "True", "global_rank": "0", "local_rank": "0", "node_rank": "0", "world_size": "1",
    },
}  # fmt: skip
# methods that give back what they were given, as it was
SAME = {
    "accelerate": {"prepare", "prepare_model", "prepare_optimizer", "prepare_scheduler", "prepare_data_loader"},
    "fabric": {"setup", "setup_module", "setup_optimizers", "setup_dataloaders", "_setup_dataloader"},
}
# ... that give back their first argument, whatever else they were told
FIRST = {
    "accelerate": {"unwrap_model", "gather", "gather_for_metrics", "pad_across_processes"},
    "fabric": {"all_gather", "all_reduce", "broadcast", "to_device"},
}
# ... that do nothing
NOTHING = {
    "accelerate": {"wait_for_everyone", "init_trackers", "end_training", "free_memory", "clear", "log", "log_images",
                   "unscale_gradients", "register_for_checkpointing"},
    "fabric": {"launch", "barrier", "log", "log_dict"},
}  # fmt: skip
TRACKING = {"init_trackers", "end_training", "log", "log_images", "log_dict"}  # ... beside what trackers would keep
# contexts that do nothing
CONTEXTS = {
    "accelerate": {"autocast", "no_sync", "main_process_first", "local_main_process_first", "join_uneven_inputs"},
    "fabric": {"autocast", "no_backward_sync", "rank_zero_first", "init_module", "init_tensor"},
}
DECORATORS = {"on_main_process", "on_local_main_process", "on_last_process"}
SETTINGS = {"DistributedDataParallelKwargs", "InitProcessGroupKwargs", "GradScalerKwargs", "DataLoaderConfiguration",
            "ProjectConfiguration", "AutocastKwargs", "FP8RecipeKwargs", "TorchDynamoPlugin"}  # fmt: skip


def wraps(module: ModuleInfo) -> bool:
    """Whether the module may have such an object: it imports their packages, or a value of it is one."""
    if any(f"{name}.".startswith(ROOTS) for name in module.imports.table.values()) or apex.BACKWARD(module.source):
        return True
    return bool([v for v in module.values.values() if v.kind == "object" and v.name in FAMILIES])  # one call for all


def family(node: cst.CSTNode, module: ModuleInfo) -> str:
    """`accelerate` or `fabric` where the expression is such an object, "" for others."""
    value = module.value(node)
    if value.kind == "object":
        return FAMILIES.get(value.name, "")
    if (value.kind == "unknown" or value.likely) and dotted(node).rpartition(".")[2] == "accelerator":
        imported = any(name.startswith("accelerate") for name in module.imports.table.values())
        return "accelerate" if imported else ""
    return ""


def constructor(node: cst.CSTNode, module: ModuleInfo) -> str:
    """The family of the object that a call makes."""
    return FAMILIES.get(qualified(node.func, module.imports), "") if isinstance(node, cst.Call) else ""


def settings(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """A call that only makes settings for the constructor."""
    name = qualified(node.func, module.imports) if isinstance(node, cst.Call) else ""
    return name.startswith("accelerate.") and name.rpartition(".")[2] in SETTINGS


def member(call: cst.CSTNode, module: ModuleInfo) -> tuple[str, str]:
    """Family and name of the method that a call of such an object calls."""
    if type(call) is cst.Call and type(call.func) is cst.Attribute:
        if found := family(call.func.value, module):
            return found, call.func.attr.value
    return "", ""


def constructors(modules: list[ModuleInfo]) -> list[tuple[ModuleInfo, cst.Call]]:
    """Every call in the modules that makes such an object."""
    calls = [(m, n) for m in modules for n in m.of_kind(cst.Call)]
    return [(m, n) for m, n in calls if constructor(n, m) and not qualified(n.func, m.imports).endswith("State")]


def keyword(call: cst.Call, name: str) -> cst.BaseExpression | None:
    """A keyword argument of a call."""
    return next((a.value for a in call.args if a.keyword is not None and a.keyword.value == name), None)


def text(node: cst.CSTNode) -> str:
    """The source text of a node without parentheses around it."""
    empty = isinstance(node, cst.Tuple) and not node.elements
    bare = isinstance(node, cst.BaseExpression) and not empty
    return code(node.with_changes(lpar=(), rpar=()) if bare else node).strip()


def constant_test(node: cst.BaseExpression) -> bool | None:
    """Whether a test is always or never true, None where it depends."""
    value = constant(node)
    return value if isinstance(value, bool) else None
