"""The names that PyTorch gives parameters."""


def named_parameters(net):
    """The trainable parameters under PyTorch's names: a normalisation has a weight and a bias, not gamma and beta."""
    names = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
    seen = set()
    for path, layer in net.cells_and_names():
        for name, param in layer.parameters_and_names(expand=False):
            if param.requires_grad and id(param) not in seen:
                seen.add(id(param))
                name = names.get(name, name) if type(layer).__module__.startswith("mindspore.") else name
                yield f"{path}.{name}" if path else name, param
