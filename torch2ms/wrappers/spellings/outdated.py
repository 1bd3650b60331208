"""What torch still takes and no longer documents: `p.add_(-lr, grad)` is `p.add_(grad, alpha=-lr)`.

Optimizers and losses of some years ago are full of them: `v.addcmul_(1 - beta, g, g)`, `dist.addmm_(1, -2, x, y.t())`.
`torch.arange(0, n, out=torch.LongTensor(n))` made indices before there was `dtype=`: `.long()` of them.
Workers that share a network set `shared._grad`, which could be set when `.grad` could not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import name_called
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

SCALED = {"add": (1, "alpha"), "sub": (1, "alpha"), "addcmul": (2, "value"), "addcdiv": (2, "value")}  # tensors, number
WEIGHED = {"addmm", "addmv", "addr", "addbmm", "baddbmm"}  # of two tensors, with `beta` and `alpha`
CALL = re.compile(r"\b(?:add|sub|addcmul|addcdiv|addmm|addmv|addr|addbmm|baddbmm)_?\(")

MADE = re.compile(r"\bout *= *torch\.(?:cuda\.)?[A-Z]\w+Tensor\(")
TYPES = {"LongTensor": "long", "IntTensor": "int", "ShortTensor": "short", "CharTensor": "char", "ByteTensor": "byte",
         "BoolTensor": "bool", "FloatTensor": "float", "DoubleTensor": "double", "HalfTensor": "half"}  # fmt: skip


@each_module
def outdated(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such calls."""
    if not module.has("._grad") and not module.says(CALL) and not module.says(MADE):
        return None
    hidden = {id(n) for n in module.of_kind(cst.Attribute) if _hidden(n, module)} if module.has("._grad") else set()
    calls = [c for scope in module.scope.walk() for stmt in scope.body.walk() for c in stmt.calls
             ] if module.says(CALL) else []  # fmt: skip
    found = {id(call): args for call in calls if (args := _documented(call, module)) is not None}
    into = {id(c): t for c in module.of_kind(cst.Call) if (t := _made_there(c, module))} if module.says(MADE) else {}
    return _Writer(module, found, hidden, into).plain() if found or hidden or into else None


def _made_there(call: cst.Call, module: ModuleInfo) -> str:
    """The conversion to the type of a tensor that is made in the call to be written into; "" where there is none."""
    out = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "out"), None)
    if not isinstance(out, cst.Call) or not module.value(call.func).name.startswith("torch."):
        return ""
    sized = all(module.value(a.value).kind != "list" and not isinstance(a.value, cst.List) for a in out.args)
    name = module.value(out.func).name
    return TYPES.get(name.rpartition(".")[2], "") if sized and name.startswith("torch.") else ""


def _hidden(node: cst.Attribute, module: ModuleInfo) -> bool:
    """`p._grad` of a parameter is its gradient."""
    return node.attr.value == "_grad" and module.value(node.value).kind in ("tensor", "param")


def _documented(call: cst.Call, module: ModuleInfo) -> list[tuple[str, int]] | None:
    """The arguments as they are documented, each with its keyword and its number in the call; None for other calls."""
    name = name_called(call)
    plain = name.removesuffix("_")
    if plain not in SCALED and plain not in WEIGHED or any(a.keyword is not None or a.star for a in call.args):
        return None
    of_torch = module.value(call.func).name == f"torch.{plain}"
    if not of_torch and not _of_tensor(call, module, changes=name.endswith("_")):
        return None
    if plain in SCALED:
        return _scaled(len(call.args), of_torch, *SCALED[plain])
    return _weighed(len(call.args), of_torch)


def _of_tensor(call: cst.Call, module: ModuleInfo, changes: bool) -> bool:
    if not isinstance(call.func, cst.Attribute):
        return False
    kind = module.value(call.func.value).kind
    return kind in ("tensor", "param") or changes and kind == "unknown"


def _scaled(count: int, of_torch: bool, tensors: int, number: str) -> list[tuple[str, int]] | None:
    """`add(alpha, other)`, and `torch.add(input, alpha, other)`."""
    at = int(of_torch)
    if count != at + tensors + 1:
        return None
    return [("", i) for i in (*range(at), *range(at + 1, count))] + [(number, at)]


def _weighed(count: int, of_torch: bool) -> list[tuple[str, int]] | None:
    """`addmm(beta, alpha, a, b)` without `alpha` as well, and `torch.addmm(beta, input, alpha, a, b)`."""
    given = count - int(of_torch)
    if given not in (3, 4):
        return None
    numbers = [("beta", 0)] + ([("alpha", count - 3)] if given == 4 else [])
    return [("", i) for i in ([1] if of_torch else [])] + [("", count - 2), ("", count - 1)] + numbers


class _Writer(Suites):
    """One module with the documented arguments and names."""

    def __init__(
        self, module: ModuleInfo, found: dict[int, list[tuple[str, int]]], hidden: set[int], into: dict[int, str]
    ) -> None:
        super().__init__(module)
        self.found, self.hidden, self.into = found, hidden, into

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        return updated.with_changes(attr=cst.Name("grad")) if id(original) in self.hidden else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if (kind := self.into.get(id(original))) is not None:
            kept = [a for a in updated.args if a.keyword is None or a.keyword.value != "out"]
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return cst.Call(cst.Attribute(updated.with_changes(args=kept), cst.Name(kind)))
        order = self.found.get(id(original))
        return updated if order is None else updated.with_changes(args=_ordered(updated.args, order))


def _ordered(args: Sequence[cst.Arg], order: list[tuple[str, int]]) -> list[cst.Arg]:
    """Commas and line breaks stay where they were."""
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    made = []
    for place, (keyword, number) in zip(args, order, strict=True):
        named = {"keyword": cst.Name(keyword), "equal": equal} if keyword else {}
        made.append(place.with_changes(value=args[number].value, **named))
    return made
