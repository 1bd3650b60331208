"""Optimizers of programs that freeze, thaw and add parameters while they train."""

import mindspore as ms
from mindspore import nn, ops


def skip_frozen(optimizer):
    """Let an optimizer leave frozen parameters alone, as torch does: their values, moments and counts of steps."""
    step = optimizer.construct
    own = {id(p) for row in (optimizer.parameters, *moment_rows(optimizer).values(), optimizer.lrs) for p in row}
    shared = [p for p in optimizer.parameters_dict().values() if id(p) not in own]  # like the count of steps
    first = [p + 0 for p in shared]
    optimizer.taken = ms.Parameter(ops.zeros(len(optimizer.parameters), ms.int32), name="taken")
    optimizer.shared = ms.ParameterTuple(  # what they would be for each parameter alone
        ms.Parameter(ops.stack([p] * len(optimizer.parameters)), name=f"{p.name}_of_each") for p in shared)

    def construct(grads):
        params = optimizer.parameters
        rows = [params, *moment_rows(optimizer).values()]
        each = [[*of_each, *[p] * (len(params) - len(of_each))] for p, of_each in zip(first, optimizer.shared)]
        counts = optimizer.taken.tolist()
        counts += [0] * (len(params) - len(counts))
        going = [n for n, p in enumerate(params) if not vars(p).pop("left_out", False) and p.requires_grad]
        for count in sorted({counts[n] for n in going}):
            mine = [n for n in going if counts[n] == count]
            kept = [(row[n], row[n].copy()) for row in rows for n in range(len(params)) if n not in mine]
            for p, of_each in zip(shared, each):
                ops.assign(p, of_each[mine[0]])
            step(grads)
            for p, of_each in zip(shared, each):
                value = p + 0
                of_each[:] = [value if n in mine else other for n, other in enumerate(of_each)]
            for p, value in kept:
                ops.assign(p, value)
        counts = [count + (n in going) for n, count in enumerate(counts)]
        for p, value in zip((optimizer.taken, *optimizer.shared), (ms.Tensor(counts, ms.int32), *map(ops.stack, each))):
            p.set_data(value, slice_shape=True)

    optimizer.construct = construct
    return optimizer


def idle_left_out(grad_fn, *parts):
    """A gradient function after which optimizers leave alone, as torch's do, the layers without a gradient."""

    def construct(*args):
        reached, called = set(), set()
        there = [part for part in parts if part is not None]
        cells = {id(cell): cell for part in there for _, cell in part.cells_and_names()}
        own = {key: list(cell.get_parameters(is_layer(cell))) for key, cell in cells.items()}

        def watch(cell, _, outputs):
            called.add(id(cell))
            for tensor in tensors_in(outputs):
                try:
                    tensor.register_hook(lambda grad: reached.update(map(id, own[id(cell)])))
                except RuntimeError:  # no gradient goes through it
                    pass

        hooks = [cell.register_forward_hook(watch) for key, cell in cells.items() if own[key]]
        found = grad_fn(*args)
        for hook in hooks:
            hook.remove()
        for key, cell in reversed(cells.items()):  # what methods of a network use, which nobody called
            if key not in called and any(id(p) in reached for p in cell.get_parameters()):
                reached.update(map(id, own[key]))
        for p in (p for part in there for p in part.get_parameters()):
            p.left_out = id(p) not in reached
        return found

    return construct


def is_layer(cell):
    """A layer of MindSpore, which may use the parameters of its inner cells without calling them."""
    containers = nn.CellDict, nn.CellList, nn.SequentialCell
    return type(cell).__module__.startswith("mindspore.") and not isinstance(cell, containers)


def tensors_in(value):
    """The tensors in what a layer returns."""
    if isinstance(value, ms.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for each in inner for tensor in tensors_in(each)]


def moment_rows(optimizer):
    """What an optimizer remembers of each of its parameters."""
    return {name: row for name, row in vars(optimizer).items()
            if isinstance(row, ms.ParameterTuple) and name not in ("parameters", "shared")}


def add_param_group(optimizer, group):
    """Give an optimizer one more group, whose moments begin now."""
    params = group["params"]
    group = {**group, "params": [params] if isinstance(params, ms.Parameter) else list(params)}
    names = {p.name for p in optimizer.parameters}
    for p in group["params"]:
        if p.name in names:  # of another network that stands alone
            p.name = f"group_{len(optimizer.param_groups)}.{p.name}"
    fresh = moment_rows(type(optimizer)(group["params"], lr=0.1))
    for name, row in moment_rows(optimizer).items():
        setattr(optimizer, name, ms.ParameterTuple((*row, *fresh[name])))
    if "dampening" in optimizer.defaults:
        group["dampening"] = float(group.get("dampening", optimizer.defaults["dampening"]))
    optimizer.add_param_group(group)
