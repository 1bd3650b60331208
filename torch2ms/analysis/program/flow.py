"""Builds the structured program and collects what each statement defines, mutates and uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libcst as cst

from torch2ms.analysis.program.shown import containers, note_parts, target_places
from torch2ms.analysis.program.structure import Block, Scope, Stmt, small_kind
from torch2ms.analysis.syntax.names import Imports, dotted
from torch2ms.analysis.syntax.tree import children
from torch2ms.source import parse_quietly

# methods of a tensor that make one of its kind, with a storage of its own: `x.new_empty(shape).bernoulli_(keep)`
MAKERS = {"new", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "clone"}
MUTATORS = {"append", "extend", "insert", "update", "setdefault", "pop", "popitem", "popleft", "appendleft", "clear",
            "remove", "add", "discard", "push", "write", "load_state_dict", "register_buffer",
            "register_hook"}  # fmt: skip
WATCHING = {  # they watch PyTorch, or choose among its kernels: nothing that a program computes depends on them
    "torch.profiler.record_function", "torch.autograd.profiler.record_function", "torch.profiler.profile",
    "torch.autograd.profiler.profile", "torch.autograd.profiler.emit_nvtx", "torch.nn.attention.sdpa_kernel",
    "torch.backends.cuda.sdp_kernel", "torch.cuda.nvtx.range", "torch.autograd.graph.save_on_cpu",
    "torch.autograd.graph.disable_saved_tensors_hooks", "torch.backends.cudnn.flags", "torch.backends.mkldnn.flags",
    "torch.jit.optimized_execution", "torch.autograd.profiler.emit_itt", "torch.cuda.device_of", "torch.cpu.stream",
}  # fmt: skip
TRANSPARENT = WATCHING | {
    "torch.no_grad", "torch.autograd.no_grad", "torch.inference_mode", "torch.autograd.inference_mode",
    "torch.enable_grad", "torch.autograd.enable_grad", "torch.set_grad_enabled", "torch.autograd.set_grad_enabled",
    "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly", "torch.inference_mode.inference_mode",
    "torch.autograd.grad_mode.no_grad", "torch.autograd.grad_mode.enable_grad", "torch.cuda.device", "torch.device",
    "torch.autograd.grad_mode.inference_mode", "torch.autograd.grad_mode.set_grad_enabled",
}  # fmt: skip


def build(
    module: cst.Module,
    lines: list[tuple[int, int]],
    imports: Imports,
    off: frozenset[int] = frozenset(),
    gradients: bool = True,
) -> Scope:
    """The scope tree of a module; fills `imports` on the way.

    `lines` are those of its statements in the source, `off` those that must stay as they are. Where no `gradients` are
    read, nobody has to look for them.
    """
    builder = _Builder(imports, lines, off, gradients)
    scope = Scope(module, "", None)
    scope.body = Block(scope, None, "body", module)
    builder.fill(scope.body, module.body)
    _finish(scope)
    return scope


def lines(source: str) -> list[tuple[int, int]]:
    """First and last line of all statements in source order; from `ast`, far cheaper than LibCST's positions."""
    try:
        tree = parse_quietly(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    numbers: list[tuple[int, int]] = []
    stack: list[ast.AST] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            numbers.append((node.lineno, node.end_lineno or node.lineno))
        below: list[ast.AST] = []
        for name in _BODIES.get(node.__class__) or _bodies(node.__class__):
            below.extend(getattr(node, name))
        stack.extend(reversed(below))
    return numbers


_BODIES: dict[type, tuple[str, ...]] = {}


def _bodies(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a class of `ast` that hold statements."""
    names = tuple(n for n in ("body", "handlers", "cases", "orelse", "finalbody") if n in kind._fields)
    _BODIES[kind] = names
    return names


class _Builder:
    def __init__(self, imports: Imports, lines: list[tuple[int, int]], off: frozenset[int], gradients: bool) -> None:
        self.gradients = gradients
        self.imports = imports
        self.lines = lines
        self.off = off
        self.count = 0

    def fill(self, block: Block, body: Sequence[cst.CSTNode], modes: tuple[cst.With, ...] = ()) -> None:
        for line in body:
            if type(line) is cst.SimpleStatementLine:
                for i, small in enumerate(line.body):
                    stmt = self.stmt(block, small, line, modes)
                    stmt.leading = tuple(line.leading_lines) if i == 0 else ()
                    stmt.trailing = line.trailing_whitespace if i == len(line.body) - 1 else None
            elif small_kind(line.__class__):
                self.stmt(block, line, None, modes)
            else:
                self.compound(block, line, modes)

    def stmt(
        self, block: Block, node: cst.CSTNode, line: cst.SimpleStatementLine | None, modes: tuple[cst.With, ...]
    ) -> Stmt:
        number = self.count
        self.count += 1
        first, last = self.lines[number] if number < len(self.lines) else (0, 0)
        stmt = Stmt(node, line, block, number, first, last)  # type: ignore[arg-type]
        stmt.modes = modes
        stmt.is_small = small_kind(node.__class__)
        stmt.gradients = None if self.gradients else []
        stmt.off = stmt.lineno in self.off or (block.scope.off if block.owner is None else block.owner.off)
        block.stmts.append(stmt)
        if type(node) is cst.Import or type(node) is cst.ImportFrom:
            self.imports.add_of_module(node)
        collect(stmt)
        return stmt

    def compound(self, block: Block, node: cst.CSTNode, modes: tuple[cst.With, ...]) -> None:
        if type(node) is cst.With and self.is_transparent(node) and not (self.off and self.touches_off()):
            if self.count < len(self.lines):
                block.scope.transparent[id(node)] = self.lines[self.count][0]
            self.count += 1  # `ast` counts it as a statement
            self.fill(block, _suite(node.body), (*modes, node))
            return
        stmt = self.stmt(block, node, None, modes)
        stmt.leading = tuple(getattr(node, "leading_lines", ()))
        if type(node) is cst.FunctionDef or type(node) is cst.ClassDef:
            self.definition(stmt, node)
            return
        for role, body in _blocks(node):
            child = Block(block.scope, stmt, role, body)
            stmt.blocks.append(child)
            if type(body) is cst.If:
                self.compound(child, body, modes)
            else:
                if (type(body) is cst.ExceptHandler or type(body) is cst.ExceptStarHandler) and body.name is not None:
                    stmt.defs |= target_places(body.name.name)
                holder = body.body if type(body) is cst.ExceptHandler or type(body) is cst.ExceptStarHandler else body
                self.fill(child, _suite(holder), modes)

    def definition(self, stmt: Stmt, node: cst.FunctionDef | cst.ClassDef) -> None:
        scope = Scope(node, node.name.value, stmt.block.scope, off=stmt.off)
        stmt.block.scope.children.append(scope)
        scope.body = Block(scope, None, "body", node.body)
        if type(node) is cst.FunctionDef:
            scope.params = [p.name.value for p in _params(node.params)]
        self.fill(scope.body, _suite(node.body))

    def touches_off(self) -> bool:
        """Something in the statement that comes next stays as it is: then so does its first line."""
        first, last = self.lines[self.count]
        return any(first <= line <= last for line in self.off)

    def is_transparent(self, node: cst.With) -> bool:
        """A `with` of gradient modes alone: what it means is carried by its statements (`Stmt.modes`)."""
        if node.asynchronous is not None:
            return False
        for item in node.items:
            call = item.item
            target = call.func if isinstance(call, cst.Call) else call
            name = dotted(target)
            root, _, rest = name.partition(".")
            full = self.imports.table.get(root, "")
            full = f"{full}.{rest}" if rest else full
            if item.asname is not None or full not in TRANSPARENT:
                return False
        return True


def in_order(body: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """All statements in the order in which `ast` has them: compound ones before those of their blocks."""
    for line in body:
        if type(line) is cst.SimpleStatementLine:
            yield from line.body
        elif small_kind(line.__class__):
            yield line
        else:
            yield line
            for _, inner in _blocks(line):
                handler = type(inner) is cst.ExceptHandler or type(inner) is cst.ExceptStarHandler
                yield from in_order(
                    [inner] if type(inner) is cst.If else _suite(inner.body if handler else inner)  # type: ignore[attr-defined]
                )


def _suite(body: cst.CSTNode) -> Sequence[cst.CSTNode]:
    return body.body  # type: ignore[attr-defined, no-any-return]


def _blocks(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """(role, node that holds the statements) of a compound statement, in the order in which `ast` lists them."""
    if type(node) is cst.Match:
        for case in node.cases:
            yield "case", case.body
        return
    yield "body", node.body  # type: ignore[attr-defined]
    for handler in getattr(node, "handlers", ()):
        yield "handler", handler
    orelse = getattr(node, "orelse", None)
    if orelse is not None:
        yield "orelse", orelse if type(orelse) is cst.If else orelse.body
    final = getattr(node, "finalbody", None)
    if final is not None:
        yield "finalbody", final.body


def _params(params: cst.Parameters) -> Iterator[cst.Param]:
    yield from params.posonly_params
    yield from params.params
    if type(params.star_arg) is cst.Param:
        yield params.star_arg
    yield from params.kwonly_params
    if params.star_kwarg is not None:
        yield params.star_kwarg


# --- what a statement touches -------------------------------------------------------------------------------------


def collect(stmt: Stmt) -> None:
    """Fill defs, muts and uses of one statement; a compound one speaks for its header alone."""
    node = stmt.node
    uses = _Uses(stmt)
    if type(node) is cst.Assign or type(node) is cst.AnnAssign:
        if type(node) is cst.Assign:
            note_parts(node, stmt)
        if node.value is not None:
            uses.add(node.value)
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        if type(node) is cst.AnnAssign and node.value is None:
            return
        for target in targets:
            _bind(target, stmt, uses)
    elif type(node) is cst.AugAssign:
        uses.add(node.value)
        uses.add(node.target)
        _bind(node.target, stmt, uses)
        if place := dotted(node.target):
            stmt.muts |= {place, *containers(place, stmt)}
    elif type(node) is cst.For:
        uses.add(node.iter)
        _bind(node.target, stmt, uses)
    elif type(node) is cst.While or type(node) is cst.If:
        uses.add(node.test)
    elif type(node) is cst.With:
        for item in node.items:
            uses.add(item.item)
            if item.asname is not None:
                _bind(item.asname.name, stmt, uses)
    elif type(node) is cst.Match:
        uses.add(node.subject)
        for case in node.cases:
            stmt.defs |= {n.value for n in _pattern_names(case.pattern)}
            if case.guard is not None:
                uses.add(case.guard)
    elif type(node) is cst.Import or type(node) is cst.ImportFrom:
        if not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                name = alias.asname.name if alias.asname is not None else alias.name
                stmt.defs.add(dotted(name).split(".", 1)[0])
    elif type(node) is cst.FunctionDef or type(node) is cst.ClassDef:
        stmt.defs.add(node.name.value)
        for decorator in node.decorators:
            uses.add(decorator.decorator)
        if isinstance(node, cst.FunctionDef):
            for param in _params(node.params):
                if param.default is not None:
                    uses.add(param.default)
        else:
            for arg in [*node.bases, *node.keywords]:
                uses.add(arg.value)
    elif type(node) is cst.Del:
        stmt.defs |= target_places(node.target)
    elif type(node) is cst.Try or type(node) is cst.TryStar:
        for handler in node.handlers:
            if handler.type is not None:
                uses.add(handler.type)
    elif type(node) not in (cst.Global, cst.Nonlocal, cst.Pass, cst.Break, cst.Continue):
        for child in children(node):
            uses.add(child)


def _pattern_names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, (cst.MatchAs, cst.MatchStar)) and node.name is not None:
        yield node.name
    for child in children(node):
        yield from _pattern_names(child)


def _bind(target: cst.CSTNode, stmt: Stmt, uses: _Uses) -> None:
    """A target of an assignment: a name, attribute, element or a tuple of such."""
    if type(target) is cst.Tuple or type(target) is cst.List:
        for element in target.elements:
            _bind(element.value, stmt, uses)
    elif type(target) is cst.Subscript:
        if place := dotted(_base(target)):
            stmt.muts.add(place)
        uses.add(target)
    elif type(target) is cst.Attribute and not dotted(target):
        if place := dotted(_base(target)):
            stmt.muts.add(place)
        uses.add(target.value)
    elif place := dotted(target):
        stmt.defs.add(place)
        if "." in place:
            uses.uses.add(place.rpartition(".")[0])


def _base(node: cst.CSTNode) -> cst.CSTNode:
    """The object at the root of a chain of subscripts, attributes and method calls, of which none makes another one."""
    while True:
        if type(node) is cst.Subscript:
            node = node.value
        elif type(node) is cst.Attribute and not dotted(node):
            node = node.value
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value not in MAKERS:
            node = node.func.value
        else:
            return node


def _is_sum(node: cst.CSTNode) -> bool:
    """`out = x.add(y)`: the `add` of a set has no value, and is at most asked for among conditions."""
    if not isinstance(node, (cst.Assign, cst.AnnAssign, cst.Return)) or node.value is None:
        return False
    parts: list[cst.CSTNode] = [node.value]
    while parts:
        part = parts.pop()
        if isinstance(part, (cst.BooleanOperation, cst.BaseComp, cst.Lambda)):
            return False
        parts += children(part)
    return True


class _Uses:
    """Collects the places an expression reads."""

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt
        self.uses = stmt.uses

    def add(self, node: cst.CSTNode) -> None:
        how = _BY_TYPE.get(node.__class__)
        if how is not None:
            how(self, node)
        else:
            for child in children(node):
                self.add(child)

    def name(self, node: cst.Name) -> None:
        if node.value not in ("True", "False", "None"):
            self.uses.add(node.value)

    def attribute(self, node: cst.Attribute) -> None:
        place = dotted(node)
        if place:
            self.uses.add(place)
        else:
            self.add(node.value)

    def named(self, node: cst.NamedExpr) -> None:
        self.add(node.value)
        self.stmt.defs |= target_places(node.target)

    def argument(self, node: cst.Arg) -> None:
        self.add(node.value)

    def call(self, node: cst.Call) -> None:
        self.stmt.calls.append(node)
        func = node.func
        if type(func) is cst.Attribute:
            receiver = dotted(func.value)
            if receiver:
                self.uses.add(receiver)
                self.uses.add(f"{receiver}.{func.attr.value}")
            else:
                self.add(func.value)
            name = func.attr.value
            in_place = name.endswith("_") and not name.endswith("__")
            fills = name in MUTATORS and receiver != "torch"  # torch.add(x, y) adds to nothing
            if in_place or fills and not (name == "add" and _is_sum(self.stmt.node)):
                changed = node.args[0].value if receiver == "torch" and node.args else _base(func.value)
                if place := dotted(changed):
                    whole = place.removesuffix(".data")
                    self.stmt.muts |= {whole, *containers(whole, self.stmt)}
        else:
            self.add(func)
        for arg in node.args:
            self.add(arg.value)
            if arg.keyword is not None and arg.keyword.value == "out":
                self.stmt.muts |= target_places(arg.value)
            if arg.keyword is not None and arg.keyword.value == "inplace" and dotted(arg.value) == "True":
                self.stmt.muts |= {dotted(node.args[0].value)} - {""}  # F.relu(x, inplace=True)

    def scoped(self, node: cst.CSTNode) -> None:
        """A lambda or comprehension: its own names are not uses of the scope."""
        inner = Stmt(self.stmt.node, None, self.stmt.block, -1)
        uses = _Uses(inner)
        bound: set[str] = set()
        if type(node) is cst.Lambda:
            bound = {p.name.value for p in _params(node.params)}
            for param in _params(node.params):
                if param.default is not None:
                    self.add(param.default)
            uses.add(node.body)
        else:
            for part in (getattr(node, name) for name in ("elt", "key", "value") if hasattr(node, name)):
                uses.add(part)
            clause = node.for_in  # type: ignore[attr-defined]
            while clause is not None:
                uses.add(clause.iter)
                for test in clause.ifs:
                    uses.add(test.test)
                bound |= target_places(clause.target)
                clause = clause.inner_for_in
        self.uses |= {u for u in inner.uses if root(u) not in bound}
        self.stmt.muts |= {m for m in inner.muts if root(m) not in bound}
        self.stmt.defs |= inner.defs
        self.stmt.calls.extend(inner.calls)


_BY_TYPE: dict[type, Callable[[_Uses, Any], None]] = {
    cst.Name: _Uses.name,
    cst.Attribute: _Uses.attribute,
    cst.Call: _Uses.call,
    cst.Arg: _Uses.argument,
    cst.NamedExpr: _Uses.named,
    cst.Lambda: _Uses.scoped,
    cst.ListComp: _Uses.scoped,
    cst.SetComp: _Uses.scoped,
    cst.GeneratorExp: _Uses.scoped,
    cst.DictComp: _Uses.scoped,
}


def root(place: str) -> str:
    return place.partition(".")[0]


def expression_uses(node: cst.CSTNode, stmt: Stmt) -> set[str]:
    """The places one expression of a statement reads."""
    inner = Stmt(stmt.node, None, stmt.block, -1)
    _Uses(inner).add(node)
    return inner.uses


def _finish(scope: Scope) -> None:
    """Locals of each scope, and the free names of nested definitions as uses of the statement that defines them."""
    outer = {n.item.value if hasattr(n, "item") else n.name.value
             for s in scope.body.walk() if type(s.node) is cst.Global or type(s.node) is cst.Nonlocal
             for n in s.node.names}  # fmt: skip
    scope.locals = {d for s in scope.body.walk() for d in s.defs if "." not in d} - outer | set(scope.params)
    for child in scope.children:
        _finish(child)
    by_node = {id(child.node): child for child in scope.children}
    for stmt in scope.body.walk():
        nested = by_node.get(id(stmt.node))
        if nested is not None:
            stmt.uses |= free_uses(nested)


def free_uses(scope: Scope) -> set[str]:
    """What a nested function or class reads from around it."""
    hidden = scope.locals if scope.is_function else set()
    return {u for s in scope.body.walk() for u in s.uses | s.muts if u.partition(".")[0] not in hidden}
