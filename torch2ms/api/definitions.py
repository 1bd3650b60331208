"""Classes and functions that MindSpore lacks and a person would write into the file: `rules/definitions/*.py`.

A rule names one in its target (`to = "RMSNorm({normalized_shape})"`), and the translation gets its text behind the
imports. They are ordinary Python of MindSpore's public names, and may use each other. Of a class with many methods,
which nobody calls but the program, the translation gets those that the program names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from torch2ms.api.imports import IMPORTS
from torch2ms.data import rules_dir

BROAD = ("Distribution", "SummaryWriter")
TOP = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """One class or function: its text, the imports and the other definitions it needs."""

    name: str
    text: str
    node: ast.FunctionDef | ast.ClassDef

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of it, in one walk."""
        return list(ast.walk(self.node))

    @cached_property
    def names(self) -> set[str]:
        """The names that it reads from around it; its own may be called like a definition."""
        read = {n.id for n in self.nodes if isinstance(n, ast.Name)}
        bound = {n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound |= {n.name for n in self.nodes if isinstance(n, ast.FunctionDef) and n is not self.node}
        return read - bound - {n.arg for n in self.nodes if isinstance(n, ast.arg)}

    @cached_property
    def imports(self) -> frozenset[str]:
        """The packages that it needs, by their names in `IMPORTS`."""
        return frozenset(self.names & IMPORTS.keys())

    @cached_property
    def uses(self) -> frozenset[str]:
        """The other definitions that it needs."""
        return frozenset(self.names & (table().keys() - {self.name}))

    @cached_property
    def asks(self) -> frozenset[str]:
        """What MindSpore must have: `ops.norm`, `ops.norm(ord=)`."""
        asks = {ast.unparse(n) for n in self.nodes if isinstance(n, ast.Attribute) and _root(n) in IMPORTS}
        for call in self.nodes:
            if isinstance(call, ast.Call) and _root(call.func) in IMPORTS:
                asks |= {f"{ast.unparse(call.func)}({k.arg}=)" for k in call.keywords if k.arg is not None}
        return frozenset(asks)

    @property
    def says(self) -> set[str]:
        """The attributes it names."""
        return {n.attr for n in self.nodes if isinstance(n, ast.Attribute)}


@lru_cache(maxsize=1)
def table() -> dict[str, Path]:
    """The names of all definitions, and the files that they are in; few programs need more than this."""
    paths = sorted((rules_dir() / "definitions").glob("*.py"))
    return {name: path for path in paths for name in TOP.findall(path.read_text(encoding="utf-8"))}


def named(name: str) -> Definition:
    """One definition of the table."""
    return _within(table()[name])[name]


@lru_cache(maxsize=100)
def _within(path: Path) -> dict[str, Definition]:
    """The definitions of one file."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[str, Definition] = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = Definition(node.name, "\n".join(lines[start - 1 : node.end_lineno]), node)
    return found


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def reduces(names: Iterable[str]) -> bool:
    """Some of these definitions keep only what the program names."""
    return any(_keeps_named(named(name)) for name in names)


def closure(names: Iterable[str], said: AbstractSet[str] | None = None) -> list[Definition]:
    """The definitions of these names with all they use, each behind what it needs.

    `said` are the attributes that the program names: of broad classes nothing else is kept. Without it all is.
    """
    wanted = _closure(names, said)
    while said is not None and not (more := set().union(*(d.says for d in wanted))) <= said:
        said = said | more
        wanted = _closure(names, said)
    return wanted


def _closure(names: Iterable[str], said: AbstractSet[str] | None) -> list[Definition]:
    ordered: dict[str, Definition] = {}
    for name in sorted(names):
        _add(name, ordered, said)
    return list(ordered.values())


def _add(name: str, ordered: dict[str, Definition], said: AbstractSet[str] | None) -> None:
    """A definition, behind those that it uses."""
    definition = named(name)
    if said is not None and _keeps_named(definition):
        definition = _reduced(definition, said)
    for used in sorted(definition.uses - ordered.keys()):
        _add(used, ordered, said)
    ordered.setdefault(name, definition)


def _keeps_named(definition: Definition) -> bool:
    """A class of which nothing is kept but what the program names, or one derived from it."""
    if definition.name in BROAD:
        return True
    bases = {n.id for n in getattr(definition.node, "bases", ()) if isinstance(n, ast.Name)} & table().keys()
    return any(_keeps_named(named(base)) for base in bases)


def _reduced(definition: Definition, said: AbstractSet[str]) -> Definition:
    """The class without the methods that nobody names."""
    out = [n for n in definition.node.body if isinstance(n, ast.FunctionDef) and _unnamed(n.name, said)]
    if not out:
        return definition
    top = min([definition.node.lineno, *(d.lineno for d in definition.node.decorator_list)])
    lines = definition.text.splitlines()
    for method in reversed(out):
        start = min([method.lineno, *(d.lineno for d in method.decorator_list)]) - top
        end = (method.end_lineno or method.lineno) - top + 1
        while end < len(lines) and not lines[end].strip():
            end += 1
        del lines[start:end]
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    if len(lines) == 1:
        lines.append("    pass")
    text = "\n".join(lines)
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.ClassDef)
    return Definition(definition.name, text, node)


def _unnamed(name: str, said: AbstractSet[str]) -> bool:
    return name not in said and not name.startswith("__")


def names_in(name: str) -> frozenset[str]:
    """The words in the text of a definition and of those it uses: what it has for a name is among them."""
    return frozenset(word for part in closure([name]) for word in re.findall(r"[A-Za-z_]\w*", part.text))


def text_of(definition: Definition, aliases: Mapping[str, str]) -> str:
    """The text under the names that the module has for what it uses, and for itself."""
    text = definition.text
    for name in {definition.name, *definition.imports, *definition.uses} & aliases.keys():
        text = re.sub(rf"(?<![\w.'\"]){name}\b(?!\s*=[^=])", aliases[name], text)
    return text
