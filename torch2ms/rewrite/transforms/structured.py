"""Transforms of functions that take dicts of tensors, which MindSpore's neither differentiate nor map over."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structures import takes_dict, used_as_dict
from torch2ms.analysis.syntax.tree import code
from torch2ms.rewrite.transforms.compiled import Functions, transform

OVER_SAMPLES, GRADIENT, JACOBIAN = "over_samples", "gradient_of_dicts", "jacobian_of_dicts"
FORMS = {"vmap": OVER_SAMPLES, "grad": GRADIENT, "grad_and_value": GRADIENT, "jacrev": JACOBIAN, "jacfwd": JACOBIAN}
NAMES = {"in_dims": "in_axes", "out_dims": "out_axes"}


def takes_dicts(node: cst.BaseExpression, functions: Functions) -> bool:
    """A function, or what a transform makes of one, has an argument that is a dict of tensors."""
    seen: set[str] = set()  # `f = vmap(f)`
    while isinstance(node, cst.Call) or isinstance(node, cst.Name) and node.value not in seen:
        if isinstance(node, cst.Name):
            seen.add(node.value)
            if (made := _made(node.value, functions)) is None:
                break
            node = made
        if not transform(functions.module.value(node.func).name) or not node.args:
            return False
        node = node.args[0].value
    project = functions.project
    if isinstance(node, cst.Lambda):
        params = [p.name.value for p in node.params.params]
        return any(used_as_dict(node.body, name, functions.module, project) for name in params)
    info = functions.resolve(node)
    return isinstance(info, FunctionInfo) and any(takes_dict(info, i, project) for i in range(len(info.scope.params)))


def _made(name: str, functions: Functions) -> cst.Call | None:
    """The transform that a name was bound to."""
    for scope in functions.module.scope.walk():
        for stmt in scope.body.walk():
            if name in stmt.defs and isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Call):
                if transform(functions.module.value(stmt.node.value.func).name):
                    return stmt.node.value
    return None


def again(node: cst.BaseExpression, functions: Functions) -> bool:
    """The function is a gradient itself, or the module differentiates what such functions give."""
    made = _made(node.value, functions) if isinstance(node, cst.Name) else node if isinstance(node, cst.Call) else None
    if made is not None and transform(functions.module.value(made.func).name) not in ("", "vmap"):
        return True
    return functions.again


def form(kind: str, updated: cst.Call) -> cst.BaseExpression | None:
    """The call of a definition in place of the transform."""
    if kind not in FORMS:
        return None
    args = []
    for arg in updated.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        if name in NAMES and isinstance(arg.value, (cst.Dict, cst.Tuple, cst.List)) and "{" in code(arg.value):
            return None  # an axis for each entry
        if name and name not in ("func", "argnums", *NAMES):
            return None
        args.append(arg.with_changes(keyword=cst.Name(NAMES[name])) if name in NAMES else arg)
    if kind == "grad_and_value":
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        args.append(cst.Arg(cst.Name("True"), keyword=cst.Name("valued"), equal=equal))
    return cst.Call(cst.Name(FORMS[kind]), args)


__all__ = ["FORMS", "form", "takes_dicts"]
