"""Tensor methods that do different things by the kind of their argument."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_OLD_TYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool_",
}
_WHOLE = {"bool", "bool_", "uint8", "int8", "int16", "int32", "int64", "int"}  # element types that have no gradient
_SIZE = re.compile(
    r"features|channels|size|dim|num_|_num|units|width|heads|d_model|epochs$|steps$|iters$|length$|count$|"
    r"^n$|^n_|^n(feat|hid|class|in|out|z|c|f)\w*$"
)
_SIZED = "ops.zeros({{data}}{}) if isinstance({{data}}, int)"  # what nobody knows may be a number, which is a size
_TOTAL = re.compile(r"(?:np|numpy)\.(?:sum|prod)\((?!.*axis)[\w.]+\)$")
_DEVICES = re.compile(r"(cpu|cuda|mps|xpu|npu|hpu|ipu|xla|meta|mtia|musa|mlu|maia|vulkan|privateuseone|gpu)\b")
_DEVICE_WORDS = ("dev", "cuda", "cpu", "gpu", "rank")


def device(use: Use) -> Choice:
    """`torch.device('cuda', 0)`: MindSpore places nothing by it, its name stands for it."""
    kind, index = use.value("type"), use.value("index")
    placed = "only passed on to what places tensors"
    if isinstance(kind, str) and isinstance(index, int):
        text = use.text("type")
        return Choice(f"{text[:-1]}:{index}{text[-1]}", assume=placed, uses=("type", "index"))
    return Choice("{type}", assume=placed)


def _converted(use: Use, written: str, dtype: str, assume: str = "", uses: tuple[str, ...] = ()) -> Choice:
    """`x` as another type, `dtype` where it is known; MindSpore's gradient goes through to whole numbers."""
    made = f"{{self}}.astype({written})"
    ends = dtype in _WHOLE and use.varied("self") and use.dtype("self") not in _WHOLE
    return Choice(f"ops.stop_gradient({made})" if ends else made, assume=assume, uses=uses)


def to(use: Use) -> Choice:
    """`x.to(device | dtype | tensor, ...)`: the device goes, the dtype stays."""
    if use.passed("dtype") and use.kind("dtype") != "bool":  # .to(device, dtype); a bool there is non_blocking
        return _converted(use, "{dtype}", use.dtype("dtype") or use.text("dtype"))
    if use.passed("other"):
        return _converted(use, "{other}.dtype", use.dtype("other"))
    first = use.kind("target")
    same = use.dtype("target") == use.dtype("self") != ""  # two that are not known may differ
    if first == "dtype" and same and not use.given("copy"):
        return Choice("{self}", returns="same")  # torch gives the very tensor, whose changes are seen through it
    if first == "dtype":
        return _converted(use, "{target}", use.dtype("target"))
    if first == "tensor":
        return _converted(use, "{target}.dtype", use.dtype("target"))
    named = use.value("target")
    if isinstance(named, str) and not _DEVICES.match(named):
        return Choice(refuse=f"torch has no device of the name {named!r}", todo="leave it as it is if it is no tensor")
    if first in ("device", "str", "int", "none"):
        return Choice("{self}", returns="same")
    node = use.node("target")
    text = code(node).lower() if node is not None else ""
    if text in ("bool", "int", "float", "complex"):
        return _converted(use, "{target}", text)
    if "dtype" in text:
        return Choice("{self}.astype({target})", assume=f"{text} is a dtype")
    if any(word in text for word in _DEVICE_WORDS):
        return Choice("{self}", returns="same", assume=f"{text} is a device")
    return Choice(
        refuse="cannot tell whether the argument is a device, a dtype or a tensor",
        todo="drop .to(device), or write .to(dtype=...)",
    )


def clone(use: Use) -> Choice:
    """`x.clone()`: the copy of a Parameter is cut from its graph in MindSpore, that of a tensor is not."""
    name = "input" if use.passed("input") else "self"
    node = use.node(name)
    weight = node is not None and use.facts.weight(node)
    return Choice(f"ops.deepcopy({{{name}}})" if weight else f"{{{name}}}.copy()")


def typed(use: Use) -> Choice:
    """`torch.FloatTensor(...)`: a size where it is given numbers, else data."""
    element = "" if use.short in ("Tensor", "FloatTensor") else f", dtype=ms.{_OLD_TYPES[use.short]}"
    if use.count("data") == 0:
        return Choice(f"ops.zeros((0,){element})")
    kind = use.kind("data")
    if use.count("data") > 1 or use.starred("data") or kind in ("int", "float"):
        return Choice(f"ops.zeros({{data}}{element})")
    if use.short == "Tensor" and _either(use):
        named = kind == "tensor" and isinstance(use.node("data"), cst.Name)  # other places are settings as often
        sized = "" if named else f"{_SIZED.format(element)} else "
        return Choice("({data} if isinstance({data}, ms.Tensor) else " + sized + "ms.tensor({data}, dtype=ms.float32))")
    computed = use.node("data")
    if kind == "tensor" and use.guessed("data") and type(computed) is cst.BinaryOperation:
        if _SIZE.search(use.text("data")):
            return Choice(f"ops.zeros({{data}}{element})", assume=f"{use.text('data')} is a size, not data")
        if not any(type(n) in (cst.Call, cst.Await, cst.NamedExpr) for n in descend(computed)):
            return Choice(f"({_SIZED.format(element)} else {{data}})")
    if kind == "tensor" and use.short == "Tensor":
        return Choice("{*data}", assume="" if use.known("data") else f"{use.text('data')} is a tensor")
    if kind == "size":
        return Choice(f"ops.zeros({{*data}}{element})")
    if kind == "numpy" and _TOTAL.match(use.text("data")):  # a number: of something else than whole ones, torch raises
        return Choice(f"ops.zeros(int({{data}}){element})")
    node = use.node("data")
    data = "list({data})" if node is not None and use.facts.ranged(node) else "{data|sequence}"
    made = f"ms.tensor({data}, dtype=ms.{_OLD_TYPES.get(use.short, 'float32')})"
    if kind in ("list", "tuple", "numpy"):
        return Choice(made)
    if kind != "tensor" and _SIZE.search(use.text("data").rpartition(".")[2]):
        return Choice(f"ops.zeros({{data}}{element})", assume=f"{use.text('data')} is a size, not data")
    if kind == "unknown" and use.simple("data"):
        return Choice(f"{_SIZED.format(element)} else {made}")
    return Choice(made, assume="the argument is data, not a size")


def _either(use: Use) -> bool:
    """It may be a tensor, whose gradient `ms.tensor` would lose, as well as data: `forward(obs)`, `forward(net(x))`."""
    kind = use.kind("data")
    if use.count("data") != 1 or use.starred("data") or not use.simple("data"):
        return False
    return kind == "tensor" and use.guessed("data") or kind == "unknown" and use.varied("data")


def view(use: Use) -> Choice:
    """`x.view(shape)` and `x.view(dtype)`, which shows the same memory as another type."""
    if use.passed("size"):
        return Choice("{self}.view({size|axes})")
    if use.passed("dtype"):
        return Choice("{self}.view({dtype})")
    return Choice("{self}.view({*shape})")


def _type_of(node: cst.BaseExpression | None) -> str | None:
    """The name of the tensor in `y.type()`."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return None
    named = isinstance(node.func.value, cst.Name) and node.func.attr.value == "type"
    return code(node.func.value) if named else None


def type_(use: Use) -> Choice:
    """`x.type()` names the type, `x.type(dtype)` converts."""
    if not use.given("dtype"):
        names = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
                 "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
                 "complex64": "ComplexFloat", "complex128": "ComplexDouble"}  # fmt: skip
        if known := names.get(use.dtype("self")):
            return Choice(f"'torch.{known}Tensor'", returns="str")
        return Choice("type_name({self})", returns="str")
    text = use.text("dtype").strip("'\"")
    if text.endswith("Tensor"):  # the old names of types: torch.LongTensor, 'torch.cuda.FloatTensor'
        element = _OLD_TYPES.get(text.rpartition(".")[2])
        if element is None and use.kind("dtype") == "dtype":  # a name for one of these: it stands for the element type
            return Choice("{self}.astype({dtype})")
        if element is None:
            return Choice(refuse=f"{text} names no element type of MindSpore", todo="write .to(dtype)")
        return _converted(use, f"ms.{element}", element, uses=("dtype",))
    if (like := _type_of(use.node("dtype"))) is not None:
        return Choice(f"{{self}}.astype({like}.dtype)", uses=("dtype",))
    if use.kind("dtype") == "str":
        if isinstance(use.value("dtype"), str):
            return Choice(refuse="the type is named by a string", todo="write .type(torch.float32)")
        if use.varied("self"):
            return Choice(refuse="whether a gradient goes through depends on the type", todo="write the type itself")
        return Choice("{self}.astype(element_type({dtype}))")
    return _converted(
        use, "{dtype}", use.dtype("dtype") or text, "" if use.kind("dtype") == "dtype" else f"{text} is a dtype"
    )
