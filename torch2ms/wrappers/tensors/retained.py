"""`h.retain_grad()` in the middle of what trains weights, written as a hook that keeps the gradient.

`h.grad` of a tensor that is no leaf is asked beside the gradients of the weights: a gradient function would have to
take both. A hook keeps what reaches the tensor, and works inside of a gradient function as it does in torch. Where
nothing but this gradient is taken, the tensor is what the function is differentiated by, and stays as it is.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.editing.suites import Suites, small_of
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

CALL = "retain_grad"
WHY = "a hook keeps the gradient of what is no leaf"


@each_module
def retained(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks so."""
    if not module.has(f".{CALL}(") or module.directives.off:
        return None
    writer = _Retained(module)
    for scope in module.scope.walk():
        writer.read(scope)
    writer.read_attributes()
    return writer.plain() if writer.kept else None


class _Retained(Suites):
    """One module: by id, the statements that keep a gradient and the name it gets, and what reads it."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.kept: dict[int, str] = {}
        self.reads: dict[int, str] = {}

    def read(self, scope: Scope) -> None:
        """Note of what one scope keeps of tensors that it names, and reads again behind a single backward call."""
        stmts = list(scope.body.walk())
        calls = [(s, c) for s in stmts for c in s.calls]
        backward = [s for s, c in calls if name_called(c) == "backward"]
        if not backward or not any(name_called(c) == "step" for _, c in calls):
            return
        for stmt in stmts:
            name = _kept(stmt)
            reads = [n for s in stmts for n in s.nodes if type(n) is cst.Attribute and dotted(n) == f"{name}.grad"]
            if not name or not reads or not _once(stmt, backward) or _asked(stmts, f"{name}.grad"):
                continue
            own = f"{name}_grads" if f"{name}_grad" in self.module.bound else f"{name}_grad"
            self.kept[id(stmt.node)] = own
            self.reads |= {id(n): own for n in reads}

    def read_attributes(self) -> None:
        """Note of what methods keep of tensors that their object holds, and whoever has the object reads."""
        if self.module.has("retain_graph"):
            return  # what two backward calls bring is added up
        stmts = [(s, scope) for scope in self.module.scope.walk() for s in scope.body.walk()]
        for stmt, scope in stmts:
            head, _, name = (_kept(stmt, attributes=True) or _put(_kept(stmt), scope)).partition(".")
            last = f".{name}.grad"
            reads = [n for s, _ in stmts for n in s.nodes if type(n) is cst.Attribute and dotted(n).endswith(last)]
            if head != "self" or not name or not reads or any(_asked([s], dotted(n)) for s, _ in stmts for n in reads):
                continue
            self.kept[id(stmt.node)] = f"self.{name}_grad"
            self.reads |= {id(n): f"{dotted(n).removesuffix('.grad')}_grad" for n in reads}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if (own := self.kept.get(id(node))) is None:
            return super().small(node)
        name = dotted(node.value.func.value)  # type: ignore[attr-defined]
        self.findings.append(Finding("T2M303", Tier.EXACT, f"Tensor.{CALL}", WHY, line=self.line))
        given = f"grad, kept={own}: kept" if "." in own else f"grad: {own}"  # the object may hold another one by then
        lines = (f"{own} = {{}}", f"{name}.register_hook(lambda {given}.update(kept=grad))")
        made = [small_of(line) for line in lines]
        for each in made:
            self.number(each, node)
        return list(made)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        own = self.reads.get(id(original))
        return updated if own is None else cst.parse_expression(f'{own}["kept"]')


def _kept(stmt: Stmt, attributes: bool = False) -> str:
    """The variable of `h.retain_grad()`, or the attribute of `self.h.retain_grad()`."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    if not isinstance(call, cst.Call) or name_called(call) != CALL or not isinstance(call.func, cst.Attribute):
        return ""
    name = dotted(call.func.value)
    return name if name.count(".") == attributes else ""


def _put(name: str, scope: Scope) -> str:
    """The attribute under which an object keeps a tensor that has this name alone: `self.features = h`."""
    stmts = list(scope.body.walk()) if name else []
    kept = [s.node for s in stmts if isinstance(s.node, cst.Assign) and dotted(s.node.value) == name]
    places = [dotted(t.target) for node in kept for t in node.targets]
    once = sum(name in s.defs for s in stmts) == 1
    return places[0] if once and len(places) == 1 and places[0].count(".") == 1 else ""


def _once(stmt: Stmt, backward: list[Stmt]) -> bool:
    """Every turn that keeps the gradient goes backward once, behind it."""
    loops = [id(a) for a in stmt.ancestors() if a.is_loop]
    here = [s for s in backward if {id(a) for a in s.ancestors()} >= {*loops}] if loops else backward
    same = [s for s in here if [id(a) for a in s.ancestors() if a.is_loop] == loops]
    return len(here) == len(same) == 1 and stmt.number < same[0].number and stmt.block.role == "body"


def _asked(stmts: list[Stmt], gradient: str) -> bool:
    """The gradient is written, cleared, or asked whether it is there."""
    for stmt in stmts:
        if any(d.startswith(gradient) for d in stmt.defs | stmt.muts):
            return True
        if any(isinstance(n, cst.Comparison) and dotted(n.left) == gradient for n in stmt.nodes):
            return True
    return False
