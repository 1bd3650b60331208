"""Whether a module may mean a name of another one: what it found out is worked out again where that one changed it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch2ms.analysis.syntax.names import is_foreign

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ModuleInfo


def takes(module: ModuleInfo, name: str) -> bool:
    """It imports the name from the project, all names, or a module of it of which it asks for one."""
    if not module.has(name):
        return False
    own = {local: target for local, target in module.imports.table.items() if not is_foreign(target)}
    if any(target.rpartition(".")[2] == name for target in own.values()):
        return True
    if any(not is_foreign(star) for star in module.imports.stars) or module.has("getattr("):
        return True
    roots = re.findall(rf"(?<![\w.])(\w+)(?:\s*\.\s*\w+)*\s*\.\s*{re.escape(name)}\b", module.source)
    return any(root in own for root in roots)
