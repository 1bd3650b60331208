"""Which public names, with which parameters, a MindSpore version has, and on which devices."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from torch2ms.api import definitions
from torch2ms.api.imports import IMPORTS
from torch2ms.api.template import Template
from torch2ms.config import TARGETS
from torch2ms.data import rules_dir

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NEWEST = TARGETS[-1]  # the version the rules were written and measured for
_HIDDEN = "..."  # the signature does not tell the parameters


class TargetError(ValueError):
    """There is no table for a version."""


def check(target: str) -> str:
    """The version itself; TargetError where it is not known."""
    if target not in TARGETS:
        raise TargetError(f"no MindSpore {target} is known; choose from {', '.join(TARGETS)}")
    return target


def lacking(parsed: Template, target: str) -> str:
    """The first name or keyword of a rule's target that this version does not have, empty where it has all."""
    return next((name for name in _asked(parsed.root, parsed) if not has(target, name)), "")


def has(target: str, name: str) -> bool:
    """Does the version have `mindspore.ops.cat`, or the keyword of `mindspore.value_and_grad(sens_param=)`?"""
    table = _table(target)
    path, _, keyword = name.rstrip(")").partition("(")
    owner, _, leaf = path.rpartition(".")
    if path in table and not keyword:
        return True
    if owner not in table or leaf.startswith("__"):
        return True  # NumPy, what lies deeper than the tables go, and what every class has
    parameters = table[owner].get(leaf)
    if parameters is None:
        return False
    return not keyword or parameters == _HIDDEN or keyword.rstrip("=") in parameters.split(", ")


def elsewhere(parsed: Template, device: str) -> str:
    """The first name of a rule's target that MindSpore's pages give to other devices alone, with those; "" for none."""
    for name in _asked(parsed.root, parsed):
        owner, _, leaf = name.rpartition(".")
        if owner.startswith("mindspore.dataset"):  # pipelines run on the host
            continue
        devices = _platforms().get(owner, {}).get(leaf, device)
        if device not in devices.split(", "):
            return f"{name} on {' and '.join(devices.split(', '))}"
    return ""


@lru_cache(maxsize=1)
def _platforms() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = tomllib.loads((rules_dir() / "targets" / "platforms.toml").read_text("utf-8"))
    return table


@lru_cache(maxsize=4)
def _table(target: str) -> dict[str, dict[str, str]]:
    path = rules_dir() / "targets" / f"mindspore-{check(target)}.toml"
    table: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return table


@lru_cache(maxsize=1)
def _roots() -> dict[str, str]:
    """The full path behind every name that translated code imports: nn -> mindspore.nn."""
    roots = {}
    for name, statement in IMPORTS.items():
        node = ast.parse(statement).body[0]
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        found = node.names[0].name
        roots[name] = f"{node.module}.{found}" if isinstance(node, ast.ImportFrom) else found
    return roots


def _asked(node: cst.CSTNode, parsed: Template) -> Iterator[str]:
    """The full names in a target, and `name(keyword=)` for the keywords of its calls, given or not."""
    path = _path(node)
    if path:
        yield path
        return
    if isinstance(node, cst.Name) and node.value in definitions.table():
        for definition in definitions.closure([node.value]):
            yield from (_full(asked) for asked in definition.asks)
        return
    if isinstance(node, cst.Call) and (path := _path(node.func)):
        for arg in node.args:
            mark = parsed.placeholders.get(getattr(arg.value, "value", ""))
            keyword = arg.keyword.value if arg.keyword is not None else mark.keyword if mark is not None else None
            if keyword is not None:
                yield f"{path}({keyword}=)"
    if isinstance(node, (cst.Attribute, cst.Arg)):  # the other name in it is none that is imported
        yield from _asked(node.value, parsed)
    else:
        for child in node.children:
            yield from _asked(child, parsed)


def _full(text: str) -> str:
    """`mindspore.ops.norm(ord=)` for `ops.norm(ord=)`."""
    head, dot, rest = text.partition(".")
    return f"{_roots().get(head, head)}{dot}{rest}"


def _path(node: cst.CSTNode) -> str:
    """`mindspore.ops.cat` for `ops.cat`, empty for what does not start with an imported name."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    root = _roots().get(node.value, "") if isinstance(node, cst.Name) else ""
    return ".".join([root, *reversed(parts)]) if root.startswith("mindspore") else ""
