"""Containers of cells."""

import copy

import mindspore as ms
from mindspore import nn, ops


def without_gradient(value):
    if isinstance(value, ms.Tensor):
        return ops.stop_gradient(value)
    if isinstance(value, (list, tuple)):
        items = [without_gradient(item) for item in value]
        return value._make(items) if hasattr(value, "_make") else type(value)(items)
    if isinstance(value, dict):
        return type(value)((key, without_gradient(item)) for key, item in value.items())
    if hasattr(value, "__dict__") and not isinstance(value, (nn.Cell, type)):
        held, value = vars(value), copy.copy(value)
        vars(value).update(without_gradient(held))
    return value


def with_cells(sequence, cells):
    for cell in cells:
        sequence.append(cell)
    return sequence


class FunctionCell(nn.Cell):
    """A function among cells."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class OptionalCellList(nn.Cell):
    """Cells by number as in a CellList, which takes no None in place of one."""

    def __init__(self, cells=()):
        super().__init__()
        self.count = 0
        for cell in cells:
            self.append(cell)

    def append(self, cell):
        self.count += 1
        self[-1] = cell

    def extend(self, cells):
        for cell in cells:
            self.append(cell)

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter([self[place] for place in range(self.count)])

    def __getitem__(self, place):
        places = range(self.count)[place]
        return getattr(self, str(places)) if isinstance(places, int) else [self[i] for i in places]

    def __setitem__(self, place, cell):
        setattr(self, str(range(self.count)[place]), cell)


class ModuleDict(nn.Cell):
    """Cells under names of their own, SequentialCells and CellLists among them, which nn.CellDict refuses."""

    def __init__(self, cells=()):
        super().__init__()
        self.names = []
        self.update(cells)

    def __setattr__(self, name, value):
        if isinstance(value, nn.Cell) and name not in self.names:
            self.names.append(name)
        super().__setattr__(name, value)

    def __setitem__(self, name, cell):
        if name not in self.names:
            self.names.append(name)
        setattr(self, name, cell)

    def __getitem__(self, name):
        return getattr(self, name)

    def __delitem__(self, name):
        self.names.remove(name)
        delattr(self, name)

    def __contains__(self, name):
        return name in self.names

    def __len__(self):
        return len(self.names)

    def __iter__(self):
        return iter(self.names)

    def keys(self):
        return list(self.names)

    def values(self):
        return [getattr(self, name) for name in self.names]

    def items(self):
        return [(name, getattr(self, name)) for name in self.names]

    def update(self, modules):
        for name, cell in dict(modules).items():
            self[name] = cell

    def pop(self, key):
        value = self[key]
        del self[key]
        return value

    def clear(self):
        for name in self.keys():
            del self[name]


class ParameterList(nn.Cell):
    """Parameters that are added one by one."""

    def __init__(self, values=()):
        super().__init__()
        self.count = 0
        self.prefix = ""
        self.extend(values)

    def update_parameters_name(self, prefix="", recurse=True):
        self.prefix = prefix + self.prefix
        super().update_parameters_name(prefix, recurse)

    def append(self, value):
        self.count += 1
        self[-1] = value
        self[-1].name = f"{self.prefix}{self.count - 1}"
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values):
        self.extend(values)
        return self

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter([self[place] for place in range(self.count)])

    def __getitem__(self, place):
        places = range(self.count)[place]
        return getattr(self, str(places)) if isinstance(places, int) else [self[i] for i in places]

    def __setitem__(self, place, value):
        made = value if isinstance(value, ms.Parameter) else ms.Parameter(value)
        setattr(self, str(range(self.count)[place]), made)


class ParameterDict(ModuleDict):
    """Parameters under names of their own."""

    def __setitem__(self, name, value):
        kept = value is None or isinstance(value, ms.Parameter)
        super().__setitem__(name, value if kept else ms.Parameter(value))

    def update(self, parameters):
        super().update(sorted(parameters.items()) if type(parameters) is dict else parameters)

    def get(self, key, default=None):
        return self[key] if key in self.names else default

    def popitem(self):
        name = self.names[-1]
        return name, self.pop(name)

    def setdefault(self, key, default=None):
        if key not in self.names:
            self[key] = default
        return self[key]

    def __or__(self, other):
        return ParameterDict([*self.items(), *other.items()])

    def copy(self):
        return ParameterDict(self.items())

    def fromkeys(self, keys, default=None):
        return ParameterDict([(name, default) for name in keys])


def set_cell(module, name, cell):
    """Bind a cell by its name: a SequentialCell runs what it lists."""
    if isinstance(module, nn.SequentialCell) and name not in module._cells:
        module._is_dynamic_name.append(False)
    setattr(module, name, cell)
    if isinstance(module, nn.SequentialCell):
        module.cell_list = list(module._cells.values())


def take_cell(module, name):
    """Take a cell out by its name: a SequentialCell no longer runs it."""
    cell = module._cells[name]
    if isinstance(module, nn.SequentialCell):
        del module._is_dynamic_name[list(module._cells).index(name)]
    delattr(module, name)
    if isinstance(module, nn.SequentialCell):
        module.cell_list = list(module._cells.values())
    return cell


def popped(cells, place):
    """The cell at a place, taken out."""
    place = range(len(cells))[int(place)]
    cell = cells[place]
    del cells[place]
    return cell


def inserted(sequence, place, cell):
    """A new cell in front of another one of a sequence."""
    later = list(sequence)[range(len(sequence) + 1)[place] :]
    for _ in later:
        del sequence[-1]
    return with_cells(sequence, [cell, *later])


def deep_copied(held):
    """Tensors of a deep copy show the memory of the first ones in MindSpore: each gets its own."""
    own = {}

    def renewed(value):
        if isinstance(value, ms.Parameter) or id(value) in own:
            return own.get(id(value), value)
        if isinstance(value, ms.Tensor):
            own[id(value)] = value.copy()
            return own[id(value)]
        if type(value) is tuple:
            return tuple(map(renewed, value))
        own[id(value)] = value
        if isinstance(value, list):
            value[:] = map(renewed, value)
        items = value if isinstance(value, dict) else {} if isinstance(value, type) else getattr(value, "__dict__", {})
        for key in list(items):
            items[key] = renewed(items[key])
        return value

    return renewed(copy.deepcopy(held))


def named_apart(parameters):
    """A list of parameters, of which those of layers that no cell holds may have equal names."""
    parameters = list(parameters)
    for number, parameter in enumerate(parameters):
        if any(parameter.name == other.name and parameter is not other for other in parameters[:number]):
            parameter.name = f"{number}.{parameter.name}"
    return ms.ParameterTuple(parameters)
