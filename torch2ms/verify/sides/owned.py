"""The modules a program defines itself, named alike on both sides: by class and by order of construction.

They are kept alive to the end, so that what a model holds is compared although `main()` has returned.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

LIMIT = 4096  # modules kept alive; programs that make more make them in a loop
ALIKE = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}  # what MindSpore calls them
FRAMEWORKS = ("torch", "mindspore", "torch2ms", "torchvision")


class Owned:
    """Every instance of a class of the program below one base class, with the name both sides give it."""

    def __init__(self) -> None:
        self.modules: list[tuple[str, Any]] = []
        self.names: dict[int, str] = {}
        self.counts: dict[str, int] = {}

    def watch(self, base: type, others: tuple[type, ...] = ()) -> None:
        """Note every construction below `base`, but for those below `others`."""
        construct = base.__init__  # type: ignore[misc]

        @functools.wraps(construct)
        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:
            construct(module, *args, **kwargs)
            if not isinstance(module, others):
                self._made(module)

        base.__init__ = __init__  # type: ignore[misc]

    def _made(self, module: Any) -> None:
        cls = type(module)
        if cls.__module__.partition(".")[0] in FRAMEWORKS or id(module) in self.names:
            return
        number = self.counts.get(cls.__qualname__, 0)
        self.counts[cls.__qualname__] = number + 1
        if len(self.modules) < LIMIT:
            self.modules.append((f"{cls.__qualname__}#{number}", module))
            self.names[id(module)] = self.modules[-1][0]

    def name(self, module: Any) -> str:
        """`Net#0` for the first Net that was made, "" for a module that is not the program's."""
        return self.names.get(id(module), "")


class OwnParameters:
    """Looks up which module of the program holds a parameter: `Net#0.scale`."""

    def __init__(
        self, owned: Owned, members: Callable[[Any], Iterator[tuple[str, Any]]], every: Callable[[Any], Any]
    ) -> None:
        self.owned, self.members, self.every = owned, members, every
        self.known: dict[int, tuple[Any, str]] = {}
        self.inside: dict[int, str] = {}

    def name(self, parameter: Any, below: bool = False) -> str:
        """The name, "" for a parameter that no module of the program holds directly, or, if asked, in its layers."""
        found = self.known.get(id(parameter))
        if found is None or found[0]() is not parameter:
            found = self.known[id(parameter)] = (weakref.ref(parameter), self._search(parameter))
        return found[1] or (self.below(parameter) if below else "")

    def _search(self, parameter: Any) -> str:
        for name, module in self.owned.modules:
            for attribute, value in self.members(module):
                if value is parameter:
                    return f"{name}.{attribute}"
        return ""

    def below(self, parameter: Any) -> str:
        """Where in a module of the program the parameter of a copied layer is: `Net#0.layers.1.fc.weight`."""
        if id(parameter) not in self.inside:
            for name, module in self.owned.modules:
                for path, value in self.every(module):
                    above, _, last = path.rpartition(".")
                    self.inside.setdefault(id(value), ".".join(p for p in (name, above, ALIKE.get(last, last)) if p))
        return self.inside.setdefault(id(parameter), "")
