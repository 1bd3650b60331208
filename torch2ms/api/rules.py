"""The rule tables: reading them, and finding the rule of a torch name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from torch2ms.api import hard, signature, targets, template
from torch2ms.data import rules_dir
from torch2ms.findings import Tier
from torch2ms.packs import Pack, packs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FORM_KEYS = {"sig", "to", "on", "drop", "returns", "evidence", "assume", "refuse", "todo"}
_RULE_KEYS = _FORM_KEYS | {
    "when",
    "alias",
    "value",
    "value_assume",
    "full",
    "class",
    "base",
    "hidden",
    "setting",
    "star",
    "partial",
    "method",
    "code",
    "attribute",
    "floats",
    "lacks",
    "narrow",
    "gradient",
}

# what every signature may have, and what becomes of it; a rule that names the parameter in its target keeps it
DROPPED = {
    "device": "MindSpore places tensors by ms.set_device",
    "pin_memory": "MindSpore has no pinned memory",
    "non_blocking": "MindSpore launches asynchronously anyway",
    "requires_grad": "the gradient call names what is differentiated",
    "memory_format": "MindSpore tensors have one layout",
    "layout": "MindSpore tensors are strided",
    "copy": "translated tensors are never changed in place",
    "stable": "MindSpore's sort was stable in every measured case",
}

# what goes as well, with an assumption about the program
UNKEPT = {
    "generator": "the draw comes from MindSpore's own stream; assumed: nothing counts on this generator's state",
}

_ALIASES = "alias.toml"
_TYPES = "types.toml"


class RuleError(Exception):
    """A rule table is wrong; names the file and the entry."""


@dataclass(frozen=True)
class Form:
    """One way to write a call: a signature, a condition, a target."""

    sig: str = ""
    to: str | None = None
    condition: str = ""
    drop: tuple[str, ...] = ()
    returns: str = "tensor"
    evidence: str = "none"
    assume: str = ""
    refuse: str = ""
    todo: str = ""
    on: tuple[str, ...] = ()  # the devices that it is for, where others have another form
    uses: tuple[str, ...] = ()  # parameters that a function of `hard` wrote into the target itself

    @cached_property
    def signature(self) -> signature.Signature:
        return signature.parse(self.sig)

    @cached_property
    def template(self) -> template.Template:
        assert self.to is not None
        return template.parse(self.to)

    @property
    def tier(self) -> Tier:
        if self.refuse or self.to is None:
            return Tier.REFUSED
        return Tier.EXACT if self.evidence == "pass" and not self.assume else Tier.ASSUMED


@dataclass(frozen=True)
class Rule:
    """What is known about one torch name."""

    name: str
    forms: tuple[Form, ...]
    value: str | None = None
    value_assume: str = ""
    full: str = ""  # the value where it is called with arguments that torch's class takes and `value` does not
    cls: str = ""
    base: str = ""  # a class with torch's arguments and attributes, of which a program derives its own
    hidden: str = ""  # takes torch's arguments where a star hides them: `hidden(super().__init__, *args)`; or a `base`
    partial: str = ""  # the target of `functools.partial(name, keyword=...)`
    star: str = ""  # the target of a call with `*args` or `**options`
    setting: bool = False  # a statement that sets or calls it may go: it steers PyTorch itself
    attribute: bool = False
    floats: bool = False  # integers and booleans become float32 first, as torch does it inside
    lacks: tuple[str, ...] = ()  # element types (or their beginnings) that MindSpore's function does not take
    through: Mapping[str, str] = field(default_factory=dict, compare=False)  # what tensors of those go through
    parted: str = ""  # how the results for the real and the imaginary part of complex tensors make one
    void: str = ""  # the target for tensors without elements
    watched: str = ""  # the target where NaN is looked for, which the other makes zero of
    batched: int = 0  # the dimensions of a batch, where it takes batches alone
    alike: str = ""  # tensors of one type alone: torch's result has the `wider`, or that of the `first`
    narrow: bool = False  # of values and places, the places are int32: torch's are int64
    gradient: str = ""  # what holds for its values anyway, for its gradients only if this does
    choose: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    source: str = field(default="", compare=False)
    target: str = ""  # the MindSpore version to check names for; empty for the one the rules were measured on
    device: str = ""  # the device to check names for; empty for the one the rules were measured on

    @cached_property
    def main(self) -> Form:
        """The form that stands for the rule where no call is at hand."""
        targets = [form for form in self.forms if form.to is not None]
        plain = [form for form in targets if not form.condition]
        return (plain or targets or list(self.forms))[0]

    @cached_property
    def hopeless(self) -> bool:
        """True where no call of it is translated, whatever its arguments."""
        return self.choose is None and all(form.refuse and not form.condition for form in self.forms)

    @property
    def tier(self) -> Tier:
        return Tier.ASSUMED if self.choose else self.main.tier

    @property
    def code(self) -> str:
        """The code of the finding that an unconditional use gives."""
        return {Tier.EXACT: "T2M601", Tier.ASSUMED: "T2M604", Tier.REFUSED: "T2M605"}[self.tier]

    @property
    def params(self) -> tuple[signature.Param, ...]:
        return self.main.signature.params

    @property
    def returns(self) -> str:
        return self.main.returns

    @property
    def reason(self) -> str:
        return self.main.refuse or self.main.assume

    @property
    def todo(self) -> str:
        return self.main.todo


@dataclass(frozen=True)
class Rules:
    """All rules for one target."""

    table: dict[str, Rule]
    aliases: dict[str, str]

    @classmethod
    def load(cls, target: str = "2.10", device: str = "portable") -> Rules:
        """The rules for a MindSpore version and a device, read once per process."""
        return _load(targets.check(target), "" if device in MEASURED_ON else device)

    def find(self, name: str) -> Rule | None:
        """The rule of a torch name, whichever public path it was reached by."""
        for candidate in _spellings(name):
            candidate = self.aliases.get(candidate, candidate)
            if candidate in self.table:
                return self.table[candidate]
        return None


MEASURED_ON = ("portable", "CPU")  # elsewhere MindSpore's pages say what there is

_MODULES = (
    (re.compile(r"^torch\.nn\.modules\.\w+\.(\w+(?:\.\w+)?)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.nn\.modules\.(\w+)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.nn\.parameter\.(\w+)$"), r"torch.nn.\1"),
    (re.compile(r"^torch\.torch\.(.+)$"), r"torch.\1"),
    (re.compile(r"^torch\.nn\.utils\.(?:clip_grad|spectral_norm|weight_norm)\.(\w+)$"), r"torch.nn.utils.\1"),
    (re.compile(r"^torch\.optim\.(?!lr_scheduler\b)[a-z_]\w*\.(\w+)$"), r"torch.optim.\1"),
    (re.compile(r"^torch\.utils\.data\.(?:_utils\.)?[a-z_]\w*\.(\w+)$"), r"torch.utils.data.\1"),
    (re.compile(r"^torch\.cuda\.(?:memory|random|graphs|streams)\.(\w+)$"), r"torch.cuda.\1"),
    (re.compile(r"^torch\.distributed\.distributed_c10d\.(\w+)$"), r"torch.distributed.\1"),
    (re.compile(r"^torch\.(?:functional|_C|_C\._VariableFunctions|_tensor|_torch_docs)\.(\w+)$"), r"torch.\1"),
    (re.compile(r"^torch\._tensor\.Tensor\.(\w+)$"), r"torch.Tensor.\1"),
    (re.compile(r"^torch\._C\._(nn|linalg|special|fft)\.(?:\1_)?(\w+)$"), r"torch.\1.\2"),
    (re.compile(r"^torch\.nn\.Parameter\.(\w+)$"), r"torch.Tensor.\1"),
    (re.compile(r"^torch\.distributions\.([A-Z]\w*Transform\b.*)$"), r"torch.distributions.transforms.\1"),
    (re.compile(r"^torch\.distributions\.(?!transforms|constraints|kl\b)[a-z]\w*\.(.+)$"), r"torch.distributions.\1"),
    (
        re.compile(r"^torch\.distributions\.(?:[a-z]\w*\.)?[A-Z]\w*\.([a-z]\w*)$"),
        r"torch.distributions.Distribution.\1",
    ),
)


def _spellings(name: str) -> Iterator[str]:
    yield name
    for pattern, replacement in _MODULES:
        if pattern.match(name):
            yield pattern.sub(replacement, name)


@lru_cache(maxsize=8)
def _load(target: str, device: str) -> Rules:
    table: dict[str, Rule] = {}
    aliases = _aliases(rules_dir() / "api" / _ALIASES)
    for path in sorted((rules_dir() / "api").glob("*.toml")):
        if path.name in (_ALIASES, _TYPES):
            continue
        for rule in read_table(path):
            if target != targets.NEWEST:
                rule = replace(rule, target=target)
            if device or any(form.on for form in rule.forms):
                forms = tuple(form for form in rule.forms if not form.on or device in form.on)
                rule = replace(rule, device=device, forms=forms)
            for name in (rule.name, *rule.aliases):
                if name in table:
                    raise RuleError(f"{path.name}: {name} is already in {table[name].source}")
                table[name] = rule
    _typed(rules_dir() / "api" / _TYPES, table)
    theirs: dict[str, Rule] = {}
    for pack in packs():
        for rule in _of_pack(pack):
            for name in (rule.name, *rule.aliases):
                if name in theirs:
                    raise RuleError(f"{rule.source}: {name} is already in {theirs[name].source}")
                theirs[name] = rule
    return Rules({**table, **theirs}, aliases)


def _of_pack(pack: Pack) -> Iterator[Rule]:
    """The rules of a pack. Nothing was measured here, so none of them is exact."""
    assumed = f"it is a rule of the pack {pack.name}"
    for file, entries in pack.tables.items():
        for rule in _of_table(entries, f"{pack.name}/{file}"):
            forms = (replace(form, evidence="none", assume=form.assume or assumed) for form in rule.forms)
            yield replace(rule, forms=tuple(forms), value_assume=rule.value_assume or assumed)


def _typed(path: Path, table: dict[str, Rule]) -> None:
    """Notes the element types that functions and methods of one name do not take."""
    with path.open("rb") as stream:
        types = tomllib.load(stream)
    lacking: dict[str, list[str]] = {}
    for kind, names in types["lacks"].items():
        for name in names:
            lacking.setdefault(name, []).append(kind)
    alike = {name: kind for kind, names in types["alike"].items() for name in names}
    void = {name: to for to, names in types["void"].items() for name in names}
    watched = {name: to for to, names in types["watched"].items() for name in names}
    batched = {name: int(rank) for rank, names in types["batched"].items() for name in names}
    parted = {name: types["parts"][how] for how, names in types["parted"].items() for name in names}
    for name in {*lacking, *types["floats"], *alike, *parted, *batched, *watched, *void}:
        if name not in table:
            raise RuleError(f"{path.name}: there is no rule for {name}")
        apart = types["apart"]
        through = {kind: to for kind, to in types["through"].items() if name not in apart.get(kind, ())}
        for spelled in _all_spelled(name, table):
            rule = table[spelled]
            both = (*rule.lacks, *lacking.get(name, ()))
            floats = rule.floats or name in types["floats"]
            own = {"alike": alike.get(name, ""), "parted": parted.get(name, ""), "void": void.get(name, "")}
            own["watched"] = watched.get(name, "")
            rank = batched.get(name, 0)
            table[spelled] = replace(rule, lacks=both, floats=floats, through=through, batched=rank, **own)


def _all_spelled(name: str, table: dict[str, Rule]) -> set[str]:
    """A function, its method, and the other names that the rules of both have."""
    method = f"torch.Tensor.{name.rpartition('.')[2]}"
    both = [spelled for spelled in ((name, method) if name.count(".") == 1 else (name,)) if spelled in table]
    return {alias for spelled in both for alias in (spelled, *table[spelled].aliases)}


def _aliases(path: Path) -> dict[str, str]:
    """Second names; where a function has one, the method of the same name has it too."""
    with path.open("rb") as stream:
        aliases: dict[str, str] = tomllib.load(stream)["aliases"]
    methods = {}
    for name, target in aliases.items():
        if name.count(".") == 1 and target.count(".") == 1:
            methods[name.replace("torch.", "torch.Tensor.")] = target.replace("torch.", "torch.Tensor.")
    return {**methods, **aliases}


def read_table(path: Path) -> Iterator[Rule]:
    """The rules of one file."""
    with path.open("rb") as stream:
        yield from _of_table(tomllib.load(stream), path.name)


def _of_table(entries: dict[str, Any], source: str) -> Iterator[Rule]:
    for key, entry in entries.items():
        if not isinstance(entry, dict):
            raise RuleError(f"{source}: {key} is not a table")
        unknown = set(entry) - _RULE_KEYS
        if unknown:
            raise RuleError(f"{source}: {key}: unknown keys {sorted(unknown)}")
        for name in _expanded(key):
            try:
                yield from _rules_of(name, entry, source)
            except (SyntaxError, KeyError, TypeError, ValueError) as error:
                raise RuleError(f"{source}: {name}: {error!r}") from error


def _expanded(key: str) -> Iterator[str]:
    """`torch.{abs,neg}` is two names."""
    parts = re.split(r"\{([^}]*)\}", key)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    for choice in product(*choices):
        yield "".join(text.strip() for text in choice)


def _rules_of(name: str, entry: dict[str, Any], source: str) -> Iterator[Rule]:
    short = name.rsplit(".", 1)[-1]
    entry = _named(entry, short)
    forms = tuple(_forms(entry))
    choose = hard.function(entry["code"]) if "code" in entry else None
    aliases = tuple(alias for text in entry.get("alias", ()) for alias in _expanded(text))
    texts = {key: entry.get(key, "") for key in ("value_assume", "full", "partial", "star", "base", "hidden")}
    flags = {key: entry.get(key, False) for key in ("setting", "attribute")}
    types = {key: entry.get(key, False) for key in ("floats", "narrow")} | {"lacks": tuple(entry.get("lacks", ()))}
    types["gradient"] = entry.get("gradient", "")
    yield Rule(
        name,
        forms,
        entry.get("value"),
        cls=entry.get("class", ""),
        choose=choose,
        aliases=aliases,
        source=source,
        **texts,
        **flags,
        **types,
    )
    method = entry.get("method")
    if method:
        short_names = [alias.rsplit(".", 1)[-1] for alias in aliases if alias.count(".") == 1]
        as_method = tuple(_method_form(form, method if isinstance(method, str) else None) for form in forms)
        names = tuple(f"torch.Tensor.{alias}" for alias in short_names if alias != short)
        star = texts["star"]
        yield Rule(f"torch.Tensor.{short}", as_method, choose=choose, aliases=names, source=source, star=star, **types)


def _named(value: Any, short: str) -> Any:
    """`$name` in a table stands for the last part of the rule's name."""
    if isinstance(value, str):
        return value.replace("${name}", short).replace("$name", short)
    if isinstance(value, list):
        return [_named(item, short) for item in value]
    if isinstance(value, dict):
        return {key: _named(item, short) for key, item in value.items()}
    return value


def _forms(entry: dict[str, Any]) -> Iterator[Form]:
    shared = {key: entry[key] for key in _FORM_KEYS if key in entry and key not in ("to", "refuse")}
    for special in entry.get("when", ()):
        keys = {**shared, **special}
        condition = keys.pop("if", "")
        if condition:
            compile(condition, "<rule>", "eval")
        yield _form(keys, condition)
    if "to" in entry or "refuse" in entry or "when" not in entry:
        yield _form({**shared, **{key: entry[key] for key in ("to", "refuse") if key in entry}}, "")


def _form(keys: dict[str, Any], condition: str) -> Form:
    unknown = set(keys) - _FORM_KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    return Form(
        **{**keys, "drop": tuple(keys.get("drop", ())), "on": tuple(keys.get("on", ())), "condition": condition}
    )


def _method_form(form: Form, to: str | None) -> Form:
    """The same form for the method: the first parameter is the receiver."""
    head, _, rest = form.sig.partition(",")
    first = head.split("=")[0].strip()
    target = to if to is not None and not form.condition else form.to
    if target is not None:
        target = re.sub(r"\{" + first + r"(?=[|!}])", "{self", target)
    condition = re.sub(rf"(['\"]){first}\1", "'self'", form.condition)
    return replace(form, sig=rest.strip(), to=target, condition=condition)
