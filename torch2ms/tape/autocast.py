"""`with autocast():` blocks: their statements become a function that runs in mixed precision.

MindSpore has no context for it; `ms.amp.auto_mixed_precision` wraps a function, and casts operator by operator as
torch does.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.boundness import perhaps_missing
from torch2ms.analysis.program.flow import TRANSPARENT, expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import overlaps
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.tape.casts import Autocast, active, in_mixed_precision, read
from torch2ms.tape.forms.interface import definition_order
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.effects import leaves
from torch2ms.tape.ledger.events import LEFT, marked
from torch2ms.tape.plan import Function, Item, Plan, Text, Whole

CUTS = ("no_grad", "inference_mode")
CAPTURED = {
    "module", "optimizer", "scheduler", "scaler", "lossfn", "loader", "dataset", "api", "class", "function", "method",
    "modulefile", "builtin", "device", "dtype", "object",
}  # fmt: skip
SAME = "assumed: MindSpore casts the same operators as torch where it matters"
IDLE = {"contextlib.nullcontext", "nullcontext", "contextlib.suppress", "contextlib.ExitStack"}


def plan_autocast(project: Project, module: ModuleInfo, plan: Plan) -> None:
    """Plan every autocast block of a module."""
    blocks: list[tuple[_Contexts, _Block]] = []
    for scope in module.scope.walk():
        found = [(s, s.node) for s in scope.body.walk() if type(s.node) is cst.With and not marked(s)]
        if found:
            contexts = _Contexts(scope, project, module, plan)
            blocks += [(contexts, b) for stmt, node in found if (b := contexts.block(stmt, node)) is not None]
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if type(stmt.node) is cst.FunctionDef and not marked(stmt) and not stmt.off:
                _decorated(stmt, stmt.node, module, plan)
    for contexts, block in blocks:
        block.problem = contexts.problem(block)
    for binding in {id(b.made.binding): b.made.binding for _, b in blocks if b.made.binding is not None}.values():
        mine = [b for _, b in blocks if b.made.binding is binding]
        if any(b.problem for b in mine) or _uses(module, binding) != len(mine):
            for block in mine:
                block.problem = block.problem or f"`{_bound(binding)}` is used in other ways too"
        else:
            plan.replaced[id(binding)] = []
    for contexts, block in blocks:
        if block.problem:
            contexts.refuse(block)
        else:
            contexts.write(block)


def _decorated(stmt: Stmt, node: cst.FunctionDef, module: ModuleInfo, plan: Plan) -> None:
    """`@autocast()` above a function."""
    for decorator in node.decorators:
        made = read(decorator.decorator, module)
        if made is None or not made.always or made.unseen:
            continue
        if made.dtype is None or dotted(made.dtype).endswith("float16"):
            dtype = "ms.bfloat16" if made.bfloat16() else "ms.float16"
            text = f'partial(ms.amp.auto_mixed_precision, amp_level="auto", dtype={dtype})'
            plan.expressions[id(decorator.decorator)] = text
            plan.needs |= {"ms", "partial"}
            why = f"ms.amp.auto_mixed_precision decorates it; {SAME}"
            plan.findings.append(
                Finding("T2M520", Tier.ASSUMED, "autocast", why + _assumptions(made), line=stmt.lineno)
            )


def _assumptions(made: Autocast) -> str:
    if made.bfloat16():
        return ", and the device computes in bfloat16 (the CPU does not)"
    if made.dtype is None and made.device is not None and constant(made.device) is ...:
        device = dotted(made.device) or "the device"
        return f", and `{device}` is not a CPU, for which torch would take bfloat16"
    return ""


def _bound(stmt: Stmt) -> str:
    return next(iter(stmt.defs))


def _uses(module: ModuleInfo, binding: Stmt) -> int:
    """How many statements read a context that was bound."""
    place = _bound(binding)
    tail = f".{place.rpartition('.')[2]}" if "." in place else None
    stmts = [
        s
        for scope in module.scope.walk()
        for s in scope.body.walk()
        if not isinstance(s.node, (cst.FunctionDef, cst.ClassDef))
    ]
    return sum(any(u == place or (tail is not None and u.endswith(tail)) for u in s.uses) for s in stmts)


@dataclass(eq=False)
class _Block:
    stmt: Stmt
    node: cst.With
    made: Autocast
    others: list[str]  # its further contexts
    problem: str = ""

    @property
    def body(self) -> list[Stmt]:
        return self.stmt.blocks[0].stmts

    @property
    def returns(self) -> bool:
        return isinstance(self.body[-1].node, cst.Return)

    @property
    def calls(self) -> list[cst.Call]:
        return [c for s in self.body for inner in s.walk() for c in inner.calls]

    @property
    def backward(self) -> bool:
        return any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "backward" for c in self.calls)


class _Contexts:
    """The autocast blocks of one scope."""

    def __init__(self, scope: Scope, project: Project, module: ModuleInfo, plan: Plan) -> None:
        self.scope = scope
        self.project = project
        self.module = module
        self.plan = plan
        self.writer = Writer(scope, module, plan)

    def block(self, stmt: Stmt, node: cst.With) -> _Block | None:
        """The statement as an autocast block, if one of its contexts is an autocast."""
        made, others = [], []
        for item in node.items:
            context = read(item.item, self.module) or self.held(item.item)
            if context is not None:
                made.append(context)
            else:
                called = item.item.func if isinstance(item.item, cst.Call) else item.item
                others.append(qualified(called, self.module.imports))
            if item.asname is not None:
                others.append("")
        if not made:
            return None
        return _Block(stmt, node, made[0], [*others, *("" for _ in made[1:])])

    def held(self, node: cst.BaseExpression) -> Autocast | None:
        """`ctx` of `ctx = nullcontext() if cpu else autocast(...)`, where nothing rebinds what it asked for."""
        place = dotted(node)
        scopes = self.scopes(place)
        bindings = [s for scope in scopes for s in scope.body.walk() if place in s.defs]
        value = bindings[0].node.value if len(bindings) == 1 and isinstance(bindings[0].node, cst.Assign) else None
        made = self.chosen(value) if value is not None else None
        if made is None:
            return None
        asked = {u for e in made.expressions() for u in expression_uses(e, bindings[0])}
        for used in asked:
            changes = sum(overlaps(d, used) for scope in scopes for s in scope.body.walk() for d in s.defs) > 1
            hidden = scopes != [self.scope] and root(used) in self.scope.locals - {"self"}
            if changes or hidden or (place.startswith("self.") and not self.reaches(used)):
                return None
        made.binding = bindings[0]
        return made

    def scopes(self, place: str) -> list[Scope]:
        """Where a place may be bound that a block of this scope reads."""
        if place.startswith("self."):
            return list(self.scope.cls.walk()) if place.count(".") == 1 and self.scope.cls is not None else []
        if not place or "." in place:
            return []
        return [self.scope if place in self.scope.locals else self.module.scope]

    def reaches(self, place: str) -> bool:
        """Whether another method can read what the one that made the context could."""
        return place.startswith("self.") or root(place) in self.module.scope.locals

    def chosen(self, value: cst.BaseExpression) -> Autocast | None:
        """The autocast an expression makes, or makes under a condition."""
        if not isinstance(value, cst.IfExp):
            return read(value, self.module)
        first, second = read(value.body, self.module), read(value.orelse, self.module)
        made = first or second
        if made is None or not made.always or not self.idle(value.orelse if first is not None else value.body):
            return None
        made.enabled, made.negated = value.test, first is None
        return made

    def idle(self, node: cst.BaseExpression) -> bool:
        """A context that does nothing."""
        return isinstance(node, cst.Call) and not node.args and qualified(node.func, self.module.imports) in IDLE

    def refuse(self, block: _Block) -> None:
        stmt, why = block.stmt, block.problem
        if block.made.binding is None:  # else the call stands under a mark of its own
            self.plan.refused |= {id(n) for n in block.made.nodes}
        todo = f"make the statements a function and wrap it with ms.amp.auto_mixed_precision ({why})"
        self.plan.refuse(stmt, Finding("T2M522", Tier.REFUSED, "autocast", why, todo, stmt.lineno))

    def problem(self, block: _Block) -> str:
        """Why a block has no form, "" if it has one."""
        made, body = block.made, block.body
        if any(inner.off for inner in block.stmt.walk()):
            return LEFT
        if made.unseen:
            return "what the context asks for is not seen"
        if any(o not in TRANSPARENT for o in block.others):
            return "the block has other contexts too"
        if made.off:
            inside = active(self.project) and in_mixed_precision(block.stmt, self.project, self.module)
            return "precision is switched off inside mixed precision" if inside else ""
        targets = [self.module.value(c.func).name for c in block.calls]
        if any(t in ("torch.autograd.grad", "torch.autograd.backward") for t in targets):
            return "gradients are taken inside the block"
        if block.backward:
            return "what the context asks for changes in the loop around" if self.changes(block) else ""
        gone = self.forgotten(block.stmt)
        if any(isinstance(inner.node, cst.Del) and inner not in gone for s in body for inner in s.walk()):
            return "the block deletes names"
        if any(self.steps(c) for c in block.calls):
            return "an optimizer steps inside the block"
        inner = body[:-1] if block.returns else body
        jump = next((j for s in inner if (j := leaves(s)) and not (block.returns and j == "return")), "")
        if jump:
            return f"a `{jump}` stands inside the block"
        if any(d in self.writer.declared() for s in body for d in s.all_defs):
            return "the block writes global names"
        return ""

    def steps(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("step", "unscale_", "update"):
            return False
        return self.module.value(call.func.value).kind in ("optimizer", "scaler")

    def write(self, block: _Block) -> None:
        if block.made.off:
            self.plan.contexts[id(block.stmt)] = list(block.body)
            if self.scope.is_function:
                why = "assumed: no program outside this project calls it in mixed precision"
                self.tell(block.stmt, Tier.ASSUMED, f"it is switched off: dissolved; {why}")
            else:
                self.tell(block.stmt, Tier.EXACT, "it is switched off: dissolved")
        elif block.backward:
            self.plan.contexts[id(block.stmt)] = list(block.body)
            self.plan.halved[id(block.stmt)] = block.made.wrap
            why = f"the differentiated function runs under ms.amp.auto_mixed_precision; {SAME}"
            more = ", and what else stands in the block may run in full precision"
            self.tell(block.stmt, Tier.ASSUMED, why + more + _assumptions(block.made))
        else:
            self.function(block)

    def function(self, block: _Block) -> None:
        stmt, body, made = block.stmt, block.body, block.made
        name = self.writer.fresh("autocast_fn")
        top = self.top(stmt, made)
        outputs = [] if block.returns else self.outputs(stmt)
        parameters = self.parameters(stmt, top, outputs)
        outer = self.loops(stmt)[-1]
        unsure = self.unsure(body, outputs)
        if outer is not stmt:  # an earlier turn may have bound it
            self.plan.before.setdefault(id(outer), []).extend(Text(f"{o} = None") for o in unsure)
            parameters, unsure = [*parameters, *unsure], []
        call = f"{name}({', '.join(parameters)})"
        gone = self.forgotten(stmt)
        items: list[Item] = [*[Text(f"{o} = None") for o in unsure], *(s for s in body if s not in gone)]
        differentiated = self.differentiated()
        cut = differentiated and any(o.rpartition(".")[2] in CUTS for o in block.others)
        if block.returns:
            call = f"return {call}"
        elif outputs:
            call = f"{', '.join(outputs)} = {call}"
            self.plan.needs |= {"ops"} if cut else set()
            items.append(Text(f"return {', '.join(f'ops.stop_gradient({o})' if cut else o for o in outputs)}"))
        function = Function(name, parameters, items, "", differentiated, layout.with_comments(block.node))
        wrapped: list[Item] = [function, made.wrap(name)]
        self.plan.before.setdefault(id(top), []).extend(wrapped)
        self.plan.contexts[id(stmt)] = [Text(call)]
        if not cut and not unsure and top is outer:
            self.plan.whole[id(stmt)] = Whole(wrapped, top, made.wrap)
        self.plan.needs.add("ms")
        why = f"a function under ms.amp.auto_mixed_precision; {SAME}"
        self.tell(stmt, Tier.ASSUMED, why + _assumptions(made))

    def tell(self, stmt: Stmt, tier: Tier, why: str) -> None:
        self.plan.findings.append(Finding("T2M520", tier, "autocast", why, line=stmt.lineno))

    def differentiated(self) -> bool:
        """Whether statements of this scope may run inside a gradient function."""
        info = self.module.functions.get(id(self.scope))
        if info is not None and info.differentiated:
            return True
        called = {
            c.func.attr.value for s in self.scope.body.walk() for c in s.calls if isinstance(c.func, cst.Attribute)
        }
        return bool(called & {"backward", "grad"})

    def changes(self, block: _Block) -> bool:
        """Whether a loop around the block changes what the context asks for."""
        return self.top(block.stmt, block.made) is not self.loops(block.stmt)[-1]

    def loops(self, stmt: Stmt) -> list[Stmt]:
        """The statement and the loops around it, outermost last."""
        return [stmt, *(a for a in stmt.ancestors() if isinstance(a.node, (cst.For, cst.While)))]

    def top(self, stmt: Stmt, made: Autocast) -> Stmt:
        """Where the function is defined: above the outermost loop that does not change what the context asks for."""
        asked = {u for e in made.expressions() for u in expression_uses(e, stmt)}
        found = stmt
        for loop in self.loops(stmt)[1:]:
            if any(overlaps(d, a) for d in loop.all_defs for a in asked):
                break
            found = loop
        return found

    def forgotten(self, stmt: Stmt) -> list[Stmt]:
        """`del data` at the end of what the block does with it: a function forgets its names by itself."""
        block, body = stmt.block, stmt.blocks[0].stmts
        live = liveness.read_after(block, [stmt], block.stmts.index(stmt))
        gone = [s for s in body if isinstance(s.node, cst.Del) and s.defs and not s.defs & live]
        return [s for s in gone if all("." not in d and "[" not in d for d in s.defs)]

    def outputs(self, stmt: Stmt) -> list[str]:
        """Names bound in the block that are read behind it."""
        block = stmt.block
        live = liveness.read_after(block, [stmt], block.stmts.index(stmt))
        body = stmt.blocks[0].stmts
        bound = {d for s in body for d in s.all_defs if "." not in d}
        return [n for n in definition_order(body) if n in live and n in bound]

    def parameters(self, stmt: Stmt, top: Stmt, outputs: list[str]) -> list[str]:
        """What the block reads from around it and may change between calls; the rest is captured."""
        body = stmt.blocks[0].stmts
        own = {d for s in body for d in s.all_defs if "." not in d}
        used = liveness.exposed(body)
        used += [n for n in outputs if n not in used and n in self.maybe(body, outputs) and self.bound_before(stmt, n)]
        missing = perhaps_missing(used, body)
        used = [n for n in used if self.bound_elsewhere(stmt, n) and n not in missing]
        if top is not stmt:
            changing = own | {d for d in top.all_defs if "." not in d}
            return [n for n in used if n in changing and n in self.scope.locals]
        own |= self.made_on_the_way(stmt)
        kinds = {n.value: self.module.value(n).kind for s in body for n in s.nodes if isinstance(n, cst.Name)}
        return [
            n
            for n in used
            if n in self.scope.locals and n != "self" and (n in own or kinds.get(n, "unknown") not in CAPTURED)
        ]

    def made_on_the_way(self, stmt: Stmt) -> set[str]:
        """Names bound between earlier parts of a forward and the block: a gradient function may hold both."""
        names: set[str] = set()
        begun = False
        for before in stmt.block.stmts[: stmt.block.stmts.index(stmt)]:
            names |= {d for d in before.all_defs if "." not in d} if begun else set()
            begun = begun or any(v.kind == "tensor" and v.deps for s in before.walk() for v in s.out.values())
        return names

    def maybe(self, body: list[Stmt], outputs: list[str]) -> list[str]:
        bound = set().union(*(liveness.definite(s) for s in body)) if body else set()
        return [o for o in outputs if o not in bound]

    def unsure(self, body: list[Stmt], outputs: list[str]) -> list[str]:
        """Outputs that the block may leave unbound, and that nothing before it binds."""
        stmt = body[0].block.owner
        assert stmt is not None
        used = liveness.exposed(body)
        return [o for o in self.maybe(body, outputs) if o not in used and not self.bound_before(stmt, o)]

    def bound_elsewhere(self, stmt: Stmt, name: str) -> bool:
        """Something outside of the block gives the name a value, and does not only change the one it has."""
        inside = {id(s) for s in stmt.walk()}
        return (
            name not in self.scope.locals
            or name in self.scope.params
            or any(
                name in s.defs and id(s) not in inside and not isinstance(s.node, cst.AugAssign)
                for s in self.scope.body.walk()
            )
        )

    def bound_before(self, stmt: Stmt, name: str) -> bool:
        return name in self.scope.params or any(
            name in s.defs for s in self.scope.body.walk() if s.number < stmt.number
        )
