"""`--jit`: whether a forward function stays inside what MindSpore compiles, with everything it calls.

Compiled code keeps what it captures as it was at the first call; only Parameters are live. So everything else that a
function takes from around it must stay the same as long as the function lives, which is the loop it is made above.
What cannot be seen is not compiled.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache

import libcst as cst

from torch2ms.analysis.oddities import BELOW
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value
from torch2ms.data import rules_dir
from torch2ms.tape.forms.calls import Call, Outputs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


DRAWING = re.compile(r"rand(n|int|perm)?(_like)?|normal|bernoulli|multinomial|poisson")
EINSUM = "torch.einsum"
PLAIN = ("int", "float", "bool", "str", "none")
EXPRESSIONS = (
    cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.SimpleString, cst.Call, cst.Arg, cst.BinaryOperation,
    cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget, cst.BooleanOperation, cst.IfExp, cst.Tuple, cst.List,
    cst.Element, cst.Subscript, cst.SubscriptElement, cst.Index, cst.Slice, cst.BaseCompOp, cst.Ellipsis,
)  # fmt: skip
FUNCTIONS = ("len", "range", "zip", "enumerate", "isinstance", "tuple", "list", "super")
CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Module")
LEAVING = ("item", "tolist", "numpy")
FREEZING = {"load_state_dict", "register_hook", "register_forward_hook", "register_full_backward_hook", "apply",
            "register_forward_pre_hook", "requires_grad_", "add_module", "setattr", "set_default_dtype",
            "globals", "exec"}  # fmt: skip


class Unfit(Exception):
    """Why a function is not compiled."""


@cache
def measured(key: str = "holds", table: str = "graph") -> frozenset[str]:
    """The API rules that were measured to hold in compiled functions; `bare`: if called without arguments.

    The table `twice` has those that hold where the compiled gradient is differentiated again.
    """
    return frozenset(tomllib.loads((rules_dir() / f"{table}.toml").read_text(encoding="utf-8"))[key])


def read_when_run(call: cst.Call) -> bool:
    """The call becomes a function that reads its equation, which is Python that MindSpore does not compile."""
    first = call.args[0].value if call.args else None
    equation = first.evaluated_value if isinstance(first, cst.SimpleString) else None
    if not isinstance(equation, str) or "." in equation:
        return True
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    return len(terms) > 2 or any(len(set(term)) != len(term) for term in terms)


class Check:
    """Walks a forward region and everything it calls; raises Unfit at the first thing that is not for graph mode."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.seen: set[int | str] = set()
        self.attributes: set[str] = set()  # attributes that compiled code reads
        self.captured: set[str] = set()  # names of the region's surroundings
        self.tensors: set[str] = set()  # ... those of tensors that are no Parameters
        self.networks: set[str] = set()  # places of networks that the region uses
        self.unseen: set[str] = set()  # arguments whose kind is not known
        self.home: FunctionInfo | None = None  # the function that is looked at

    # --- what is compiled

    def forward(self, call: Call, params: list[str], outputs: Outputs, module: ModuleInfo) -> None:
        stmts, event = call.region.all, call.event
        self.home = module.functions.get(id(event.stmt.block.scope))
        bound = set(params) | {d for s in stmts for d in s.all_defs}
        sources: list[cst.CSTNode] = [*(s.node for s in stmts), *event.roots]
        for source in sources:
            for node in _names(source):
                value = module.value(node)
                if node.value in params:
                    self.parameter(node.value, value)
                elif node.value not in bound and node.value not in module.imports.table:
                    self.capture(node.value, value)
            self.networks |= set(_networks(source, module))
        if len(self.networks) > 1:
            self.several()
        for stmt in stmts:
            self.statement(stmt, module, bound - set(params))
        for expr in event.roots:
            self.expression(expr, module, bound)
        for name in outputs.aux:
            kinds = {i.out[name].kind for s in stmts for i in s.walk() if name in i.out}
            if kinds - {"tensor", "unknown"}:
                raise Unfit(f"it returns `{name}`, which is no tensor")

    def several(self) -> None:
        """More than one network is used."""
        raise Unfit("it uses several networks, whose parameters may have the same names")

    def parameter(self, name: str, value: Value) -> None:
        if value.kind not in ("tensor", "unknown"):
            raise Unfit(f"its argument `{name}` is no tensor")
        self.unseen |= {name} if value.kind == "unknown" else set()

    def capture(self, name: str, value: Value) -> None:
        if name in ("True", "False", "None", "self") or value.kind in ("api", "builtin", "class", "function", "dtype"):
            return
        if value.kind not in ("module", "lossfn", "param", "tensor", "scaler", *PLAIN):
            raise Unfit(f"what `{name}` is is not seen" if value.kind == "unknown" else f"it uses `{name}`")
        self.captured.add(name)
        self.tensors |= {name} if value.kind == "tensor" else set()

    def statement(self, stmt: Stmt, module: ModuleInfo, local: set[str]) -> None:
        node = stmt.node
        if stmt.modes:
            raise Unfit("a gradient mode is set inside it")
        if isinstance(node, cst.Assign):
            for target in node.targets:
                self.target(target.target)
            self.expression(node.value, module, local)
        elif isinstance(node, cst.AugAssign):
            self.target(node.target)
            self.expression(node.value, module, local)
        elif isinstance(node, cst.Expr):
            if not isinstance(node.value, cst.SimpleString):
                self.expression(node.value, module, local)
        elif isinstance(node, cst.Return):
            if node.value is not None:
                self.expression(node.value, module, local)
        elif isinstance(node, cst.If):
            self.condition(node.test, module)
            self.expression(node.test, module, local)
        elif isinstance(node, cst.For):
            self.target(node.target)
            self.iterated(node.iter, module)
            self.expression(node.iter, module, local)
        elif not isinstance(node, cst.Pass):
            raise Unfit(f"a `{type(node).__name__.lower()}` statement stands in it")
        for block in stmt.blocks:
            for inner in block.stmts:
                self.statement(inner, module, local)

    def target(self, node: cst.CSTNode) -> None:
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                self.target(element.value)
        elif not isinstance(node, cst.Name):
            raise Unfit("it writes an attribute or an element")

    def condition(self, test: cst.BaseExpression, module: ModuleInfo) -> None:
        if isinstance(test, cst.BooleanOperation):
            self.condition(test.left, module)
            self.condition(test.right, module)
        elif isinstance(test, cst.UnaryOperation):
            self.condition(test.expression, module)
        elif isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, (cst.Is, cst.IsNot)):
            return
        elif isinstance(test, cst.Comparison):
            for part in (test.left, *(c.comparator for c in test.comparisons)):
                self.condition(part, module)
        elif not (module.value(test).kind in PLAIN or dotted(test).startswith("self.") and not _tensor(test, module)):
            raise Unfit("it branches on what may be a tensor")

    def iterated(self, node: cst.BaseExpression, module: ModuleInfo) -> None:
        called = dotted(node.func) if isinstance(node, cst.Call) else ""
        if called in ("zip", "enumerate") and isinstance(node, cst.Call):
            for arg in node.args:
                self.iterated(arg.value, module)
        elif called != "range" and module.value(node).kind not in ("module", "list", "tuple"):
            raise Unfit("it loops over something other than numbers and layers")

    # --- expressions

    def expression(self, source: cst.CSTNode, module: ModuleInfo, local: set[str]) -> None:
        callees = set()
        for node in descend(source):
            if not isinstance(node, EXPRESSIONS):
                raise Unfit(f"a {type(node).__name__} stands in it")
            if type(node) is cst.Arg and node.star:
                raise Unfit("a call in it unpacks its arguments")
            if type(node) is cst.IfExp:
                self.condition(node.test, module)
            if type(node) is cst.Index and _below_zero(node.value, module):
                raise Unfit("an index below zero is taken from a tensor")
            if type(node) is cst.Call:
                callees.add(id(node.func))
                self.call(node, module, local)
            elif type(node) is cst.Attribute and id(node) not in callees:
                self.attribute(node, module)
            if type(node) is cst.Attribute and module.value(node).kind in ("api", "dtype", "function", "class"):
                callees.add(id(node.value))  # a part of its name

    def attribute(self, node: cst.Attribute, module: ModuleInfo) -> None:
        value, receiver = module.value(node), module.value(node.value)
        if value.kind in ("api", "dtype"):
            if value.kind == "api" and value.name not in measured():
                raise Unfit(f"{value.name} was not measured in compiled functions")
            return
        if receiver.kind in ("tensor", "unknown") and dotted(node.value) != "self" and receiver.kind == "tensor":
            self.rule(f"torch.Tensor.{'detach' if node.attr.value == 'data' else node.attr.value}")  # written alike
            return
        if dotted(node).startswith("self.") and dotted(node.value) == "self":
            self.attributes.add(node.attr.value)
            in_cell = self.home is not None and self.home.cls is not None and self.home.cls.kind == "module"
            if not in_cell and (value.leaf or value.kind in ("param", "unknown")):
                raise Unfit(f"`{dotted(node)}` of an object that is no cell is a constant in compiled code")
            if value.kind not in ("module", "lossfn", "param", "tensor", "unknown", "method", "scaler", *PLAIN):
                raise Unfit(f"it uses `{dotted(node)}`")
            return
        if receiver.kind == "module":
            self.attributes.add(node.attr.value)
            return
        raise Unfit(f"what `{dotted(node) or 'an attribute'}` is is not seen")

    def call(self, node: cst.Call, module: ModuleInfo, local: set[str]) -> None:
        func = node.func
        target = module.value(func)
        if target.kind == "api":
            last = target.name.rpartition(".")[2]
            if target.name.startswith("torch.nn.") and last[:1].isupper():
                raise Unfit("it makes a layer")
            if target.name == EINSUM and read_when_run(node):
                raise Unfit("the equation of an einsum is read when it runs")
            self.rule(target.name)
        elif target.kind in ("module", "lossfn"):
            self.layer(target, module)
        elif target.kind in ("function", "method", "unknown") and (info := self.known(func, target, module)):
            self.function(info)
        elif isinstance(func, cst.Attribute):
            self.method(node, func, module, local)
        elif target.kind == "builtin" or target.kind.startswith("builtin_"):
            if dotted(func) not in FUNCTIONS:
                raise Unfit(f"it calls `{dotted(func)}`")
        else:
            raise Unfit(f"what `{dotted(func) or 'a call'}` runs is not seen")

    def method(self, node: cst.Call, func: cst.Attribute, module: ModuleInfo, local: set[str]) -> None:
        receiver, name = module.value(func.value), func.attr.value
        if receiver.kind == "list" and name == "append" and dotted(func.value) in local:
            return
        if receiver.kind in ("tensor", "param", "unknown") and dotted(func.value) != "self":
            if name.endswith("_"):
                raise Unfit(f"it changes a tensor in place ({name})")
            if name in LEAVING:
                raise Unfit(f"it takes numbers out of a tensor ({name})")
            self.rule(f"torch.Tensor.{name}")
            return
        if receiver.kind == "scaler" and name == "scale":
            return
        raise Unfit(f"what `{dotted(func) or name}` runs is not seen")

    def rule(self, name: str) -> None:
        """The name or its twin: `torch.relu` and `torch.Tensor.relu` are often one rule."""
        if DRAWING.fullmatch(name.rpartition(".")[2]):
            raise Unfit(f"{name} draws numbers, which compiled code draws on where a new seed is set")
        if name in measured("bare") and self.bare(name):
            return
        if name not in measured() and name.replace("torch.Tensor.", "torch.") not in measured():
            raise Unfit(f"{name} was not measured in compiled functions")

    def bare(self, name: str) -> bool:
        """Wherever the project constructs it, it does so without arguments."""
        calls = (
            call for m in self.project.modules.values() for scope in m.scope.walk() for s in scope.body.walk()
            for call in s.calls if m.value(call.func).name == name and m.value(call.func).kind == "api"
        )  # fmt: skip
        return not any(call.args for call in calls)

    # --- what it calls

    def known(self, func: cst.BaseExpression, target: Value, module: ModuleInfo) -> FunctionInfo | None:
        """The function of the project behind a callee."""
        if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self":
            cls = self.home.cls if self.home is not None else None
            return cls.method(func.attr.value) if cls is not None else None
        found = self.project.find(target.name or dotted(func), module) if target.kind != "method" else None
        return found if isinstance(found, FunctionInfo) else None

    def function(self, info: FunctionInfo) -> None:
        if id(info) in self.seen:
            return
        self.seen.add(id(info))
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        params = node.params
        if node.decorators or params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
            raise Unfit(f"`{info.name}` is decorated, or takes any number of arguments")
        if info.scope.children or node.asynchronous is not None:
            raise Unfit(f"`{info.name}` defines functions of its own")
        outer, self.home = self.home, info
        for stmt in info.scope.body.stmts:
            self.statement(stmt, info.module, info.scope.locals - set(info.scope.params))
        self.home = outer
        outside = {n.value for n in _names(node.body)} - info.scope.locals - {"True", "False", "None"}
        for name in outside - set(info.module.imports.table):
            value = next((info.module.value(n) for n in _names(node.body) if n.value == name), Value())
            if value.kind not in ("api", "builtin", "class", "function", "dtype", "builtin_super", *PLAIN):
                raise Unfit(f"`{info.name}` uses the global `{name}`")
            self.captured.add(name)

    def layer(self, value: Value, module: ModuleInfo) -> None:
        """A layer of torch, a container of layers, or a class of the project."""
        if value.name in self.seen:
            return
        self.seen.add(value.name)
        if not value.name:  # any that the project makes
            self.made((s, m) for m in self.project.modules.values() for c in m.scope.walk() for s in c.body.walk())
            return
        found = self.project.find(value.name, module)
        if isinstance(found, ClassInfo):
            self.network(found)
        elif value.name in CONTAINERS:
            self.made(s for m in self.project.modules.values() for s in _outside_classes(m))
        else:
            self.rule(value.name)

    def network(self, cls: ClassInfo) -> None:
        if cls.kind != "module" or cls.method("__call__") is not None:
            raise Unfit(f"`{cls.scope.name}` is no plain network")
        forward = cls.method("forward")
        if forward is None:
            raise Unfit(f"`{cls.scope.name}` has no forward that is seen")
        self.function(forward)
        for each in cls.lineage():
            self.made((s, each.module) for info in each.methods.values() for s in info.scope.body.walk())

    def made(self, stmts: Iterable[tuple[Stmt, ModuleInfo]]) -> None:
        """Every layer that these statements construct, or name."""
        for stmt, module in stmts:
            if type(stmt.node) is cst.ClassDef or type(stmt.node) is cst.FunctionDef:
                continue
            for node in _own(stmt):
                if type(node) is not cst.Name and type(node) is not cst.Attribute:
                    continue
                value = module.value(node)
                last = value.name.rpartition(".")[2]
                if value.kind == "class" and isinstance(found := self.project.find(value.name, module), ClassInfo):
                    if found.kind == "module" and id(found) not in self.seen:
                        self.seen.add(id(found))
                        self.network(found)
                elif value.kind == "api" and value.name.startswith("torch.nn.") and last[:1].isupper():
                    if value.name not in (*CONTAINERS, "torch.nn.Parameter"):
                        self.rule(value.name)


# --- nodes


def _names(source: cst.CSTNode) -> list[cst.Name]:
    """The names that stand for values."""
    nodes = list(descend(source))
    other = {id(n.attr) for n in nodes if type(n) is cst.Attribute}
    other |= {id(n.keyword) for n in nodes if type(n) is cst.Arg and n.keyword is not None}
    other |= {id(n) for a in nodes if type(a) is cst.Annotation for n in descend(a)}
    return [n for n in nodes if type(n) is cst.Name and id(n) not in other]


def _networks(source: cst.CSTNode, module: ModuleInfo) -> Iterator[str]:
    """The places of networks that an expression names; losses have no parameters."""
    for node in descend(source):
        value = module.value(node)
        if isinstance(node, (cst.Name, cst.Attribute)) and value.kind == "module" and not module.weightless(value):
            parts = dotted(node).split(".")
            yield ".".join(parts[: 2 if parts[0] == "self" else 1])


def _tensor(node: cst.CSTNode, module: ModuleInfo) -> bool:
    return module.value(node).kind in ("tensor", "param")


def _below_zero(index: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A tensor of indices, some of them below zero: compiled code does not count from the end."""
    negative = isinstance(index, cst.UnaryOperation) and isinstance(index.operator, cst.Minus)
    return module.value(index).odd == BELOW or negative and _tensor(index, module)


def _own(stmt: Stmt) -> Iterator[cst.CSTNode]:
    """The nodes of a statement without those of the statements in its blocks."""
    inner = {id(n) for b in stmt.blocks for s in b.stmts for n in s.nodes}
    return (n for n in stmt.nodes if id(n) not in inner)


def _outside_classes(module: ModuleInfo) -> Iterator[tuple[Stmt, ModuleInfo]]:
    for scope in module.scope.walk():
        if not isinstance(scope.node, cst.ClassDef) and scope.cls is None:
            yield from ((s, module) for s in scope.body.walk())
