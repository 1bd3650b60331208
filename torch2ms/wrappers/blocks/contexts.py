"""`with torch.no_grad(), evaluating(model):` as two blocks, one in the other.

A block that only says whether gradients are recorded is dissolved; one that shares its header with something else is
parted from it first. So is the mode in which a context manager of the project yields: it holds in the block as well.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import qualified
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Made, Suites

MANAGER = "contextmanager"


def parted(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such blocks, by name."""
    plain: dict[str, Plain] = {}
    yielding = Yielding(project)
    for module in project.modules.values():
        mixed = {} if module.uses_mindspore else _mixed(module, yielding)
        if mixed:
            plain[module.name] = Parter(module, mixed).plain()
    return plain


def _mixed(module: ModuleInfo, yielding: Yielding) -> dict[int, list[list[cst.WithItem]]]:
    """The blocks with both, by id: their items in groups that are one or the other, in order."""
    found: dict[int, list[list[cst.WithItem]]] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            if type(node) is not cst.With or node.asynchronous is not None:
                continue
            groups: list[list[cst.WithItem]] = []
            last = None
            for item in (i for one in node.items for i in (one, *yielding.modes(one, module))):
                if _mode(item, module) != last or not groups:
                    groups.append([])
                last = _mode(item, module)
                groups[-1].append(item)
            if len(groups) > 1 and not any("#" in code(item) for item in node.items):
                found[id(node)] = groups
    return found


class Yielding:
    """The context managers of a project that yield in a block of a gradient mode."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.any = any(module.has(MANAGER) for module in project.modules.values())

    def modes(self, item: cst.WithItem, module: ModuleInfo) -> list[cst.WithItem]:
        """The modes that a manager puts its caller's block in, as that module may write them."""
        called = item.item.func if self.any and type(item.item) is cst.Call else None
        name = module.value(called).name if called is not None else ""
        info = self.project.find(name, module) if name else None
        if not isinstance(info, FunctionInfo) or not is_manager(info):
            return []
        around = next((s.modes for s in info.scope.body.walk() if not s.blocks and yields(s.node)), ())
        calls = (i.item for m in around for i in m.items if is_plain(i))
        names = (qualified(c.func, info.module.imports) for c in calls if isinstance(c, cst.Call))
        return [cst.WithItem(cst.parse_expression(f"{said}()")) for n in names if (said := _said(n, module))]


def is_manager(info: FunctionInfo) -> bool:
    """A generator that is a context manager."""
    decorators = getattr(info.scope.node, "decorators", ())
    return any(qualified(d.decorator, info.module.imports).endswith(MANAGER) for d in decorators)


def is_plain(item: cst.WithItem) -> bool:
    """`torch.no_grad()`: a mode that depends on nothing."""
    return type(item.item) is cst.Call and not item.item.args


def yields(node: cst.CSTNode) -> bool:
    return any(type(n) is cst.Yield for n in descend(node))


def _said(name: str, module: ModuleInfo) -> str:
    """How a module may write the name of a mode; "" where it does not import it."""
    home, _, last = name.rpartition(".")
    local = next((local for local, full in module.imports.table.items() if full == name), "")
    return local or next((f"{local}.{last}" for local, full in module.imports.table.items() if full == home), "")


def _mode(item: cst.WithItem, module: ModuleInfo) -> bool:
    """The item says whether gradients are recorded, and nothing else."""
    name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, module.imports)
    return name in flow.TRANSPARENT and item.asname is None


class Parter(Suites):
    """One module, with the blocks to part."""

    def __init__(self, module: ModuleInfo, mixed: dict[int, list[list[cst.WithItem]]]) -> None:
        super().__init__(module)
        self.mixed = mixed

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        groups = self.mixed.get(id(original))
        if groups is None:
            return [updated], ()  # type: ignore[list-item]
        assert isinstance(original, cst.With) and isinstance(updated, cst.With)
        made = updated.with_changes(leading_lines=())
        for group in reversed(groups):
            own = list(group)
            own[-1] = own[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            bare = {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
            body = made.body if group is groups[-1] else cst.IndentedBlock([made])
            made = updated.with_changes(items=own, body=body, leading_lines=(), **bare)
            self.number(made, original)
        return [self.renumbered(made, leading_lines=updated.leading_lines)], ()
