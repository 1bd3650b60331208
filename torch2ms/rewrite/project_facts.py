"""What the rules ask of the whole project, or of a file as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.api.facts import Facts
from torch2ms.rewrite.parameters.ordered import ordered
from torch2ms.rewrite.parameters.second_names import second_names

SPARSE = re.compile(r"\bsparse\s*=\s*(?!False)|\bto_sparse|\bsparse_\w+_tensor|\bsparse\.\w+Tensor")
GROWING = ("append", "extend")
OTHER_TYPE = re.compile(r"\b(half|double|bfloat16|float16|float64)\b")
SINGLE = re.compile(r"\b((Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d|SyncBatchNorm|SGD|(LSTM|GRU|RNN)Cell|"
                    r"conv[123]d|batch_norm)\b")  # fmt: skip
SUMMED = re.compile(r"""Loss\([^()]*\breduction\s*=\s*(?:['"]sum|[^'"\s])|\bsize_average\s*=""")
HELD_TENSORS = re.compile(r"\.tensors\b(?!\()")
MADE_DICT = re.compile(r"\bModuleDict\(")
BOUND_DICT = re.compile(r"^(?:\s+self\.\w+|\w+)\s*=\s*[\w.]*\bModuleDict\(", re.MULTILINE)
_IMPORTING = re.compile(r"^[ \t]*from\s+[\w.]+\s+import\s*(?:\([^)]*\)|[^\n]*)", re.MULTILINE)
_RENAMED = r"""["'][\w.]*(?:\brunning_(?:mean|var)|(?:bn|norm|emb)\w*\.(?:weight|bias))["']"""  # by MindSpore's layers
TORCH_KEYS = re.compile(rf"{_RENAMED}\s+(?:not\s+)?in\b|(?:ends|starts)with\(\s*\(?\s*{_RENAMED}"
                        r"""|\[["'][\w.]+\.running_(?:mean|var)["']\]""")  # fmt: skip
NAMED_KEYS = re.compile(r"""\b(?:list|sorted|len|set|tuple|print)\(\s*[\w.\[\]]+\.state_dict\([^()]*\)"""
                        r"""(?:\.keys\(\))?\s*\)"""
                        r"""|["']\s+(?:not\s+)?in\s+[\w.\[\]]+\.state_dict\([^()]*\)|\.state_dict\([^()]*\)\[["']"""
                        r"""|for\s+\w+(?:,\s*\w+)?\s+in\s+[\w.]+\.state_dict\([^()]*\)(?:\.\w+\(\))?:\s*print\("""
                        )  # fmt: skip
PADDING_WORDS = re.compile(r"""\bpad\w*\s*=\s*["'](?:same|valid)["']|\w\((?![^()\n]*mode)[^()\n]*["']same["']""")
DIFFERENTIATED = re.compile(
    r"backward|(?<!no_)grad(?!_enabled)|requires_|torch\.func\b|functorch|jac|hessian|[vj]p\b|optim"
)
COMPLEX = re.compile(r"\bcomplex(?:64|128)\b|\btorch\.(?:complex|polar)\b|view_as_complex|\bc(?:float|double)\b")
OPTIMIZED = re.compile(r"\boptim\b")
CHAINED_APPEND = re.compile(r"(?:[=(,\[]|\breturn|\bin)[ \t]*[\w.]+\.append\(|\.append\([^\n]*\)\s*[.(\[]")
WATCHED = re.compile(r"\bis(?:nan|finite)\(")
INFINITE = re.compile(r"""-\s*(?:float\(\s*["']|(?:\w+\.)?)inf\b|\btorch\.log\(|\.log_?\(\)""")  # of zero
TURNED_OFF = re.compile(r"no_grad|inference_mode|set_grad_enabled")
RERUN = re.compile(r"checkpoint\w*\b[^\n]*is_grad_enabled\(\)|"
                   r"is_grad_enabled\(\)(?:[^\n]*\n){1,5}?[^\n]*\bcheckpoint\w*\(")  # fmt: skip
CAUGHT = re.compile(r"\bexcept\b")
COMPILED = re.compile(r"create_graph|torch\.func\b|functorch|\bjit\b|hessian|jacobian")
TWICE = re.compile(r"\bcreate_graph\s*=\s*(?!False)|\bhvp\b|hessian")
COPIED = re.compile(r"\bdeepcopy\b|\bAveragedModel\b|\bTransformer(?:En|De)coder\b")
SEEDED = re.compile(r"\bmanual_seed\b|(?<!random)\.seed\(|\.set_state\(")
RESEEDED = re.compile(r"\b(?!torch\b|random\b|cuda\b)(\w+)(?:\s*=\s*[\w.]*Generator\([^()\n]*\))?\.manual_seed\("
                      r"(?:(?!\b\1\s*=[^=]|\bdef\b)(?:.|\n))*\b\1\.manual_seed\(")  # fmt: skip
ORDERED = re.compile(r"(?<!is_contiguous\(memory_format=)(?<!is_contiguous\()\btorch\.channels_last")
_STEERS = ("num_threads", "num_interop_threads", "warn_always", "anomaly_enabled", "detect_anomaly",
           "float32_matmul_precision", "deterministic_debug_mode")  # fmt: skip
STEERED = re.compile(rf"\bset_(?:{'|'.join(_STEERS)})\b|\bwarn_only\b")


class ProjectFacts(Facts):
    """Answers of one module that are the same for each of its expressions."""

    def __init__(self, project: Project, module: ModuleInfo) -> None:
        self.project = project
        self.module = module
        self.recorded = False  # the statement runs where gradients may flow through a function's parameters
        self.may_be_recorded: Callable[[], bool] = bool  # ... or may, in code that is not seen
        self.lambdas: list[str] = []  # the parameters of the lambdas around the expression at hand

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

    @property
    def appends_alone(self) -> bool:
        """The file uses nothing that an `append` gives back, which is the container in torch."""
        return not self.module.says(CHAINED_APPEND)

    @property
    def differentiates(self) -> bool:
        """The project may take gradients."""
        return self.project.says(DIFFERENTIATED)

    @property
    def seeds(self) -> bool:
        """The project gives a seed to some generator."""
        return self.project.says(SEEDED)

    @property
    def seeds_once(self) -> bool:
        """The file gives no generator several seeds, after which it would draw the same again."""
        return not self.module.says(RESEEDED)

    @property
    def keeps_order(self) -> bool:
        """No source lays tensors out in another order of dimensions."""
        return not self.project.says(ORDERED)

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
    def differentiates_twice(self) -> bool:
        """Some source differentiates a gradient."""
        return self.project.says(TWICE)

    @property
    def copies_layers(self) -> bool:
        """Some source copies objects whole, or hands layers to what does."""
        return self.project.says(COPIED)

    @property
    def pickles(self) -> bool:
        """The project saves more than the parameters of one cell."""
        return self.project.pickles


@once
def parameter_lists_grow(module: ModuleInfo) -> bool:
    calls = (c for c in module.of_kind(cst.Call) if isinstance(c.func, cst.Attribute) and c.func.attr.value in GROWING)
    places = [*(c.func.value for c in calls), *(n.target for n in module.of_kind(cst.AugAssign))]  # type: ignore[attr-defined]
    return any(module.value(place).name == "parameter list" for place in places)


@once
def _loads(project: Project) -> bool:
    """A loader is more than imported under its own name, and no sampler of batches iterates those of samples."""
    sources = [module.source for module in project.modules.values() if module.has("DataLoader")]
    if any(module.has("BatchSampler") for module in project.modules.values()):
        return False  # MindSpore's loaders take what can be iterated, too
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
