"""Functions that a program has and never runs: `reset_classifier` of a network whose classes stay what they are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.tree import children, gathered

KNOWN = ("torch.nn.Module", "torch.nn.modules.Module", "object")
PLAIN = ("ABC", "Generic", "Protocol")
# what torch and Python call of a network, whatever names it
UNNAMED = re.compile(
    r"__\w+__|forward|train|extra_repr|(named_)?(modules|children|parameters|buffers)"
    r"|_(apply|get_name|named_members|save_to_state_dict|load_from_state_dict)"
)


@once
def never_run(project: Project) -> frozenset[str]:
    """The names of functions that nothing which a program runs has, as code or in quotes.

    None of a library, which others use: among the functions that nothing runs there are some that take a step.
    """
    named: defaultdict[str, list[Scope]] = defaultdict(list)
    unnamed = _called_by_others(project)
    running: list[Scope] = []
    for scope in (s for module in project.modules.values() for s in module.scope.walk()):
        if scope.is_function:
            named[scope.name].append(scope)
        if not scope.is_function or id(scope) in unnamed:
            running.append(scope)
    reached: set[str] = set()
    while running:
        scope = running.pop()
        for name in {*_names(scope, named)} - reached:
            reached.add(name)
            running += named.get(name, ())
    left = {n: scopes for n, scopes in named.items() if n not in reached and not any(id(s) in unnamed for s in scopes)}
    library = any(_steps(scope) for scopes in left.values() for scope in scopes)
    return frozenset() if library else frozenset(left)


def _called_by_others(project: Project) -> set[int]:
    """The methods that nothing of a project has to name: torch runs them, or the library that a class is made of."""
    found: set[int] = set()
    for cls in (cls for module in project.modules.values() for cls in module.classes.values()):
        own = {c.scope.name for c in cls.lineage()}
        bases = {base for c in cls.lineage() for base in c.bases}
        others = any(b not in KNOWN and b.rpartition(".")[2] not in own.union(PLAIN) for b in bases)
        found.update(id(m.scope) for m in cls.methods.values() if others or UNNAMED.fullmatch(m.scope.name))
    return found


def _names(scope: Scope, functions: dict[str, list[Scope]]) -> Iterator[str]:
    """What runs with a function names, or with the body of a module or a class, but for imports."""
    for node in gathered(scope.node) if scope.is_function else _outside(scope.node):
        kind = type(node)
        if kind is cst.Name:
            yield node.value  # type: ignore[attr-defined]
        elif kind is cst.SimpleString:
            yield str(node.raw_value)  # type: ignore[attr-defined]
        elif kind is cst.FormattedString and type(text := node.parts[0]) is cst.FormattedStringText:  # type: ignore[attr-defined]
            yield from (n for n in functions if text.value.isidentifier() and n.startswith(text.value))


def _outside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of a body that are not those of a function or class in it."""
    waiting = list(children(node))
    for each in waiting:
        kind = type(each)
        if kind is cst.FunctionDef:
            waiting += [*each.decorators, each.params]  # type: ignore[attr-defined]
        elif kind is cst.ClassDef:
            waiting += [*each.decorators, *each.bases, *each.keywords]  # type: ignore[attr-defined]
        elif kind is not cst.Import and kind is not cst.ImportFrom and not _exports(each):
            yield each
            waiting += children(each)


def _exports(node: cst.CSTNode) -> bool:
    """`__all__ = [...]`, and what is added to it."""
    targets = node.targets if type(node) is cst.Assign else [node] if type(node) is cst.AugAssign else ()
    return any(type(t.target) is cst.Name and t.target.value == "__all__" for t in targets)


def _steps(scope: Scope) -> bool:
    calls = (call for stmt in scope.body.walk() for call in stmt.calls)
    return any(type(c.func) is cst.Attribute and c.func.attr.value == "backward" for c in calls)
