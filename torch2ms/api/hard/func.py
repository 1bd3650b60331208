"""Function transforms: gradients, Jacobians and Hessians of functions."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_EXTRA = "MindSpore puts the extra outputs of has_aux into a tuple of their own"
_ONE = "with one argument in a tuple MindSpore returns the gradient alone"


def _positions(use: Use) -> str:
    """Why these argnums cannot be grad_position; empty where they can."""
    value = use.value("argnums")
    many = list(value) if isinstance(value, (tuple, list)) else [value]
    if isinstance(value, (tuple, list)) and len(many) == 1:
        return _ONE
    if any(isinstance(v, int) and v < 0 for v in many):
        return "positions count from the first argument"
    return ""


def gradient(use: Use) -> Choice:
    """`grad(f, argnums)`."""
    if use.given("has_aux"):
        return Choice(refuse=_EXTRA, todo="write ms.value_and_grad(f, has_aux=True) and unpack ((value, aux), grads)")
    if problem := _positions(use):
        return Choice(refuse=problem, todo="write the positions as plain numbers")
    name = "grad" if use.short == "grad" else "value_and_grad"
    return Choice(f"ms.{name}({{func}}, {{argnums:grad_position}})", evidence="pass")


def jacobian(use: Use) -> Choice:
    """`jacrev(f, argnums)`."""
    if use.given("randomness"):
        return Choice(refuse="MindSpore does not say how random draws are mapped", todo="draw outside of the function")
    if problem := _positions(use):
        return Choice(refuse=problem, todo="write the positions as plain numbers")
    return Choice(
        f"ms.{use.short}({{func}}, {{argnums:grad_position}}, {{has_aux:has_aux}})",
        evidence="pass",
        uses=("randomness",),
    )


def hessian(use: Use) -> Choice:
    """`hessian(f)`: forward over reverse."""
    if isinstance(use.value("argnums"), (tuple, list)) or not use.known("argnums") or _positions(use):
        return Choice(
            refuse="second derivatives with respect to several arguments were not measured",
            todo="take them one pair at a time",
        )
    if use.given("argnums"):
        return Choice("ms.jacfwd(ms.jacrev({func}, {argnums}), {argnums})", evidence="pass")
    return Choice("ms.jacfwd(ms.jacrev({func}))", evidence="pass")


def _elements(use: Use, name: str) -> list[cst.BaseExpression] | None:
    node = use.node(name)
    if not isinstance(node, (cst.Tuple, cst.List)):
        return None
    return [element.value for element in node.elements]


def _certain(use: Use, name: str) -> str:
    return "" if use.kind(name) == "tensor" else f"{use.text(name)} is one tensor"


def jacobian_at(use: Use) -> Choice:
    """`jacobian(f, inputs)`: the Jacobian at a point."""
    if use.given("create_graph"):
        return Choice(refuse="a Jacobian that is differentiated again was not measured", todo="write a jitted function")
    parts = _elements(use, "inputs")
    if parts is None:
        return Choice("ms.jacrev({func})({inputs})", assume=_certain(use, "inputs"), evidence="pass")
    if len(parts) == 1:
        return Choice(refuse=_ONE, todo="pass the tensor itself")
    places = ", ".join(str(i) for i in range(len(parts)))
    return Choice(f"ms.jacrev({{func}}, ({places}))(*{{inputs}})", evidence="pass")


def hessian_at(use: Use) -> Choice:
    """`hessian(f, inputs)`: the Hessian at a point."""
    if use.given("create_graph"):
        return Choice(refuse="a Hessian that is differentiated again was not measured", todo="write a jitted function")
    if _elements(use, "inputs") is not None:
        return Choice(
            refuse="second derivatives with respect to several arguments were not measured",
            todo="take them one pair at a time",
        )
    return Choice("ms.jacfwd(ms.jacrev({func}))({inputs})", assume=_certain(use, "inputs"), evidence="pass")


def hessian_product(use: Use) -> Choice:
    """`hvp(f, inputs, v)`: the Hessian is symmetric, so that `vhp` is the same product."""
    if use.given("create_graph") or use.kind("inputs") != "tensor" or use.kind("v") != "tensor":
        return Choice(refuse="only one tensor and its vector were measured", todo="write a jitted function")
    return Choice("hessian_product({func}, {inputs}, {v})", evidence="pass")


def forward_mode(use: Use) -> Choice:
    """`jvp(f, primals, tangents)`; MindSpore wants a single tensor without its tuple."""
    first, second = ("primals", "tangents") if "primals" in use.binding.signature.by_name else ("inputs", "v")
    extra = [name for name in ("has_aux", "create_graph") if name in use.binding.signature.by_name and use.given(name)]
    if extra or not use.passed(second):
        return Choice(refuse=f"{', '.join(extra) or 'v left out'} was not measured", todo="write ms.jvp by hand")
    points, vectors = _elements(use, first), _elements(use, second)
    if points is None and vectors is None:
        if use.kind(first) == use.kind(second) == "tensor":
            return Choice(f"ms.jvp({{func}}, {{{first}}}, {{{second}}})", evidence="pass")
        return Choice(
            refuse="a single tensor is passed without a tuple in MindSpore, and this may be either",
            todo="ms.jvp(fn, x, v) or ms.jvp(fn, (x, y), (v, w))",
        )
    if points is None or vectors is None or len(points) != len(vectors):
        return Choice(refuse="points and directions differ in form", todo="write both as tuples")
    if len(points) == 1:
        return Choice(f"ms.jvp({{func}}, {{{first}|only}}, {{{second}|only}})", evidence="pass")
    return Choice(f"ms.jvp({{func}}, {{{first}}}, {{{second}}})", evidence="pass")
