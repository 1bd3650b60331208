"""`try: from torch.cuda.amp import GradScaler`, with a class of the program's own where torch is too old to have it.

So is `try: autocast = torch.cuda.amp.autocast`, which is written as an import. The torch that is translated has it: the
import stays, the stand-in goes. Two things of one name, of which only one ever exists, would each have to be understood
as the other. What MindSpore has nothing for, as the writer of TensorBoard, is imported from torch ever after: there the
stand-in is what runs.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import Imports, qualified
from torch2ms.analysis.syntax.tree import code
from torch2ms.api.rules import Rules
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites, small_of
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.gradients.decided import on_tape
from torch2ms.wrappers.passes import each_module

TRIED = re.compile(
    r"^[ \t]*try:[ \t]*(?:#.*)?(?:\r?\n[ \t]*(?:#.*)?)*"
    r"(?:from[ \t]+torch\b|import[ \t]+torch\b|\w+[ \t]*=[ \t]*torch\.)",
    re.M,
)
WHY = "torch has it: what would stand in for it goes"


@each_module
def supplied(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that tries such an import."""
    if not module.says(TRIED):
        return None
    made = (writer := Supplied(module)).plain()
    return made if writer.findings else None


class Supplied(Suites):
    """One module, with the imports alone."""

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if type(original) is not cst.Try or type(updated) is not cst.Try or not _stood_in(original, self.module):
            return super().compound(original, updated)
        gone = [self.numbers[id(n)][0] for handler in original.handlers for n in on_tape(handler.body)]
        told = sorted({self.line, *gone})
        self.findings += [Finding("T2M616", Tier.EXACT, "import with a stand-in", WHY, line=n) for n in told]
        lines = [_imports(line, self.module.imports) for line in updated.body.body]
        made, waiting = self.opened(updated.with_changes(body=updated.body.with_changes(body=lines)))
        said = [line for handler in updated.handlers for line in layout.inner_comments(handler) if line.comment]
        return made, (*waiting, *said)


def _imports(line: cst.CSTNode, imports: Imports) -> cst.CSTNode:
    """`autocast = torch.cuda.amp.autocast` as `from torch.cuda.amp import autocast`."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign):
        return line
    home, _, name = qualified(small.value, imports).rpartition(".")
    own = code(small.targets[0].target)
    text = f"from {home} import {name}" if own == name else f"from {home} import {name} as {own}"
    return line.with_changes(body=[small_of(text)])


def _stood_in(node: cst.Try, module: ModuleInfo) -> bool:
    """The block only names what torch has, and what it would bind is bound where that fails."""
    if node.orelse is not None or node.finalbody is not None or not isinstance(node.body, cst.IndentedBlock):
        return False
    found = Imports(module.imports.package)
    for line in node.body.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else (line,):
            if isinstance(small, (cst.Import, cst.ImportFrom)):
                found.add(small)
            elif isinstance(small, cst.Assign) and isinstance(name := small.targets[0].target, cst.Name):
                found.table[name.value] = qualified(small.value, module.imports) if len(small.targets) == 1 else ""
            else:
                return False
    names, rules = found.table.values(), Rules.load()
    if found.stars or not all(n.startswith("torch.") for n in names):
        return False
    if any("._" in name and rules.find(name) is None for name in names):  # `torch._six` is gone again
        return False
    surroundings = [rules.find(name) for name in names if name.startswith(("torch.utils.", "torch.profiler."))]
    if any(rule is not None and rule.hopeless for rule in surroundings):
        return False
    return all(_binds(handler.body) >= set(found.table) for handler in node.handlers)


def _binds(suite: cst.BaseSuite) -> set[str]:
    """The names that the statements of a handler bind, one by one."""
    found = Imports()
    own: set[str] = set()
    for stmt in suite.body:
        if isinstance(stmt, (cst.ClassDef, cst.FunctionDef)):
            own.add(stmt.name.value)
        for small in stmt.body if isinstance(stmt, cst.SimpleStatementLine) else ():
            if isinstance(small, (cst.Import, cst.ImportFrom)):
                found.add(small)
            elif isinstance(small, cst.Assign):
                own |= {t.target.value for t in small.targets if isinstance(t.target, cst.Name)}
    return own | set(found.table)
