"""Code that reaches layers without naming them: `children()`, `getattr(net, name)`."""

from __future__ import annotations

import re
from functools import lru_cache

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.analysis.syntax.tree import code

SETTINGS = r"(?!(?:self\.)?(?:args|opts?|options|conf|config|cfg|flags|hparams)\b)"  # they hold no layers
WALKS = re.compile(rf"children\(|_modules\b|__dict__|\bvars\({SETTINGS}|\blist\([\w.]+\.modules\(")
ASKS = re.compile(rf"\bgetattr\(\s*{SETTINGS}([\w.]*)([^,]*),\s*([^,)\n]*)")
WRITTEN = re.compile(r"""f?(["'])(.*)\1(?: *\+ *str\(.*)?""")
ITSELF = re.compile(r"\bself(\.(items|values)\(|(?![\w.]))|\bsuper\(")
ANY = ".*"


def unnamed(module: ModuleInfo, attr: str = "") -> bool:
    """Layers of networks may be reached in a module without their names, or the one that is called `attr`.

    What goes over `modules()` sets layers up: the network itself is among them, nobody runs them in a row.
    """
    if module.says(WALKS):
        return True
    named = _asked(module.source) if module.has("getattr(") else ()
    patterns = [p for begins, p in named if not is_foreign(module.imports.table.get(begins, ""))]
    return any(re.fullmatch(pattern, attr) for pattern in patterns) if attr else ANY in patterns


def goes_through_itself(scopes: list[Scope]) -> bool:
    """A container runs what it holds: `for layer in self`."""
    return any(ITSELF.search(code(stmt.node)) for scope in scopes for stmt in scope.body.stmts)


@lru_cache(maxsize=512)
def _asked(source: str) -> tuple[tuple[str, str], ...]:
    """What `getattr` asks in a source, by its root, and a pattern for the names that it may ask for."""
    return tuple((m[1].partition(".")[0], _pattern(m[3].strip())) for m in ASKS.finditer(source))


def _pattern(name: str) -> str:
    """`"aux"`, `f"layer{i}"` and `"layer" + str(i)` begin with what is written out."""
    written = WRITTEN.match(name)
    if written is None:
        return ANY
    whole = written.end() == len(name) and "str(" not in name
    parts = re.split(r"\{[^}]*\}", written[2]) if name.startswith("f") else [written[2]]
    return ANY.join(map(re.escape, parts)) + ("" if whole else ANY)
