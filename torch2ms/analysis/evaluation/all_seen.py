"""Functions and classes of which every call is seen: their names stand nowhere but in definitions and in calls."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import libcst as cst

from torch2ms.analysis.evaluation import lambdas
from torch2ms.analysis.program.project import FunctionInfo

_WORD = re.compile(r"\.?\b\w+\(?")


def calls(name: str, source: str, method: bool) -> bool:
    """A function of a program whose name stands nowhere but in its definition and in calls: each of these is seen.

    Of a method the only one is; others may be of objects that are not known.
    """
    counts = _words(source)
    if counts.get(name) or counts.get(f".{name}"):
        return False
    alone, asked = counts.get(f"{name}(", 0), counts.get(f".{name}(", 0)
    return alone == asked == 1 if method else alone > 1 and not asked


def of_class(info: FunctionInfo) -> bool:
    """The `__init__` of a class whose name stands nowhere but in its definition and in calls, and that has no heirs."""
    if info.name != "__init__" or info.cls is None or info.cls.children:
        return False
    node, name = info.cls.scope.node, info.cls.qualified.rpartition(".")[2]
    counts = _words(info.module.source)
    if counts.get(f".{name}") or counts.get(f".{name}(") or not isinstance(node, cst.ClassDef):
        return False
    plain = isinstance(node.lpar, cst.MaybeSentinel)  # `class Data:`
    return counts.get(name, 0) == plain and counts.get(f"{name}(", 0) > (not plain)


def of_network(info: FunctionInfo, func: cst.BaseExpression) -> bool:
    """The forward of a class of which one network is made, that is called where it is made or by its only name."""
    if info.name != "forward" or info.cls is None:
        return False
    source, name = info.module.source, info.cls.qualified.rpartition(".")[2]
    counts = _words(source)
    if counts.get(name) or counts.get(f".{name}") or counts.get(f".{name}(") or counts.get(f"{name}(") != 2:
        return False
    return isinstance(func, cst.Call) or isinstance(func, cst.Name) and lambdas.only_called(func.value, source)


@lru_cache(maxsize=8)
def _words(source: str) -> dict[str, int]:
    """How often the names of a module stand in it, those that are called and those behind a dot apart."""
    return Counter(_WORD.findall(source))
