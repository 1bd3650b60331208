"""Numbers of NumPy to the left of a tensor: NumPy would make an array of the tensor there, and lose its gradient."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.program.sites import Site, calls_of
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

DRAWS = re.compile(r"rand|normal|bernoulli|multinomial|poisson|drop|gumbel|rrelu")
FUNCTIONS: dict[type, str] = {cst.Multiply: "mul", cst.Add: "add", cst.Subtract: "sub", cst.Divide: "div"}
TURNING = (cst.Multiply, cst.Add)
REGROUPED = (cst.FloorDivide, cst.Modulo, cst.MatrixMultiply)  # as tight as a product, and no part of one
BINDING = (cst.NamedExpr, cst.Await, cst.Yield)  # what happens in a certain order without a call


def beside(original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation) -> cst.BaseExpression:
    """`np.sqrt(2) * x`, and `weights[k] * losses[k]` of weights that nobody saw made."""
    left, right = work.module.value(original.left), work.module.value(original.right)
    if type(original.left) is cst.Name and left.kind in ("unknown", "int", "float"):
        if right.kind in ("tensor", "param") and _given_numbers(original.left.value, work):
            return _turned(original, updated, work, given=True)
    if left.kind == "unknown" or left.kind == "tensor" and left.likely:
        return _turned(original, updated, work) if _perhaps(original, left, right, work) else updated
    if left.kind != "numpy":
        return updated
    if right.kind == "unknown" and (_weighs_a_term(original, work) or _of_weights(right)):
        return _turned(original, updated, work)
    if right.kind not in ("tensor", "param"):
        return updated
    if left.rank and right.likely:  # an array, beside which torch takes no weights: the other is hardly a tensor
        return updated
    if left.rank != 0 and (right.likely or not right.deps):  # perhaps an array, of which `float` makes no number
        return _turned(original, updated, work)
    bare = updated.left.with_changes(lpar=[], rpar=[]) if "\n" not in code(updated.left) else updated.left
    made = cst.Call(cst.Name("float"), [cst.Arg(bare)])  # torch takes no arrays there
    tier = Tier.ASSUMED if right.likely and not right.deps else Tier.EXACT
    why = "NumPy would make an array of the tensor, and lose its gradient: converted"
    work.notes.findings.append(Finding("T2M613", tier, f"{code(original.left)} beside a tensor", why))
    return updated.with_changes(left=made)


def _perhaps(node: cst.BinaryOperation, left: Value, right: Value, work: Translation) -> bool:
    """To the left may stand a number of NumPy's, and to the right a tensor with a gradient does."""
    if left.kind == "tensor":
        return right.kind == "tensor" and _share(node)
    if _of_weights(left):
        return False
    if not isinstance(node.operator, TURNING):
        seen = not right.likely or work.facts.recorded
        return right.kind in ("tensor", "param") and seen and _of_weights(right)
    if _calls(node.left):
        return right.kind in ("tensor", "param", "unknown") and _of_weights(right)
    if not _no_setting(node.left):
        return right.kind in ("tensor", "param") and _set_to_numbers(node.left, work.project)
    if right.kind in ("tensor", "param"):  # in cells, of `*args` whose calls are not seen, it is of who knows what
        return bool(right.deps) or work.in_cell and work.facts.recorded and not right.likely
    return _weighs_a_term(node, work) or right.kind == "unknown" and _of_weights(right)


def _of_weights(value: Value) -> bool:
    """It is made with weights of a network, whatever it is."""
    return any(d[0] != "@" for d in value.deps)


def _given_numbers(name: str, work: Translation) -> bool:
    """Some call of the function gives it a number of NumPy's for the name: `scaled(layer, scale=np.sqrt(2))`."""
    scope = work.scope
    if name not in scope.params or not _in_use(work.project):
        return False
    _, sites = _sites(work.project).get(id(scope), (None, ()))
    position = scope.params.index(name) - (scope.cls is not None and scope.params[0] == "self")
    given = [(argument(site.call, position, name), site.module) for site in sites]
    values = [module.value(value) for value, module in given if value is not None]
    return any(value.kind == "numpy" and not value.rank for value in values)


@once
def _sites(project: Project) -> dict[int, tuple[FunctionInfo, list[Site]]]:
    return calls_of(project, project.modules.values())


def _turned(
    original: cst.BinaryOperation, updated: cst.BinaryOperation, work: Translation, given: bool = False
) -> cst.BaseExpression:
    """The tensor first: what stands to its right is a number to it, NumPy's or not; else a function of MindSpore's."""
    function = FUNCTIONS.get(type(original.operator), "")
    if not function or not _in_use(work.project):
        return updated
    numpy = work.module.value(original.left).kind == "numpy"
    commutes = isinstance(original.operator, TURNING) and (numpy or _in_any_order(original, work))
    right = work.module.value(original.right)
    seen = given or numpy and right.kind == "tensor" and not right.likely
    if not commutes and not seen and not _of_weights(right):  # perhaps two arrays
        return updated
    form = "the tensor goes first" if commutes else f"ops.{function} does not ask it"
    why = f"it may be NumPy's, which would make an array of a tensor to its right: {form}"
    work.notes.findings.append(Finding("T2M613", Tier.EXACT, f"{code(original.left)} beside a tensor", why))
    if not commutes:
        work.notes.needs.add("ops")
        sides = [cst.Arg(side.with_changes(lpar=[], rpar=[])) for side in (updated.left, updated.right)]
        return cst.Call(cst.parse_expression(f"{work.alias('ops')}.{function}"), sides)
    bare = isinstance(updated.right, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) or updated.right.lpar
    first = updated.right if bare else parenthesised(updated.right)
    other = updated.left  # `epoch % 2 * loss`
    bound = isinstance(other, cst.BinaryOperation) and isinstance(other.operator, REGROUPED)
    return updated.with_changes(left=first, right=parenthesised(other) if bound else other)


def _in_any_order(node: cst.BinaryOperation, work: Translation) -> bool:
    """Neither side does anything that the other may notice."""
    if any(isinstance(n, BINDING) for n in descend(node)):
        return False
    return not _calls(node.left) or all(_still(call, work) for call in _calls(node.right))


def _still(call: cst.Call, work: Translation) -> bool:
    """A function or method of torch that draws nothing and leaves its tensors as they are."""
    if isinstance(call.func, cst.Attribute) and work.module.value(call.func.value).kind in ("tensor", "param"):
        name = call.func.attr.value
    else:
        target = work.module.value(call.func)
        name = target.name if target.kind in ("api", "lossfn") else ""
    return bool(name) and not name.endswith("_") and not DRAWS.search(name)


def _calls(node: cst.BaseExpression) -> list[cst.Call]:
    return [n for n in descend(node) if isinstance(n, cst.Call)]


def _share(node: cst.BinaryOperation) -> bool:
    """`(1 - m) * x`, where nobody knows what `m` is: an item of a schedule that callers hand in."""
    left = node.left
    shares = isinstance(left, cst.BinaryOperation) and isinstance(left.left, (cst.Integer, cst.Float))
    shares = shares and type(left.operator) is cst.Subtract and type(left.right) is cst.Name  # type: ignore[attr-defined]
    return shares and type(node.operator) is cst.Multiply


def _weighs_a_term(node: cst.BinaryOperation, work: Translation) -> bool:
    """`weights[i] * self.loss(x)` in a cell: what the call gives is hardly anything but a tensor."""
    first, second = isinstance(node.left, cst.Subscript), isinstance(node.right, cst.Call)
    return first and second and work.in_cell and type(node.operator) is cst.Multiply


def _no_setting(node: cst.BaseExpression) -> bool:
    """Not `args.beta` or `np.pi`; what a class keeps may be `env.action_space.high[0]`, given to its constructor."""
    attributes = [n for n in descend(node) if isinstance(n, cst.Attribute)]
    return isinstance(node, cst.Subscript) or all(dotted(n.value) == "self" for n in attributes)


def _set_to_numbers(node: cst.BaseExpression, project: Project) -> bool:
    """`model.ratio`, which the program sets to a number of NumPy's somewhere."""
    return any(n.attr.value in _attributes(project) for n in descend(node) if isinstance(n, cst.Attribute))


@once
def _attributes(project: Project) -> frozenset[str]:
    """The attributes that some statement of the project sets to a number of NumPy's."""
    return frozenset(
        node.targets[0].target.attr.value
        for module in project.modules.values()
        for node in module.of_kind(cst.Assign)
        if type(node.targets[0].target) is cst.Attribute and module.value(node.value).kind == "numpy"
        if not module.value(node.value).rank
    )


@once
def _in_use(project: Project) -> bool:
    """Some module of the project imports NumPy."""
    return any(name.partition(".")[0] == "numpy" for m in project.modules.values() for name in m.imports.table.values())
