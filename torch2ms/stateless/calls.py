"""Calls of `functional_call`, as far as the forward that they run is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.stateless.forwards import Forwards, Unfit
from torch2ms.stateless.layers import made_by

NAMES = {"torch.func.functional_call", "torch.nn.utils.stateless.functional_call"}


@dataclass(eq=False)
class Site:
    """One call, and what takes its place: a method of a class, or a function beside a Sequential."""

    call: cst.Call
    module: ModuleInfo
    weights: cst.BaseExpression
    args: list[cst.Arg]
    cls: ClassInfo | None = None
    layers: cst.Call | None = None  # `nn.Sequential(...)`
    model: cst.BaseExpression | None = None


def sites(module: ModuleInfo, project: Project, forwards: Forwards) -> Iterator[Site]:
    """The calls of a module that can be written with a forward of weights."""
    if module.uses_mindspore:
        return
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            for call in stmt.calls:
                if qualified(call.func, module.imports) in NAMES:
                    try:
                        yield _read(call, module, project, forwards)
                    except Unfit:
                        continue


def _read(call: cst.Call, module: ModuleInfo, project: Project, forwards: Forwards) -> Site:
    given = _arguments(call)
    model, weights = given.get("module"), given.get("parameter_and_buffer_dicts", given.get("parameters_and_buffers"))
    if model is None or weights is None or "tie_weights" in given:
        raise Unfit("its arguments are not seen")
    buffers = isinstance(weights, (cst.Tuple, cst.List))
    if isinstance(weights, (cst.Tuple, cst.List)):
        if not weights.elements:
            raise Unfit("its weights are not seen")
        weights = weights.elements[0].value
    value = module.value(model)
    if value.kind != "module":
        raise Unfit("which network it runs is not seen")
    site = Site(call, module, weights, _passed(given, module), model=model)
    found = project.find(value.name, module) if value.name else None
    if isinstance(found, ClassInfo):
        site.cls = found
        forwards.need(found)
    elif value.name == "torch.nn.Sequential":
        site.layers = _sequential(value.place or dotted(model), module)
        forwards.chain(site.layers, module)
    else:
        raise Unfit("which network it runs is not seen")
    if buffers and site.cls is not None and forwards.buffers(site.cls):
        raise Unfit("its buffers are given as well")
    return site


def _arguments(call: cst.Call) -> dict[str, cst.BaseExpression]:
    order = ["module", "parameter_and_buffer_dicts", "args", "kwargs"]
    given: dict[str, cst.BaseExpression] = {}
    for arg in call.args:
        if arg.star:
            raise Unfit("its arguments are not seen")
        given[arg.keyword.value if arg.keyword is not None else order[len(given)]] = arg.value
    return given


def _passed(given: dict[str, cst.BaseExpression], module: ModuleInfo) -> list[cst.Arg]:
    """What the forward is called with beside the weights."""
    args, kwargs = given.get("args"), given.get("kwargs")
    made: list[cst.Arg] = []
    if isinstance(args, cst.Tuple):
        for element in args.elements:
            made.append(cst.Arg(element.value, star="*" if isinstance(element, cst.StarredElement) else ""))
    elif args is not None and not (isinstance(args, cst.Name) and args.value == "None"):
        made.append(cst.Arg(args, star="*" if module.value(args).kind in ("tuple", "list") else ""))
    if kwargs is None or isinstance(kwargs, cst.Name) and kwargs.value == "None":
        return made
    if not isinstance(kwargs, cst.Dict):
        return [*made, cst.Arg(kwargs, star="**")]
    for entry in kwargs.elements:
        key = constant(entry.key) if isinstance(entry, cst.DictElement) else None
        if not isinstance(key, str):
            raise Unfit("its arguments are not seen")
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        made.append(cst.Arg(entry.value, keyword=cst.Name(key), equal=equal))
    return made


def _sequential(place: str, module: ModuleInfo) -> cst.Call:
    """The call that makes a network of layers, which the module binds to the name once."""
    made = [s for s in module.scope.body.walk() if place in s.defs]
    node = made[0].node if len(made) == 1 else None
    call = made_by(node.value) if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if call is None or qualified(call.func, module.imports) != "torch.nn.Sequential":
        raise Unfit("the layers of its network are not seen")
    return call
