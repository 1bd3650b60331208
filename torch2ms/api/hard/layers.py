"""Layers whose padding, stride or shape arguments are written differently."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use
from torch2ms.api.signature import UNKNOWN
from torch2ms.api.transforms import is_function

_ARITHMETIC = (cst.BinaryOperation, cst.UnaryOperation, cst.Integer)
_NUMERIC = ("int", "len", "max", "min")
_SIZES = (
    "{{in_channels:in_channels}}, {{out_channels:out_channels}}, {{kernel_size{k}:kernel_size}}, {{stride{k}:stride}}, "
)


def _is_number(use: Use, name: str) -> bool | None:
    """Whether an argument is one number; None where nothing tells."""
    node = use.node(name)
    kind = use.kind(name)
    if node is None or kind in ("int", "float") or isinstance(node, _ARITHMETIC):
        return True
    if kind in ("tuple", "list", "size") and not use.guessed(name):
        return False
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
        return False
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _NUMERIC:
        return True
    return None


def _elements(node: cst.BaseExpression | None) -> list[str] | None:
    """The elements of a literal tuple or list, as text."""
    if not isinstance(node, (cst.Tuple, cst.List)):
        return None
    if not all(isinstance(element, cst.Element) for element in node.elements):
        return None
    return [code(element.value) for element in node.elements]


def _doubled(parts: list[str]) -> str:
    """torch pads both sides of a dimension alike: one entry for each, where MindSpore wants two."""
    if len(set(parts)) == 1:
        return parts[0]
    return "(" + ", ".join(part for part in parts for _ in range(2)) + ")"


_REST = "dilation={{dilation{k}}}, group={{groups}}, has_bias={{bias|flag!}}, dtype={{dtype|or_float32}}"
_CONV = "nn.{cell}(" + _SIZES + "{pad}, " + _REST + ")"


_CONV_OF_TORCH = (
    "conv_cell(nn.{cell}, {{in_channels}}, {{out_channels}}, {{kernel_size}}, {{stride:stride}}, {{padding:padding}}, "
    "{{dilation:dilation}}, {{groups:groups}}, {{bias:bias}}, dtype={{dtype}})"
)


def _either_size(use: Use) -> bool:
    """The padding is a number or a number for each dimension: a default and callers say different things."""
    named = isinstance(use.node("padding"), cst.Name) and use.guessed("padding")
    return named and use.kind("padding") in ("tuple", "list")


DOUBLES = Choice(refuse="MindSpore's convolutions take no float64", todo="make the layer of float32")


def _of_doubles(use: Use) -> bool:
    return use.text("dtype").rpartition(".")[2] in ("float64", "double")


def conv(use: Use) -> Choice:
    """`nn.ConvNd`: the padding is explicit, the bias is asked for."""
    cell = use.short
    if _of_doubles(use):
        return DOUBLES
    if use.given("padding_mode"):
        return _conv_padded(use)
    kind = use.kind("padding") if use.value("padding") is UNKNOWN else ""  # of what callers give, perhaps
    named = kind in ("unknown", "int") and isinstance(use.node("padding"), cst.Name)
    worded = kind == "str" or named and use.asks("padding_words")
    called = isinstance(use.node("padding"), cst.Call) and kind in ("unknown", "tuple", "list")
    computed = called and _is_number(use, "padding") is None
    if _either_size(use) or worded or computed:  # `autopad(k)` gives a number, or one for each dimension
        return Choice(_CONV_OF_TORCH.format(cell=cell))
    pad, assume, uses = _conv_padding(use)
    if pad is None:
        return Choice(refuse="cannot tell what the padding is", todo="write the padding as a number or a tuple")
    k = "|only" if cell == "Conv1d" else "|axes"  # MindSpore takes tuples alone
    return Choice(_CONV.format(cell=cell, pad=pad, k=k), assume=assume, uses=uses)


_BORDERS = ("circular", "reflect", "replicate")
_CONV_OF_BORDERS = (
    "conv_of_borders(nn.{cell}, Padded{cell}, {{in_channels}}, {{out_channels}}, {{kernel_size}}, {{stride:stride}}, "
    "{{padding:padding}}, {{dilation:dilation}}, {{groups:groups}}, {{bias:bias}}, {{padding_mode:padding_mode}})"
)


def _conv_padded(use: Use) -> Choice:
    """A convolution whose borders are not zeros: the input is padded by `ops.pad` first."""
    dims = int(use.short[-2])
    mode, sizes = use.value("padding_mode"), _numbers(use.value("padding"), dims)
    known = isinstance(mode, str)
    if not known or sizes is None and mode in _BORDERS and dims < 3 and not isinstance(use.value("padding"), str):
        return Choice(_CONV_OF_BORDERS.format(cell=use.short))
    if sizes is None or mode not in _BORDERS or dims == 3 and mode == "reflect":
        return Choice(
            refuse=f"MindSpore's {use.short} pads with zeros only",
            todo="put nn.ReflectionPad2d or ops.pad before it and leave padding out",
        )
    sides = "(" + ", ".join(f"{n}, {n}" for n in reversed(sizes)) + ")"
    rest = "stride={stride}, dilation={dilation}, group={groups}, has_bias={bias|flag!}"
    to = f"Padded{use.short}({{in_channels}}, {{out_channels}}, {{kernel_size}}, {sides}, '{mode}', {rest})"
    return Choice(to, uses=("padding", "padding_mode"))


def _conv_padding(use: Use) -> tuple[str | None, str, tuple[str, ...]]:
    """The padding arguments, what they assume, and the parameters that are in their text."""
    node, value = use.node("padding"), use.value("padding")
    if value in ("same", "valid"):
        return f"pad_mode='{value}'", "", ("padding",)
    if node is None:
        return "pad_mode='valid'", "", ()
    parts = _elements(node)
    if parts is not None:
        return f"pad_mode='pad', padding={_doubled(parts)}", "", ("padding",)
    single = _is_number(use, "padding")
    if single is False:
        return "pad_mode='pad', padding=tuple(p for p in {padding} for _ in range(2))", "", ()
    assume = "" if single else f"{code(node)} is one number"
    return "pad_mode='pad', padding={padding}", assume, ()


_TRANSPOSED = (
    "{name}({{in_channels:in_channels}}, {{out_channels:out_channels}}, {{kernel_size:kernel_size}}, "
    "{{stride:stride}}, {{padding:padding}}, {{output_padding:output_padding}}, {{groups:groups}}, "
    "{{bias:bias}}, {{dilation:dilation}})"
)


def conv_transpose(use: Use) -> Choice:
    """`nn.ConvTransposeNd`: extra rows asked for by output_padding are padding left out at the end."""
    if _of_doubles(use):
        return DOUBLES
    name = use.short
    dims = name[-2]
    cell = f"Conv{dims}dTranspose"
    k = "|only" if dims == "1" else "|axes"
    if use.given("padding_mode"):
        return Choice(refuse="only zeros are padded", todo="leave padding_mode out")
    if dims == "3" and use.given("dilation"):
        return Choice(_TRANSPOSED.format(name=name))
    if not use.given("output_padding"):
        pad, assume, uses = _conv_padding(use)
        if pad is None or use.kind("padding") == "str":
            return Choice(refuse="cannot tell what the padding is", todo="write the padding as a number or a tuple")
        steps, sizes = (_numbers(use.value(part), int(dims)) for part in ("stride", "kernel_size"))
        covered = steps and sizes and all(step <= size for step, size in zip(steps, sizes, strict=True))
        if use.given("stride") and not covered:  # `valid` adds rows where the kernel does not reach the next step
            pad = pad.replace("'valid'", "'pad'")
        return Choice(_CONV.format(cell=cell, pad=pad, k=k), assume=assume, uses=(*uses, "output_padding"))
    pads, extra = (_numbers(use.value(part), int(dims)) for part in ("padding", "output_padding"))
    if dims != "2" or pads is None or extra is None or any(e > p for e, p in zip(extra, pads, strict=True)):
        return Choice(_TRANSPOSED.format(name=name))  # MindSpore's own leaves the rows of output_padding uncomputed
    sides = ", ".join(f"{p}, {p - e}" for p, e in zip(pads, extra, strict=True))
    pad = f"pad_mode='pad', padding=({sides})"
    return Choice(_CONV.format(cell=cell, pad=pad, k=k), uses=("padding", "output_padding"))


def _numbers(value: object, count: int) -> tuple[int, ...] | None:
    if isinstance(value, int):
        return (value,) * count
    if isinstance(value, (tuple, list)) and len(value) == count and all(isinstance(v, int) for v in value):
        return tuple(value)
    return None


def max_pool(use: Use) -> Choice:
    """`nn.MaxPoolNd`: the stride is written, padding needs its mode."""
    extra = ""
    if any(use.given(name) for name in ("padding", "dilation", "ceil_mode", "return_indices")):
        extra = (
            ", pad_mode='pad', padding={padding|only}, dilation={dilation}, return_indices={return_indices}, "
            "ceil_mode={ceil_mode}"
        )
    return _pool(use, extra)


def avg_pool(use: Use) -> Choice:
    """`nn.AvgPoolNd`: as for the maximum."""
    extra = ""
    if any(use.given(name) for name in ("padding", "ceil_mode", "count_include_pad", "divisor_override")):
        extra = ", pad_mode='pad', padding={padding|only}, ceil_mode={ceil_mode}, count_include_pad={count_include_pad}"
        if use.short != "AvgPool1d" and use.given("divisor_override"):  # with the count its gradient is another one
            extra = ", pad_mode='pad', padding={padding|only}, ceil_mode={ceil_mode}"
            extra += ", divisor_override={divisor_override}"
            return _pool(use, extra, ("count_include_pad",))
    return _pool(use, extra)


def _pool(use: Use, extra: str, uses: tuple[str, ...] = ()) -> Choice:
    only = "|only" if use.short.endswith("1d") else "|axes"
    extra = extra.replace("|only", only).replace("{dilation}", f"{{dilation{only}}}")
    if use.given("stride"):
        return Choice(f"nn.{use.short}({{kernel_size{only}:kernel_size}}, {{stride{only}:stride}}{extra})", uses=uses)
    return Choice(f"nn.{use.short}({{kernel_size{only}}}, {{kernel_size{only}}}{extra})", uses=("stride", *uses))


_OWN_NORM = (
    "LayerNorm({normalized_shape:normalized_shape}, {eps:eps}, {elementwise_affine:elementwise_affine}, {bias:bias})"
)
_NORM = "nn.LayerNorm({shape}, epsilon={{eps!}}, dtype={{dtype|or_float32}})"


def layer_norm(use: Use) -> Choice:
    """`nn.LayerNorm`: the shape is a tuple, and the axes it covers are counted from the first of them."""
    if use.given("elementwise_affine") or use.given("bias"):  # MindSpore's always has both
        return Choice(_OWN_NORM, uses=_float32(use))
    parts = _elements(use.node("normalized_shape"))
    if parts is not None and len(parts) == 1:
        return Choice(_NORM.format(shape="{normalized_shape}"))
    single = _is_number(use, "normalized_shape")
    if parts is not None or single is False:
        return Choice(_OWN_NORM, uses=_float32(use))  # MindSpore's counts axes from the first of its input
    node = use.node("normalized_shape")
    assume = "" if single or node is None else f"{code(node)} is one number"
    return Choice(_NORM.format(shape="({normalized_shape},)"), assume=assume)


def _float32(use: Use) -> tuple[str, ...]:
    """The type asked for is the one that a layer has anyway."""
    return ("dtype",) if use.text("dtype").rpartition(".")[2] in ("float32", "float") else ()


def upsample(use: Use) -> Choice:
    """`nn.Upsample`: a factor is a float, and the size it gives is what counts."""
    mode = use.value("mode")  # of a mode that is not seen, too, as that of MindSpore's differs for some
    if mode is UNKNOWN or mode in ("bicubic", "nearest-exact", "area") or _fractional(use.value("scale_factor")):
        return Choice(
            "Upsample({size:size}, {scale_factor:scale_factor}, {mode:mode}, {align_corners:align_corners})",
            uses=("recompute_scale_factor",),
        )
    return _resized(use, "mode={mode}, align_corners={align_corners}", "recompute_scale_factor")


def _fractional(value: object) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return any(isinstance(number, float) and number != int(number) for number in numbers)


def upsampling(use: Use) -> Choice:
    """`nn.UpsamplingNearest2d`, `nn.UpsamplingBilinear2d`: Upsample with the mode in its name."""
    bilinear = "mode='bilinear', align_corners=True" if "Bilinear" in use.short else ""
    if _fractional(use.value("scale_factor")):
        return Choice("Upsample({size:size}, {scale_factor:scale_factor}" + f", {bilinear}" * bool(bilinear) + ")")
    return _resized(use, bilinear, "")


def _resized(use: Use, rest: str, recompute: str) -> Choice:
    used = (recompute,) if recompute else ()
    tail = f", {rest}" if rest else ""
    if not use.given("scale_factor"):
        return Choice(f"nn.Upsample({{size:size}}{tail})", uses=(*used, "scale_factor"))
    value = use.value("scale_factor")
    assume, factor, uses = "", "{scale_factor|as_float}", (*used, "size")
    if value is UNKNOWN:
        assume = "the scale factor is a whole number"
    else:
        if isinstance(value, tuple):
            factor, uses = str(tuple(float(number) for number in value)), (*uses, "scale_factor")
    return Choice(f"nn.Upsample(scale_factor={factor}{tail}, recompute_scale_factor=True)", assume=assume, uses=uses)


_TYPES = {"float": "float32", "half": "float16", "double": "float64"}


def module_type(use: Use) -> Choice:
    """`net.half()`, `net.type(torch.float64)`: the parameters in another type."""
    if use.short == "type":
        return _of_type(use, use.text("dst_type").rpartition(".")[2], "{dst_type}", ("dst_type",))
    return _of_type(use, use.short, f"ms.{_TYPES.get(use.short, use.short)}", ())


def _of_type(use: Use, name: str, target: str, uses: tuple[str, ...]) -> Choice:
    kind = _TYPES.get(name, name)
    if kind == "float32" and not use.facts.other_types:
        return Choice("{self}", uses=uses, assume="its parameters are float32, as cells make them")
    if kind == "float64" and use.facts.single_precision:
        return Choice(
            refuse="MindSpore's convolutions, recurrent cells, BatchNorm and SGD do not compute in float64",
            todo="keep float32",
        )
    unsure = kind not in ("float16", "float32", "float64")
    assume = "the device multiplies matrices of this type" if unsure else ""
    return Choice(f"with_dtype({{self}}, {target})", uses=uses, assume=assume)


def module_to(use: Use) -> Choice:
    """`net.to(device)` goes; a cell keeps the element type it was made with."""
    if use.kind("target") == "tensor":
        if not use.facts.other_types:
            return Choice("{self}", uses=("target",), assume="the tensor is float32, as the parameters of cells are")
        return Choice(refuse="the tensor has a place and an element type", todo="write the element type")
    node = use.node("dtype") or use.node("target")
    text = code(node) if node is not None else ""
    if use.given("dtype") or use.kind("target") == "dtype" or "dtype" in text:
        placed = "dtype" if use.node("dtype") is not None else "target"
        return _of_type(use, text.rpartition(".")[2], "{" + placed + "}", ("dtype", "target"))
    kind = use.kind("target")
    assume = "" if kind in ("device", "str", "int", "none") or "dev" in text.lower() else f"{text} is a device"
    return Choice("{self}", uses=("target",), assume=assume)


def _layers(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The layers that are written down in the argument of a container."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        inner: list[cst.CSTNode] = [e.value for e in node.elements]
    elif type(node) is cst.Dict:
        inner = [e.value for e in node.elements]
    elif type(node) is cst.ListComp or type(node) is cst.GeneratorExp:
        inner = [node.elt]
    elif type(node) is cst.IfExp:
        inner = [node.body, node.orelse]
    elif type(node) is cst.BinaryOperation:
        inner = [node.left, node.right]
    elif isinstance(node, cst.Call) and code(node.func).rpartition(".")[2] in ("OrderedDict", "dict", "list", "tuple"):
        inner = [a.value for a in node.args]
    else:
        yield node
        return
    for part in inner:
        yield from _layers(part)


def sequential(use: Use) -> Choice:
    """`nn.Sequential(...)`: it takes cells only."""
    bounds = use.binding.variadic.get("args") or [b for n, b in use.binding.single.items() if n == "args"]
    for bound in bounds:
        if any(is_function(layer) for layer in _layers(bound.updated.value)):
            return Choice(
                refuse="a layer that is a function in MindSpore stands among cells",
                todo="write a cell whose construct calls the function",
            )
    return Choice("nn.SequentialCell({*args})")


def cell_list(use: Use) -> Choice:
    """`nn.ModuleList([...])`."""
    if _named_losses(use):
        return Choice("nn.CellList({modules|listed|celled|each_celled})")
    node = use.node("modules")
    if isinstance(node, (cst.List, cst.Tuple)) and _has_gaps(node, use):
        return Choice("OptionalCellList({modules|celled})")
    return Choice(f"nn.CellList({{modules|listed|celled{_as_list(use)}}})")


def _has_gaps(node: cst.BaseExpression, use: Use) -> bool:
    """Something among the layers is None, or is where a condition has it so."""
    layers = [layer for layer in _layers(node) if isinstance(layer, cst.Name)]
    return any(n.value == "None" or use.facts.left_empty(n) for n in layers)


def appended(use: Use) -> Choice:
    """`layers.append(layer)`: a loss that is a function in MindSpore becomes a cell, under its name as well."""
    node = use.node("module")
    if node is not None and any(isinstance(layer, cst.Name) and layer.value == "None" for layer in _layers(node)):
        todo = "keep a list of which layers there are, or append nn.Identity()"
        return Choice(refuse="MindSpore's CellList takes no None", todo=todo)
    return Choice(f"{{self}}.append({{module|{_one(use, 'module')}}})")


def inserted(use: Use) -> Choice:
    """`layers.insert(index, layer)`, likewise."""
    return Choice(f"{{self}}.insert({{index}}, {{module|{_one(use, 'module')}}})")


def extended(use: Use) -> Choice:
    """`layers.extend([...])`, likewise."""
    return Choice(f"{{self}}.extend({{modules|listed|celled{_as_list(use)}}})")


def _as_list(use: Use) -> str:
    """How a tuple of layers, or what may be one, becomes a list: MindSpore takes nothing else."""
    node = use.node("modules")
    if node is None or isinstance(node, (cst.List, cst.ListComp, cst.GeneratorExp)) or use.kind("modules") == "none":
        return ""
    omitted = getattr(use.facts, "omitted", None)
    if omitted is not None and isinstance(node, cst.Name) and omitted(node):
        return "|list_if_given"
    return "" if use.kind("modules") == "list" else "|as_list"


def _one(use: Use, name: str) -> str:
    """How a single layer becomes a cell."""
    node = use.node(name)
    made = use.facts.cls(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""
    return "celled|as_cell" if made.startswith("torch.nn.") and made.endswith("Loss") else "celled"


def _held(use: Use) -> list[cst.BaseExpression]:
    """What stands in the literal list or dict of a container."""
    node = use.node("modules")
    return [e.value for e in node.elements] if isinstance(node, (cst.List, cst.Tuple, cst.Dict)) else []


def _named_losses(use: Use) -> bool:
    """Losses that have names are held, and nothing else that has: some losses are functions in MindSpore."""
    named = [use.facts.cls(node) for node in _held(use) if isinstance(node, (cst.Name, cst.Attribute))]
    return bool(named) and all(name.startswith("torch.nn.") and name.endswith("Loss") for name in named)


def cell_dict(use: Use) -> Choice:
    """`nn.ModuleDict({...})`: MindSpore's CellDict takes no other containers, and no CellList takes it."""
    node = use.node("modules")
    plain = isinstance(node, cst.Dict) and not any(w in code(node) for w in ("Sequential", "ModuleList", "ModuleDict"))
    several = {f"torch.nn.{name}" for name in ("Sequential", "ModuleList", "ModuleDict")}
    each = "|each_celled" if _named_losses(use) else ""
    if not plain or use.facts.lists_dicts or any(use.facts.cls(held) in several for held in _held(use)):
        return Choice(f"ModuleDict({{modules|celled{each}}})")
    if each:
        return Choice("nn.CellDict({modules|celled|each_celled})")
    return Choice("nn.CellDict({modules|celled})")


def add_module(use: Use) -> Choice:
    """`net.add_module(name, layer)`: a SequentialCell runs only what was appended to it."""
    cls = use.cls("self")
    if cls == "torch.nn.Sequential":
        if use.facts.looked_up(use.value("name")):
            return Choice("set_cell({self}, {name}, {module})", evidence="pass")
        return Choice("{self}.append({module})", uses=("name",), assume="nothing looks the layer up by its name")
    # insert_child_to_cell would leave the cell's name out of its parameters' names, which an optimizer then finds twice
    held = use.node("self")
    if held is not None and use.facts.sequential(held) is False:  # it runs no list of its layers
        return Choice("setattr({self}, {name}, {module})", evidence="pass")
    return Choice("set_cell({self}, {name}, {module})")
