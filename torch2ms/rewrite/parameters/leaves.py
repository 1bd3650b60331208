"""Leaves that an optimizer owns: where they are made, they become Parameters."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import FILLING, Value
from torch2ms.findings import Tier
from torch2ms.rewrite.facts import TRAINED
from torch2ms.rewrite.writer import Writer

WIDEST = 100  # columns of a literal that names each of its Parameters
WHY = "it is trained: a Parameter"
PAIR = "train torch.view_as_real of it, a pair of real numbers for each, and compute with torch.view_as_complex of that"


class Leaves:
    """Assignments that make leaves, one by one or in containers."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = writer.module

    def made(self, stmt: Stmt, node: cst.Assign, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`w = leaf()`, `a, b = leaf(), leaf()`, `a, b = leaves()`, `ws = [leaf(), leaf()]`, `ws = leaves()`."""
        if type(target) is cst.Tuple or type(target) is cst.List:
            return self.several(node, target)
        place = dotted(target)
        if not self.trained(place):
            return None
        value, bound = self.module.value(node.value), self.module.value(target)
        if any(self.refused(one) for one in (value, *value.parts) if one.leaf):
            return None
        if value.leaf and not (value.name == "parameter" and not _written_out(node.value, self.module.value)):
            return self.single(node.value, place, _collected(stmt, place))
        if bound.kind in ("list", "tuple", "dict") and any(_wanted(v) for v in value.parts):
            made = self.contained(node.value, value, place.rpartition(".")[2])
            return None if made is None else self.write(place, made)
        return None

    def trained(self, place: str) -> bool:
        """An optimizer owns what lives there, and not something in another scope that is called alike."""
        plan, scope = self.writer.plan, self.writer.scope
        if self.of_class(place) is not None:
            return True
        local = scope.is_function and place in scope.locals
        return place in plan.leaves and (not local or (id(scope), place) in plan.homes)

    def refused(self, value: Value) -> bool:
        """No optimizer of MindSpore takes complex weights."""
        found = value.dtype.startswith("complex")
        if found and value.name != "parameter":  # of one of those its rule speaks
            self.writer.refuse("T2M605", "complex leaf tensor", "MindSpore's optimizers take no complex weights", PAIR)
        return found

    def of_class(self, place: str) -> ClassInfo | None:
        """The class that has a leaf of an optimizer in this attribute, if it is one."""
        name, cls = place.removeprefix("self."), self.writer.scope.cls
        owner = self.module.classes.get(cls.name) if cls is not None and name != place else None
        found = owner is not None and (owner.qualified, name) in self.writer.project.trained
        return owner if found else None

    def single(self, node: cst.BaseExpression, place: str, many: bool) -> list[cst.BaseStatement] | None:
        """One leaf that gets a name; `many`: each turn of a loop makes another, so the name is left to MindSpore."""
        text, name = code(self.writer.expression(node)), f", name={place.rpartition('.')[2]!r}"
        self.writer.needs.add("ms")
        cls = self.writer.scope.cls
        owner = self.module.classes.get(cls.name) if cls is not None and place.startswith("self.") else None
        held = text == place or self.of_class(place) is not None
        if held and owner is not None and owner.kind == "module":  # a cell's own attribute is one of its parameters
            self.writer.tell("T2M305", "leaf tensor", f"{WHY}, but none of the module's own")
            name = place.removeprefix("self.")
            return self.writer.text(f"object.__setattr__(self, {name!r}, ms.Parameter({text}, name={name!r}))")
        if text.startswith("ms.Parameter("):
            given = text[:-1].rstrip().removesuffix(",")  # one that ends its last line
            return None if many or "name=" in text else self.writer.text(f"{place} = {given}{name})")
        self.writer.tell("T2M305", "leaf tensor", WHY)
        return self.writer.text(f"{place} = ms.Parameter({text}{'' if many else name})")

    def appended(self, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`ws.append(leaf())`"""
        assert isinstance(call.func, cst.Attribute)
        last = call.args[-1] if call.args else None
        if last is None or not self.trained(dotted(call.func.value)) or not _wanted(self.module.value(last.value)):
            return None
        self.writer.needs.add("ms")
        self.writer.tell("T2M305", "leaf tensor", WHY)
        given = [*call.args[:-1], last.with_changes(value=_parameter(last.value))]
        return self.writer.text("{0}", call.with_changes(args=given))

    def stored(self, target: cst.Subscript, given: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`ws[f"w{i}"] = leaf()`, where an optimizer is given the values of a dict."""
        if self.module.value(target.value).kind != "dict" or not self.writer.project.says(TRAINED):
            return None
        if not _wanted(self.module.value(given)) or self.refused(self.module.value(given)):
            return None
        self.writer.needs.add("ms")
        self.writer.tell("T2M305", "leaf tensor", WHY)
        return self.writer.text("{0} = {1}", target, _parameter(given))

    def several(self, node: cst.Assign, target: cst.Tuple | cst.List) -> list[cst.BaseStatement] | None:
        """Leaves that get several names in one statement."""
        names = [dotted(e.value) for e in target.elements]
        values = [self.module.value(e.value) for e in target.elements]
        new = [n for n, v in zip(names, values, strict=True)
               if self.trained(n) and v.leaf and v.place == n and v.name != "parameter"]  # fmt: skip
        if not new or any(self.refused(one) for one in values if one.leaf):
            return None
        given = node.value
        if isinstance(given, cst.Tuple) and len(given.elements) == len(names):
            parts = [
                e.with_changes(value=_parameter(e.value, name.rpartition(".")[2])) if name in new else e
                for e, name in zip(given.elements, names, strict=True)
            ]
            return self.write(code(target), given.with_changes(elements=parts))
        self.writer.needs.add("ms")
        self.writer.tell("T2M305", "leaf tensor", WHY)
        each = ", ".join(f"ms.Parameter({n}, name={n.rpartition('.')[2]!r})" for n in new)
        return [*self.writer.text(f"{code(target)} = {{0}}", given), *self.writer.text(f"{', '.join(new)} = {each}")]

    def contained(self, node: cst.BaseExpression, value: Value, name: str) -> cst.BaseExpression | None:
        """A container of leaves as one of Parameters."""
        every = all(_wanted(v) or isinstance(node, cst.Call) and self.made_there(v) for v in value.parts)
        if isinstance(node, (cst.List, cst.Tuple)):
            made = node.with_changes(elements=[self.element(e, f"{name}.{i}") for i, e in enumerate(node.elements)])
            if not every or max(map(len, code(made).splitlines())) < WIDEST:
                return made
        if isinstance(node, cst.Dict):
            return node.with_changes(elements=[self.element(e, f"{name}.{_key(e)}" if _key(e) else "")
                                               for e in node.elements])  # fmt: skip
        if isinstance(node, cst.ListComp):
            return node.with_changes(elt=_parameter(node.elt))
        if isinstance(node, cst.DictComp):
            return node.with_changes(value=_parameter(node.value))
        if every and isinstance(node, (cst.Call, cst.List, cst.Tuple)):
            form = {"list": "[ms.Parameter(p) for p in {}]", "tuple": "tuple(ms.Parameter(p) for p in {})",
                    "dict": "{{k: ms.Parameter(p) for k, p in {}.items()}}"}[value.kind]  # fmt: skip
            return cst.parse_expression(form.format(code(self.writer.expression(node))))
        return None

    def made_there(self, value: Value) -> bool:
        """A tensor that a function made under a name of its own; an optimizer that is given all takes it for a leaf."""
        return value.kind == "tensor" and value.name != "parameter" and value.place not in self.writer.scope.locals

    def element(self, element: cst.BaseElement | cst.BaseDictElement, name: str) -> cst.CSTNode:
        """An element of a literal; leaves among them become Parameters."""
        wanted = _wanted(self.module.value(element.value))
        return element.with_changes(value=_parameter(element.value, name)) if wanted else element

    def write(self, place: str, made: cst.BaseExpression) -> list[cst.BaseStatement]:
        """The assignment, with what was made translated."""
        self.writer.needs.add("ms")
        self.writer.tell("T2M305", "leaf tensor", WHY)
        return self.writer.text(f"{place} = {{0}}", made)

    def begun(self, stmt: Stmt, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """A tensor that callers gave, or that was made as any other, becomes a Parameter where it begins to be one."""
        place = dotted(target)
        if not self.trained(place) or self.refused(self.module.value(target)):
            return None
        if place.startswith("self.") and place.count(".") == 1 and self.writer.scope.cls and not self.of_class(place):
            return self.single(target, place, many=False)
        if "." in place or place not in self.writer.scope.locals:
            return None
        given = place in self.writer.scope.params
        why = f"{WHY}; assumed: callers go on with what the function returns, not with what they gave" if given else WHY
        self.writer.tell("T2M305", "leaf tensor", why, Tier.ASSUMED if given else Tier.EXACT)
        self.writer.needs.add("ms")
        name = "" if _collected(stmt, place) else f", name={place!r}"
        return self.writer.text(f"{place} = ms.Parameter({place}{name})")


def _collected(stmt: Stmt, name: str) -> bool:
    """Each turn of the loop around the statement puts another tensor of this name into a container."""
    around = next((a for a in stmt.ancestors() if a.is_loop), None)
    calls = [call for inner in (around.walk() if around is not None else ()) for call in inner.calls]
    return any(isinstance(c.func, cst.Attribute) and c.func.attr.value in FILLING
               and any(dotted(a.value) == name for a in c.args) for c in calls)  # fmt: skip


def _wanted(value: Value) -> bool:
    """A leaf that has no name of its own, and is no `nn.Parameter`."""
    return value.leaf and not value.place and value.name != "parameter"


def _written_out(node: cst.BaseExpression, value: object) -> bool:
    """`nn.Parameter(...)` itself, not a function that returns one."""
    return isinstance(node, cst.Call) and value(node.func).kind == "api"  # type: ignore[operator]


def _key(element: cst.BaseDictElement) -> str:
    key = constant(element.key) if isinstance(element, cst.DictElement) else None
    return key if isinstance(key, str) and key.isidentifier() else ""


def _parameter(node: cst.BaseExpression, name: str = "") -> cst.Call:
    """`ms.Parameter(node)` around what is still to be translated."""
    named = [cst.Arg(cst.SimpleString(repr(name)), cst.Name("name"), equal=_EQUAL)] if name else []
    return cst.Call(cst.Attribute(cst.Name("ms"), cst.Name("Parameter")), [cst.Arg(node), *named])


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
