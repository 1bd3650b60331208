"""Attributes of tensors that are read: their data, their flags, and what the rules have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value, is_weight
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.tensors.reading import Read, by_rule
from torch2ms.rewrite.translation import Translation

GRADIENTS = ("MindSpore tensors carry no gradients", "use the gradients that the gradient function returns")
_ASKED = re.compile(r"\.requires_grad_\((?:requires_grad=)?(True|False|)\)$")
_PHASED = re.compile(r"set_grad_enabled\(\s*(?:mode\s*=\s*)?(?!True\b|False\b|mode\b)\w")  # by what a variable says
_STOPPED = r"\.%s\.requires_grad(?:_\((?:requires_grad=)?False|\s*=\s*False)"  # of an attribute, by its name


def of_tensor(read: Read) -> cst.BaseExpression:
    """An attribute of a tensor or a parameter."""
    receiver, original, work = read.receiver, read.original, read.work
    if read.attr == "requires_grad" and (made := _flag(read)) is not None:
        return made
    seen = read.attr == "is_leaf" and receiver.kind == "tensor" and not receiver.likely and not read.stored
    if seen and (known := _is_leaf(receiver, original.value, work)) is not None:
        return known
    if read.attr == "name" and work.module.has("get_parameters()"):  # what stands there is MindSpore's already
        return read.updated
    rule = work.rules.find(f"torch.Tensor.{read.attr}")
    if rule is not None:
        return by_rule(rule, read)
    flagged = read.attr == "requires_grad" and not read.stored and not is_weight(receiver)
    if (flagged or read.attr in ("grad", "grad_fn", "is_leaf")) and id(original) not in work.plan.refused:
        return read.refuse(f"Tensor.{read.attr}", *GRADIENTS, code="T2M115")
    return read.updated


def _flag(read: Read) -> cst.BaseExpression | None:
    """`x.requires_grad` of what is no Parameter: tensors of MindSpore have no such flag."""
    receiver, of, work = read.receiver, read.original.value, read.work
    computed = bool(receiver.deps) and not receiver.place and not receiver.leaf  # no Parameter, whatever else it is
    if receiver.kind != "tensor" or receiver.likely and not computed and not _input(of, work):
        return None
    if (asked := _ASKED.search(code(of))) is not None:
        work.tell("T2M303", "Tensor.requires_grad", "it was asked for just now")
        return cst.Name(asked.group(1) or "True")
    if not read.stored and (known := _requires_grad(receiver, of, work)) is not None:
        return known
    if is_weight(receiver):
        return None
    if read.stored:
        return read.updated
    why, todo = (
        "tensors carry no such flag in MindSpore",
        "leave it out: gradient functions name what they differentiate",
    )
    return read.refuse("Tensor.requires_grad", why, todo, code="T2M115")


def data(read: Read) -> cst.BaseExpression | None:
    """`x.data`: the tensor itself, and a constant to the function that is being differentiated."""
    receiver, original, work, where = read.receiver, read.original, read.work, read.where
    filled = id(original) in where.initialised and receiver.kind == "unknown"
    known = receiver.kind in ("tensor", "param") or filled
    varied = any(not dep.startswith("@") for dep in receiver.deps)
    if not known and not (receiver.kind == "unknown" and isinstance(original.value, cst.Name) and varied):
        return None
    only_read = id(original) not in where.stores | where.host
    inside = work.differentiated and bool(receiver.deps or receiver.kind == "param")
    inside = inside and not (known and _to_be_filled(original, work))
    if not only_read or not inside and not (varied and _carried_on(receiver, original, work)):
        return read.updated.value if known else None
    work.notes.needs.add("ops")
    tier = Tier.EXACT if known and not receiver.likely else Tier.ASSUMED
    why = "a constant to the gradient: ops.stop_gradient"
    why += "" if tier is Tier.EXACT else "; assumed: it is the data of a tensor"
    work.notes.findings.append(Finding("T2M302", tier, "Tensor.data", why))
    stopped = cst.Attribute(cst.Name(work.alias("ops")), cst.Name("stop_gradient"))
    return cst.Call(stopped, [cst.Arg(read.updated.value)])


def _to_be_filled(original: cst.Attribute, work: Translation) -> bool:
    """`weight_init(layer.weight.data)`: nothing is done with what the function returns, so that it writes there."""
    node = work.stmt.node if work.stmt is not None else None
    call = node.value if isinstance(node, cst.Expr) else None
    if type(call) is not cst.Call or type(call.func) is not cst.Name:
        return False
    given = any(arg.value is original for arg in call.args)
    return given and work.module.value(call.func).kind in ("unknown", "function", "api")


def _carried_on(receiver: Value, original: cst.Attribute, work: Translation) -> bool:
    """`hidden = new_hidden.data`: what a gradient function gave has its graph, and the next one would go into it."""
    node = work.stmt.node if work.stmt is not None else None
    if (
        not isinstance(node, (cst.Assign, cst.Return))
        or receiver.kind != "tensor"
        or receiver.leaf
        or is_weight(receiver)
    ):
        return False
    if node.value is None or not any(part is original for part in _put_together(node.value, work.module)):
        return False
    assert work.stmt is not None
    changed = {place for stmt in work.stmt.block.scope.body.walk() for place in stmt.muts}  # would be seen in both
    names = [dotted(target.target) for target in node.targets] if isinstance(node, cst.Assign) else []
    return all(name and name not in changed for name in names)


def _put_together(node: cst.BaseExpression, module: ModuleInfo) -> Iterator[cst.BaseExpression]:
    """The parts of what only puts together: `(h.data, c.data)`, `[h.data for h in hidden]`, `Variable(h.data)`."""
    if isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _put_together(element.value, module)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from _put_together(node.elt, module)
    elif type(node) is cst.Call and len(node.args) == 1:
        if dotted(node.func) in ("tuple", "list") or module.value(node.func).name == "torch.autograd.Variable":
            yield from _put_together(node.args[0].value, module)
    else:
        yield node


def _is_leaf(receiver: Value, node: cst.BaseExpression, work: Translation) -> cst.BaseExpression | None:
    """What was made by the program itself, or without a gradient, where every source of the tensor is seen."""
    if receiver.name not in ("module_param", "parameter") and any(d.startswith(("@", "^")) for d in receiver.deps):
        return None
    made = receiver.leaf or receiver.name in ("module_param", "parameter")
    if not made and receiver.deps and work.module.says(_PHASED):
        return None  # torch may have recorded nothing
    if not made and not receiver.deps and any(_held(part, work) for part in descend(node)):
        return None
    if not receiver.deps and not made and _of_a_nameless_leaf(node, work):
        return None
    work.tell("T2M303", "Tensor.is_leaf", "what the analysis knows of it stands for it")
    return cst.Name(str(made or not receiver.deps))


def _requires_grad(receiver: Value, node: cst.BaseExpression, work: Translation) -> cst.BaseExpression | None:
    """What the analysis knows stands for the flag, where every source of the tensor is seen."""
    if receiver.name in ("module_param", "parameter") or any(d.startswith(("@", "^")) for d in receiver.deps):
        return None
    with_graph = receiver.leaf or bool(receiver.deps)
    if with_graph and not receiver.leaf and work.module.says(_PHASED):
        return None  # torch may have recorded nothing
    if isinstance(node, cst.Attribute) and work.project.says(re.compile(_STOPPED % node.attr.value)):
        return None  # not for good
    if not with_graph and any(_held(part, work) for part in descend(node)):
        return None  # other code may set the flag of what an object or a container holds, or store a leaf there
    if not with_graph and _of_a_nameless_leaf(node, work):
        return None
    work.tell("T2M303", "Tensor.requires_grad", "what the analysis knows of it stands for it")
    return cst.Name("True" if with_graph else "False")


def _input(node: cst.BaseExpression, work: Translation) -> bool:
    """What a network is called with: no Parameter, as far as networks go."""
    if not isinstance(node, cst.Name):
        return False
    forwards = (s for s in work.module.scope.walk() if s.name == "forward" and s.cls is not None)
    return any(node is n for f in forwards if node.value in f.params for s in f.body.walk() for n in s.nodes)


def _of_a_nameless_leaf(node: cst.BaseExpression, work: Translation) -> bool:
    """`c = torch.ones(2, requires_grad=True) + 2`: what has a graph though no leaf has a name."""
    if isinstance(node, cst.Name):
        made = re.compile(rf"\b{node.value}\s*=[^=].*\brequires_grad\s*=\s*True")
        return work.project.says(made)
    return "requires_grad" in code(node)


def _held(node: cst.CSTNode, work: Translation) -> bool:
    """An attribute of an object that is no tensor, or an item of a container."""
    if not isinstance(node, (cst.Attribute, cst.Subscript)):
        return False
    return work.module.value(node.value).kind in ("object", "unknown", "dict", "list", "tuple", "module")
