"""Where each part of a statement stands: called, indexed, assigned to, handed to an optimizer."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torch2ms.analysis.evaluation.narrow import CLASS_NAME
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.assigned import MAKING, members
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, gathered
from torch2ms.analysis.values import Value
from torch2ms.editing.rewriter import Rewriter
from torch2ms.rewrite.layers.compared import of_classes
from torch2ms.rewrite.transforms import compiled
from torch2ms.tape.plan import Plan


@once
def functions_called(module: ModuleInfo) -> dict[str, list[FunctionInfo]]:
    """The functions and methods of a module by name."""
    found: dict[str, list[FunctionInfo]] = {}
    for info in module.functions.values():
        found.setdefault(info.name, []).append(info)
    return found


GROWING = {"append": 0, "extend": 0, "insert": 1, "update": 0, "add_module": 1, "register_module": 1}  # what they get
HIDDEN = "self.__dict__"  # what stands there is no part of the network
LISTS = (cst.List, cst.ListComp)
MADE = (cst.BinaryOperation, cst.Call)
SUMS = (cst.Add, cst.Multiply)
HOLDING = (*LISTS, cst.Call)


class Positions(Rewriter):
    """Sets of node ids, filled on the way down; what translates the nodes on the way up reads them."""

    def __init__(self, module: ModuleInfo, plan: Plan, project: Project | None = None) -> None:
        self.module = module
        self.plan = plan
        self.project = project
        self.callees: set[int] = set()
        self.called: set[int] = set()  # calls whose result is called, bound or mapped: it is seen what becomes of it
        self.applied: dict[int, cst.Call] = {}  # callee -> its call
        self.partly: set[int] = set()  # what `functools.partial` gives arguments to: translated with them
        self.nested = 0  # lambdas and comprehensions around
        self.inner: set[int] = set()  # parts of a dotted name
        self.classes: set[int] = set()  # what isinstance asks for, bases, annotations
        self.asked: set[int] = set()  # what isinstance asks for
        self.typed: set[int] = set()  # what the class of an object is compared with, or looked up among
        self.class_names: set[int] = set()  # strings that are compared with the name of a class
        self.converted: set[int] = set()  # what a tensor is made of there already: `ms.Tensor(np.sqrt(x))`
        self.host: set[int] = set()  # receivers of `.numpy()`, `.item()` and the like
        self.stores: set[int] = set()  # targets of assignments
        self.trained: set[int] = set()  # `parameters()` calls that feed an optimizer
        self.handed: set[int] = set()  # ... whose result an optimizer is given as it is
        self.indexed: set[int] = set()  # calls of which one element is taken
        self.listing: set[int] = set()  # dicts of which the keys or the values are asked for
        self.unnamed: set[int] = set()  # calls whose result goes into a list or to code of the project
        self.returned: set[int] = set()  # calls whose result a function returns
        self.at_once: set[int] = set()  # calls whose result is called right there: `Net()(x)`
        self.listed: dict[int, str] = {}  # calls whose result becomes an element of the list of that name
        self.valued: set[int] = set()  # calls of whose values and places only the values are read
        self.initialised: set[int] = set()  # what `torch.nn.init` fills: a tensor, whatever else is seen of it
        self.filtered: set[int] = set()  # ... or a comprehension that asks for requires_grad

    def visit_Call(self, node: cst.Call) -> bool | None:
        if id(node) in self.plan.expressions:
            return False
        func, made, target, name = node.func, self.module.value(node), self.module.value(node.func), dotted(node.func)
        self.callees.add(id(func))
        self.called.add(id(func))
        self.applied[id(func)] = node
        if hands_on(made, target, name):
            for arg in node.args:
                self.leave_unnamed(arg.value)
        if target.name == "functools.partial" and node.args:
            self.partly.add(id(node.args[0].value))
        if compiled.transform(target.name) == "vmap" and node.args:
            self.called.add(id(node.args[0].value))
        if made.kind == "optimizer":
            self.trained |= {id(n) for arg in node.args for n in gathered(arg.value)}
            self.handed |= {id(arg.value) for arg in node.args}
        if target.name.startswith("torch.nn.init."):
            self.initialised |= {id(a.value) for a in node.args if a.keyword is None or a.keyword.value == "tensor"}
        if name.rpartition(".")[2] == "Tensor":
            self.converted |= {id(arg.value) for arg in node.args}
        if name == "object.__setattr__" and len(node.args) == 3:
            self.listed[id(node.args[2].value)] = HIDDEN
        if name in ("isinstance", "issubclass") and len(node.args) > 1:
            for arg in node.args[name == "isinstance" :]:
                self.mark_classes(arg.value, asked=True)
        for position, arg in enumerate(node.args):
            if type(arg.value) is cst.List or type(arg.value) is cst.Tuple:
                self.mark_given(node, arg, position)
        if type(func) is cst.Attribute:
            self.method(node, func)
        else:
            self.at_once.add(id(func))
        return None

    def method(self, node: cst.Call, func: cst.Attribute) -> None:
        """What the call of a method tells of the object, and of what it is given."""
        name, held = func.attr.value, func.value
        self.at_once.add(id(held if name == "forward" else func))
        if name in GROWING and len(node.args) > GROWING[name]:
            self.grows(node.args[GROWING[name]].value, held)
        if self.module.value(held).name == CLASS_NAME:
            self.class_names |= {id(arg.value) for arg in node.args}
        if name in ("keys", "items", "values"):
            self.indexed.add(id(held))
            self.listing.add(id(held))
        if name in ("numpy", "item", "tolist", "cpu"):
            self.host.add(id(held))

    def grows(self, given: cst.BaseExpression, held: cst.BaseExpression) -> None:
        """What a container gets, a network among them: its mode was set before."""
        parts = [id(part) for part in members(given)]
        if self.module.value(held).kind == "module":
            self.unnamed.update(parts)
        else:
            self.listed |= dict.fromkeys(parts, dotted(held))

    def leave_unnamed(self, node: cst.BaseExpression) -> None:
        self.unnamed.add(id(node))
        if type(node) is cst.List or type(node) is cst.Tuple:
            self.unnamed |= {id(element.value) for element in node.elements}

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self.leave_unnamed(node.iter)
        if any("requires_grad" in code(test) for test in node.ifs):
            self.filtered.add(id(node.iter))
            self.trained.discard(id(node.iter))

    def mark_classes(self, node: cst.CSTNode, asked: bool = False) -> None:
        self.classes.add(id(node))
        if asked:
            self.asked.add(id(node))
        for element in getattr(node, "elements", ()):
            self.mark_classes(element.value, asked)

    def visit_Attribute(self, node: cst.Attribute) -> bool | None:
        if id(node) in self.plan.expressions:
            return False
        if node.attr.value == "values":
            self.valued.add(id(node.value))
        if node.attr.value == "training" and type(node.value) is cst.Call:
            if not self.module.value(node.value).name.startswith("torch.nn."):
                self.at_once.add(id(node.value))
        value = self.module.value(node)
        of_tensor = value.kind == "dtype" and self.module.value(node.value).kind == "tensor"  # its own, no name
        if value.kind in ("api", "dtype", "class", "function", "modulefile") and not of_tensor:
            part: cst.CSTNode = node.value
            while type(part) is cst.Attribute or type(part) is cst.Name:
                self.inner.add(id(part))
                part = part.value if type(part) is cst.Attribute else cst.Pass()
        return None

    def visit_MatchClass(self, node: cst.MatchClass) -> None:
        self.mark_classes(node.cls, asked=True)

    def visit_Comparison(self, node: cst.Comparison) -> None:
        parts = [node.left, *(c.comparator for c in node.comparisons)]
        if any(self.module.value(p).name == CLASS_NAME for p in parts):
            self.class_names |= {id(p) for p in parts}
        if id(node) in of_classes(self.module):
            for part in parts:
                self.mark_classes(part)
                self.typed |= {id(n) for n in (part, *(e.value for e in getattr(part, "elements", ())))}

    def visit_Dict(self, node: cst.Dict) -> None:
        keys = (e.key for e in node.elements if isinstance(e, cst.DictElement))
        classes = {id(key) for key in keys if self.module.value(key).kind == "api"}
        self.classes |= classes
        self.typed |= classes

    def visit_Annotation(self, node: cst.Annotation) -> None:
        parts = gathered(node.annotation)
        meant = [self.module.quoted[id(part)] for part in parts if id(part) in self.module.quoted]
        self.classes |= {id(part) for whole in [node.annotation, *meant] for part in gathered(whole)}

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            self.indexed.add(id(node.value))
            if constant(node.slice[0].slice.value) == 0:
                self.valued.add(id(node.value))
        return id(node) not in self.plan.expressions

    def visit_Assign(self, node: cst.Assign) -> None:
        if len(node.targets) == 1 and _values_only(node.targets[0].target):
            self.valued.add(id(node.value))
        if len(node.targets) == 1 and dotted(node.targets[0].target):
            self.called.add(id(node.value))
            if type(node.value) is cst.Tuple and dotted(node.targets[0].target) in asked_for(self.module):
                self.mark_classes(node.value, asked=True)
        value = node.value
        fixed = type(value) is cst.Tuple and type(node.targets[0].target) is cst.Attribute
        if fixed or type(value) is cst.Dict or type(value) is cst.DictComp:
            parts = members(value)
            self.unnamed |= {id(part) for part in parts}
            self.listed |= {id(part): dotted(node.targets[0].target) for part in parts}
        if any(type(t.target) is cst.Subscript for t in node.targets):
            self.unnamed.add(id(value))
            held = node.targets[0].target.value if type(node.targets[0].target) is cst.Subscript else None
            if type(held) is cst.Attribute and held.attr.value == "__dict__":
                self.listed[id(value)] = HIDDEN
        if type(value) is cst.Tuple and type(node.targets[0].target) is not cst.Tuple:
            self.unnamed |= {id(e.value) for e in value.elements}
        if len(node.targets) > 1:
            self.unnamed.add(id(value))
        if type(value) in LISTS or type(value) in MADE and _holds(value):
            parts = members(value)
            if type(value) is cst.BinaryOperation and self.module.value(value.left).kind == "module":
                self.unnamed |= {id(part) for part in parts}
            self.unnamed |= {id(part) for part in parts if self.module.value(part).name.partition(".")[0] != "torch"}
            self.listed |= {id(part): dotted(node.targets[0].target) for part in parts}

    def visit_Return(self, node: cst.Return) -> None:
        if type(node.value) is cst.Dict or type(node.value) is cst.Tuple:
            self.unnamed |= {id(e.value) for e in node.value.elements}
        elif type(node.value) is cst.Call:
            self.returned.add(id(node.value))

    def mark_given(self, call: cst.Call, arg: cst.Arg, position: int) -> None:
        """Classes in a list that a function of the project is given, which asks for them by the name it has there."""
        called = dotted(call.func).rpartition(".")[2]
        functions: Iterable[FunctionInfo] = ()
        if called and self.module.value(arg.value).parts:
            other = self.project.find(dotted(call.func), self.module) if self.project is not None else None
            functions = [other] if isinstance(other, FunctionInfo) else functions_called(self.module).get(called, ())
        for info in functions:
            if info.name == called and (asks := asked_for(info.module)):
                names = info.scope.params[info.cls is not None and not info.static :]
                name = arg.keyword.value if arg.keyword is not None else (names[position : position + 1] or [""])[0]
                if name in asks:
                    self.mark_classes(arg.value, asked=True)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}

    def visit_Del(self, node: cst.Del) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}
        if type(node.value) in LISTS or type(node.value) in MADE and _holds(node.value):
            self.grows(node.value, node.target)

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False


@once
def asked_for(module: ModuleInfo) -> frozenset[str]:
    """The names that stand somewhere in the module as that in `isinstance(x, name)`."""
    calls = [c for scope in module.scope.walk() for s in scope.body.walk() for c in s.calls if len(c.args) == 2]
    asked = [c.args[1].value for c in calls if dotted(c.func) == "isinstance"]
    return frozenset(dotted(_bare(node)) for node in asked) - {""}


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """`names` for `tuple(names)`"""
    return node.args[0].value if isinstance(node, cst.Call) and dotted(node.func) == "tuple" and node.args else node


def hands_on(made: Value, target: Value, name: str) -> bool:
    """What a call is given stays what it is, wherever it goes; only networks set the mode of their parts."""
    own = target.kind == "function" and not target.name.startswith("torch")  # `init(nn.BatchNorm1d(3))` gives it back
    if not own and (target.kind == "api" or made.name.startswith("torch.")):
        return not target.name.startswith("torch") and made.kind != "module"
    return target.kind in ("function", "method") or made.kind == "object" or name == "dict"


def _holds(value: cst.CSTNode) -> bool:
    """A sum of lists or of new containers, and `list(...)` of what is made in it."""
    if type(value) is cst.Call:
        return type(value.func) is cst.Name and value.func.value in MAKING
    if type(value) is not cst.BinaryOperation or type(value.operator) not in SUMS:
        return False
    return type(value.left) in HOLDING or type(value.right) in HOLDING


def _stored(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if type(target) is cst.Tuple or type(target) is cst.List:
        return [n for e in target.elements for n in _stored(e.value)]
    return [target, *_stored(target.value)] if type(target) is cst.Subscript else [target]


def _values_only(target: cst.BaseExpression) -> bool:
    """`values, _ = ...`: nobody reads the places."""
    return type(target) is cst.Tuple and len(target.elements) == 2 and dotted(target.elements[1].value) == "_"
