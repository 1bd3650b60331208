"""Classes that are modules though no class of torch stands above them that is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch2ms.analysis.syntax.names import dotted, qualified

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ClassInfo, Project

REGISTERING = ("self.add_module", "self.register_buffer", "self.register_parameter")


def completes_modules(cls: ClassInfo, project: Project) -> bool:
    """Every object that has the class among its bases is a module: a mixin, of which itself none are made."""
    last = [heir for heir in cls.below() if not heir.children]
    if not last or any(heir.kind != "module" for heir in last):
        return False
    return not any(cls.scope.name in module.called for module in project.modules.values())


def runs_layers(cls: ClassInfo, project: Project) -> bool:
    """A class derived from one of another file that is not seen: it has layers, and its `forward` takes an input."""
    forward, init = cls.methods.get("forward"), cls.methods.get("__init__")
    if forward is None or init is None or len(forward.scope.params) < 2 or not cls.bases:
        return False
    if any("." not in base or project.find(base, cls.module) is not None for base in cls.bases):
        return False
    if any(dotted(c.func) in REGISTERING for s in init.scope.body.walk() for c in s.calls):
        return True
    stmts = [s for s in init.scope.body.walk() if any(d.startswith("self.") for d in s.defs)]
    made = [qualified(call.func, cls.module.imports) for s in stmts for call in s.calls]
    return any(name.startswith("torch.nn.") and name.count(".") == 2 and not name.endswith("Loss") for name in made)
