"""Networks that have an optimizer of their own, and are trained by another one as well: `self.optimizer`, and `opt`
outside, over the same parameters.

A method that asks the network for its gradients finds what either of them was given last: no optimizer keeps that.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.functions.aliases import Aliases


def trained_outside(scope: Scope, module: ModuleInfo, aliases: Aliases) -> bool:
    """Another optimizer than those of its class goes over an object of the class that the scope is a method of."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is None or cls.kind != "module":
        return False
    for _, made in aliases.creations:
        if made.stmt.block.scope.cls is scope.cls or not made.value.owns:
            continue
        for node in made.stmt.nodes:
            if dotted(node) in made.value.owns and made.module.value(node).name == cls.qualified:
                return True
    return False
