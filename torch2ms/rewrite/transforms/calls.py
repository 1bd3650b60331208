"""Calls of function transforms (torch.func) and of what they return."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import UNKNOWN
from torch2ms.api import Rule
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.naming import taken_names
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.transforms import compiled, structured
from torch2ms.rewrite.translation import Translation

BY_ROWS = {"hessian": "hessian_of", "jacobian": "jacobian_of", "jacrev": "jacobian_of", "jacfwd": "jacobian_of"}
ROWWISE = ("torch.func:hessian", "torch.func:jacrev", "torch.func:jacfwd")  # may be those, which vmap cannot map
JACOBIANS = ("jacrev", "jacfwd", "hessian")
DICTS = "gradients of dicts that are differentiated again are right in compiled code alone"


def transformed(
    kind: str,
    rule: Rule,
    original: cst.Call,
    updated: cst.Call,
    left: cst.BaseExpression,
    work: Translation,
    where: Positions,
) -> cst.BaseExpression:
    """A function transform: lambdas that MindSpore would have to read get a name above the statement."""
    functions = compiled.Functions(work.project, work.module)
    at = compiled.function_at(original)
    if original.args and structured.takes_dicts(original.args[at].value, functions):
        return _of_dicts(kind, rule, original, updated, left, work, functions)
    point = _point(kind, original, where, functions)
    if kind == "vmap" and original.args and isinstance(inner := original.args[at].value, cst.Call):
        if _point(compiled.transform(work.module.value(inner.func).name), inner, where, functions) is not None:
            return _of_dicts(kind, rule, original, updated, left, work, functions)
    mapped = original.args[at].value if kind == "vmap" and original.args else None
    if mapped is not None and not functions.unseen(mapped) and functions.multiplies_vectors(mapped):
        if (made := structured.form(kind, updated)) is not None:
            work.notes.needs |= {structured.OVER_SAMPLES}
            why = "one sample after the other: MindSpore's vmap multiplies matrices with the wrong side of vectors"
            work.tell("T2M221", rule.name, why)
            return made
    held = work.module.value(original.args[at].value) if original.args else UNKNOWN
    if kind == "vmap" and held.name in ROWWISE and isinstance(original.args[at].value, cst.Name):
        return _of_dicts(kind, rule, original, updated, left, work, functions)
    lambdas = bool(original.args) and kind in compiled.NAMED
    lambdas = lambdas and any(isinstance(n, cst.Lambda) for n in descend(original.args[at]))
    if problem := _problem(kind, original, point, lambdas, where, functions):
        todo = "write the function with ms.grad, ms.vmap or ms.jit by hand"
        if kind == "grad_and_value" and id(original) not in where.applied:
            todo = "write the function with ms.value_and_grad by hand: its calls take the value first, as that gives it"
        work.refuse("T2M220", rule.name, problem, todo)
        return left
    multiplied = kind in compiled.COMPILED and point is None and original.args
    if multiplied and functions.multiplies_vectors(original.args[at].value):
        why = "no matrix in it is multiplied with a vector: MindSpore fails on that when it maps the vector"
        work.notes.findings.append(Finding("T2M221", Tier.ASSUMED, rule.name, why))
    if kind == "jacobian" and (short := compiled.at_position(original, updated, work.module)) is not None:
        work.notes.needs.add("ms")
        work.tell("T2M221", rule.name, "the lambda only chooses an argument: its position is differentiated")
        return short
    if lambdas:
        taken = taken_names(work.module, work.plan)
        named = updated.args[at].visit(compiled.Naming(taken, work.notes.above))
        updated = updated.with_changes(args=[*updated.args[:at], named, *updated.args[at + 1 :]])
        work.tell("T2M221", rule.name, "MindSpore reads the source of the function: the lambda has a name")
    if point is not None:
        work.notes.needs.add(BY_ROWS[kind])
        how = "compiles the second derivatives" if kind == "hessian" else "takes the derivatives"
        work.tell("T2M221", rule.name, f"a definition that {how}, row by row")
        made = cst.Call(cst.Name(BY_ROWS[kind]), [cst.Arg(updated.args[0].value)])
        return made if len(updated.args) == 1 else cst.Call(made, [cst.Arg(updated.args[1].value)])
    return work.take(work.apply(rule, original, updated), left)


def _problem(
    kind: str,
    original: cst.Call,
    point: cst.BaseExpression | None,
    lambdas: bool,
    where: Positions,
    functions: compiled.Functions,
) -> str:
    """Why MindSpore's transform would fail, or give other numbers; `lambdas`: it would read the source of some."""
    if why := functions.problem(kind, original):
        return why
    at = compiled.function_at(original)
    if point is not None and functions.again and (name := functions.carried(original.args[at].value)):
        return f"compiled code has no gradient of `{name}`, which the function takes from around it"
    outer = where.applied.get(id(original)) if kind in JACOBIANS and original.args and point is None else None
    if outer is not None and functions.vector_on_the_right(original.args[at].value, outer):
        return "MindSpore's Jacobians fail on the product of a matrix and a vector"
    if kind == "grad_and_value" and id(original) not in where.called:
        return "MindSpore returns the value first: the calls of this function must be seen"
    if lambdas and where.nested:
        return "MindSpore reads the source of the function, and this lambda uses names of an expression"
    return ""


def _point(kind: str, original: cst.Call, where: Positions, functions: compiled.Functions) -> cst.BaseExpression | None:
    """Where derivatives of a function of one tensor are taken that MindSpore's own transforms fail on or get wrong.

    `hessian(f)(x)`, `hessian(f, x)`, or mapped; Jacobians of products with vectors.
    """
    options = {a.keyword.value for a in original.args if a.keyword is not None}
    plain = [a.value for a in original.args if a.keyword is None and not a.star]
    outer = where.applied.get(id(original))
    if kind not in BY_ROWS or not plain or isinstance(plain[0], cst.Call):
        return None
    if kind != "hessian":
        if functions.again or not functions.multiplies_vectors(plain[0]):
            return None
    elif not functions.again and not functions.fails_mapped(plain[0]):
        return None  # MindSpore's own
    if outer is not None and len(plain) == len(original.args) == 1 and len(outer.args) == 1:
        return outer.args[0].value if not outer.args[0].star and outer.args[0].keyword is None else None
    called = kind != "jacobian" and outer is None and id(original) in where.called
    if called and len(original.args) == 1:  # one sample after the other
        info = functions.resolve(plain[0])
        return plain[0] if info is not None and len(set(info.scope.params) - {"self"}) == 1 else None
    tensor = len(plain) == 2 and where.module.value(plain[1]).kind == "tensor"
    return plain[1] if outer is None and tensor and options <= {"create_graph", "vectorize"} else None


def _of_dicts(
    kind: str,
    rule: Rule,
    original: cst.Call,
    updated: cst.Call,
    left: cst.BaseExpression,
    work: Translation,
    functions: compiled.Functions,
) -> cst.BaseExpression:
    """A transform of a function that takes dicts of tensors, written out."""
    made = structured.form(kind, updated)
    inner = original.args[0].value
    twice = kind != "vmap" and (structured.again(inner, functions) or functions.differentiates(inner, frozenset()))
    if made is None or twice:
        work.refuse("T2M220", rule.name, DICTS, "pass the tensors of the dict as arguments of their own")
        return left
    work.notes.needs |= {structured.FORMS[kind]}
    work.tell("T2M221", rule.name, "a definition that takes dicts of tensors, one gradient or sample after the other")
    return made


def misgiven(original: cst.Call, work: Translation) -> bool:
    """Refused: a call of what `vmap` or `vjp` made with what MindSpore's does not take."""
    made = work.module.value(original.func).name
    if made == "torch.func:vmap" and any(a.keyword is not None or a.star == "**" for a in original.args):
        why, todo = "what ms.vmap returns takes no keywords", "pass the arguments by position, with in_dims for each"
    elif made == "torch.func:pull" and any(work.module.value(a.value).kind == "dict" for a in original.args):
        why, todo = "what ms.vjp returns takes tensors, and no dict of them", "return a tuple from the function"
    else:
        return False
    of = "torch.func.vmap" if made.endswith("vmap") else "torch.func.vjp"
    work.refuse("T2M220", f"call of what {of} returns", why, todo)
    return True


def swapped(node: cst.CSTNode, work: Translation) -> bool:
    """A call of what grad_and_value made: MindSpore gives the value first."""
    if type(node) is not cst.Call or work.module.value(node.func).name != "torch.func:grad_and_value":
        return False
    if structured.takes_dicts(node.func, compiled.Functions(work.project, work.module)):
        return False  # a definition, which gives them in torch's order
    return not any(f.code == "T2M220" for f in work.notes.findings)


def assigned(original: cst.Assign, updated: cst.Assign, work: Translation) -> cst.Assign:
    """`grads, value = grad_and_value(f)(x)` changes the order of its targets."""
    target = updated.targets[0].target
    value = updated.value
    if not swapped(original.value, work) or not isinstance(value, cst.Subscript) or len(updated.targets) != 1:
        return updated
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return updated
    one, two = target.elements
    pair = [one.with_changes(value=two.value), two.with_changes(value=one.value)]
    return updated.with_changes(
        value=value.value, targets=[updated.targets[0].with_changes(target=target.with_changes(elements=pair))]
    )
