"""Lists of parameters: under the names that PyTorch gives them, and those that a flag is set of."""

from mindspore import nn, ops


def named_parameters(net, recurse=True):
    """The trainable parameters under PyTorch's names: a normalisation has a weight and a bias, not gamma and beta."""
    names = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "w": "weight"}
    seen = set()
    for path, layer in net.cells_and_names() if recurse else [("", net)]:
        for name, param in layer.parameters_and_names(expand=False):
            if param.requires_grad and id(param) not in seen:
                seen.add(id(param))
                sized = hasattr(layer, "normalized_shape") or hasattr(layer, "num_features")
                own = sized or isinstance(layer, nn.Embedding) or type(layer).__module__.startswith("mindspore.")
                name = names.get(name, name) if own else name
                yield f"{path}.{name}" if path else name, param


def with_prefix(prefix, named):
    return ((f"{prefix}.{name}" if prefix else name, param) for name, param in named)


def all_named_parameters(net, buffers=()):
    """All parameters under PyTorch's names, frozen ones too, but no statistics of a normalisation and no buffers."""
    names = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
    seen = set()
    for path, layer in net.cells_and_names():
        for name, param in layer.parameters_and_names(expand=False):
            listed = param.requires_grad or not name.startswith("moving_") and name not in buffers
            if listed and id(param) not in seen:
                seen.add(id(param))
                name = names.get(name, name) if type(layer).__module__.startswith("mindspore.") else name
                yield f"{path}.{name}" if path else name, param


def named_beside(net, buffers):
    """All parameters under PyTorch's names, frozen ones too, without statistics and the buffers of these classes."""
    names = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
    seen = set()
    for path, layer in net.cells_and_names():
        own = {name for cls in type(layer).__mro__ for name in buffers.get(cls.__name__, ())}
        for name, param in layer.parameters_and_names(expand=False):
            if name not in ("moving_mean", "moving_variance") and name not in own and id(param) not in seen:
                seen.add(id(param))
                name = names.get(name, name) if type(layer).__module__.startswith("mindspore.") else name
                yield f"{path}.{name}" if path else name, param


def all_parameters(net, buffers=()):
    """All parameters, frozen ones too, without the ones and zeros of normalisations that have no weights in PyTorch."""
    plain = [layer for _, layer in net.cells_and_names() if getattr(layer, "affine", True) is False]
    fixed = {id(param) for layer in plain for param in layer.get_parameters()}
    return [param for _, param in all_named_parameters(net, buffers) if id(param) not in fixed]


def named_buffers(net, buffers=()):
    """Statistics of normalisation and buffers under PyTorch's names; MindSpore does not count batches."""
    names = {"moving_mean": "running_mean", "moving_variance": "running_var"}
    for path, layer in net.cells_and_names():
        for name, param in layer.parameters_and_names(expand=False):
            if name in names or name in buffers and not param.requires_grad:
                name = names.get(name, name)
                yield f"{path}.{name}" if path else name, param


def named_state(net):
    """Parameters, statistics and buffers under the names that they have in PyTorch's state_dict."""
    names = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "w": "weight"}
    names |= {"moving_mean": "running_mean", "moving_variance": "running_var"}
    state = {}
    for path, layer in net.cells_and_names():
        for name, param in layer.parameters_and_names(expand=False):
            sized = hasattr(layer, "normalized_shape") or hasattr(layer, "num_features")
            own = sized or isinstance(layer, nn.Embedding) or type(layer).__module__.startswith("mindspore.")
            name = names.get(name, name) if own else name
            state[f"{path}.{name}" if path else name] = param
    return state


def load_state(places, state):
    """Give parameters their values by their names; the names that are missing, and those that have no place."""
    for name in places.keys() & state.keys():
        ops.assign(places[name], state[name])
    return [name for name in places if name not in state], [name for name in state if name not in places]


def with_dtype(net, dtype):
    """The cell with all its floating parameters in another type."""
    for param in net.get_parameters():
        if param.is_floating_point():
            param.set_dtype(dtype)
    return net


def with_requires_grad(net, requires_grad=True):
    for param in net.get_parameters():
        if "moving_" not in param.name:  # statistics of normalisation are never trained
            param.requires_grad = requires_grad
    return net


def layer_name(cell):
    """The name of a layer's class as PyTorch has it."""
    name = type(cell).__name__
    names = {"Dense": "Linear", "BiDense": "Bilinear", "SequentialCell": "Sequential", "CellList": "ModuleList"}
    names |= {"CellDict": "ModuleDict", "HShrink": "Hardshrink", "HSigmoid": "Hardsigmoid", "HSwish": "Hardswish"}
    names |= {f"Conv{n}dTranspose": f"ConvTranspose{n}d" for n in (1, 2, 3)} | {"SoftShrink": "Softshrink"}
    return names.get(name, name)


def without_prefix(state, prefix):
    """Take the prefix from the keys of a dict that have it."""
    for key in sorted(state):
        if key.startswith(prefix):
            state[key[len(prefix) :]] = state.pop(key)


def weight_of(layer):
    """The weight of a layer, whatever MindSpore calls it."""
    return next(getattr(layer, name) for name in ("weight", "gamma", "embedding_table") if hasattr(layer, name))


def size_of(layer, name):
    """A size of a layer as torch has it: MindSpore's convolutions of one dimension are two-dimensional inside."""
    sizes = getattr(layer, name)
    return sizes[1:] if isinstance(layer, (nn.Conv1d, nn.Conv1dTranspose)) else sizes


def bias_of(layer):
    """The bias of a layer, whatever MindSpore calls it."""
    return layer.bias if hasattr(layer, "bias") else layer.beta
