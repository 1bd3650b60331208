"""Datasets and loaders: a source with columns, and the pipeline on it."""

from __future__ import annotations

import builtins

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_FROM_NUMPY = "ms.Tensor.from_numpy"
_CALLABLE = ("function", "method", "class", "lambda")


def loader(use: Use) -> Choice:
    """`DataLoader(source, ...)`: GeneratorDataset of the source, or NumpySlicesDataset of tensors, in batches."""
    refused = _refused(use)
    if refused is not None:
        return refused
    if use.given("batch_sampler") and use.kind("batch_sampler") != "none":
        return Choice(f"SampledLoader({{dataset}}, {{batch_sampler}}, {_collate(use)})", uses=("collate_fn",))
    tail = _batched(use)
    order, assume, used = _order(use)
    names, guessed = _columns(use)
    if (names is None or guessed or _goes_on(use)) and _iterable(use) and use.kind("batch_size") != "none":
        taken = f"{{dataset}}, {{batch_size!}}, {_collate(use)}, {{drop_last:drop_last}}"
        return Choice(f"IterableLoader({taken})", uses=("collate_fn", "shuffle"))
    if use.given("collate_fn") or names is None or _meanwhile(use):
        return _collated(use, order, used)
    arrays = _arrays(use)
    if arrays is not None:
        return Choice(f"NumpySlicesDataset(({arrays}), {order}){tail}", uses=("dataset", *used), assume=assume)
    assume = "; ".join(text for text in (guessed, assume) if text)
    columns = "[" + ", ".join(f"'{name}'" for name in names) + "]"
    return Choice(f"GeneratorDataset({{dataset}}, {columns}, {order}){tail}", assume=assume, uses=used)


def _iterable(use: Use) -> bool:
    node = use.node("dataset")
    return node is not None and use.facts.iterable(node)


def _goes_on(use: Use) -> bool:
    """What the dataset yields follows from how far it came before: MindSpore's pipeline would read ahead."""
    node = use.node("dataset")
    return node is not None and use.facts.goes_on(node)


def _meanwhile(use: Use) -> bool:
    """The dataset changes while the loader runs, or computes with tensors, as far as samples come in batches."""
    node = use.node("dataset")
    if node is None or use.kind("batch_size") == "none":
        return False
    return use.facts.changed_meanwhile(node) or use.facts.computed(node)


def _refused(use: Use) -> Choice | None:
    """Both at once, which torch refuses as well: beside a sampler a `shuffle` that is not seen is false."""
    if use.given("sampler") and use.given("shuffle") and use.value("shuffle") is True and not _may_be_none(use):
        return Choice(refuse="sampler and shuffle together", todo="give the sampler only")
    node = use.node("dataset")
    if node is not None and use.facts.regrown(node):
        why = "the list gets or loses samples later, and MindSpore's loader has as many as it was made with"
        return Choice(refuse=why, todo="make the loader anew when the list has changed")
    return None


def _may_be_none(use: Use) -> bool:
    """A sampler that is only there in some runs: without one MindSpore shuffles unless told not to."""
    node = use.node("sampler")
    return node is not None and use.facts.nothing(node)


def _unseen_beside(use: Use) -> bool:
    """A sampler and a `shuffle` that nobody sees: where the sampler is None after all, the other one counts."""
    seen = not use.given("shuffle") or use.value("shuffle") is False or use.kind("shuffle") == "none"
    return not seen and not isinstance(use.node("sampler"), cst.Call)


def _collated(use: Use, order: str, used: tuple[str, ...]) -> Choice:
    """Batches that are not lists of columns: a dict, a single value, whatever `collate_fn` returns."""
    if use.kind("batch_size") == "none":
        return Choice(
            refuse="samples without a batch that are not lists of columns", todo="iterate over the dataset itself"
        )
    collated = f"{{dataset}}, {{batch_size!}}, {_collate(use)}, drop_remainder={{drop_last}}, {order}"
    return Choice(f"CollatedLoader({collated})", uses=used)


def _collate(use: Use) -> str:
    """The function that puts samples together; what may be None at run time keeps torch's default."""
    if not use.given("collate_fn"):
        return "default_collate"
    sure = use.kind("collate_fn") in _CALLABLE or hasattr(builtins, use.text("collate_fn"))
    return "{collate_fn}" if sure else "{collate_fn} or default_collate"


def _batched(use: Use) -> str:
    if use.kind("batch_size") == "none":
        return ""
    return ".batch({batch_size!}, drop_remainder={drop_last})"


_SAMPLERS = {
    "SubsetRandomSampler": ("SubsetRandomSampler({indices})", "IndexSampler(np.random.permutation, {indices})"),
    "SequentialSampler": ("SequentialSampler()", "range(len({data_source}))"),
    "RandomSampler": (
        "RandomSampler({replacement:replacement})",
        "IndexSampler(drawn_indices, len({data_source}), {num_samples:count}, {replacement:replacement})",
    ),
    "WeightedRandomSampler": (
        "WeightedRandomSampler({weights}, {num_samples}, {replacement:replacement})",
        "IndexSampler(weighted_indices, {weights}, {num_samples}, {replacement!})",
    ),
}  # what a loader of MindSpore takes, and what a program iterates itself


def sampler(use: Use) -> Choice:
    """An order of samples: MindSpore's own where there are loaders to take it, else what can be iterated."""
    taken, iterated = _SAMPLERS[use.short]
    counted = use.short == "RandomSampler" and use.given("num_samples") and use.kind("num_samples") != "none"
    if counted or not use.asks("loads"):  # MindSpore's own draws no more than there are
        return Choice(iterated)
    weighted = use.short == "WeightedRandomSampler"
    return Choice(taken, assume="the weights are a list of floats" if weighted else "")


def _order(use: Use) -> tuple[str, str, tuple[str, ...]]:
    """The argument that says in which order samples come: MindSpore shuffles unless told not to."""
    if use.given("sampler") and (_may_be_none(use) or _unseen_beside(use)):
        if use.given("shuffle") and use.text("shuffle").strip("()") == f"{use.text('sampler')} is None":
            return "shuffle={shuffle} or None, sampler={sampler}", "", ("shuffle",)
        order = "{shuffle}" if use.given("shuffle") and use.kind("shuffle") != "none" else "False"
        return f"shuffle={order} if {{sampler}} is None else None, sampler={{sampler}}", "", ("shuffle",)
    if use.given("sampler"):
        return "sampler={sampler}", "", ("shuffle",)
    if not use.given("shuffle") or use.kind("shuffle") == "none":
        return "shuffle=False", "", ("shuffle",)
    return "shuffle={shuffle}", "", ()


def _arrays(use: Use) -> str | None:
    """The arrays of a TensorDataset made in place, as the elements of a tuple."""
    bound = use.binding.single.get("dataset")
    if bound is None:
        return None
    before, after = bound.original.value, bound.updated.value
    if not isinstance(before, cst.Call) or not code(before.func).endswith("TensorDataset"):
        return None
    if not isinstance(after, cst.Call) or code(after.func) != "list" or len(after.args) != 1:
        return None
    pairs = after.args[0].value
    if not isinstance(pairs, cst.Call) or any(arg.star or arg.keyword for arg in pairs.args):
        return None
    texts = [_array(arg.value) for arg in pairs.args]
    if any("{" in text or "}" in text for text in texts):
        return None
    return ", ".join(texts) + ("," if len(texts) == 1 else "")


def _array(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Call) and code(node.func) == _FROM_NUMPY and len(node.args) == 1:
        return code(node.args[0].value)
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return code(node) + ".asnumpy()"
    return f"({code(node)}).asnumpy()"


def _columns(use: Use) -> tuple[list[str] | None, str]:
    """The names of the columns, None for a bare value; and what they assume."""
    node = use.node("dataset")
    count = use.facts.columns(node) if node is not None else None
    if count == 0:
        return None, ""
    if count is None:
        return ["data", "label"], "a sample is a pair"
    return [["data"], ["data", "label"]][count - 1] if count < 3 else [f"column_{i}" for i in range(count)], ""
