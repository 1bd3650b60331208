"""`with autocast():` blocks: their statements become a function that runs in mixed precision.

MindSpore has no context for it; `ms.amp.auto_mixed_precision` wraps a function, and casts operator by operator as torch does.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis import liveness
from torch2ms.analysis.flow import TRANSPARENT, expression_uses
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Scope, Stmt
from torch2ms.analysis.project import ModuleInfo, Project, qualified
from torch2ms.analysis.tree import constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import layout
from torch2ms.tape.events import argument, marked
from torch2ms.tape.forms import Writer
from torch2ms.tape.plan import Function, Item, Plan, Text
from torch2ms.tape.regions import leaves

CUTS = ("no_grad", "inference_mode")
CAPTURED = {"module", "optimizer", "scheduler", "scaler", "lossfn", "loader", "dataset", "api", "class", "function", "method", "modulefile",
            "builtin", "device", "dtype", "object"}  # fmt: skip
GRADIENTS = {"backward", "step", "zero_grad"}


@dataclass(eq=False)
class Autocast:
    """What a context asks for: `enabled` and `dtype` are expressions of the source, None where left out."""

    name: str
    nodes: list[cst.BaseExpression]  # its calls, which go
    enabled: cst.BaseExpression | None = None
    negated: bool = False
    dtype: cst.BaseExpression | None = None
    device: cst.BaseExpression | None = None

    @property
    def off(self) -> bool:
        return self.enabled is not None and constant(self.enabled) is False

    @property
    def always(self) -> bool:
        return self.enabled is None or constant(self.enabled) is True

    def expressions(self) -> list[cst.BaseExpression]:
        return [e for e in (self.enabled, self.dtype) if e is not None]

    def precision(self) -> str:
        """The type where none is given; bfloat16 is torch's choice on the CPU."""
        cpu = self.name.startswith("torch.cpu.") or (self.device is not None and constant(self.device) == "cpu")
        return "ms.bfloat16" if cpu else "ms.float16"

    def bfloat16(self) -> bool:
        written = dotted(self.dtype).rpartition(".")[2] if self.dtype is not None else self.precision().rpartition(".")[2]
        return written == "bfloat16"

    def wrap(self, function: str) -> Text:
        """The statement that makes a function run in mixed precision."""
        dtype = "{0}" if self.dtype is not None else self.precision()
        nodes: list[cst.CSTNode] = [self.dtype] if self.dtype is not None else []
        line = f'{function} = ms.amp.auto_mixed_precision({function}, amp_level="auto", dtype={dtype})'
        if not self.always and self.enabled is not None:
            test = "{%d}" % len(nodes)
            nodes.append(self.enabled)
            simple = isinstance(self.enabled, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            line = f"if {f'not {test}' if simple else f'not ({test})'}:\n    {line}" if self.negated else f"if {test}:\n    {line}"
        return Text(line, nodes)


def read(node: cst.BaseExpression, module: ModuleInfo) -> Autocast | None:
    """The autocast an expression makes, None if it makes none."""
    if not isinstance(node, cst.Call):
        return None
    name = qualified(node.func, module.imports)
    if name.rpartition(".")[2] != "autocast" or not name.startswith("torch."):
        return None
    first = 1 if name in ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast") else 0
    dtype, enabled = (argument(node, 1, "dtype"), argument(node, 2, "enabled")) if first else (argument(node, 1, "dtype"), argument(node, 0, "enabled"))
    if dtype is not None and constant(dtype) is None:
        dtype = None
    return Autocast(name, [node], enabled, dtype=dtype, device=argument(node, 0, "device_type") if first else None)


def active(project: Project) -> bool:
    """Whether anything in the project computes in mixed precision."""
    for other in project.modules.values():
        for node in descend(other.tree):
            if isinstance(node, cst.Call) and (made := read(node, other)) is not None and not made.off:
                return True
    return False


def plan_autocast(scope: Scope, project: Project, module: ModuleInfo, plan: Plan) -> None:
    """Plan every autocast block of the scope."""
    found = [(s, s.node) for s in scope.body.walk() if isinstance(s.node, cst.With) and not marked(s)]
    if found:
        _Contexts(scope, project, module, plan).run(found)


class _Contexts:
    def __init__(self, scope: Scope, project: Project, module: ModuleInfo, plan: Plan) -> None:
        self.scope = scope
        self.project = project
        self.module = module
        self.plan = plan
        self.writer = Writer(scope, module, plan)

    def run(self, blocks: list[tuple[Stmt, cst.With]]) -> None:
        for stmt, node in blocks:
            found = [a for i in node.items if (a := read(i.item, self.module)) is not None]
            if found and (problem := self.context(stmt, node, found)):
                self.refuse(stmt, found, problem)

    def refuse(self, stmt: Stmt, found: list[Autocast], why: str) -> None:
        self.plan.refused |= {id(n) for a in found for n in a.nodes}
        todo = f"make the statements a function and wrap it with ms.amp.auto_mixed_precision ({why})"
        self.plan.refuse(stmt, Finding("T2M522", Tier.REFUSED, "autocast", why, todo, stmt.lineno))

    def context(self, stmt: Stmt, node: cst.With, found: list[Autocast]) -> str:
        """Plan one block; a reason if it has no form."""
        others = [qualified(i.item.func if isinstance(i.item, cst.Call) else i.item, self.module.imports) for i in node.items]
        others = [o for o, i in zip(others, node.items) if read(i.item, self.module) is None]
        if len(found) > 1 or any(o not in TRANSPARENT for o in others) or any(i.asname is not None for i in node.items):
            return "the block has other contexts too"
        made = found[0]
        if made.off:
            if active(self.project):
                return "precision is switched off inside mixed precision"
            self.plan.contexts[id(stmt)] = list(stmt.blocks[0].stmts)
            self.tell(stmt, Tier.EXACT, "it is switched off: dissolved")
            return ""
        body = stmt.blocks[0].stmts
        returns = isinstance(body[-1].node, cst.Return) if body else False
        jump = next((j for s in body[: -1 if returns else None] if (j := leaves(s)) and not (returns and j == "return")), "")
        if jump:
            return f"a `{jump}` stands inside the block"
        if any(isinstance(c.func, cst.Attribute) and c.func.attr.value in GRADIENTS for s in body for i in s.walk() for c in i.calls):
            return "the backward call stands inside the block: it belongs behind it"
        if any(d in self.writer.declared() for s in body for d in s.all_defs):
            return "the block writes global names"
        cut = any(o.rpartition(".")[2] in CUTS for o in others)
        self.function(stmt, made, returns, cut)
        return ""

    def function(self, stmt: Stmt, made: Autocast, returns: bool, cut: bool) -> None:
        body = stmt.blocks[0].stmts
        name = self.writer.fresh("autocast_fn")
        top = self.top(stmt, made)
        outputs = [] if returns else self.outputs(stmt)
        arguments = ", ".join(self.parameters(stmt, top, outputs))
        call = f"{name}({arguments})"
        items: list[Item] = [*[Text(f"{o} = None") for o in self.unsure(body, outputs)], *body]
        differentiated = self.differentiated()
        if returns:
            call = f"return {call}"
        elif outputs:
            call = f"{', '.join(outputs)} = {call}"
            cuts = [f"ops.stop_gradient({o})" if cut and differentiated else o for o in outputs]
            self.plan.needs |= {"ops"} if cut and differentiated else set()
            items.append(Text(f"return {', '.join(cuts)}"))
        assert isinstance(stmt.node, cst.With)
        header = stmt.node.body.header if isinstance(stmt.node.body, cst.IndentedBlock) else None
        function = Function(name, self.parameters(stmt, top, outputs), items, "", differentiated, layout.trailing_comment(header))
        self.plan.before.setdefault(id(top), []).extend([function, made.wrap(name)])
        self.plan.contexts[id(stmt)] = [Text(call)]
        self.plan.needs.add("ms")
        why = "assumed: MindSpore casts the same operators as torch where it matters"
        if made.bfloat16():
            why += ", and the device computes in bfloat16 (the CPU does not)"
        elif made.dtype is None and made.device is not None and constant(made.device) is ...:
            why += f", and `{dotted(made.device) or 'the device'}` is not a CPU, for which torch would take bfloat16"
        self.tell(stmt, Tier.ASSUMED, f"a function under ms.amp.auto_mixed_precision; {why}")

    def tell(self, stmt: Stmt, tier: Tier, why: str) -> None:
        self.plan.findings.append(Finding("T2M520", tier, "autocast", why, line=stmt.lineno))

    def differentiated(self) -> bool:
        """Whether statements of this scope may run inside a gradient function."""
        info = self.module.functions.get(id(self.scope))
        if info is not None and info.differentiated:
            return True
        called = {c.func.attr.value for s in self.scope.body.walk() for c in s.calls if isinstance(c.func, cst.Attribute)}
        return bool(called & {"backward", "grad"})

    def top(self, stmt: Stmt, made: Autocast) -> Stmt:
        """The statement above which the function is defined: the outermost loop that does not change what the context asks."""
        asked = {u for e in made.expressions() for u in expression_uses(e, stmt)}
        found = stmt
        for ancestor in stmt.ancestors():
            if isinstance(ancestor.node, (cst.For, cst.While)):
                if any(overlaps(d, a) for d in ancestor.all_defs for a in asked):
                    break
                found = ancestor
        return found

    def outputs(self, stmt: Stmt) -> list[str]:
        """Names bound in the block that are read behind it."""
        block = stmt.block
        live = liveness.read_after(block, [stmt], block.stmts.index(stmt))
        body = stmt.blocks[0].stmts
        bound = {d for s in body for d in s.all_defs if "." not in d}
        return [n for n in self.writer.definition_order(body) if n in live and n in bound]

    def parameters(self, stmt: Stmt, top: Stmt, outputs: list[str]) -> list[str]:
        """What the block reads from around it and may change between calls; the rest is captured."""
        body = stmt.blocks[0].stmts
        own = {d for s in body for d in s.all_defs if "." not in d}
        used = liveness.exposed(body)
        used += [n for n in outputs if n not in used and n in self.maybe(body, outputs) and self.bound_before(stmt, n)]
        if top is not stmt:
            changing = own | {d for d in top.all_defs if "." not in d}
            return [n for n in used if n in changing and n in self.scope.locals]
        kinds = {n.value: self.module.value(n).kind for s in body for n in descend(s.node) if isinstance(n, cst.Name)}
        return [n for n in used if n in self.scope.locals and n != "self" and (n in own or kinds.get(n, "unknown") not in CAPTURED)]

    def maybe(self, body: list[Stmt], outputs: list[str]) -> list[str]:
        bound = set().union(*(liveness.definite(s) for s in body)) if body else set()
        return [o for o in outputs if o not in bound]

    def unsure(self, body: list[Stmt], outputs: list[str]) -> list[str]:
        """Outputs that the block may leave unbound, and that nothing before it binds."""
        stmt = body[0].block.owner
        assert stmt is not None
        used = liveness.exposed(body)
        return [o for o in self.maybe(body, outputs) if o not in used and not self.bound_before(stmt, o)]

    def bound_before(self, stmt: Stmt, name: str) -> bool:
        return name in self.scope.params or any(name in s.defs for s in self.scope.body.walk() if s.number < stmt.number)
