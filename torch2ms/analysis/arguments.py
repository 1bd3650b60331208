"""The arguments of a call: the expressions, their values, and the parameters they reach."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.project import FunctionInfo
from torch2ms.analysis.tree import constant
from torch2ms.analysis.values import UNKNOWN, Value


@dataclass(frozen=True)
class Given:
    """What a call is given."""

    node: cst.Call
    args: list[Value]
    deps: frozenset[str]  # of all arguments together

    @property
    def first(self) -> Value:
        return self.args[0] if self.args else UNKNOWN

    def keyword(self, name: str) -> Value | None:
        """The value of a keyword argument."""
        for arg, value in zip(self.node.args, self.args, strict=False):
            if arg.keyword is not None and arg.keyword.value == name:
                return value
        return None

    def on(self, keyword: str) -> bool:
        """Whether a flag is given and not False."""
        return any(
            a.keyword is not None and a.keyword.value == keyword and constant(a.value) is not False
            for a in self.node.args
        )


def bind_arguments(info: FunctionInfo, node: cst.Call, args: list[Value], skip_self: bool) -> dict[str, Value]:
    """The values of a call by the names of the parameters they reach."""
    fn = info.scope.node
    assert isinstance(fn, cst.FunctionDef)
    names = [p.name.value for p in [*fn.params.posonly_params, *fn.params.params]]
    if skip_self and names:
        names = names[1:]
    bound: dict[str, Value] = {}
    position = 0
    for arg, value in zip(node.args, args, strict=False):
        if arg.star:
            break
        if arg.keyword is not None:
            bound[arg.keyword.value] = value
        elif position < len(names):
            bound[names[position]] = value
            position += 1
    return bound
