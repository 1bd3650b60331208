"""`grad(model(data)["energy"], data["pos"])`: an input that is kept in a dict or an object gets a name.

`data["pos"].requires_grad_()` becomes `pos = data["pos"]`, `pos.requires_grad_()`, `data["pos"] = pos`: the last line,
where the dict is used as a whole before the gradient is taken, makes it part of the forward (also where the item has a
name). What was there has no
graph yet, so that it is the same tensor up to the gradient if nothing binds the item anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.boxes import own_nodes
from torch2ms.wrappers.passes import each_module

SWITCHED = re.compile(r"[\].]\s*\w*\.requires_grad")
WEIGHTS = {"weight", "bias", "data", "grad"}
OWNING = {"module", "optimizer", "api", "modulefile", "class", "param", "params"}  # of what is no input
CHANGING = {"update", "pop", "clear", "setdefault", "popitem"}


@each_module
def item_inputs(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such inputs."""
    if module.directives.off or not module.has("grad(") or not module.says(SWITCHED):
        return None
    writer = _Writer(module)
    for scope in module.scope.walk():
        if not isinstance(scope.node, cst.ClassDef):
            for stmt in scope.body.walk():
                if (item := _Item.begun(stmt, scope, module)) is not None and item.named(project):
                    writer.add(item)
    return writer.plain() if writer.items else None


class _Item:
    """`data["pos"]` or `data.pos` that begins to require gradients in a statement."""

    def __init__(
        self, stmt: Stmt, node: cst.Subscript | cst.Attribute, scope: Scope, module: ModuleInfo, alias: str
    ) -> None:
        self.stmt, self.node, self.scope, self.module = stmt, node, scope, module
        self.text, self.base = code(node), dotted(node.value)
        self.uses: list[cst.CSTNode] = []
        self.name = self.alias = alias  # a name that it has already
        self.whole = type(stmt.node) is cst.Assign and stmt.node.targets[0].target is node  # the item is made there
        self.assumed = ""

    @staticmethod
    def begun(stmt: Stmt, scope: Scope, module: ModuleInfo) -> _Item | None:
        node = stmt.node
        held: cst.CSTNode | None = None
        if type(node) is cst.Assign and len(node.targets) == 1:
            target = node.targets[0].target
            if type(target) is cst.Attribute and target.attr.value == "requires_grad" and constant(node.value) is True:
                held = target.value
            elif _switches(node.value):
                held = target
        elif type(node) is cst.Expr and _switches(node.value):
            held = node.value.func.value  # type: ignore[attr-defined]
        alias = ""
        if isinstance(held, cst.Name):
            alias, held = held.value, _named(held.value, stmt)
        alone = isinstance(stmt.line, cst.SimpleStatementLine) and len(stmt.line.body) == 1
        if not alone or not isinstance(held, (cst.Attribute, cst.Subscript)) or not dotted(held.value):
            return None
        if isinstance(held, cst.Subscript) and not _key(held) or root(dotted(held.value)) == "self":
            return None
        weight = isinstance(held, cst.Attribute) and held.attr.value in WEIGHTS
        return None if weight or module.value(held.value).kind in OWNING else _Item(stmt, held, scope, module, alias)

    def named(self, project: Project) -> bool:
        """The item can have a name up to the last gradient that is taken at it."""
        later = [s for s in self.scope.body.walk() if s.number > self.stmt.number]
        calls = [(s, c) for s in later for c in s.calls if self._at(c)]
        if not calls or any(_again(c) for _, c in calls):
            return False
        last = max(s.number for s, _ in calls)
        loops = [a for a in self.stmt.ancestors() if a.is_loop]
        turns = {i for s, _ in calls for a in s.ancestors() if a.is_loop and a not in loops for i in a.walk()}
        within = [s for s in later if s.number <= last or s in turns]
        if any(not _under(s, self.stmt) or [a for a in s.ancestors() if a in loops] != loops for s, _ in calls):
            return False
        if any(self._changes(s) for s in within):
            return False
        own = [] if self.whole else [self.stmt]
        nodes = (n for s in (*own, *within) for n in own_nodes(s) if type(n) is type(self.node))
        self.uses = [n for n in nodes if code(n) == self.text]
        handed = [s for s in within if self._handed(s)]
        self.whole = self.whole or bool(handed)
        if any(self._bound_in(s, project) for s in handed):
            return False
        if self.alias:
            self.uses = []
            return self.whole and not any(self.alias in s.defs for s in within)
        word = self.text.rpartition(".")[2] if type(self.node) is cst.Attribute else str(_key(self.node))
        short = word.rpartition(".")[2].removesuffix("_KEY").lower()
        names = (short, f"{self.base.rpartition('.')[2]}_{short}")
        taken = {*self.module.scope.locals, *self.module.imports.table}
        taken |= {n for s in self.scope.walk() for n in s.locals}
        around = self.scope.parent
        while around is not None:
            taken, around = taken | set(around.locals), around.parent
        self.name = next((n for n in names if n.isidentifier() and n not in taken), "")
        return bool(self.name)

    def _at(self, call: cst.Call) -> bool:
        """A gradient at the item, alone or among others."""
        if qualified(call.func, self.module.imports) != "torch.autograd.grad":
            return False
        given = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "inputs"), None)
        if given is None and len(call.args) > 1 and all(a.keyword is None and not a.star for a in call.args[:2]):
            given = call.args[1].value
        several = isinstance(given, (cst.Tuple, cst.List))
        inputs = [e.value for e in given.elements] if several else [given]  # type: ignore[union-attr]
        return any(i is not None and code(i) == (self.alias or self.text) for i in inputs)

    def _changes(self, stmt: Stmt) -> bool:
        """The item, or what it is in, may be another one after the statement."""
        if root(self.base) in stmt.defs or self.base in stmt.defs or self.text in stmt.defs:
            return True
        if isinstance(self.node, cst.Subscript) and root(str(_key(self.node))) in stmt.defs:
            return True
        node = stmt.node
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        targets += [node.target] if isinstance(node, (cst.AugAssign, cst.AnnAssign)) else []
        if any(self._may_be(t) for t in targets) or isinstance(node, cst.Del):
            return True
        funcs = (c.func for c in stmt.calls if isinstance(c.func, cst.Attribute))
        return any(dotted(f.value) == self.base and f.attr.value in CHANGING for f in funcs)

    def _may_be(self, target: cst.BaseExpression) -> bool:
        """What is bound may be the item: `data[key]`, for all that is known of the key."""
        if code(target) == self.text:
            return True
        if not isinstance(target, cst.Subscript) or dotted(target.value) != self.base:
            return False
        other, own = _key(target), _key(self.node)
        return not other or other == own or _written(target) is not _written(self.node)

    def _spellings(self, project: Project) -> str:
        """A pattern of the ways to write the item in other functions: its key, or a constant that has it."""
        if isinstance(self.node, cst.Attribute):
            return re.escape("." + self.node.attr.value)
        key = _key(self.node)
        names, texts = set(), {key} if _written(self.node) else set()
        if not texts:
            names = {key.rpartition(".")[2]}
            given = re.compile(rf"\b{key.rpartition('.')[2]}\b(?:\s*:[^=\n]*)?\s*=\s*[\"']([^\"']+)[\"']")
            texts = {t for m in project.modules.values() for t in given.findall(m.source)}
        for text in texts:
            bound = re.compile(rf"\b(\w+)(?:\s*:[^=\n]*)?\s*=\s*[\"']{re.escape(text)}[\"']")
            names |= {n for m in project.modules.values() for n in bound.findall(m.source)}
        written = [rf"[\"']{re.escape(t)}[\"']" for t in sorted(texts)] + [rf"(?:\w+\.)*{n}" for n in sorted(names)]
        return rf"\[(?:{'|'.join(written)})\]"

    def _handed(self, stmt: Stmt) -> bool:
        """The statement uses the whole that the item is in."""
        nodes = list(own_nodes(stmt))
        parts = {id(n.value) for n in nodes if type(n) is cst.Subscript and _key(n) or type(n) is cst.Attribute}
        return any(type(n) is type(self.node.value) and code(n) == self.base and id(n) not in parts for n in nodes)

    def _bound_in(self, stmt: Stmt, project: Project) -> bool:
        """A function that is handed the whole binds such an item; what is not seen is assumed not to."""
        known = [resolve(c, self.scope, self.module, project) for c in stmt.calls]
        for call in (c for c, info in zip(stmt.calls, known, strict=True) if info is None):
            value = self.module.value(call.func)
            if not isinstance(project.find(value.name, self.module), ClassInfo):
                self.assumed = self.assumed or f"`{code(call.func)}` leaves {self.text} as it is"
        attr = self.node.attr.value if isinstance(self.node, cst.Attribute) else ""
        if attr and any(m.has(f"def {attr}(") for m in project.modules.values()):
            return True  # a property
        bound = re.compile(self._spellings(project) + r"\s*(?:[-+*/@]?=[^=]|,[^\n]*[^=]=[^=])")
        return any(bound.search(code(s.node)) for s in _reached(stmt, project) if s.is_small)


def _reached(stmt: Stmt, project: Project) -> Iterator[Stmt]:
    """The statements that may run within one, by the names of functions; what is called itself has a forward."""
    named: dict[str, list[Scope]] = {}
    for scope in (s for m in project.modules.values() for s in m.scope.walk() if s.is_function):
        named.setdefault(scope.name, []).append(scope)
    pending, met = [*_called(stmt), "forward", "__call__"], set()
    while pending:
        if (name := pending.pop()) not in met:
            met.add(name)
            for inner in (s for scope in named.get(name, ()) for s in scope.body.walk()):
                yield inner
                pending += _called(inner)


def _called(stmt: Stmt) -> list[str]:
    return [c.func.attr.value if isinstance(c.func, cst.Attribute) else dotted(c.func) for c in stmt.calls]


def _switches(node: cst.BaseExpression) -> bool:
    """`x.requires_grad_()`"""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute or node.func.attr.value != "requires_grad_":
        return False
    return not node.args or len(node.args) == 1 and constant(node.args[0].value) is True


def _key(node: cst.Subscript | cst.Attribute) -> str:
    """A key that is written: `data["pos"]`, `data[Keys.POS]`; "" for others."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    if isinstance(key, cst.SimpleString):
        return str(constant(key))
    named = dotted(key) if isinstance(key, cst.Attribute) else ""
    return named if named.rpartition(".")[2].isupper() else ""


def _named(name: str, stmt: Stmt) -> cst.BaseExpression | None:
    """What a name is bound to right above a statement: `pos = data["pos"]`."""
    stmts = stmt.block.stmts
    before = stmts[stmts.index(stmt) - 1] if stmts.index(stmt) else None
    node = before.node if before is not None else None
    plain = isinstance(node, cst.Assign) and len(node.targets) == 1 and dotted(node.targets[0].target) == name
    return node.value if plain else None  # type: ignore[union-attr]


def _written(node: cst.Subscript | cst.Attribute) -> bool:
    """The key stands there itself."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)


def _again(call: cst.Call) -> bool:
    """Its result is differentiated again: compiled code cannot write into what is handed to it."""
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "create_graph"]
    return any(a.star for a in call.args) or bool(given) and constant(given[0]) is not False


def _under(stmt: Stmt, first: Stmt) -> bool:
    """The first statement has run whenever the other does."""
    return any(s.block is first.block for s in (stmt, *stmt.ancestors()))


class _Writer(Suites):
    """One module, with the names of its items and the lines that bind them."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.items: dict[int, _Item] = {}
        self.names: dict[int, str] = {}

    def add(self, item: _Item) -> None:
        line = item.stmt.node
        if id(line) in self.items or any(id(n) in self.names for n in item.uses):
            return
        self.items[id(line)] = item
        self.names |= {id(node): item.name for node in item.uses}
        if item.assumed:
            self.findings.append(Finding("T2M531", Tier.ASSUMED, item.text, item.assumed, line=item.stmt.lineno))

    def simple(self, stmt: cst.SimpleStatementLine) -> Made:
        item = self.items.get(id(stmt.body[0]))
        if item is None:
            return super().simple(stmt)
        node = item.stmt.node
        updated = self.rewrite(stmt.body[0])
        if isinstance(node, cst.Assign) and isinstance(updated, cst.Assign) and node.targets[0].target is item.node:
            target = updated.targets[0].with_changes(target=cst.Name(item.name))
            smalls: list[cst.CSTNode] = [updated.with_changes(targets=[target])]
        elif item.alias:
            smalls = [updated]
        else:
            smalls = [_assigned(cst.Name(item.name), item.node.deep_clone()), updated]
        smalls += [_assigned(item.node.deep_clone(), cst.Name(item.name))] if item.whole else []
        for small in smalls:
            self.number(small, stmt.body[0])
        lines = [cst.SimpleStatementLine([small]) for small in smalls]  # type: ignore[list-item]
        said = stmt.trailing_whitespace
        lines[0] = lines[0].with_changes(leading_lines=stmt.leading_lines, trailing_whitespace=said)
        return list(lines), ()

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        name = self.names.get(id(original))
        return updated if name is None else cst.Name(name)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        name = self.names.get(id(original))
        return updated if name is None else cst.Name(name)


def _assigned(target: cst.BaseExpression, value: cst.BaseExpression) -> cst.Assign:
    return cst.Assign([cst.AssignTarget(target)], value)  # type: ignore[arg-type]
