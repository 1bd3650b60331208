"""`out = net(x)` above an `if` whose branches each make a loss of it and go backward: it belongs to each of them.

What stands below a branch that ends with `continue` or `return` is the other branch.

Only one of the branches runs, and with it one backward call: the forward is written at the start of each branch, where
it becomes a part of the function that the branch differentiates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.tape.forward.effects import clash, effects, leaves
from torch2ms.wrappers.passes import each_module

MOVABLE = (cst.SimpleStatementLine, cst.With, cst.For, cst.If)
BACKWARD = ".backward("
ASKING = {"len", "isinstance", "hasattr", "getattr", "bool", "int", "torch.cuda.is_available"}  # and nothing else


@each_module
def sunk(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such branches."""
    if module.source.count(BACKWARD) < 2:
        return None
    if not any(_parts(stmt) for scope in module.scope.walk() for stmt in scope.body.walk()):
        return None
    made = (writer := _Sunk(module)).plain()
    return made if writer.changed else None


def _parts(stmt: Stmt) -> bool:
    """An `if` statement of which two sides go backward, or one that then leaves."""
    if type(stmt.node) is not cst.If:
        return False
    sides = [block for block in stmt.blocks if any(_goes_backward(s) for s in block.walk())]
    return len(sides) > 1 or bool(sides) and _leaves(stmt.node)


def _goes_backward(stmt: Stmt) -> bool:
    return any(type(c.func) is cst.Attribute and c.func.attr.value == "backward" for c in stmt.calls)


def _differentiated(call: cst.Call) -> cst.BaseExpression | None:
    """What a backward call differentiates; None for other calls."""
    if type(call.func) is not cst.Attribute or call.func.attr.value != "backward":
        return None
    given = [a.value for a in call.args if a.keyword is None]
    if dotted(call.func.value).endswith("autograd"):
        return given[0] if given else None
    return None if given else call.func.value


def _handed_on(node: cst.BaseExpression) -> bool:
    """A loss as it is, or as a scaler scales it: branches that differ in that alone are understood together."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "scale":
        return len(node.args) == 1 and bool(dotted(node.args[0].value))
    return bool(dotted(node))


class _Sunk(Suites):
    """One module, with such statements at the start of the branches."""

    changed = False

    @cached_property
    def known(self) -> dict[int, Stmt]:
        """Every statement, by id of its node."""
        return {id(s.node): s for scope in self.module.scope.walk() for s in scope.body.walk()}

    def suite(self, body: Sequence[cst.CSTNode]) -> Made:
        for node in [n for n in body if type(n) is cst.If]:
            position = next(i for i, n in enumerate(body) if n is node)
            before, rest = body[:position], body[position + 1 :]
            branches, left = list(_branches(node)), node.orelse is None and _leaves(node)
            if left:  # `if warm: ...; continue`: what stands below is the other branch
                branches.append(cst.IndentedBlock(rest))  # type: ignore[arg-type]
            if moved := self.moved(before, node, branches) if left or node.orelse is not None else []:
                self.changed = True
                body = [
                    *self.stays(before, moved),
                    *([self.left(node, moved), *moved] if left else [self.begun(node, moved)]),
                    *rest,
                ]
        return super().suite(body)

    def stays(self, before: Sequence[cst.CSTNode], moved: list[cst.BaseStatement]) -> Iterator[cst.CSTNode]:
        """The statements above that stay; one that leaves begins with what ran before it, which draws or counts."""
        gone: list[cst.BaseStatement] = []
        for node in before:
            if found := [m for m in moved if m is node]:
                gone += found
            else:
                yield self.left(node, gone) if gone and type(node) is cst.If and _leaves(node) else node

    def left(self, node: cst.If, moved: list[cst.BaseStatement]) -> cst.If:
        """The `if` statement that leaves, whose branch begins with the statements; below it they stand again."""
        again = self.copied(cst.IndentedBlock(moved), comments=False)
        return self.renumbered(node, body=node.body.with_changes(body=[*again.body, *node.body.body]))  # type: ignore[return-value]

    def begun(self, node: cst.If, moved: list[cst.BaseStatement], first: bool = True) -> cst.If:
        """The `if` statement whose branches begin with the statements; without `else` they are what else happens."""
        start = cst.IndentedBlock(moved)
        own = start if first else self.copied(start, comments=False)
        orelse = node.orelse
        if isinstance(orelse, cst.If):
            orelse = self.begun(orelse, moved, first=False)
        else:
            again = self.copied(start, comments=False)
            rest = orelse.body.body if orelse is not None else ()
            block = orelse.body if orelse is not None else cst.IndentedBlock([])
            orelse = (orelse or cst.Else(block)).with_changes(body=block.with_changes(body=[*again.body, *rest]))
        made = node.with_changes(body=node.body.with_changes(body=[*own.body, *node.body.body]), orelse=orelse)
        if first and layout.leading(made.body.body[0])[:1] and not layout.leading(made.body.body[0])[0].comment:
            bare = layout.strip_blank(layout.leading(moved[0]))
            made = made.with_changes(
                leading_lines=[layout.leading(moved[0])[0], *layout.strip_blank(node.leading_lines)],
                body=made.body.with_changes(body=[self.renumbered(moved[0], leading_lines=bare), *made.body.body[1:]]),
            )
        self.number(made, node)
        return made

    # --- what belongs to the branches

    def moved(
        self, before: Sequence[cst.CSTNode], node: cst.If, branches: list[cst.BaseSuite]
    ) -> list[cst.BaseStatement]:
        """The statements above that feed losses made in two branches or more, and what depends on them; or none."""
        if any(not isinstance(b, cst.IndentedBlock) for b in branches):
            return []
        wanted = [self.wanted(b) for b in branches]
        graph = self.graph(
            set().union(*(names for names, _ in wanted)), above := [(n, list(self.stmts(n))) for n in before]
        )
        made = _defs([s for n, stmts in above if id(n) in graph for s in stmts])
        if sum(bool(names & made) for names, _ in wanted) < 2 or not any(own for names, own in wanted if names & made):
            return []
        moved: list[cst.CSTNode] = []
        gone: list[Stmt] = []
        for own, stmts in above:
            if id(own) in graph or gone and self.follows(stmts, gone):
                moved.append(own)
                gone += stmts
            elif gone and stmts and leaves(stmts[0]) and not (type(own) is cst.If and not own.orelse and _leaves(own)):
                return []
        asked = {root(dotted(n)) for test in _tests(node) for n in descend(test) if isinstance(n, cst.Name)}
        calls = (c for test in _tests(node) for c in descend(test) if isinstance(c, cst.Call))
        quiet = all(dotted(c.func) in ASKING for c in calls)
        whole = all(
            isinstance(n, (cst.SimpleStatementLine, cst.With, cst.For, cst.If)) and self.may_move(n) for n in moved
        )
        free = quiet and not asked & {root(d) for d in _defs(gone) | _muts(gone)}
        return moved if free and whole else []  # type: ignore[return-value]

    def wanted(self, branch: cst.BaseSuite) -> tuple[set[str], bool]:
        """What a branch needs from above to go backward, nothing where it does not; whether it makes its own loss."""
        stmts = [s for n in branch.body for s in self.stmts(n)]
        for stmt in stmts:
            for call in stmt.calls:
                if (node := _differentiated(call)) is None:
                    continue
                names = {root(dotted(n)) for n in descend(node) if isinstance(n, cst.Name)}
                feeding = [s for s in stmts if s.number < stmt.number]
                own = bool(names & _defs(feeding)) or not _handed_on(node)
                return names | {root(u) for s in feeding for u in s.uses if own}, own
        return set(), False

    def graph(self, wanted: set[str], above: list[tuple[cst.CSTNode, list[Stmt]]]) -> set[int]:
        """Ids of the statements above that make what has a graph of what is wanted."""
        found: set[int] = set()
        for node, stmts in reversed(above):
            for stmt in reversed(stmts):
                made = {p: v for p, v in stmt.out.items() if root(p) in wanted and p in stmt.defs | stmt.muts}
                if any(v.deps and v.kind not in ("module", "optimizer", "params", "object") for v in made.values()):
                    found.add(id(node))
            if id(node) in found:
                wanted = wanted | {root(u) for s in stmts for u in s.uses}
        return found

    def follows(self, stmts: list[Stmt], gone: list[Stmt]) -> bool:
        """Statements that must stay behind those that go: they need them, or have to happen after them."""
        defs, muts = ({root(p) for p in found} for found in (_defs(gone), _muts(gone)))
        uses = {root(u) for s in gone for u in s.uses}
        own = {root(p) for s in stmts for p in s.defs | s.muts}
        if own & (uses | defs | muts) or {root(u) for s in stmts for u in s.uses} & (defs | muts):
            return True
        mine = set().union(*(effects(s, self.module) for s in stmts if not _clears(s)))
        return clash(mine, set().union(*(effects(s, self.module) for s in gone)))

    def may_move(self, node: cst.CSTNode) -> bool:
        """Nothing in the statement goes backward, leaves what stands around it, or was left to a person."""
        stmts = list(self.stmts(node))
        jumps = any(leaves(s) or isinstance(s.node, (cst.Raise, cst.Global, cst.Nonlocal)) for s in stmts)
        tape = any(isinstance(c.func, cst.Attribute) and c.func.attr.value in ("backward", "step", "zero_grad")
                   for s in stmts for c in s.calls)  # fmt: skip
        return bool(stmts) and not jumps and not tape and not any(s.off for s in stmts)

    def stmts(self, node: cst.CSTNode) -> Iterator[Stmt]:
        """The statements in a node, in order."""
        return (self.known[id(n)] for n in flow.in_order([node]) if id(n) in self.known)


def _leaves(node: cst.If) -> bool:
    """What follows the `if` statement does not run after its branch."""
    last = node.body.body[-1] if isinstance(node.body, cst.IndentedBlock) else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(
        last.body[-1], (cst.Continue, cst.Break, cst.Return)
    )


def _clears(stmt: Stmt) -> bool:
    """Gradients are reset, which a forward does not see."""
    return any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "zero_grad" for c in stmt.calls)


def _branches(node: cst.If) -> Iterator[cst.BaseSuite]:
    yield node.body
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse)
    elif node.orelse is not None:
        yield node.orelse.body


def _tests(node: cst.If) -> Iterator[cst.BaseExpression]:
    yield node.test
    if isinstance(node.orelse, cst.If):
        yield from _tests(node.orelse)


def _defs(stmts: list[Stmt]) -> set[str]:
    return {root(d) for s in stmts for d in s.defs}


def _muts(stmts: list[Stmt]) -> set[str]:
    return {m for s in stmts for m in s.muts}
