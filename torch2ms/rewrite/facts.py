"""What the analysis knows of an expression, in the words of the API rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.oddities import EMPTY, PICKED
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import SEQUENCE, UNTYPED
from torch2ms.api.facts import Facts
from torch2ms.api.signature import Shape, Signature
from torch2ms.rewrite.layers.handed import held_calls
from torch2ms.rewrite.layers.sequentials import is_sequential
from torch2ms.rewrite.parameters.ordered import ordered
from torch2ms.rewrite.parameters.second_names import second_names
from torch2ms.rewrite.tensors.computing import computed
from torch2ms.rewrite.tensors.meanwhile import changed_meanwhile
from torch2ms.rewrite.tensors.samples import columns

SET_DECAY = re.compile(r"""\[["']weight_decay["']\]\s*[-+*/]?=[^=]""")
GIVEN_DECAY = re.compile(r"\bweight_decay\s*=")
LOADED_STATE = re.compile(r"opt\w*\.load_state_dict\(")  # another optimizer's decay comes along
GROUP_DECAY = re.compile(r"""["']weight_decay["']\]?\s*[:=][^=]|dict\([^()]*\bweight_decay\s*=""")
WEIGHT = re.compile(r"(?:^|[._])(?:w|b|p|param|parameter|weight|bias|theta)s?_?\d*$", re.IGNORECASE)
SPARSE = re.compile(r"\bsparse\s*=\s*(?!False)|\bto_sparse|\bsparse_\w+_tensor|\bsparse\.\w+Tensor")
GROWING = ("append", "extend")
SAMPLED = re.compile(r"""(?<!\w)sampler\s*=(?!=)|["']sampler["']""")  # a loader's own
OTHER_TYPE = re.compile(r"\b(half|double|bfloat16|float16|float64)\b")
SINGLE = re.compile(r"\b((Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d|SyncBatchNorm|SGD|(LSTM|GRU|RNN)Cell|"
                    r"conv[123]d|batch_norm)\b")  # fmt: skip
SUMMED = re.compile(r"""Loss\([^()]*\breduction\s*=\s*(?:['"]sum|[^'"\s])|\bsize_average\s*=""")
HELD_TENSORS = re.compile(r"\.tensors\b(?!\()")
MADE_DICT = re.compile(r"\bModuleDict\(")
BOUND_DICT = re.compile(r"^(?:\s+self\.\w+|\w+)\s*=\s*[\w.]*\bModuleDict\(", re.MULTILINE)
_IMPORTING = re.compile(r"^[ \t]*from\s+[\w.]+\s+import\s*(?:\([^)]*\)|[^\n]*)", re.MULTILINE)
_WRITTEN = frozenset({cst.List, cst.Tuple, cst.UnaryOperation, cst.BinaryOperation, cst.Imaginary})  # data of a tensor
_RENAMED = r"""["'][\w.]*(?:\brunning_(?:mean|var)|(?:bn|norm|emb)\w*\.(?:weight|bias))["']"""  # by MindSpore's layers
TORCH_KEYS = re.compile(rf"{_RENAMED}\s+(?:not\s+)?in\b|(?:ends|starts)with\(\s*\(?\s*{_RENAMED}"
                        r"""|\[["'][\w.]+\.running_(?:mean|var)["']\]""")  # fmt: skip
NAMED_KEYS = re.compile(r"""\b(?:list|sorted|len|set|tuple|print)\(\s*[\w.\[\]]+\.state_dict\(\)(?:\.keys\(\))?\s*\)"""
                        r"""|["']\s+(?:not\s+)?in\s+[\w.\[\]]+\.state_dict\(\)|\.state_dict\(\)\[["']"""
                        r"""|for\s+\w+(?:,\s*\w+)?\s+in\s+[\w.]+\.state_dict\(\)(?:\.\w+\(\))?:\s*print\("""
                        )  # fmt: skip
PADDING_WORDS = re.compile(r"""\bpad\w*\s*=\s*["'](?:same|valid)["']|\w\((?![^()\n]*mode)[^()\n]*["']same["']""")
LAYER_NAMES = re.compile(r"\b(named_(children|modules|parameters)|state_dict|get_submodule|get_parameter|_modules)\b")
DIFFERENTIATED = re.compile(
    r"backward|(?<!no_)grad(?!_enabled)|requires_|torch\.func\b|functorch|jac|hessian|[vj]p\b|optim"
)
COMPLEX = re.compile(r"\bcomplex(?:64|128)\b|\btorch\.(?:complex|polar)\b|view_as_complex|\bc(?:float|double)\b")
OPTIMIZED = re.compile(r"\boptim\b")
WATCHED = re.compile(r"\bis(?:nan|finite)\(")
INFINITE = re.compile(r"""-\s*(?:float\(\s*["']|(?:\w+\.)?)inf\b|\btorch\.log\(|\.log_?\(\)""")  # of zero
TURNED_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled")
RERUN = re.compile(r"checkpoint\w*\b[^\n]*is_grad_enabled\(\)|"
                   r"is_grad_enabled\(\)(?:[^\n]*\n){1,5}?[^\n]*\bcheckpoint\w*\(")  # fmt: skip
CAUGHT = re.compile(r"\bexcept\b")
COMPILED = re.compile(r"create_graph|torch\.func\b|functorch|\bjit\b|hessian|jacobian")
SEEDED = re.compile(r"\bmanual_seed\b|(?<!random)\.seed\(|\.set_state\(")
_STEERS = ("num_threads", "num_interop_threads", "warn_always", "anomaly_enabled", "detect_anomaly",
           "float32_matmul_precision", "deterministic_debug_mode")  # fmt: skip
STEERED = re.compile(rf"\bset_(?:{'|'.join(_STEERS)})\b|\bwarn_only\b")
# after which a tensor that had no elements may have some
FILLED = re.compile(r"\bout\s*=\s*(?!None\b)[^=\s]|\.resize_(?:as_)?\(|\.set_\(")
# what losses are given beside outputs: no gradient comes there
LABELS = re.compile(
    r"(?:^|[._])(?:targets?|labels?|ys?|gt|tgt|masks?|idx|ind(?:ex|ices)|ids?|tokens?|lengths?)(?:_\w+)?$"
)
TYPE = re.compile(r"torch\.(\w+Tensor)")  # the name of a type, which programs give a name of their own


class ModuleFacts(Facts):
    """Answers for the expressions of one module."""

    def __init__(self, project: Project, module: ModuleInfo) -> None:
        self.project = project
        self.module = module
        self.recorded = False  # the statement runs where gradients may flow through a function's parameters

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
        return value.kind == "numpy" and value.rank == 0

    def types_held(self, node: cst.BaseExpression) -> list[str]:
        """The element types of the tensors that a list or a tuple under a name holds."""
        return [item.dtype if not item.likely else "" for item in self.module.value(node).items or ()]

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
        place = dotted(node)
        if not place or self.module.value(node).kind not in ("tensor", "unknown"):
            return False
        stmts = (s for scope in self.module.scope.walk() for s in scope.body.walk() if place in s.defs)
        return any(isinstance(s.node, cst.Assign) and self._empty(place, s.node) for s in stmts)

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
        return (value.likely or value.kind == "unknown") and WEIGHT.search(dotted(node)) is not None

    def ranged(self, node: cst.BaseExpression) -> bool:
        """A name for a `range`, of which MindSpore makes no tensor."""
        return isinstance(node, (cst.Name, cst.Attribute)) and self.module.value(node).name == "range"

    def decays(self, node: cst.BaseExpression) -> bool:
        """Whether an optimizer may be given groups of parameters with a weight decay of their own, or one later on."""
        loaded = self.project.says(LOADED_STATE) and self.project.says(GIVEN_DECAY)
        added = self.project.adds_groups and self.project.says(GROUP_DECAY)
        if loaded or added or self.project.says(SET_DECAY):
            return True
        value = self.module.value(node)
        if value.kind in ("params", "tensor", "dict"):
            return False
        groups = [item for item in value.items or () if item.kind == "dict"]
        if value.items is not None and all(group.keys is not None for group in groups):
            return any(key == "weight_decay" for group in groups for key, _ in group.keys or ())
        return self.project.says(GROUP_DECAY)

    def varied_targets(self, criterion: str) -> bool:
        """A gradient flows into what a criterion of this class is given second, somewhere in the project."""
        return criterion in _varied_targets(self.project)

    @property
    def draws(self) -> bool:
        """Some module of the project may draw random numbers in its forward."""
        return self.project.draws

    @property
    def loads(self) -> bool:
        """Some module of the project names a loader, to which samplers may go."""
        return _loads(self.project)

    @property
    def only_dense(self) -> bool:
        """The project makes no sparse tensors or gradients: MindSpore has dense ones, which look like any others."""
        return not self.project.says(SPARSE)

    @property
    def grows(self) -> bool:
        """The file puts parameters into a list of them that is made already."""
        return self.module.has("ParameterList") and parameter_lists_grow(self.module)

    @property
    def torch_keys(self) -> bool:
        """The file asks states for keys that MindSpore's layers have under other names."""
        return self.module.says(TORCH_KEYS) or self.project.renames and self.module.says(NAMED_KEYS)

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

    @property
    def differentiates(self) -> bool:
        """The project may take gradients."""
        return self.project.says(DIFFERENTIATED)

    @property
    def seeds(self) -> bool:
        """The project gives a seed to some generator."""
        return self.project.says(SEEDED)

    @property
    def optimizes(self) -> bool:
        """Some source has an optimizer."""
        return self.project.says(OPTIMIZED)

    @property
    def speaks_of_complex(self) -> bool:
        """Some source may have complex tensors."""
        return self.project.says(COMPLEX)

    @property
    def ignores_nan(self) -> bool:
        """No source asks whether numbers are finite, or differentiates what was compiled."""
        return not self.project.says(WATCHED) or self.project.says(COMPILED)

    @property
    def stays_finite(self) -> bool:
        """No source writes minus infinity, or takes logarithms, which may be of zeros."""
        return not self.project.says(INFINITE)

    @property
    def never_catches(self) -> bool:
        """No source goes on after an error."""
        return not self.project.says(CAUGHT)

    @property
    def leaves_torch(self) -> bool:
        """The project sets nothing that only PyTorch has."""
        return not self.project.says(STEERED)

    @property
    def records_always(self) -> bool:
        """No source turns gradients off."""
        return not self.project.says(TURNED_OFF)

    @property
    def asked_to_rerun(self) -> bool:
        """The file asks whether gradients are on only to run parts of a forward again for them, each time."""
        asked = self.module.source.count("is_grad_enabled()")
        return 0 < asked == len(RERUN.findall(self.module.source))

    @property
    def second_names(self) -> bool:
        """Layers get a second container, after which MindSpore names their parameters."""
        return second_names(self.project)

    @property
    def other_types(self) -> bool:
        """Something of the project may be given another type than float32."""
        return self.project.says(OTHER_TYPE)

    @property
    def single_precision(self) -> bool:
        """The project names layers that MindSpore does not compute in float64."""
        return self.project.says(SINGLE)

    @property
    def ordered_parameters(self) -> bool:
        """The project tells the parameters of a network by their places in a list."""
        return ordered(self.project)

    @property
    def forgets_tensors(self) -> bool:
        """No source asks a dataset for the tensors that it was made of."""
        return not self.project.says(HELD_TENSORS)

    @property
    def leaves_tensors(self) -> bool:
        """No source writes into the tensors that a dataset was made of: `x[0] += 1` is seen in the samples."""
        return not written_samples(self.project)

    @property
    def sums_losses(self) -> bool:
        """Some source makes a loss that sums."""
        return self.project.says(SUMMED)

    @property
    def padding_words(self) -> bool:
        """Somewhere a padding is a word, which functions that make layers may be given."""
        return self.project.says(PADDING_WORDS)

    @property
    def lists_dicts(self) -> bool:
        """Dicts of layers may be items of other containers: not each is bound to an attribute where it is made."""
        return len(MADE_DICT.findall(self.module.source)) > len(BOUND_DICT.findall(self.module.source))

    @property
    def pickles(self) -> bool:
        """The project saves more than the parameters of one cell."""
        return self.project.pickles

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
        given = bool(value.deps) and value.kind in ("tensor", "unknown") and self.recorded
        return given and not LABELS.search(dotted(node))

    def surely_varied(self, node: cst.BaseExpression) -> bool:
        return any(not d.startswith("@") for d in self.module.value(node).deps)


def _may_be_none(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _may_be_none(node.body) or _may_be_none(node.orelse)
    return dotted(node) == "None" or isinstance(node, cst.Tuple)


@once
def parameter_lists_grow(module: ModuleInfo) -> bool:
    calls = (c for c in module.of_kind(cst.Call) if isinstance(c.func, cst.Attribute) and c.func.attr.value in GROWING)
    places = [*(c.func.value for c in calls), *(n.target for n in module.of_kind(cst.AugAssign))]  # type: ignore[attr-defined]
    return any(module.value(place).name == "parameter list" for place in places)


@once
def _varied_targets(project: Project) -> frozenset[str]:
    """The names of what is called with a second argument that a gradient flows into; every criterion asks."""
    found: set[str] = set()
    for module in project.modules.values():
        for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls if len(c.args) > 1):
            if any(not d.startswith("@") for d in module.value(call.args[1].value).deps):
                found.add(module.value(call.func).name)
    return frozenset(found)


@once
def _loads(project: Project) -> bool:
    """A loader is more than imported under its own name, and may be given a sampler that is not one of batches."""
    sources = [module.source for module in project.modules.values() if module.has("DataLoader")]
    if any(module.has("BatchSampler") for module in project.modules.values()) and not project.says(SAMPLED):
        return False
    return any("DataLoader as " in source or "DataLoader" in _IMPORTING.sub("", source) for source in sources)


@once
def written_samples(project: Project) -> bool:
    """A function writes into tensors that it gave to a dataset, or another one does beside it."""
    return any(
        given & stmt.muts
        for given, later in _given_data(project, "TensorDataset") for stmt in later
    )  # fmt: skip


@once
def grown_sources(project: Project) -> frozenset[str]:
    """The names of what loaders were made of that gets samples, or loses some, afterwards."""
    return frozenset(
        place for given, later in _given_data(project, "DataLoader") for stmt in later
        for call in stmt.calls if type(call.func) is cst.Attribute and call.func.attr.value in _GROWING
        and (place := dotted(call.func.value)) in given
    )  # fmt: skip


_GROWING = ("append", "extend", "insert", "pop", "remove", "clear")


def _given_data(project: Project, name: str) -> Iterator[tuple[set[str], list[Stmt]]]:
    """What such objects are made of, and the statements that run behind that while they are there."""
    for module in project.modules.values():
        for scope in module.scope.walk() if module.has(f"{name}(") else ():
            for made in scope.body.walk():
                calls = [c for c in made.calls if module.value(c.func).name == f"torch.utils.data.{name}"]
                if given := {dotted(arg.value) for call in calls for arg in call.args} - {""}:
                    around = {id(a) for a in made.ancestors() if a.is_loop}
                    anew = [s for s in scope.body.walk() if s.number > made.number]
                    anew = [s for s in anew if not around & {id(a) for a in s.ancestors()}]
                    beside = scope.parent if scope.cls is not None and scope.parent is not None else scope
                    inner = (s for child in beside.walk() if child is not scope for s in child.body.walk())
                    yield given, [*anew, *inner]
