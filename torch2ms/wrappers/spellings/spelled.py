"""Other spellings: `getattr(torch, "relu")(x)`, `torch.Tensor.add(x, y)`, `torch.exp_(x)`, `op = torch.topk`.

A module that is given a name, as in `F = torch.nn.functional`, is imported under it. Two are around gradients:
`p.grad.detach().mul_(c)` writes where `p.grad.data.mul_(c)` does; `filter(lambda p: p.grad is not None, parameters)` is
a comprehension.
"""

from __future__ import annotations

import keyword
import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.api.named import takes_as_written
from torch2ms.api.rules import Rules
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

TRAINING = {"parameters", "named_parameters", "state_dict", "load_state_dict", "train", "eval", "step", "zero_grad",
            "param_groups", "backward"}  # fmt: skip
GROWING = ("torch.nn.ModuleList", "torch.nn.Sequential")
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
HELD = ("api", "tensor", "param")  # what a text that is written out may ask for an attribute
IN_PLACE = re.compile(r"torch\.([a-z]\w*_)")
NO_METHODS = {"celu_", "selu_", "rrelu_", "threshold_", "dropout_", "alpha_dropout_", "feature_alpha_dropout_",
              "feature_dropout_", "embedding_renorm_"}  # fmt: skip
METHOD = re.compile(r"torch\.Tensor\.([a-z]\w*)")
# a method of the class is kept to be replaced
FUNCTION = re.compile(r"torch\.(?!Tensor\.)(?:\w+\.)*[a-z]\w*|torch\.Tensor")
LAYER = re.compile(r"torch\.nn\.[A-Z]\w*")
MODULE = re.compile(
    r"torch\.(?:nn(?:\.(?:functional|init|utils))?|optim(?:\.lr_scheduler)?|linalg|fft|special|distributions|utils\.data)"
)
ASKED = re.compile(
    r"""\bTensor\.[a-z]|\btorch\.[a-z]\w*_\(|\.grad\.detach\(\)\.\w+_\(|\bfilter\(\s*lambda[^\n]*\.grad\b"""
    r"|, *[)\]]? *= *(?:torch\.autograd\.)?grad\("
    r"|\bFloatTensor\b[^\n]* else |\bTensor if [^\n]* else "
    r"|,\s*params *=|\w\.__[sg]etattr__\(|\.__i(?!nit)[a-z]+__\("
    r"|(?:ModuleList|Sequential)\(.*\)\.(?:append|extend)\("
    r"|\boperator\.(?:i[a-z]|[lr]shift)|\bfrom operator import"
    r"""|(?<!\.)\beval\(f?["']"""
    r"|\bfrom torch import [^\n]*[a-z0-9]_\b|\bimport torch as (?!torch\b)|= *torch\.[a-z]\w*_(?![\w(.])"
)
AUGMENTED = {"__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
             "__idiv__": "div_", "__ipow__": "pow_",
             "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__iand__": "bitwise_and_",
             "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_", "__ilshift__": "bitwise_left_shift_",
             "__irshift__": "bitwise_right_shift_"}  # fmt: skip
UNLIKE = {"operator.invert": "~{0}", "operator.inv": "~{0}", "operator.lshift": "{0} << {1}",
          "operator.rshift": "{0} >> {1}"}  # MindSpore answers in another way, or not at all  # fmt: skip
BOUND = re.compile(r"^[ \t]*\w+ *= *[A-Za-z_][\w.]* *(?:#.*)?$", re.MULTILINE)


@each_module
def spelled(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks for attributes by a text, or calls methods through their class."""
    if not (module.says(ASKED) or _named_by_texts(module)):
        return None
    writer = Spelled(module)
    made = writer.plain()
    return made if writer.changed else None


@each_module
def aliased(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that gives functions of torch names of their own, to call them."""
    if not module.says(BOUND):
        return None
    writer = Aliased(module, project)
    if not (writer.names or writer.modules or writer.classes):
        return None
    made = writer.plain()
    return made if writer.changed else None


def _named_by_texts(module: ModuleInfo) -> bool:
    """It asks for an attribute whose name it writes down as a text, and takes no other value for it."""
    calls = module.of_kind(cst.Call) if module.has("getattr(") else ()
    return any(_attribute_asked(call) for call in calls if dotted(call.func) == "getattr")


def _attribute_asked(call: cst.Call) -> str:
    """The name of the attribute in `getattr(x, "name")`."""
    plain = len(call.args) == 2 and not any(arg.star or arg.keyword for arg in call.args)
    name = constant(call.args[1].value) if plain else None
    return name if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) else ""


class Spelled(Suites):
    """One module with attributes for texts, and methods on what they are called on."""

    changed = False

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if dotted(original.func) == "getattr":
            return self.attribute(original, updated)
        if dotted(original.func) == "eval":
            return self.evaluated(original, updated)
        if (shared := _detached_gradient(updated)) is not None:
            self.changed = True
            return updated.with_changes(func=shared)
        if dotted(original.func) in ("filter", "list"):
            return self.filtered(original, updated)
        if (ordered := self.ordered(original, updated)) is not None:
            return ordered
        if (asked := self.by_name(original, updated) or self.operated(original, updated)) is not None:
            return asked
        if (changed := self.in_place(original, updated) or self.augmented(original, updated)) is not None:
            return changed
        if (grown := self.grown(original, updated)) is not None:
            return grown
        of_class = isinstance(original.func, cst.Attribute) and dotted(original.func.value).endswith("Tensor")
        found = METHOD.fullmatch(self.module.value(original.func).name) if of_class else None
        first = updated.args[0] if updated.args else None
        if found is None or first is None or first.keyword is not None or first.star:
            return updated
        self.changed = True
        func = cst.Attribute(parenthesised(first.value), cst.Name(found[1]))
        return updated.with_changes(func=func, args=updated.args[1:])

    def by_name(self, original: cst.Call, updated: cst.Call) -> cst.Call | None:
        """`self.__setattr__(name, layer)` is `setattr(self, name, layer)`; that of a class stays."""
        func = updated.func
        counts = {"__setattr__": 2, "__getattr__": 1}
        if not isinstance(func, cst.Attribute) or counts.get(func.attr.value) != len(updated.args):
            return None
        if not dotted(func.value) or self.module.value(original.func.value).kind not in ("module", "object"):  # type: ignore[attr-defined]
            return None
        self.changed = True
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        name = cst.Name(func.attr.value.strip("_"))
        return updated.with_changes(func=name, args=[cst.Arg(func.value, comma=comma), *updated.args])

    def operated(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
        """`operator.invert(x)` is `~x`, and `operator.iadd(x, y)` is `x.add_(y)`."""
        full = qualified(original.func, self.module.imports) if dotted(original.func) else ""
        if not full.startswith("operator.") or any(arg.star or arg.keyword for arg in original.args):
            return None
        method, text = AUGMENTED.get(f"__{full.rpartition('.')[2]}__"), UNLIKE.get(full)
        given = original.args[0].value if original.args else None
        if (method or text) is None or given is None or self.module.value(given).kind not in ("tensor", "param"):
            return None
        parts = [parenthesised(arg.value) for arg in updated.args]
        if len(parts) != (1 if text and "{1}" not in text else 2):
            return None
        self.changed = True
        if method:
            return updated.with_changes(func=cst.Attribute(parts[0], cst.Name(method)), args=updated.args[1:])
        return parenthesised(cst.parse_expression(text.format(*map(code, parts)))) if text else None

    def in_place(self, original: cst.Call, updated: cst.Call) -> cst.Call | None:
        """`torch.exp_(x)` is `x.exp_()`, whatever name the function goes by."""
        called = self.module.value(original.func)
        named = isinstance(original.func, (cst.Name, cst.Attribute)) and called.kind == "api"
        found = IN_PLACE.fullmatch(called.name) if named else None
        first = updated.args[0] if updated.args else None
        if found is None or found[1] in NO_METHODS or first is None or first.star:
            return None
        if first.keyword is not None and first.keyword.value != "input":
            return None
        self.changed = True
        func = cst.Attribute(parenthesised(first.value), cst.Name(found[1]))
        return updated.with_changes(func=func, args=updated.args[1:])

    def augmented(self, original: cst.Call, updated: cst.Call) -> cst.Call | None:
        """`x.__iadd__(y)` is `x.add_(y)`."""
        func, asked = updated.func, original.func
        if not isinstance(func, cst.Attribute) or not isinstance(asked, cst.Attribute):
            return None
        if func.attr.value not in AUGMENTED or self.module.value(asked.value).kind != "tensor":
            return None
        self.changed = True
        return updated.with_changes(func=func.with_changes(attr=cst.Name(AUGMENTED[func.attr.value])))

    def grown(self, original: cst.Call, updated: cst.Call) -> cst.Call | None:
        """`nn.ModuleList([a]).append(b)` is `nn.ModuleList([a, b])`: cells give nothing back when they grow."""
        func, root = updated.func, original.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("append", "extend"):
            return None
        while isinstance(root, cst.Attribute) and isinstance(root.value, cst.Call):
            root = root.value.func
        made, name = func.value, self.module.value(root).name
        if not isinstance(made, cst.Call) or name not in GROWING or dotted(made.func) != dotted(root):
            return None
        if len(updated.args) != 1 or updated.args[0].star or updated.args[0].keyword is not None:
            return None
        more: cst.BaseElement = cst.Element(updated.args[0].value)
        if func.attr.value == "extend":
            more = cst.StarredElement(parenthesised(updated.args[0].value))
        if name == "torch.nn.Sequential":
            args = [arg.with_changes(comma=_COMMA) for arg in made.args]
            last = cst.Arg(more.value, star="*") if isinstance(more, cst.StarredElement) else cst.Arg(more.value)
            made = made.with_changes(args=[*args, last])
        else:
            held = made.args[0].value if len(made.args) == 1 else cst.List([]) if not made.args else None
            if not isinstance(held, cst.List):
                return None
            elements = [element.with_changes(comma=_COMMA) for element in held.elements]
            made = made.with_changes(args=[cst.Arg(held.with_changes(elements=[*elements, more]))])
        self.changed = True
        return made

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        """`torch.cuda.FloatTensor if cuda else torch.Tensor`: with the default type, the same on both devices."""
        body, other = (self.module.value(node).name for node in (original.body, original.orelse))
        if {body, other} != {"torch.FloatTensor", "torch.Tensor"}:
            return updated
        plain = updated.orelse if body == "torch.FloatTensor" else updated.body
        if not isinstance(plain, cst.Attribute):
            return updated
        self.changed = True
        same = plain.with_changes(attr=cst.Name("FloatTensor"))
        return updated.with_changes(body=same, orelse=same.deep_clone())

    def ordered(self, original: cst.Call, updated: cst.Call) -> cst.Call | None:
        """`SGD(lr=0.1, params=weights)` with the weights at the head, where everybody looks for them."""
        args = list(updated.args)
        place = next((i for i, a in enumerate(args) if a.keyword is not None and a.keyword.value == "params"), 0)
        if not place or args[0].keyword is None or any(arg.star for arg in args):
            return None
        if not self.module.value(original.func).name.startswith("torch.optim."):
            return None
        self.changed = True
        commas = [arg.comma for arg in args]
        args.insert(0, args.pop(place))
        return updated.with_changes(args=[a.with_changes(comma=c) for a, c in zip(args, commas, strict=True)])

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.BaseSmallStatement:
        """`g, = grad(y, x, create_graph=True)`: the first of the gradients, of which there is one."""
        target, call = updated.targets[0].target, updated.value
        if len(updated.targets) != 1 or not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 1:
            return updated
        if not isinstance(call, cst.Call) or not isinstance(original.value, cst.Call):
            return updated
        name = self.module.value(original.value.func).name
        again = any(arg.keyword is not None and arg.keyword.value == "create_graph" for arg in call.args)
        only = target.elements[0]
        if name != "torch.autograd.grad" or not again or not isinstance(only, cst.Element):
            return updated
        self.changed = True
        first = cst.Subscript(call, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])
        return updated.with_changes(targets=[updated.targets[0].with_changes(target=only.value)], value=first)

    def filtered(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`filter(lambda p: p.grad is not None, parameters)`, with or without `list` around it."""
        if dotted(original.func) == "list":
            made = len(updated.args) == 1 and updated.args[0].value
            return made if isinstance(made, cst.ListComp) and isinstance(original.args[0].value, cst.Call) else updated
        if len(updated.args) != 2 or any(arg.star or arg.keyword for arg in updated.args):
            return updated
        test, given = updated.args[0].value, updated.args[1].value
        if not isinstance(test, cst.Lambda) or len(test.params.params) != 1 or test.params.params[0].default:
            return updated
        if all(not isinstance(n, cst.Attribute) or n.attr.value != "grad" for n in descend(test.body)):
            return updated
        self.changed = True
        name = test.params.params[0].name
        chosen = cst.CompIf(test.body, whitespace_before=cst.SimpleWhitespace(" "))
        return cst.ListComp(name, cst.CompFor(name.deep_clone(), given, [chosen]))

    def evaluated(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`eval("nn." + kind)` and `eval(f"nn.{kind}()")` ask torch for a name; `eval("nn.ReLU()")` is what it says."""
        text = updated.args[0].value if len(updated.args) == 1 else None
        if isinstance(written := constant(text), str):
            head = written.partition(".")[0]
            if self.module.imports.table.get(head, "").partition(".")[0] != "torch":
                return updated
            try:
                made = cst.parse_expression(written)
            except cst.ParserSyntaxError:
                return updated
            self.changed = True
            return parenthesised(made)
        if isinstance(text, cst.FormattedString):
            parts = [getattr(p, "value", None) or getattr(p, "expression", None) for p in text.parts]
        elif isinstance(text, cst.BinaryOperation) and isinstance(text.operator, cst.Add):
            parts = [constant(text.left), text.right]
        else:
            return updated
        home, called = parts[0], parts[2:] == ["()"]
        if not isinstance(home, str) or not home.endswith(".") or len(parts) != (3 if called else 2):
            return updated
        module, kind = cst.parse_expression(home[:-1]), parts[1]
        if not MODULE.fullmatch(qualified(module, self.module.imports)) or not isinstance(kind, cst.BaseExpression):
            return updated
        self.changed = True
        asked = cst.Call(cst.Name("getattr"), [cst.Arg(module, comma=_COMMA), cst.Arg(kind)])
        return cst.Call(asked) if called else asked

    def attribute(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`getattr(x, "name")`"""
        name = _attribute_asked(original)
        if not name:
            return updated
        held = self.module.value(original.args[0].value)
        known = held.kind in HELD and not held.likely and (held.kind != "api" or held.name.startswith("torch"))
        own = (held.kind == "module" or dotted(original.args[0].value) == "self") and not name.startswith("__")
        if not known and not own and (name not in TRAINING or held.kind == "object"):
            return updated
        self.changed = True
        return cst.Attribute(parenthesised(updated.args[0].value), cst.Name(name))


def _detached_gradient(call: cst.Call) -> cst.Attribute | None:
    """What `p.grad.detach().copy_(x)` calls: it is the memory of the gradient, as with `p.grad.data.copy_(x)`."""
    func = call.func
    if not isinstance(func, cst.Attribute) or not func.attr.value.endswith("_") or not isinstance(func.value, cst.Call):
        return None
    held = func.value.func
    if not dotted(held).endswith(".grad.detach") or func.value.args or not isinstance(held, cst.Attribute):
        return None
    return func.with_changes(value=cst.Attribute(held.value, cst.Name("data")))


def _bound_elsewhere(full: str, project: Project) -> bool:
    """`engine.criterion = focal_loss`, also by `setattr` and its kin: what is called is what the name means by then.

    What another module imports stays, too.
    """
    name = full.rpartition(".")[2]
    quoted = re.compile(rf"""(?:setattr\([^,\n]+,\s*["']|(?:\b__dict__|\)) *\[["']|["'][\w.]+\.){name}["']""")
    bound = re.compile(rf"\.{name}\s*(?::[^=\n]+)?=[^=]")
    for module in project.modules.values():
        if module.says(quoted) or full in module.imports.table.values():
            return True
        places = module.of_kind(cst.AssignTarget) if module.says(bound) else ()
        if any(qualified(node.target, module.imports) == full for node in places):
            return True
    return False


class Aliased(Suites):
    """One module with functions of torch at the calls of the names that they were given."""

    changed = False

    def __init__(self, module: ModuleInfo, project: Project) -> None:
        super().__init__(module)
        self.project = project
        self.names: dict[str, cst.BaseExpression] = {}
        self.modules: dict[int, str] = {}  # assignments of modules, and the names of these
        self.dead: set[int] = set()
        self.layers: set[int] = set()  # assignments of classes: the names go everywhere
        self.classes: dict[str, cst.BaseExpression] = {}  # what stands for these names
        self.others: set[int] = set()  # names of attributes, parameters and arguments
        for node in self.candidates() if not self.off else ():  # what is left alone keeps its names
            name = dotted(node.targets[0].target)
            if MODULE.fullmatch(whole := self.module.value(node.value).name):
                self.modules[id(node)] = whole
                continue
            if id(node) in self.layers:
                self.classes[name] = node.value
                self.dead.add(id(node))
                continue
            self.names[name] = node.value
            mentioned, called = self.uses(name)
            own = sum(type(n) is cst.Name and n.value == name for n in descend(node))  # `Tensor = torch.Tensor`
            if mentioned == called + own:
                self.dead.add(id(node))

        if self.classes:
            self.others = {id(part) for node in self.module.nodes for part in _no_value(node)}

    def candidates(self) -> list[cst.Assign]:
        """Assignments of functions of torch to names that nothing else binds."""
        found: list[cst.Assign] = []
        bound: list[str] = []
        rules = Rules.load()
        for scope in self.module.scope.walk():
            bound += scope.params
            for stmt in scope.body.walk():
                bound += stmt.defs
                node = stmt.node
                if type(node) is not cst.Assign or len(node.targets) != 1 or stmt.block is not scope.body:
                    continue
                if type(node.targets[0].target) is not cst.Name or type(scope.node) is cst.ClassDef:
                    continue
                value = self.module.value(node.value) if dotted(node.value) else None
                if value is not None and self.of_tensor(node.value, rules):
                    found.append(node)
                    continue
                if value is None or value.kind != "api":
                    continue
                if MODULE.fullmatch(value.name):
                    found.append(node)
                    continue
                rule = rules.find(value.name)
                if LAYER.fullmatch(value.name) and rule is not None and not rule.hopeless:
                    found.append(node)
                    self.layers.add(id(node))
                if not FUNCTION.fullmatch(value.name):
                    continue
                if rule is not None and not (rule.attribute or rule.hopeless or takes_as_written(rule)):
                    found.append(node)
        names = [(node, dotted(node.targets[0].target)) for node in found]
        own = self.module.name
        once = [(node, f"{own}.{name}") for node, name in names if bound.count(name) == 1]
        return [
            node for node, full in once if self.stays(node.value, bound) and not _bound_elsewhere(full, self.project)
        ]

    def of_tensor(self, node: cst.BaseExpression, rules: Rules) -> bool:
        """`top = scores.topk`: a method of a tensor that has a name."""
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            return False
        held = self.module.value(node.value)
        if held.kind != "tensor" or held.likely:
            return False
        rule = rules.find(f"torch.Tensor.{node.attr.value.rstrip('_')}")
        return rule is not None and not rule.attribute

    def stays(self, node: cst.BaseExpression, bound: list[str]) -> bool:
        """Where it is a method of an object: whose name never means another one."""
        if self.module.value(node).kind == "api" or not isinstance(node, cst.Attribute):
            return True
        return bound.count(dotted(node.value)) == 1

    def uses(self, name: str) -> tuple[int, int]:
        """How often the name stands anywhere, and how often as what is called."""
        mentioned = called = 0
        for node in self.module.nodes:
            if type(node) is cst.Name and node.value == name:
                mentioned += 1
            called += type(node) is cst.Call and type(node.func) is cst.Name and node.func.value == name
        return mentioned, called

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.dead:
            self.changed = True
            return []
        if whole := self.modules.get(id(node)):
            self.changed = True
            name = cst.AsName(cst.Name(dotted(node.targets[0].target)))  # type: ignore[attr-defined]
            return [cst.Import([cst.ImportAlias(cst.parse_expression(whole), name)])]  # type: ignore[arg-type]
        return super().small(node)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if not isinstance(original.func, cst.Name) or original.func.value not in self.names:
            return updated
        self.changed = True
        return updated.with_changes(func=self.names[original.func.value].deep_clone())

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        """`Conv(3, 4)`, `isinstance(layer, Conv)`, where `Conv = nn.Conv2d`."""
        if original.value not in self.classes or id(original) in self.others:
            return updated
        self.changed = True
        return self.classes[original.value].deep_clone()


def _no_value(node: cst.CSTNode) -> list[cst.CSTNode | None]:
    """The names in a node that stand for no value."""
    if isinstance(node, cst.Attribute):
        return [node.attr]
    if isinstance(node, cst.Arg):
        return [node.keyword]
    if isinstance(node, (cst.Global, cst.Nonlocal, cst.ImportFrom, cst.Import)):
        return list(descend(node))
    return []
