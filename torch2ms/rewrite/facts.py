"""What the analysis knows of an expression, in the words of the API rules."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.oddities import EMPTY, PICKED
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.assigned import assigned, members
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import SEQUENCE, UNTYPED, is_weight
from torch2ms.api.signature import Shape, Signature
from torch2ms.rewrite.layers.handed import held_calls
from torch2ms.rewrite.layers.sequentials import is_sequential
from torch2ms.rewrite.project_facts import ProjectFacts, grown_sources
from torch2ms.rewrite.tensors.computing import computed
from torch2ms.rewrite.tensors.meanwhile import changed_meanwhile
from torch2ms.rewrite.tensors.samples import columns

SET_DECAY = re.compile(r"""\[["']weight_decay["']\]\s*[-+*/]?=[^=]|\.update\([^()]*\bweight_decay\b""")
GIVEN_DECAY = re.compile(r"\bweight_decay\s*=")
LOADED_STATE = re.compile(r"opt\w*\.load_state_dict\(")  # another optimizer's decay comes along
GROUP_DECAY = re.compile(r"""["']weight_decay["']\]?\s*[:=][^=]|dict\([^()]*\bweight_decay\s*=""")
TRAINED = re.compile(r"\boptim\.\w+\([^\n]*\.values\(\)")  # the leaves of a dict, which are Parameters
WEIGHT = re.compile(r"(?:^|[._])(?:w|b|p|param|parameter|weight|bias|theta)s?_?\d*$", re.IGNORECASE)
_WRITTEN = frozenset({cst.List, cst.Tuple, cst.UnaryOperation, cst.BinaryOperation, cst.Imaginary})  # data of a tensor
LAYER_NAMES = re.compile(r"\b(named_(children|modules|parameters)|state_dict|get_submodule|get_parameter|_modules)\b")
# after which a tensor that had no elements may have some
FILLED = re.compile(r"\bout\s*=\s*(?!None\b)[^=\s]|\.resize_(?:as_)?\(|\.set_\(")
# what losses are given beside outputs: no gradient comes there
LABELS = re.compile(
    r"(?:^|[._])(?:targets?|labels?|ys?|gt|tgt|masks?|idx|ind(?:ex|ices)|ids?|tokens?|lengths?)(?:_\w+)?$"
)
JOINS = frozenset(("cat", "concat", "concatenate"))
CASTS = frozenset("to type long int float double half bool".split())
TYPE = re.compile(r"torch\.(\w+Tensor)")  # the name of a type, which programs give a name of their own


@once
def of_items(module: ModuleInfo) -> set[int]:
    """The names for what loops take out of dicts, `{k: v.clone() for k, v in weights.items()}`, by id: leaves that a
    dict has are Parameters."""
    found: set[int] = set()
    for kind in (cst.DictComp, cst.ListComp, cst.GeneratorExp):
        for loop in module.of_kind(kind):
            head = loop.for_in
            items = head.iter
            if isinstance(items, cst.Call) and name_called(items) in ("items", "values"):
                names = {n.value for n in descend(head.target) if isinstance(n, cst.Name)}
                if "state_dict" not in code(items):
                    found |= {id(n) for n in descend(loop) if isinstance(n, cst.Name) and n.value in names}
    return found


@once
def _with_weights(module: ModuleInfo) -> set[str]:
    """The names of lists that a weight is put into where they are made, or appended to."""
    found: set[str] = set()
    for stmt in (s for scope in module.scope.walk() for s in scope.body.walk()) if module.has("stack(") else ():
        for target, value in assigned(stmt.node):
            if isinstance(value, cst.List) and any(is_weight(module.value(part)) for part in members(value)):
                found.add(dotted(target))
        for call in stmt.calls:
            if name_called(call) == "append" and isinstance(call.func, cst.Attribute) and call.args:
                if is_weight(module.value(call.args[0].value)):
                    found.add(dotted(call.func.value))
    return found - {""}


@once
def _cast_after(module: ModuleInfo) -> set[int]:
    """What calls join whose result gets another type at once, by id."""
    found: set[int] = set()
    for call in module.of_kind(cst.Call) if module.has("cat") else ():
        inner = call.func.value if isinstance(call.func, cst.Attribute) else None
        if name_called(call) in CASTS and isinstance(inner, cst.Call) and name_called(inner) in JOINS:
            found |= {id(arg.value) for arg in inner.args[:1]}
    return found


@once
def _of_arrays(module: ModuleInfo) -> set[str]:
    """The places that are bound to tensors of arrays whose type is not seen, and not said."""
    found: set[str] = set()
    for stmt in (s for scope in module.scope.walk() for s in scope.body.walk()) if module.has("from_numpy") else ():
        for target, value in assigned(stmt.node):
            if _chained(value, "from_numpy") and not module.value(value).dtype and "float32" not in code(value):
                found.add(dotted(target))
    return found - {""}


def _chained(node: cst.BaseExpression, name: str) -> bool:
    """Whether this is what a function gives, or methods of that: `torch.from_numpy(x).reshape(1, -1)`."""
    while isinstance(node, cst.Call):
        if name_called(node) == name:
            return True
        node = node.func.value if isinstance(node.func, cst.Attribute) else node.func
    return False


@once
def _hollow_lists(project: Project) -> set[str]:
    """The names of lists that tensors of one dimension without elements are appended to: memories that begin empty."""
    found: set[str] = set()
    for module in project.modules.values():
        for call in module.of_kind(cst.Call) if module.has("empty(0") or module.has("tensor([])") else ():
            if name_called(call) != "append" or len(call.args) != 1 or not isinstance(call.func, cst.Attribute):
                continue
            value = module.value(call.args[0].value)
            if value.odd == EMPTY and value.rank in (1, None):
                found.add(dotted(call.func.value).rpartition(".")[2])
    return found - {""}


class ModuleFacts(ProjectFacts):
    """Answers for the expressions of one module."""

    def kind(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        if value.kind == "api" and TYPE.fullmatch(value.name):
            return "dtype"
        if value.name == SEQUENCE:
            return "list"
        if value.name == "range" and isinstance(node, (cst.Name, cst.Attribute)):
            return "range"
        kind = {"param": "tensor", "lossfn": "module"}.get(value.kind, value.kind)
        return kind if kind not in ("api", "class", "object", "method", "autograd", "builtin", "params") else "unknown"

    def untyped(self, node: cst.BaseExpression) -> bool:
        """Whether an element type may be None."""
        return self.module.value(node).name == UNTYPED

    def guessed(self, node: cst.BaseExpression) -> bool:
        """Whether the kind of an expression is a guess."""
        return self.module.value(node).likely

    def rank(self, node: cst.BaseExpression) -> int | None:
        value = self.module.value(node)
        listed = value.kind in ("list", "tuple")  # data, of which a tensor may be made
        return value.rank if not value.likely and not listed and not self.module.reshapes else None

    def dtype(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        if value.kind == "dtype":
            return shapes.dtype_of(value) or value.name.rpartition(".")[2]
        made = type(node) is cst.Call and dotted(node.func) == "complex"
        if (made or type(node) in _WRITTEN) and value.kind != "tensor":
            return shapes.literal(node, value)[0]
        if type(node) is cst.Comparison and value.kind == "tensor":
            return "bool"  # whatever is compared
        sure = not value.likely or value.dtype.startswith(("bool", "complex"))  # for a tensor it cannot be another
        return value.dtype if sure and not self.module.reshapes else ""

    def number(self, node: cst.BaseExpression) -> bool:
        """A number of NumPy, which is no array."""
        value = self.module.value(node)
        guessed = value.kind == "unknown" or value.kind == "tensor" and value.likely
        if guessed and type(node) is cst.Call and dotted(node.func) == "sum":
            return type(node.args[0].value) is cst.Name and self.module.has("numpy")  # Python's sum of an array
        return value.kind == "numpy" and value.rank == 0

    def types_held(self, node: cst.BaseExpression) -> list[str]:
        """The element types of the tensors that a list or a tuple under a name holds."""
        return [item.dtype if not item.likely else "" for item in self.module.value(node).items or ()]

    def weights_among(self, node: cst.BaseExpression) -> bool:
        """Whether a list holds Parameters beside other tensors, or may."""
        if isinstance(node, (cst.List, cst.Tuple)):
            held = [is_weight(self.module.value(element.value)) for element in node.elements]
            return any(held) and not all(held)
        place = dotted(node)
        return bool(place) and place in _with_weights(self.module)

    def odd(self, node: cst.BaseExpression) -> str:
        """What the source shows of a tensor's elements: that there are none, or NaN among them."""
        value = self.module.value(node)
        if value.odd == EMPTY and self.project.says(FILLED):
            return ""
        return value.odd if not value.likely or value.odd == PICKED else ""

    def cls(self, node: cst.BaseExpression) -> str:
        """The qualified class of a module or a distribution, "" where it is not seen."""
        value = self.module.value(node)
        made = value.kind == "object" and value.name.startswith("torch.distributions.")
        return value.name if value.kind == "module" or made else ""

    def columns(self, node: cst.BaseExpression) -> int | None:
        """How many values a sample of a dataset has, 0 for one that is no tuple, None where it is not seen."""
        return columns(self.module.value(node), self.module, self.project)

    def iterable(self, node: cst.BaseExpression) -> bool:
        """A dataset that is iterated, and has no samples to ask for by number."""
        name = self.module.value(node).name
        found = self.project.find(name, self.module)
        if not isinstance(found, ClassInfo):
            return name == "torch.utils.data.ChainDataset"
        return found.method("__iter__") is not None and not found.method("__getitem__")

    def goes_on(self, node: cst.BaseExpression) -> bool:
        """A dataset that is iterated and remembers how far it came: nobody may read ahead of the program."""
        found = self.project.find(self.module.value(node).name, self.module) if self.iterable(node) else None
        methods = [m for n, m in found.methods.items() if n != "__init__"] if isinstance(found, ClassInfo) else []
        stmts = [s for m in methods for s in m.scope.body.walk()]
        taken = (dotted(c.args[0].value) for s in stmts for c in s.calls if dotted(c.func) == "next" and c.args)
        places = {*taken, *(place for s in stmts for place in (*s.defs, *s.muts))}
        return any(place.startswith("self.") for place in places)

    def regrown(self, node: cst.BaseExpression) -> bool:
        """A list of samples that is longer or shorter when the loader of it is used than when it was made."""
        return dotted(node) in grown_sources(self.project)

    def changed_meanwhile(self, node: cst.BaseExpression) -> bool:
        """A dataset that the program changes while it goes through a loader of it: nobody may read ahead."""
        return changed_meanwhile(self.module.value(node), self.module, self.project)

    def computed(self, node: cst.BaseExpression) -> bool:
        """A dataset whose samples are computed with tensors: MindSpore would do it in a thread beside the training."""
        return computed(self.module.value(node), self.module, self.project)

    def hollow(self, node: cst.BaseExpression) -> bool:
        """Whether something binds a place to a tensor of one dimension without elements: `torch.empty(0)`."""
        place, lists = dotted(node), _hollow_lists(self.project)
        if lists and (isinstance(node, cst.Subscript) or place.rpartition(".")[2] in lists):
            return True  # an item of such a list, whatever it is called here
        if not place or self.module.value(node).kind not in ("tensor", "unknown"):
            return False
        stmts = (s for scope in self.module.scope.walk() for s in scope.body.walk() if place in s.defs)
        return any(isinstance(s.node, cst.Assign) and self._empty(place, s.node) for s in stmts)

    def cast_after(self, node: cst.BaseExpression) -> bool:
        return id(node) in _cast_after(self.module)

    def of_array(self, node: cst.BaseExpression) -> bool:
        return _chained(node, "from_numpy") if isinstance(node, cst.Call) else dotted(node) in _of_arrays(self.module)

    def _empty(self, place: str, node: cst.Assign) -> bool:
        """The assignment gives the place such a tensor, alone or as one of several."""
        for target in (t.target for t in node.targets):
            pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, node.value)]
            if type(target) is cst.Tuple and type(node.value) is cst.Tuple:
                pairs = [(t.value, v.value) for t, v in zip(target.elements, node.value.elements, strict=False)]
            for one, given in pairs:
                value = self.module.value(given)
                if dotted(one) == place and value.odd == "empty" and value.rank in (1, None):
                    return isinstance(given, cst.Call)
        return False

    def fresh(self, node: cst.BaseExpression) -> bool:
        """Whether a layer is made here, or under a name that its scope does not use in between; of torch's class."""
        if not self.cls(node).startswith("torch.nn."):
            return False
        place, new = dotted(node), False
        if not place:
            return isinstance(node, cst.Call)
        for stmt in (s for scope in self.module.scope.walk() for s in scope.body.walk()):
            if place in stmt.uses and stmt.is_small and any(n is node for n in stmt.nodes):
                return new
            if place in stmt.defs | stmt.uses | stmt.muts:
                new = isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Call)
                new = new and place in stmt.defs
        return False

    def nothing(self, node: cst.BaseExpression) -> bool:
        """Whether a place may hold None: something binds it to that, or nobody is seen to bind it."""
        place = dotted(node)
        if not place:
            return not isinstance(node, cst.Call)
        stmts = (s for scope in self.module.scope.walk() for s in scope.body.walk() if place in s.defs)
        bound = [s.node.value if isinstance(s.node, cst.Assign) else None for s in stmts]
        return not bound or any(value is None or _may_be_none(value) for value in bound)

    def left_empty(self, node: cst.Name) -> bool:
        """Whether something binds the name to None, or does under a condition."""
        stmts = (s.node for scope in self.module.scope.walk() for s in scope.body.walk() if node.value in s.defs)
        assigned = (n.value for n in stmts if isinstance(n, cst.Assign) and not isinstance(n.value, cst.Tuple))
        return any(_may_be_none(value) for value in assigned)

    def omitted(self, node: cst.Name) -> bool:
        """A parameter of the function around it that callers may leave out, with None for its default."""
        for scope in self.module.scope.walk():
            if node.value in scope.params and any(node is n for s in scope.body.walk() for n in s.nodes):
                params = scope.node.params if isinstance(scope.node, cst.FunctionDef) else cst.Parameters()
                given = [*params.posonly_params, *params.params, *params.kwonly_params]
                return any(p.name.value == node.value and constant(p.default) is None for p in given if p.default)
        return False

    def weight(self, node: cst.BaseExpression) -> bool:
        """Whether the expression may be a Parameter itself: what is not seen counts where its name says so."""
        value = self.module.value(node)
        if value.kind == "param" or value.leaf or value.name in ("module_param", "parameter"):
            return True
        if self.project.says(TRAINED) and value.kind == "tensor" and isinstance(node, cst.Name) and not value.place:
            return id(node) in of_items(self.module)
        return (value.likely or value.kind == "unknown") and WEIGHT.search(dotted(node)) is not None

    def ranged(self, node: cst.BaseExpression) -> bool:
        """A name for a `range`, of which MindSpore makes no tensor."""
        return isinstance(node, (cst.Name, cst.Attribute)) and self.module.value(node).name == "range"

    def decays(self, node: cst.BaseExpression) -> bool:
        """Whether an optimizer may be given groups of parameters with a weight decay of their own, or one later on."""
        says = self.project.says
        if (
            says(SET_DECAY)
            or says(LOADED_STATE)
            and says(GIVEN_DECAY)
            or self.project.adds_groups
            and says(GROUP_DECAY)
        ):
            return True
        value = self.module.value(node)
        if value.kind in ("params", "tensor", "dict"):
            return False
        groups = [item for item in value.items or () if item.kind == "dict"]
        if value.items is not None and all(group.keys is not None for group in groups):
            return any(key == "weight_decay" for group in groups for key, _ in group.keys or ())
        return says(GROUP_DECAY)

    def varied_targets(self, criterion: str) -> bool:
        """A gradient flows into what a criterion of this class is given second, somewhere in the project."""
        return criterion in _varied_targets(self.project)

    def sequential(self, node: cst.BaseExpression) -> bool | None:
        """A module runs a list of its layers, None where that is not seen."""
        return is_sequential(self.module.value(node), self.module, self.project)

    def whole(self, node: cst.BaseExpression) -> bool:
        """`0`, or a name that is given such a number somewhere: `dropout=0`, `"dropout": 0`."""
        key = node.slice[0].slice if type(node) is cst.Subscript else None
        name = constant(key.value) if type(key) is cst.Index else dotted(node).rpartition(".")[2]
        if not isinstance(name, str) or not name.isidentifier():
            return isinstance(constant(node), int)
        return self.project.says(re.compile(rf"\b{name}\b[\"']?\s*(?::(?! *\d)[^=,)\n]+)?[=:]\s*[01]\b(?!\.)"))

    def looked_up(self, name: object) -> bool:
        """The project asks for layers by their names, of which this is one where it is seen."""
        asked = isinstance(name, str) and name.isidentifier() and self.project.says(re.compile(rf"\.{name}\b"))
        return asked or self.project.says(LAYER_NAMES)

    def called_with_more(self, name: str, signature: Signature) -> bool:
        """Whether the project calls what may be this class or function with arguments it could leave out."""
        return held_calls(self.project).exceed(name, signature)

    def called_with_type(self, name: str, signature: Signature) -> bool:
        """Whether a device or an element type may be among those: `norm(width, **options)`."""
        return held_calls(self.project).typed(name, signature)

    def called_with(self, name: str, signatures: tuple[Signature, ...]) -> Shape | None:
        """How many arguments the project gives what may be this function by place, and which by name."""
        return held_calls(self.project).shape(name, signatures)

    def varied(self, node: cst.BaseExpression) -> bool:
        """A gradient flows into it, or may flow: it comes of a parameter of a function that is differentiated."""
        if self.surely_varied(node):
            return True
        value = self.module.value(node)
        if value.kind not in ("tensor", "unknown") or LABELS.search(dotted(node)):
            return False
        return bool(value.deps) and (self.recorded or self.may_be_recorded()) or self.given_to_lambda(node)

    def given_to_lambda(self, node: cst.BaseExpression) -> bool:
        """It comes of a parameter of the lambda that it stands in, which others may call where gradients flow."""
        return bool(self.lambdas) and any(type(n) is cst.Name and n.value in self.lambdas for n in descend(node))

    def surely_varied(self, node: cst.BaseExpression) -> bool:
        return any(not d.startswith("@") for d in self.module.value(node).deps)


def _may_be_none(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _may_be_none(node.body) or _may_be_none(node.orelse)
    return dotted(node) == "None" or isinstance(node, cst.Tuple)


@once
def _varied_targets(project: Project) -> frozenset[str]:
    """The names of what is called with a second argument that a gradient flows into; every criterion asks."""
    found: set[str] = set()
    for module in project.modules.values():
        for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls if len(c.args) > 1):
            if any(not d.startswith("@") for d in module.value(call.args[1].value).deps):
                found.add(module.value(call.func).name)
    return frozenset(found)
