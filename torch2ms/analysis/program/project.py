"""All modules that are converted together, and what is known of each."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

from torch2ms.analysis.known.bases import BASES
from torch2ms.analysis.program import flow
from torch2ms.analysis.program.classes import ClassInfo as ClassInfo
from torch2ms.analysis.program.classes import FunctionInfo as FunctionInfo
from torch2ms.analysis.program.families import families
from torch2ms.analysis.program.hooks import Kept, kept_by_hooks
from torch2ms.analysis.program.mixins import completes_modules, runs_layers
from torch2ms.analysis.program.module import Added as Added
from torch2ms.analysis.program.module import ModuleInfo as ModuleInfo
from torch2ms.analysis.program.naming import module_name
from torch2ms.analysis.program.plain import Plain as Plain
from torch2ms.analysis.program.reshaping import reshapes
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.program.taken import takes
from torch2ms.analysis.syntax import directives
from torch2ms.analysis.syntax.annotations import Annotated, read_plainly
from torch2ms.analysis.syntax.names import Imports, qualified
from torch2ms.analysis.syntax.sources import says
from torch2ms.analysis.values import Value, join, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.run import Run

SAID = re.compile(r"""(?:\.\s*|["'])([^\W\d]\w*)""")
UNSAID = re.compile(r"""\bgetattr\(\s*[\w.]+\s*,\s*[^"'\s]""")
ROW_LAYERS = re.compile(r"\bConv(?:Transpose)?1d\(")
GRADIENT = re.compile(r"\bgrad\b")  # as its source has it: what was written plainly may read more


Found = ClassInfo | FunctionInfo | ModuleInfo | None
Seen = TypeVar("Seen", bound=Found)


@dataclass(eq=False)
class Project:
    """Modules by dotted name; names are resolved through re-exports."""

    modules: dict[str, ModuleInfo] = field(default_factory=dict)
    keeps_state: bool = True  # a module may hold statistics or buffers beside its parameters
    moves_state: bool = True  # ... and running it may change them
    buffers: frozenset[str] = frozenset()  # names under which buffers are registered
    trained: frozenset[tuple[str, str]] = frozenset()  # attributes with leaves of optimizers: class and name
    stepping: frozenset[str] = frozenset()  # names of the functions that may let an optimizer step, and of its method
    moving: frozenset[str] = frozenset()  # those, and of what runs compiled functions that keep the storage of weights
    silent: frozenset[str] = frozenset()  # names of the functions that are only called where gradients are off
    checkpoints: bool = False  # somewhere tensors are saved or loaded
    pickles: bool = False  # somewhere more is saved than the parameters of one cell
    draws: bool = True  # a module may draw random numbers
    forwards_draw: bool = True  # ... or what a network of the project does in its forward
    clearing: set[str] = field(default_factory=set)  # functions that clear gradients, and what calls them is not seen
    leaving: set[int] = field(default_factory=set)  # ids of scopes that leave gradients in an optimizer behind
    written_as_values: frozenset[str] = frozenset()  # functions that write into what calls of their values give them
    giving: frozenset[str] = frozenset()  # methods that give parameters, which nothing but networks have
    remaining: dict[int, str] = field(default_factory=dict)  # by id of a scope: what leaves gradients in what it trains
    # ... by id of a scope that looks at the gradient of a tensor: calls that leave one, in what, and what is called
    left_in_leaves: dict[int, list[tuple[Stmt, frozenset[str], str]]] = field(default_factory=dict)
    unmet: set[int] = field(default_factory=set)  # ids of backward calls whose gradients no function finds
    meeting: set[int] = field(default_factory=set)  # ... and of those that are given the same optimizer
    renames: bool = True  # layers whose parameters have other names in MindSpore may be there
    idle: set[str] = field(default_factory=set)  # names of modules whose steps leave alone the layers that did not run
    readers: set[str] = field(default_factory=set)  # names of functions that do so
    clipping: set[str] = field(default_factory=set)  # ... and of those that change gradients they did not take
    changing: set[str] = field(default_factory=set)  # classes of optimizers whose own steps change gradients
    reads_gradients: bool = True  # somewhere gradients are read, clipped or applied
    freezes: bool = False  # somewhere a parameter's requires_grad is set to something else than True
    freezes_trained: bool = False  # ... of what may be part of a network that is trained
    held: frozenset[str] = frozenset()  # paths of modules whose gradient code stays as it is
    written_out: frozenset[str] = frozenset()  # for these paths functions that do a part of a step give way to bodies
    found: dict[tuple[str, str], Found] = field(default_factory=dict)  # answers that `find` gave
    texts: dict[re.Pattern[str], bool] = field(default_factory=dict)  # searches, and whether they find something
    suffixes: dict[str, dict[str, ModuleInfo]] = field(default_factory=lambda: defaultdict(dict))
    remembered: dict[int, list[Run]] = field(default_factory=dict)  # of the inference before, by id of the scope
    changed: frozenset[str] = frozenset()  # names of the modules that were rewritten since, or that take from these
    renamed: bool = False  # ... names, or places that hooks write to, are new or gone: it cannot be told who takes them
    linked: dict[ClassInfo, object] = field(default_factory=dict)  # what the other classes were by those above them
    touched: set[str] | None = None  # names of the modules that the scope which runs came across
    answers: dict[Callable[..., Any], Any] = field(default_factory=dict)  # to what is asked `once`

    @cached_property
    def said(self) -> set[str] | None:
        """Every attribute that the sources name, as code or in quotes; None if some are computed."""
        texts = [module.source for module in self.modules.values()]
        if self.says(UNSAID):
            return None
        return {name for text in texts for name in SAID.findall(text)}

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Some source has what is searched for; asked of whole projects at every call of some kinds."""
        if pattern not in self.texts:
            self.texts[pattern] = any(module.says(pattern) for module in self.modules.values())
        return self.texts[pattern]

    families = cached_property(families)

    @cached_property
    def adds_groups(self) -> bool:
        """Somewhere an optimizer gets one more group of parameters."""
        return any(module.has("add_param_group") for module in self.modules.values())

    @cached_property
    def in_rows(self) -> bool:
        """Somewhere there are one-dimensional convolutions, whose weights have an axis more in MindSpore."""
        return self.says(ROW_LAYERS)

    @cached_property
    def kept(self) -> list[Kept]:
        """What forward hooks write to."""
        return [kept for module in self.modules.values() for kept in kept_by_hooks(module)]

    @cached_property
    def packages(self) -> set[str]:
        """Names of folders with modules; one may have no `__init__`, or one without a line about torch."""
        names = [*self.modules, *self.suffixes]
        return {name[:at] for name in names for at, letter in enumerate(name) if letter == "."}

    def rewritten(self, plain: Mapping[str, Plain]) -> Project:
        """The same modules, with other trees for some of them; nothing is inferred yet. This project is let go of."""
        added = {}
        for name, new in plain.items():
            module = self.modules[name]
            off, source = module.directives.off, module.source + new.brought
            added[name] = module.path, new.tree, source, off, new, new.lines, module.annotated
        return self.succeeded(added, self.written_out)

    def succeeded(self, added: Mapping[str, Added], written_out: frozenset[str]) -> Project:
        """The same with what a project can add some of its modules from."""
        made = Project(held=self.held, written_out=written_out)
        renamed: set[tuple[str, str]] = set()
        if len(self.modules) > 1:
            unchanged = [m for m in self.modules.values() if m.name not in added]
            made.linked = {cls: cls.link for module in unchanged for cls in module.classes.values()}
        for name, module in self.modules.items():
            if (new := added.get(name)) is not None:
                for scope in module.scope.walk():
                    self.remembered.pop(id(scope), None)
                exports = module.exports
                again = made.add(*new)
                again.texts = module.texts if again.source == module.source else {}
                renamed |= _unequal(exports, again.exports)
            else:
                module.forget()
                made.enter(module)
        made.remembered = self.remembered
        made.renamed = ("stars", "*") in renamed or {k.named for k in self.kept} != {k.named for k in made.kept}
        names = {name for kind, name in renamed if not kind.startswith("method of ")}  # whose classes are come across
        others = [m for m in made.modules.values() if m.name not in added]
        made.changed = frozenset(added) | {m.name for m in others if any(takes(m, name) for name in names)}
        self.close(keeping=made.modules)
        return made

    def joined(self, one: Value, other: Value) -> Value:
        """One of two values; of two objects of the project what both are."""
        value = join(one, other)
        if value.kind != "object" or one.kind != other.kind or value.name or not one.name or not other.name:
            return value
        classes = [self._class(v.name) for v in (one, other)]
        lines = [[c.qualified for c in cls.lineage()] if cls is not None else [] for cls in classes]
        shared = next((name for name in lines[0] if name in lines[1]), "")
        return replace(value, name=shared)

    def _class(self, qualified_name: str) -> ClassInfo | None:
        home, _, last = qualified_name.rpartition(".")
        module = self.modules.get(home)
        return self.touch(module.classes.get(last)) if module is not None else None

    def add(
        self,
        path: str,
        tree: cst.Module,
        source: str,
        off: frozenset[int] = frozenset(),
        plain: Plain | None = None,
        lines: list[tuple[int, int]] | None = None,
        annotated: Annotated | None = None,
    ) -> ModuleInfo:
        """A module more; `lines` of its statements and annotations are those of the source if they are not given."""
        name = module_name(path)
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        imports = Imports(package)
        asked = directives.read(source, off)
        lines = flow.lines(source) if lines is None else lines
        tree, annotated = read_plainly(tree, source) if annotated is None else (tree, annotated)
        scope = flow.build(tree, lines, imports, asked.off, plain is not None or says(source, GRADIENT))
        module = ModuleInfo(name, path, tree, imports, scope, source, lines, plain=plain, annotated=annotated)
        module.directives = asked
        module.held = path in self.held
        written = plain is not None and "set_default_dtype(" in source  # types stand where tensors are made then
        module.reshapes = reshapes(tree.code if written else source)
        for inner in scope.walk():
            self._register(module, inner)
        self.enter(module)
        return module

    def enter(self, module: ModuleInfo) -> None:
        """A module belongs to the project."""
        name = module.name
        self.modules[name] = module
        self.texts.clear()
        self.__dict__.pop("kept", None)
        self.__dict__.pop("packages", None)
        self.found.clear()
        parts = name.split(".")
        for start in range(1, len(parts)):
            self.suffixes[".".join(parts[start:])][name] = module

    def _register(self, module: ModuleInfo, scope: Scope) -> None:
        if isinstance(scope.node, cst.ClassDef):
            given = [arg.value for arg in scope.node.bases]  # `Base[T]` is derived from `Base`
            bases = [qualified(b.value if isinstance(b, cst.Subscript) else b, module.imports) for b in given]
            cls = ClassInfo(scope, module, bases)
            module.classes[scope.name] = cls
        elif type(scope.node) is cst.FunctionDef:
            owner = module.classes.get(scope.parent.name) if scope.cls is not None and scope.parent else None
            info = FunctionInfo(scope, module, owner)
            module.functions[id(scope)] = info
            if owner is not None and owner.scope is scope.parent:
                owner.methods[scope.name] = info

    def close(self, keeping: Mapping[str, ModuleInfo] = MappingProxyType({})) -> None:
        """Let go of everything but some modules."""
        for module in self.modules.values():
            if keeping.get(module.name) is not module:
                module.close()
        self.modules.clear()
        self.suffixes.clear()
        self.found.clear()
        self.answers.clear()
        self.remembered = {}

    def link(self) -> None:
        """Resolve base classes once every module is known."""
        everything = [c for m in self.modules.values() for c in m.classes.values()]
        for cls in everything:
            for base in cls.bases:
                found = self.find(base, cls.module)
                if isinstance(found, ClassInfo) and found is not cls:
                    cls.parents.append(found)
                    found.children.append(cls)
        for cls in everything:
            cls.unlink()  # it may have been asked while not all were linked
        for cls in everything:
            for ancestor in cls.lineage():
                for base in ancestor.bases:
                    layer = base.startswith("torch.nn.") and base.rpartition(".")[2].lstrip("_")[:1].isupper()
                    kind = BASES.get(base) or ("module" if layer else "")
                    if kind and cls.kind == "object":
                        cls.kind, cls.torch_base = kind, base
        for cls in everything:
            if cls.kind == "object" and (cls.children and completes_modules(cls, self) or runs_layers(cls, self)):
                cls.kind, cls.torch_base = "module", "torch.nn.Module"
        self.changed |= {cls.module.name for cls, link in self.linked.items() if cls.link != link}
        self.linked = {}

    def find(self, name: str, module: ModuleInfo) -> Found:
        """The project's definition behind a qualified name, or behind a bare name in a module."""
        key = (name, module.name)
        if key not in self.found:
            self.found[key] = self._find(name, module, 0)
        return self.touch(self.found[key])

    def touch(self, found: Seen) -> Seen:
        """Something is looked at by the scope that runs; in a class that is what its relatives have as well."""
        if self.touched is None or found is None:
            return found
        if isinstance(found, ClassInfo):
            self.touched |= found.homes
        else:
            self.touched.add(found.name if isinstance(found, ModuleInfo) else found.module.name)
        return found

    def _find(self, name: str, module: ModuleInfo, depth: int) -> Found:
        if depth > 8 or not name:
            return None
        if "." not in name:
            return self._member(module, name, depth)
        owner, _, last = name.rpartition(".")
        found = self.modules.get(name) or self.by_suffix(name)
        if found is not None:
            return found
        if (home := self.modules.get(owner) or self.by_suffix(owner)) is not None:
            return self._member(home, last, depth)
        outer = self._member(module, owner, depth) if "." not in owner else None  # `Trainer.Stepper`
        return outer.inner(last) if isinstance(outer, ClassInfo) else None

    def by_suffix(self, name: str) -> ModuleInfo | None:
        """A module imported by a path relative to some folder of the converted set."""
        hits = self.suffixes.get(name, {})
        return next(iter(hits.values())) if len(hits) == 1 else None

    def _member(self, module: ModuleInfo, name: str, depth: int) -> Found:
        if name in module.classes:
            return module.classes[name]
        if name in module.named:
            return module.named[name]
        target = module.imports.table.get(name, "")
        if "." in target:
            return self._find(target, module, depth + 1)
        if target and target not in sys.stdlib_module_names:  # `import target`, perhaps by another name
            return self.modules.get(target) or self.by_suffix(target)
        for star in module.imports.stars:
            home = self.modules.get(star) or self.by_suffix(star)
            if home is not None and home is not module and (found := self._member(home, name, depth + 1)):
                return found
        return None


def _unequal(one: dict[tuple[str, str], object], other: dict[tuple[str, str], object]) -> set[tuple[str, str]]:
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
