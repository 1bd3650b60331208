"""What a scope read of what other scopes make known: nothing new there, nothing new in it."""

from __future__ import annotations

from collections.abc import Callable

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo
from torch2ms.analysis.values import Value

Known = Value | None


class Reads:
    """The first answers that one run of a scope was given; each is asked for through here.

    `demand` runs a function that was not run yet: what it returns is known better than that it may be anything.
    """

    def __init__(self, demand: Callable[[FunctionInfo], None]) -> None:
        self._demand = demand
        self._returns: dict[FunctionInfo, Known] = {}
        self._attributes: dict[tuple[ClassInfo, str], Known] = {}
        self._globals: dict[tuple[ModuleInfo, str], Known] = {}

    def returned(self, info: FunctionInfo) -> Known:
        """What a function returns, as far as it was run."""
        if info.returns is None:
            self._demand(info)
        self._returns.setdefault(info, info.returns)
        return info.returns

    def attribute(self, cls: ClassInfo, name: str) -> Known:
        """What the methods of a class put into an attribute."""
        found = cls.attr(name)
        self._attributes.setdefault((cls, name), found)
        return found

    def member(self, module: ModuleInfo, name: str) -> Known:
        """What a module binds to a name."""
        found = module.env.get(name)
        self._globals.setdefault((module, name), found)
        return found

    def hold(self) -> bool:
        """Whether every answer would still be the same."""
        return (
            all(info.returns == value for info, value in self._returns.items())
            and all(cls.attr(name) == value for (cls, name), value in self._attributes.items())
            and all(module.env.get(name) == value for (module, name), value in self._globals.items())
        )
