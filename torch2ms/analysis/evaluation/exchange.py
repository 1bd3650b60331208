"""What a run of a scope asks of other scopes, and what it tells them: nothing new there, nothing new in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

from torch2ms.analysis.program.families import of_family
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.values import NO_DEPS, NOT_RUN, Value, join

Known = Value | None
Answer = TypeVar("Answer")
HERE = object()  # stands for the exchange that tells or asks
_TOLD = object()  # what stands in the place of an answer where nothing was asked


class Exchange:
    """What one run of a scope asked, with the answers it was given, and told others, in order.

    Everything that other runs may change goes through here. `demand` runs a function that was not run yet: what it
    returns is known better than that it may be anything.
    """

    def __init__(self, project: Project, demand: Callable[[FunctionInfo], None]) -> None:
        self.project = project
        self._demand = demand
        self._returns: dict[FunctionInfo, Known] = {}  # the first answers
        self._attributes: dict[tuple[ClassInfo, str], Known] = {}
        self._kept: dict[FunctionInfo, dict[str, frozenset[str]]] = {}
        self._bound: dict[ClassInfo, frozenset[str]] = {}
        self._globals: dict[tuple[ModuleInfo, str], Known] = {}
        self._log: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []  # by what, of what, the answer
        self.whole = True  # nothing was told to others past the log

    def returned(self, info: FunctionInfo) -> Known:
        """What a function returns, as far as it was run; what it keeps is known from then on, too."""
        if info.returns is None:
            self._demand(info)
        if info not in self._kept:
            self._kept[info] = known = {**info.kept}
            self._log.append((_kept, (info,), known))
        self._returns.setdefault(info, info.returns)
        self._log.append((Exchange._returned, (HERE, info), info.returns))
        return info.returns

    def keep(self, info: FunctionInfo, place: str, deps: frozenset[str]) -> None:
        """A function puts something into a place that its caller has too."""
        self.tell(_keep, info, place, deps)

    def attribute(self, cls: ClassInfo, name: str) -> Known:
        """What the methods of a class put into an attribute."""
        found = cls.attr(name)
        self._attributes.setdefault((cls, name), found)
        self._log.append((ClassInfo.attr, (cls, name), found))
        return found

    def attributes(self, cls: ClassInfo) -> frozenset[str]:
        """Which attributes a class has, as far as its methods were run."""
        found = _attributes(cls)
        self._bound.setdefault(cls, found)
        self._log.append((_attributes, (cls,), found))
        return found

    def member(self, module: ModuleInfo, name: str) -> Known:
        """What a module binds to a name."""
        found = module.env.get(name)
        self._globals.setdefault((module, name), found)
        self._log.append((_bound, (module, name), found))
        return found

    def family(self, methods: frozenset[str]) -> str:
        """The one class of the project whose these methods are."""
        found = of_family(methods, self.project)
        self._log.append((Exchange._family, (HERE, methods), found))
        return found

    def ask(self, question: Callable[..., Answer], *of: Any) -> Answer:
        """Something else that depends on other runs, which no run is made again for."""
        answer = question(*of)
        self._log.append((question, of, answer))
        return answer

    def tell(self, news: Callable[..., object], *of: Any) -> None:
        """Something that other runs may ask for; the exchange itself, if it is `of` that, stands first as HERE."""
        news(*self._meant(of))
        self._log.append((news, of, _TOLD))

    def give(self, info: FunctionInfo, value: Value) -> None:
        """A function returns one value more."""
        self.tell(Exchange._give, HERE, info, value)

    def hand(self, info: FunctionInfo, parameter: str, value: Value, call: int) -> None:
        """A caller gives a function this, at a call of this id."""
        self.tell(_handed, info, parameter, value, call)

    def hold(self) -> bool:
        """Whether every answer would still be the same."""
        for info, value in self._returns.items():  # loops: this is asked of every run, and mostly it is the same value
            if info.returns is not value and info.returns != value:
                return False
        for info, found in self._kept.items():
            if info.kept != found:
                return False
        for (cls, name), value in self._attributes.items():
            if (attr := cls.attr(name)) is not value and attr != value:
                return False
        for cls, names in self._bound.items():
            if cls.attrs.keys() != names:
                return False
        for (module, name), value in self._globals.items():
            if (bound := module.env.get(name)) is not value and bound != value:
                return False
        return True

    def repeated(self, project: Project, demand: Callable[[FunctionInfo], None]) -> bool:
        """Ask and tell the same in another inference; False from the first answer on that is another one."""
        self.project, self._demand = project, demand
        for say, of, answer in self._log:  # a loop: this is gone through for every run of every inference
            found = say(self, *of[1:]) if of and of[0] is HERE else say(*of)
            if found is not answer and answer is not _TOLD and found != answer:
                return False
        return True

    def _meant(self, of: tuple[Any, ...]) -> tuple[Any, ...]:
        """Its log does not hold the exchange: only the cyclic collector would let go of such a circle."""
        return (self, *of[1:]) if of and of[0] is HERE else of

    def forget(self) -> None:
        """It is not going to be repeated."""
        self._log.clear()

    def rest(self) -> None:
        """Let go of the inference, which keeps the exchange."""
        del self.project, self._demand

    def _returned(self, info: FunctionInfo) -> Known:
        if info.returns is None:
            self._demand(info)
        return info.returns

    def _family(self, methods: frozenset[str]) -> str:
        return of_family(methods, self.project)

    def _give(self, info: FunctionInfo, value: Value) -> None:
        info.returns = value if info.returns is None else self.project.joined(info.returns, value)


def _handed(info: FunctionInfo, parameter: str, value: Value, call: int) -> None:
    """What was a guess when the call was run before is forgotten, once more is known of it."""
    calls = info.given.setdefault(parameter, {})
    before = calls.get(call)
    if before is not None and _better(value, before):
        calls[call] = value
        info.sharper = info.sharper or before.kind == "tensor"
        info.args[parameter] = reduce(_joined, calls.values())
        return
    calls[call] = value if before is None else _joined(before, value)
    old = info.args.get(parameter)
    info.args[parameter] = value if old is None else _joined(old, value)


def _better(value: Value, before: Value) -> bool:
    """Seen now, and guessed by its name before; or what an optimizer moves, which the caller was not given then.

    Or a tensor of a type that hung on an attribute which nobody had bound yet.
    """
    if before.kind != value.kind:
        return False
    if value.kind == "tensor" and value.dtype and not before.dtype and before.rank in (None, value.rank):
        return True
    moves = value.kind == "optimizer" and before.owns is None and not before.name and value.owns is not None
    return moves or before.likely and not value.likely


def _joined(old: Value, value: Value) -> Value:
    if old.name == NOT_RUN or value.name == NOT_RUN:
        return value if old.name == NOT_RUN else old
    return join(old, value)


def _kept(info: FunctionInfo) -> dict[str, frozenset[str]]:
    return {**info.kept}


def _keep(info: FunctionInfo, place: str, deps: frozenset[str]) -> None:
    info.kept[place] = info.kept.get(place, NO_DEPS) | deps


def _attributes(cls: ClassInfo) -> frozenset[str]:
    return frozenset(cls.attrs)


def _bound(module: ModuleInfo, name: str) -> Known:
    return module.env.get(name)
