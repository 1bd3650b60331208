"""How often the code of a module names something; what asks for many names goes through its nodes once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ModuleInfo

UNCALLED = re.compile(r"(?<![\w.])([^\W\d]\w*)(?!\w)(?=[ \t]*(?:[,)\]}:\n#]|(?:if|else|for|or|and)\b))")
DEFINING = (cst.FunctionDef, cst.ImportAlias, cst.Param)


def quotes(module: ModuleInfo) -> Counter[str]:
    """How often it has a string that holds this and nothing else."""
    return Counter(str(node.raw_value) for node in module.of_kind(cst.SimpleString))


def handed(module: ModuleInfo) -> set[str]:
    """Names that may be values somewhere: a function that is called wherever it is named is handed on to nobody."""
    return set(UNCALLED.findall(module.source))


def naming(module: ModuleInfo) -> Counter[str]:
    """How often a name is used by itself: as that of nothing in something, and not to define or import it."""
    parts = {id(node.attr) for node in module.of_kind(cst.Attribute)}
    parts |= {id(node.keyword) for node in module.of_kind(cst.Arg) if node.keyword is not None}
    parts |= {id(getattr(node, "name", None)) for kind in DEFINING for node in module.of_kind(kind)}
    return Counter(node.value for node in module.of_kind(cst.Name) if id(node) not in parts)


def attributes(module: ModuleInfo) -> dict[str, list[cst.Attribute]]:
    """What is asked of something, by name, parents first."""
    found: defaultdict[str, list[cst.Attribute]] = defaultdict(list)
    for node in module.of_kind(cst.Attribute):
        found[node.attr.value].append(node)
    return dict(found)
