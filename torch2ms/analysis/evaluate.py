"""The value of every expression, evaluated abstractly in an environment of places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from torch2ms.analysis import activations, guess, narrow, shapes, torchapi
from torch2ms.analysis.annotations import quoted, quotes
from torch2ms.analysis.env import Env
from torch2ms.analysis.names import canonical, dotted, is_foreign
from torch2ms.analysis.project import ClassInfo, FunctionInfo, ModuleInfo
from torch2ms.analysis.tree import children, constant
from torch2ms.analysis.usage import used
from torch2ms.analysis.values import EITHER, NO_DEPS, UNKNOWN, Value, bounded, join
from torch2ms.analysis.wrapped import FAMILIES

if TYPE_CHECKING:
    from torch2ms.analysis.infer import Inference

PURE_BUILTINS = {"len": "int", "range": "list", "int": "int", "bool": "bool", "str": "str", "isinstance": "bool",
                 "print": "none", "id": "int", "type": "unknown", "hasattr": "bool", "repr": "str", "open": "unknown",
                 "round": "float", "format": "str", "issubclass": "bool", "callable": "bool"}  # fmt: skip
HOST_LIBRARIES = {"numpy", "math", "random", "os", "time", "json", "logging", "argparse", "sys", "itertools",
                  "collections", "copy", "functools", "tqdm", "matplotlib", "pandas", "sklearn", "scipy", "pickle",
                  "datetime", "re"}  # fmt: skip


class Evaluator:
    """Evaluates the expressions of one scope; remembers the value of each node in `module.values`."""

    def __init__(self, inference: Inference, module: ModuleInfo, env: Env, function: FunctionInfo | None,
                 cls: ClassInfo | None) -> None:  # fmt: skip
        self.inference = inference
        self.module = module
        self.env = env
        self.function = function
        self.cls = cls
        self.cut = False  # inside no_grad
        self.modules: frozenset[str] = frozenset()  # places that are used as modules
        self.memo = module.values

    def ev(self, node: cst.CSTNode) -> Value:
        value = self.dispatch(node)
        if (
            self.cut
            and (value.deps or value.items)
            and not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
            and value.kind not in ("module", "optimizer", "params", "named_params", "object", "param")
        ):
            value = value.cut()
        self.memo[id(node)] = value
        return value

    def annotation(self, node: cst.Annotation) -> None:
        """What stands in quotes is read as well."""
        self.ev(node.annotation)
        for part in quotes(node.annotation):
            meant = self.module.quoted.get(id(part)) or quoted(part, self.module.imports)
            if meant is not None:
                self.module.quoted[id(part)] = meant
                self.ev(meant)

    def dispatch(self, node: cst.CSTNode) -> Value:
        how = _BY_TYPE.get(node.__class__)
        return how(self, node) if how is not None else self.everything(node)

    def unary(self, node: cst.UnaryOperation) -> Value:
        value = self.ev(node.expression)
        if isinstance(node.operator, cst.Not):
            return Value("bool")
        if value.kind != "tensor":
            return value
        made = Value("tensor", deps=value.deps)
        return made if value.likely else shapes.shaped(made, (value.dtype, value.rank))

    def comparison(self, node: cst.Comparison) -> Value:
        values = [self.ev(node.left), *(self.ev(c.comparator) for c in node.comparisons)]
        tests = all(isinstance(c.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for c in node.comparisons)
        if tests or not any(v.kind == "tensor" for v in values):
            return Value("bool")
        return Value("tensor", dtype="bool", rank=shapes.promoted(values[0], values[-1])[1])

    def conditional(self, node: cst.IfExp) -> Value:
        self.ev(node.test)
        return join(self.ev(node.body), self.ev(node.orelse))

    def sequence(self, node: cst.Tuple | cst.List | cst.Set) -> Value:
        items = tuple(self.ev(e.value) for e in node.elements)
        starred = any(isinstance(e, cst.StarredElement) for e in node.elements)
        kind = "tuple" if isinstance(node, cst.Tuple) else "list"
        begins = items[0].starts if items else NO_DEPS
        return Value(kind, deps=_deps(items), items=None if starred else bounded(items), starts=begins)

    def dictionary(self, node: cst.Dict) -> Value:
        parts = [self.ev(e.value) for e in node.elements]
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                self.ev(element.key)
        return Value("dict", deps=_deps(parts), keys=_keys(node))

    def named(self, node: cst.NamedExpr) -> Value:
        value = self.ev(node.value)
        self.inference.bind(node.target, value, self)
        return value

    def string(self, node: cst.ConcatenatedString | cst.FormattedString) -> Value:
        for part in getattr(node, "parts", ()):
            if isinstance(part, cst.FormattedStringExpression):
                self.ev(part.expression)
        if isinstance(node, cst.ConcatenatedString):
            self.ev(node.left)
            self.ev(node.right)
        return Value("str")

    def everything(self, node: cst.CSTNode) -> Value:
        deps = NO_DEPS
        for child in children(node):
            deps |= self.ev(child).deps
        return Value("unknown", deps=deps)

    # --- names and attributes

    def name(self, node: cst.Name) -> Value:
        name = node.value
        if name in ("True", "False"):
            return Value("bool")
        if name == "None":
            return Value("none")
        found = self.env.get(name)
        if found is None:
            found = self.inference.lookup(name, self)
        return used(found, name, self.modules)

    def attribute(self, node: cst.Attribute) -> Value:
        place = dotted(node)
        return used(self.member_of(node, place), place, self.modules)

    def member_of(self, node: cst.Attribute, place: str) -> Value:
        base = self.ev(node.value)
        attr = node.attr.value
        if (asked := narrow.class_of(node)) is not None:
            return Value("str", name=narrow.CLASS_NAME, place=asked)
        if place and (held := self.env.get(place)) is not None:
            return held
        if base.kind == "api":
            return self.api(f"{base.name}.{attr}")
        if base.kind == "modulefile":
            return self.inference.member(base.name, attr, self.module)
        if base.kind in ("object", "module", "class") and (cls := self.inference.cls_of(base, self.module)) is not None:
            return self.member(cls, base, attr, place)
        if base.kind in ("tensor", "param") and attr in torchapi.TENSOR_ATTRS:
            return Value(torchapi.TENSOR_ATTRS[attr])
        if base.kind in ("tensor", "param"):
            if attr == "grad":
                return Value("tensor", name="grad")
            deps = NO_DEPS if attr == "data" else base.deps
            if attr in ("T", "data", "mT", "H", "mH", "real", "imag"):
                dtype = base.dtype if attr not in ("real", "imag") or shapes.category(base.dtype) == "f" else ""
                made = Value("tensor", deps=deps, place=base.place if attr == "data" else "")
                return made if base.likely else shapes.shaped(made, (dtype, base.rank))
            guessed = guess.by_name(attr) if base.likely else UNKNOWN
            if guessed.kind in ("optimizer", "scheduler", "module"):  # no tensor has one: the guess was wrong
                return replace(guessed, place=place or attr)
            return Value("method", name=attr, deps=base.deps)
        if base.kind == "module":
            return self.module_attr(base, attr, place)
        if base.kind == "unknown" and attr in ("grad", "requires_grad"):
            return Value("tensor" if attr == "grad" else "bool", name=attr, likely=True)
        if base.kind == "optimizer" and attr == "param_groups":
            return Value("list", items=None, name="param_groups", place=base.place)
        if base.kind == "ctx":
            return Value("tuple", name="tensors") if attr in ("saved_tensors", "saved_variables") else UNKNOWN
        guessed = guess.by_name(attr)
        if guessed.kind != "unknown" and base.kind in ("unknown", "object"):
            return replace(guessed, place=place or attr)
        deps = base.deps
        if base.kind == "unknown" and place:
            deps = deps | ({place} if guessed.kind == "module" else NO_DEPS)
        return Value("unknown", deps=deps, place=place)

    def module_attr(self, base: Value, attr: str, place: str) -> Value:
        if attr in ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "embedding"):
            trained = not attr.startswith("running")
            own = place or base.place
            return Value("tensor", name="module_param", place=own, deps=frozenset({own} if trained and own else ()),
                         likely=base.likely)  # fmt: skip
        if attr in ("training",):
            return Value("bool")
        if attr == "module" and base.place:
            return replace(base, name="")
        guessed = guess.by_name(attr)
        if guessed.kind in ("optimizer", "scheduler", "lossfn"):
            return replace(guessed, place=place or attr)
        return Value("unknown", place=place, deps=NO_DEPS)

    def member(self, cls: ClassInfo, base: Value, attr: str, place: str) -> Value:
        found = cls.attr(attr)
        if found is not None and found.kind == "optimizer" and not found.place.startswith("self."):
            found = replace(found, place=f"self.{attr}")  # declared in the class body
        if found is not None:
            return self.inference.rebase(found, "self", base.place or place.rpartition(".")[0])
        method = cls.method(attr)
        if method is not None:
            node = method.scope.node
            if any(dotted(d.decorator) == "property" for d in node.decorators):  # type: ignore[union-attr]
                returns = method.returns or UNKNOWN
                return self.inference.rebase(returns, "self", base.place)
            return Value("method", name=attr, place=base.place)
        if cls.kind == "module":
            return self.module_attr(base, attr, place)
        if cls.kind == "autograd" and attr == "apply":
            return Value("autograd", name=cls.qualified)
        guessed = guess.by_name(attr)
        return replace(guessed, place=place) if guessed.kind != "unknown" else Value("unknown", place=place)

    def api(self, name: str) -> Value:
        name = canonical(name)
        last = name.rpartition(".")[2]
        if last in ("float32", "float16", "float64", "int64", "int32", "bool", "float", "long", "half", "double", "int",
                    "uint8", "int8", "int16", "bfloat16", "short") and name.count(".") == 1:  # fmt: skip
            return Value("dtype", name=name)
        return Value("api", name=name)

    # --- containers

    def subscript(self, node: cst.Subscript) -> Value:
        base = self.ev(node.value)
        for element in node.slice:
            self.everything_in_slice(element)
        index = (
            constant(node.slice[0].slice.value)
            if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
            else ...
        )
        if (
            base.kind in ("tuple", "list")
            and base.items is not None
            and isinstance(index, int)
            and -len(base.items) <= index < len(base.items)
        ):
            return base.items[index]
        if base.kind in ("tuple", "list") and base.items:
            value = base.items[0]
            for item in base.items[1:]:
                value = join(value, item)
            return value.with_deps(base.deps | value.deps)
        if base.kind == "tensor" or base.name == "of tensor" and isinstance(index, int):
            value = Value("tensor", deps=base.deps, likely=base.likely)
            return shapes.shaped(value, shapes.element(base, node)) if base.kind == "tensor" else value
        if base.kind == "size":
            return Value("int" if isinstance(node.slice[0].slice, cst.Index) else "size")
        if base.kind == "module":
            if base.items is not None and isinstance(index, int) and -len(base.items) <= index < len(base.items):
                return replace(base.items[index], place=base.place)
            return Value("module", place=base.place, likely=True)
        if base.kind == "numpy":
            return Value("numpy")
        if base.name == "param_groups":
            return Value("dict", name="param_group", place=base.place)
        if base.name == "param_group":
            return Value("float", name="param_group_item", place=base.place)
        return Value("unknown", deps=base.deps)

    def everything_in_slice(self, element: cst.SubscriptElement) -> None:
        part = element.slice
        if isinstance(part, cst.Index):
            self.ev(part.value)
        elif isinstance(part, cst.Slice):
            for piece in (part.lower, part.upper, part.step):
                if piece is not None:
                    self.ev(piece)

    def comprehension(self, node: cst.CSTNode) -> Value:
        self.env.push()
        clause = node.for_in  # type: ignore[attr-defined]
        while clause is not None:
            element = self.element(self.ev(clause.iter))
            self.inference.bind(clause.target, element, self)
            for test in clause.ifs:
                self.ev(test.test)
            clause = clause.inner_for_in
        if isinstance(node, cst.DictComp):
            self.ev(node.key)
            value = self.ev(node.value)
            kind = "dict"
        else:
            value = self.ev(node.elt)  # type: ignore[attr-defined]
            kind = "list"
        self.env.pop()
        if (grouped := _all_groups(node)) is not None:
            optimizer = self.memo.get(id(grouped), UNKNOWN)
            if optimizer.kind == "optimizer":
                return Value("params", deps=optimizer.owns or NO_DEPS, place=optimizer.place)
        return Value(
            kind, deps=value.deps, name=f"of {value.kind}", items=(value,) if kind == "list" and False else None
        )

    def lambda_(self, node: cst.Lambda) -> Value:
        self.env.push()
        for param in node.params.params:
            self.env[param.name.value] = UNKNOWN
        body = self.ev(node.body)
        self.env.pop()
        return Value("function", deps=body.deps)

    def element(self, value: Value) -> Value:
        """What iterating over a value yields."""
        if value.kind == "loader":
            return Value("tensor", name="batch", likely=True)
        if value.kind == "params":
            return Value("param", deps=value.deps)
        if value.kind == "named_params":
            return Value("tuple", items=(Value("str"), Value("param", deps=value.deps)))
        if value.name == "of param_groups" or value.name == "param_groups":
            return Value("dict", name="param_group", place=value.place)
        if value.kind == "dataset":
            return Value("tuple", items=value.items) if value.items else UNKNOWN
        if value.items and value.kind != "module":
            first = value.items[0]
            for item in value.items[1:]:
                first = join(first, item)
            return first.with_deps(first.deps | value.deps)
        if value.name == "range":
            return Value("int")
        if value.name.startswith("of ") and value.kind == "list":
            kind = value.name[3:]
            return Value(
                kind if kind in ("tensor", "int", "float", "str", "param", "numpy", "module") else "unknown",
                deps=value.deps,
            )
        if value.kind == "tensor":
            return Value("tensor", deps=value.deps, likely=value.likely)
        if value.kind == "module":
            return Value("module", place=value.place, likely=True)
        if value.kind == "numpy":
            return Value("numpy")
        return Value("unknown", deps=value.deps)

    def binary(self, left: Value, right: Value, operator: cst.CSTNode | None = None) -> Value:
        deps = left.deps | right.deps
        kinds = {left.kind, right.kind}
        if "tensor" in kinds or "param" in kinds:
            value = Value("tensor", deps=deps, likely=left.likely or right.likely)
            return shapes.shaped(value, shapes.combined(operator, left, right))
        if "numpy" in kinds:
            return Value("numpy", deps=deps)
        if EITHER in (left.name, right.name) and kinds <= {"unknown", "int", "float", "bool"}:
            return Value("unknown", EITHER, deps)
        if deps and "unknown" in kinds:
            return Value("tensor", deps=deps, likely=True)
        if kinds <= {"int", "bool"}:
            return Value("int")
        if kinds <= {"int", "float", "bool"}:
            return Value("float")
        if kinds == {"str"} or left.kind == "str":
            return Value("str")
        if left.kind == right.kind and left.kind in ("list", "tuple", "params"):
            both = left.items is not None and right.items is not None
            items = bounded((*(left.items or ()), *(right.items or ()))) if both else None
            begins = right.starts if left.items == () else left.starts
            name = left.name if left.name == right.name else ""
            return Value(left.kind, deps=deps, items=items, name=name, starts=begins)
        if "list" in kinds and "int" in kinds:
            listed = left if left.kind == "list" else right
            return replace(listed, items=None)
        return Value("unknown", deps=deps)

    # --- calls

    def call(self, node: cst.Call) -> Value:
        func = node.func
        target = self.ev(func)
        args = [self.ev(arg.value) for arg in node.args]
        keywords = {
            arg.keyword.value: value for arg, value in zip(node.args, args, strict=False) if arg.keyword is not None
        }
        deps = _deps(args) | frozenset(a.place for a in args if a.kind == "module" and a.place)
        if target.kind == "api":
            return self.call_api(target.name, node, args, keywords, deps)
        if isinstance(func, cst.Attribute):
            receiver = self.memo.get(id(func.value), UNKNOWN)
            return self.inference.call_method(node, func, receiver, target, args, keywords, deps, self)
        return self.inference.call_value(node, target, args, keywords, deps, self)

    def call_api(
        self, name: str, node: cst.Call, args: list[Value], keywords: dict[str, Value], deps: frozenset[str]
    ) -> Value:
        last = name.rpartition(".")[2]
        owner = name.rpartition(".")[0]
        first = args[0] if args else UNKNOWN
        if not is_foreign(name):
            return _host(name, deps, args)
        if name in FAMILIES:
            return Value("object", name=name)
        if name.startswith("torch.optim.lr_scheduler.") or name.startswith("torch.optim.swa"):
            return Value("scheduler", name=name)
        if name.startswith("torch.optim."):
            owns = first.deps if first.kind in ("params", "list", "named_params", "tuple") or first.deps else None
            plain = (
                last == "SGD"
                and len([a for a in node.args if a.keyword is None]) <= 2
                and not {"momentum", "weight_decay"} & set(keywords)
            )
            return Value("optimizer", name=name, owns=owns or None, dtype="plain" if plain else "")
        if last == "GradScaler":
            return Value("scaler", name=name)
        if last in ("DataLoader",):
            return Value("loader", name=name)
        if name.startswith("torch.utils.data.") and last[:1].isupper():
            tensors = last == "TensorDataset" and not any(a.star for a in node.args)
            return Value("dataset", name=name, items=tuple(replace(a, deps=NO_DEPS) for a in args) if tensors else None)
        if name == "torch.Generator":
            return Value("object", name=name)
        if last == "device":
            return Value("device")
        if last in ("Variable",):
            return replace(first, leaf=True) if _true(node, "requires_grad") else replace(first, kind="tensor")
        if last == "Parameter":
            return Value("tensor", leaf=True, name="parameter")
        if last in ("DataParallel", "DistributedDataParallel", "compile") and first.kind in (
            "module",
            "function",
            "unknown",
        ):
            return first
        if (
            owner in ("torch.nn", "torch.nn.modules")
            or owner.startswith("torch.nn.modules.")
            or owner.startswith("torchvision.models")
        ):
            if last[:1].isupper() and last not in torchapi.NOT_LEARNED:
                begins = args[0].starts if last == "Sequential" and args else activations.layer(name, node)
                items = tuple(args) if last == "Sequential" else first.items if last == "ModuleList" else None
                if items is not None and any(
                    a.star or i.kind != "module" for a, i in zip(node.args, items, strict=False)
                ):
                    items = None
                return Value("module", name=name, items=items, starts=begins)
            if owner.startswith("torchvision.models"):
                return Value("module", name=name)
        if name == "torch.nn.Embedding.from_pretrained":
            return Value("module", name="torch.nn.Embedding")
        if name in ("torch.autograd.grad",):
            inputs = keywords.get("inputs") or (args[1] if len(args) > 1 else UNKNOWN)
            keep = _true(node, "create_graph")
            items = None
            if inputs.items is not None:
                items = tuple(Value("tensor", deps=deps if keep else NO_DEPS) for _ in inputs.items)
            elif inputs.kind == "tensor":
                items = (Value("tensor", deps=deps if keep else NO_DEPS),)
            return Value("tuple", items=items, deps=deps if keep else NO_DEPS, name="of tensor")
        if last.endswith("clip_grad_norm_"):
            return Value("tensor")
        if (
            owner.startswith("torch.cuda")
            or owner.startswith("torch.backends")
            or owner.startswith("torch.distributed")
        ):
            return Value("bool" if last.startswith("is_") else "unknown")
        if last in ("save", "seed", "set_printoptions", "set_default_dtype", "set_num_threads"):
            return Value("none")
        if last == "load":
            return Value("unknown")
        if (made := torchapi.transformed(name, node, args, deps)) is not None:
            return made
        if name.startswith("torch.distributions.") or name.startswith("torch.func") or name.startswith("torchvision"):
            return Value("object" if "distributions" in name else "unknown", name=name, deps=deps)
        if name.startswith("torch.nn.init.") or name.startswith("torch.utils."):
            return Value("unknown", deps=deps)
        if not name.startswith("torch."):
            return Value("unknown", deps=deps)
        self.inference.likely_tensors(node, args, name, self)
        value = shapes.shaped(torchapi.result(name, deps, len(node.args) - 1), shapes.called(last, node, args))
        if value.kind == "tensor" and _true(node, "requires_grad"):
            return replace(value, leaf=True)
        return value


_BY_TYPE: dict[type, Callable[[Evaluator, Any], Value]] = {
    cst.Name: Evaluator.name,
    cst.Attribute: Evaluator.attribute,
    cst.Call: Evaluator.call,
    cst.BinaryOperation: lambda ev, node: ev.binary(ev.ev(node.left), ev.ev(node.right), node.operator),
    cst.UnaryOperation: Evaluator.unary,
    cst.Comparison: Evaluator.comparison,
    cst.BooleanOperation: lambda ev, node: join(ev.ev(node.left), ev.ev(node.right)),
    cst.IfExp: Evaluator.conditional,
    cst.Subscript: Evaluator.subscript,
    cst.Tuple: Evaluator.sequence,
    cst.List: Evaluator.sequence,
    cst.Set: Evaluator.sequence,
    cst.Dict: Evaluator.dictionary,
    cst.ListComp: Evaluator.comprehension,
    cst.GeneratorExp: Evaluator.comprehension,
    cst.SetComp: Evaluator.comprehension,
    cst.DictComp: Evaluator.comprehension,
    cst.Lambda: Evaluator.lambda_,
    cst.NamedExpr: Evaluator.named,
    cst.Integer: lambda ev, node: Value("int"),
    cst.Float: lambda ev, node: Value("float"),
    cst.SimpleString: lambda ev, node: Value("str"),
    cst.ConcatenatedString: Evaluator.string,
    cst.FormattedString: Evaluator.string,
    cst.Await: lambda ev, node: join(ev.everything(node), UNKNOWN),
    cst.Yield: lambda ev, node: join(ev.everything(node), UNKNOWN),
}


def _all_groups(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The optimizer of `[p for group in optimizer.param_groups for p in group["params"]]`."""
    if not isinstance(node, (cst.ListComp, cst.GeneratorExp)) or node.for_in.inner_for_in is None:
        return None
    outer, inner = node.for_in, node.for_in.inner_for_in
    group = inner.iter
    plain = not outer.ifs and not inner.ifs and inner.inner_for_in is None and dotted(node.elt) == dotted(inner.target)
    if not plain or not dotted(node.elt) or not isinstance(group, cst.Subscript) or len(group.slice) != 1:
        return None
    index = group.slice[0].slice
    named = isinstance(index, cst.Index) and constant(index.value) == "params"
    if not named or dotted(group.value) != dotted(outer.target) or not isinstance(outer.iter, cst.Attribute):
        return None
    return outer.iter.value if outer.iter.attr.value == "param_groups" else None


def _keys(node: cst.Dict) -> tuple[tuple[str, bool], ...] | None:
    """The keys of a literal, None where one of them is no literal string."""
    names = [constant(e.key) if isinstance(e, cst.DictElement) else None for e in node.elements]
    return tuple((n, True) for n in names if isinstance(n, str)) if all(isinstance(n, str) for n in names) else None


def _deps(values: list[Value] | tuple[Value, ...]) -> frozenset[str]:
    return frozenset().union(*(v.deps for v in values)) if values else NO_DEPS


def _true(node: cst.Call, keyword: str) -> bool:
    return any(
        a.keyword is not None and a.keyword.value == keyword and constant(a.value) is not False for a in node.args
    )


def _host(name: str, deps: frozenset[str], args: list[Value]) -> Value:
    """A call into a library that knows nothing of gradients, as far as the name tells."""
    root = name.partition(".")[0]
    last = name.rpartition(".")[2]
    first = args[0] if args else UNKNOWN
    if root == "numpy":
        return Value("numpy")
    if root == "copy" and args:
        return replace(first, place="")
    if name == "itertools.chain" and all(a.kind in ("params", "list") for a in args):
        return Value("params", deps=deps)
    if root == "tqdm":
        return first
    if root == "math":
        return Value("float")
    if name == "collections.deque":
        return Value("deque")
    if root in HOST_LIBRARIES:
        return Value("unknown")
    return Value("unknown", deps=deps, name=last and "")
