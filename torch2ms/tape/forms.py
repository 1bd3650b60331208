"""Writes one gradient call: the function around its forward region, the call, and what becomes of its results."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torch2ms.analysis import liveness
from torch2ms.analysis.flow import expression_uses, root
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Scope, Stmt
from torch2ms.analysis.project import ModuleInfo, Project
from torch2ms.analysis.tree import code, descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.tape.calls import Call, Outputs, all_ones
from torch2ms.tape.deletions import forget
from torch2ms.tape.episodes import follow_up
from torch2ms.tape.events import Event
from torch2ms.tape.graphmode import unfit
from torch2ms.tape.ledger import Owner
from torch2ms.tape.plan import Branch, Function, Item, Plan, Text
from torch2ms.tape.playbacks import write_cut, write_handed, write_played, write_vjp
from torch2ms.tape.regions import Region

PLAIN = {"int", "float", "str", "bool", "none"}
NOT_RETURNED = {
    "object",
    "function",
    "class",
    "module",
    "optimizer",
    "numpy",
    "dataset",
    "loader",
    "scheduler",
    "method",
}


class Writer:
    """Writes the calls of one scope into the plan."""

    def __init__(self, scope: Scope, module: ModuleInfo, plan: Plan, project: Project | None = None) -> None:
        self.scope = scope
        self.module = module
        self.plan = plan
        self.project = project
        self.gone: set[int] = set()  # statements that are dropped
        self.names = {n for s in module.scope.walk() for n in s.locals} | set(module.imports.table)

    def fresh(self, base: str) -> str:
        name, i = base, 2
        while name in self.names:
            name, i = f"{base}_{i}", i + 1
        self.names.add(name)
        return name

    def fresh_index(self) -> str:
        for name in ("i", "k", "n"):
            if name not in self.names:
                return name
        return self.fresh("index")

    # --- one call

    def write(self, call: Call) -> str:
        """Plan the call; a reason if it has no form."""
        region, event = call.region, call.event
        self.plan.inside += [*region.all, event.stmt]
        made = {d for s in region.all for i in s.walk() if isinstance(i.node, cst.Assign) for d in i.defs}
        if own := next((o.place for o in call.owners if o.kind == "leaf" and not o.parameter and o.place in made), ""):
            return f"`{own}`, whose gradient is wanted, is made among the statements of its forward"
        if call.played:
            return write_played(self, call)
        given = [c for c in event.cotangents if c is not None and not all_ones(c, self.scope)]
        cotangent = bool(given) or event.kind == "handed"
        if (region.cut or event.kind == "handed") and not self.plan.records:
            return "it needs ms.vjp, which runs the forward a second time before MindSpore 2.9"
        wrap = next((self.plan.halved[id(a)] for a in event.stmt.ancestors() if id(a) in self.plan.halved), None)
        if wrap is not None and (region.cut or event.cotangents != [None] * len(event.roots)):
            return "it stands inside an autocast block, and its forward is cut"
        if wrap is None:
            wrap = self.whole(call)
        if event.kind == "handed":
            return write_handed(self, call)
        if region.cut:
            return write_cut(self, call)
        if self.weighted(event):
            if self.late(call):
                return "its cotangent is made from the output, and ms.vjp runs the forward again before MindSpore 2.9"
        elif cotangent:
            return write_vjp(self, call)
        suffix = self.suffix(call)
        function = self.fresh(f"forward_{suffix}" if suffix else "forward_fn")
        loop = self.hoist(call)
        stmts = region.all
        outputs = self.outputs(call, stmts)
        params = self.parameters(call, stmts, loop, outputs)
        params = self.leaves_first(call, params)
        body = self.body(stmts, outputs, call.event)
        target = ", ".join(params)
        differentiated = self.differentiated(call, params)
        aux = ", has_aux=True" if outputs.aux else ""
        direct = self.direct(call, stmts, params)
        left_out = (
            "it runs in mixed precision" if wrap is not None else "it is no function of its own" if direct else ""
        )
        if event.episode is not None:
            left_out = "it fills lists outside"
        decorator = self.compiled(call, params, outputs, loop, left_out)
        definition: list[Item] = [*self.declare(outputs, stmts), Function(function, params, body, decorator)]
        if direct:
            definition = []
            function, target = direct
        if wrap is not None:
            definition.append(wrap(function))
        if loop is not None and self.optional(call, loop):
            self.plan.before.setdefault(id(loop), []).extend(definition)
            definition = []
            invoke = f"ms.value_and_grad({function}{differentiated}{aux})({target})"
        elif loop is not None:
            grad = self.fresh(f"grad_{suffix}" if suffix else "grad_fn")
            definition.append(
                Text(f"{grad} = ms.value_and_grad({function}{differentiated}{aux})", self.weight_nodes(call))
            )
            invoke = f"{grad}({target})"
            self.plan.before.setdefault(id(loop), []).extend(definition)
            definition = []
        else:
            invoke = f"ms.value_and_grad({function}{differentiated}{aux})({target})"
        received, follow = self.receive(call)
        steps: list[Item] = []
        if event.episode is not None:
            steps, follow = [*follow, *follow_up(event.episode, call.owners[0].variable, self.plan)], []
        inline = loop is None or self.optional(call, loop)
        line = Text(f"{outputs.target()}, {received} = {invoke}", self.weight_nodes(call) if inline else [])
        bound = outputs.target()
        if outputs.aux and not outputs.wrapped:
            bound = bound.removeprefix("(").removesuffix(")")
        plain = Text(f"{bound} = {function}({target})")
        self.place(call, [*definition, line, *steps], plain, follow)
        form = call.form or f"ms.value_and_grad of {len(stmts)} statement{'s' if len(stmts) != 1 else ''}"
        call.form = form + call.compiled
        return ""

    def compiled(self, call: Call, params: list[str], outputs: Outputs, loop: Stmt | None, left_out: str = "") -> str:
        """The decorator of the forward function: `@ms.jit` where that is asked for and found to be right."""
        if not self.plan.config.jit or self.project is None:
            return ""
        reason = left_out or unfit(call, params, outputs, loop, (self.module, self.project))
        call.compiled = f"; not compiled: {reason}" if reason else "; compiled"
        return "" if reason else "@ms.jit"

    def whole(self, call: Call) -> Callable[[str], Text] | None:
        """Where the forward is one block of mixed precision there is no second function around it."""
        region, event = call.region, call.event
        only = region.all[0] if len(region.all) == 1 else None
        made = self.plan.whole.get(id(only)) if only is not None and not region.guards else None
        if (
            only is None
            or made is None
            or event.scaler
            or not isinstance(event.roots[0], cst.Name)
            or len(event.roots) > 1
        ):
            return None
        before = self.plan.before[id(made.above)]
        before[:] = [item for item in before if item not in made.items]
        self.plan.contexts[id(only)] = list(only.blocks[0].stmts)
        return made.wrap

    def optional(self, call: Call, loop: Stmt) -> bool:
        """The optimizer may be None where the step is conditional: it is asked for its parameters only there."""
        guarded = any(isinstance(a.node, cst.If) and a.number > loop.number for a in call.event.stmt.ancestors())
        node = self.scope.node
        if not guarded or not isinstance(node, cst.FunctionDef):
            return False
        optional = {
            p.name.value
            for p in [*node.params.params, *node.params.kwonly_params]
            if p.default is not None and dotted(p.default) == "None"
        }
        return any(root(o.place) in optional for o in call.owners)

    def direct(self, call: Call, stmts: list[Stmt], params: list[str]) -> tuple[str, str] | None:
        """The called method or function is the function to differentiate: no wrapper around it."""
        root_call = call.event.roots[0]
        if (
            stmts
            or call.event.scaler
            or not call.event.lifted
            or not isinstance(root_call, cst.Call)
            or any(o.kind == "leaf" for o in call.owners)
        ):
            return None
        arguments = [dotted(a.value) for a in root_call.args]
        if (
            not all(arguments)
            or any(a.keyword is not None or a.star for a in root_call.args)
            or not dotted(root_call.func)
        ):
            return None
        return dotted(root_call.func), ", ".join(arguments)

    def weight_nodes(self, call: Call) -> list[cst.CSTNode]:
        return [call.weights] if call.weights is not None else []

    def is_tensor(self, name: str, stmts: list[Stmt]) -> bool:
        """Every use of the name in the statements is a tensor."""
        seen = [
            self.module.value(n)
            for s in stmts for n in descend(s.node)
            if isinstance(n, cst.Name) and n.value == name
        ]  # fmt: skip
        return bool(seen) and all(v.kind == "tensor" for v in seen)

    def suffix(self, call: Call) -> str:
        if not call.several:
            return ""
        node = call.event.roots[0]
        name = call.event.name or dotted(node).rpartition(".")[2]
        if not name and isinstance(node, cst.Call):
            name = dotted(node.func).rpartition(".")[2].removeprefix("backward_").removeprefix("compute_")
        return name or "loss"

    def hoist(self, call: Call) -> Stmt | None:
        """The outermost loop above which the gradient function can be made: its weights do not change inside."""
        first = call.region.all[0] if call.region.all else call.event.stmt
        anchor = first if not call.region.guards else call.region.guards[0]
        found = None
        weights = {root(o.place) for o in call.owners if o.kind != "leaf" or o.parameter}
        for ancestor in anchor.ancestors():
            if isinstance(ancestor.node, (cst.For, cst.While)):
                changed = {root(d) for d in ancestor.all_defs if d in {o.place for o in call.owners} or "." not in d}
                if changed & weights:
                    break
                found = ancestor
        return found

    def outputs(self, call: Call, stmts: list[Stmt]) -> Outputs:
        event, region = call.event, call.region
        name = dotted(event.roots[0]) if len(event.roots) == 1 and not event.scaler else ""
        name = event.episode.name if event.episode is not None else name
        if "." in name or self.weighted(event):
            name = ""
        last = self.position(region)
        gone = [event.stmt] if event.kind == "backward" and not event.branches and not event.lifted else []
        live = liveness.read_after(region.block, [*region.all, *gone], last) if region.all else set()
        if region.guarded:
            inner = liveness.read_after(event.stmt.block, region.all, event.stmt.block.stmts.index(event.stmt))
            live |= inner
        for stmt in region.after:
            live |= {root(u) for u in stmt.all_uses}
        written: dict[str, Value] = {}
        for stmt in stmts:
            for inner_stmt in stmt.walk():
                for place in sorted(inner_stmt.defs | inner_stmt.muts):
                    if "." not in place:
                        written[place] = inner_stmt.out.get(place, UNKNOWN)
        defined = {d for s in stmts for d in s.all_defs if "." not in d}
        order = self.definition_order(stmts)
        aux, shared = [], []
        for place in order:
            if place == name or place not in live or place not in defined:
                continue
            value = written[place]
            if value.kind in NOT_RETURNED or (value.kind == "unknown" and not value.deps and not value.likely):
                shared.append(place)
            else:
                aux.append(place)
        wrapped = bool(aux) and all(written[a].kind in PLAIN for a in aux)
        forget(defined - {name, *aux, *shared}, region.all, self.scope, self.plan)
        return Outputs(name, aux, shared, wrapped)

    def definition_order(self, stmts: list[Stmt]) -> list[str]:
        order: dict[str, None] = {}
        for stmt in stmts:
            for inner in stmt.walk():
                for name in _target_order(inner):
                    order.setdefault(name)
        return list(order)

    def position(self, region: Region) -> int:
        block = region.block
        if not region.stmts:
            return block.stmts.index(region.event.stmt) if region.event.stmt in block.stmts else 0
        return block.stmts.index(region.stmts[-1])

    def parameters(self, call: Call, stmts: list[Stmt], loop: Stmt | None, outputs: Outputs) -> list[str]:
        """Names that change between calls, in order of first use; everything else is captured."""
        used = liveness.exposed(stmts)
        bound = set().union(*(liveness.definite(s) for s in stmts)) if stmts else set()
        asked = [call.event.scaled] if call.event.scaled is not None else []
        asked += [c for c in call.event.cotangents if c is not None] if self.weighted(call.event) else []
        for expr in [*call.event.roots, *asked]:
            for use in sorted(expression_uses(expr, call.event.stmt)):
                if root(use) not in bound and root(use) not in used:
                    used.append(root(use))
        own = {d for s in stmts for d in s.all_defs if "." not in d}
        changing = set(own)
        if loop is not None:
            changing |= {d for d in loop.all_defs if "." not in d}
            changing |= {d for d in self.loop_locals(loop)}
        changing -= {n for n in self.unbound(stmts, used) if loop is None or not carried(n, stmts)}
        declared = self.declared()
        grown = {root(m) for s in stmts for m in s.all_muts} - own  # filled in place: reached through the closure
        changing -= grown
        return [
            n
            for n in used
            if n in changing and n in self.scope.locals and n not in outputs.shared and n not in declared
        ]

    def loop_locals(self, loop: Stmt) -> set[str]:
        return set()

    def unbound(self, stmts: list[Stmt], names: list[str]) -> set[str]:
        """Names without a value before the statements: a loop binds them that, for all we know, takes no turn."""
        inside = {id(i) for s in stmts for i in s.walk()}
        bound = {d for s in self.scope.body.walk() if id(s) not in inside for d in s.defs} | set(self.scope.params)
        return {n for n in names if n not in bound}

    def declared(self) -> set[str]:
        """Names the scope declares global or nonlocal."""
        return {
            i.name.value
            for s in self.scope.body.walk()
            if isinstance(s.node, (cst.Global, cst.Nonlocal))
            for i in s.node.names
        }

    def leaves_first(self, call: Call, params: list[str]) -> list[str]:
        """Leaves that are differentiated by position must be parameters."""
        missing = [o.place for o in call.owners if o.kind == "leaf" and not o.parameter and o.place not in params]
        return params + missing

    def differentiated(self, call: Call, params: list[str]) -> str:
        positions = [params.index(o.place) for o in call.owners if o.kind == "leaf" and not o.parameter]
        held = [o.place for o in call.owners if o.parameter]
        weights = [f"[{', '.join(held)}]"] if held else []
        weights += [self.weights(o) for o in call.owners if o.kind != "leaf"]
        where = (
            "None"
            if not positions
            else str(positions[0])
            if len(positions) == 1
            else f"({', '.join(map(str, positions))})"
        )
        if not weights:
            return "" if where == "0" else f", {where}"
        return f", {where}, {' + '.join(weights)}"

    def weights(self, owner: Owner) -> str:
        if owner.kind == "optimizer":
            return f"{owner.place}.parameters"
        if owner.kind in ("leaves", "params"):
            return owner.place
        if owner.kind == "list":
            return "{0}"
        return f"{owner.place}.trainable_params()"

    def declare(self, outputs: Outputs, stmts: list[Stmt]) -> list[Item]:
        if outputs.shared and self.scope.is_function:
            return [Text(f"{name} = None") for name in outputs.shared if not self.bound_elsewhere(name, stmts)]
        return []

    def bound_elsewhere(self, name: str, stmts: list[Stmt]) -> bool:
        """The statements go on from what the name holds before them."""
        kept = name in liveness.exposed(stmts) and not self.unbound(stmts, [name])
        return name in self.scope.params or kept

    def body(self, stmts: list[Stmt], outputs: Outputs, event: Event) -> list[Item]:
        body: list[Item] = []
        inherited = [n for n in sorted(self.declared()) if any(n in s.all_defs for s in stmts)]
        if inherited:
            body.append(Text(f"global {', '.join(inherited)}"))
        if outputs.shared:
            body.append(Text(f"{'nonlocal' if self.scope.is_function else 'global'} {', '.join(outputs.shared)}"))
        bound = set().union(*(liveness.definite(s) for s in stmts)) if stmts else set()
        maybe = [
            a
            for a in outputs.aux
            if a not in bound and a not in liveness.exposed(stmts) and not self.bound_before(a, stmts)
        ]
        body += [Text(f"{name} = None") for name in maybe]
        body += stmts
        template, nodes = self.root_text(event)
        if event.scaled is not None and outputs.aux:
            template = f"({template})"
        body.append(Text(f"return {template}{outputs.returned}", nodes))
        return body

    def bound_before(self, name: str, stmts: list[Stmt]) -> bool:
        return False

    def root_text(self, event: Event) -> tuple[str, list[cst.CSTNode]]:
        if event.episode is not None:  # the call itself may become the name of its result where it stood
            return code(event.roots[0]), []
        nodes: list[cst.CSTNode] = list(event.roots)
        parts = [f"{{{i}}}" for i, _ in enumerate(event.roots)]
        for i, cotangent in enumerate(event.cotangents if self.weighted(event) else ()):
            if cotangent is not None and self.sequence(event):
                parts[i] = f"sum((g * u).sum() for g, u in zip({{{i}}}, {{{len(nodes)}}}))"
                nodes.append(cotangent)
            elif cotangent is not None and all_ones(cotangent, self.scope):
                parts[i] = f"{{{i}}}.sum()" if dotted(event.roots[i]) else f"({{{i}}}).sum()"
            elif cotangent is not None:
                varied = bool(self.module.value(cotangent).deps)
                self.plan.needs |= {"ops"} if varied else set()
                factor = f"ops.stop_gradient({{{len(nodes)}}})" if varied else f"{{{len(nodes)}}}"
                parts[i] = f"({{{i}}} * {factor}).sum()"
                nodes.append(cotangent)
        text = " + ".join(parts)
        if event.scaled is not None:
            plain, scaled = text, f"{event.scaler}.scale({text})"
            first, second = (plain, scaled) if event.inverse else (scaled, plain)
            text = f"{first} if {{{len(nodes)}}} else {second}"
            nodes.append(event.scaled)
        elif event.scaler:
            text = f"{event.scaler}.scale({text})"
        return text, nodes

    def weighted(self, event: Event) -> bool:
        """Cotangents of the user's own where ms.vjp does not serve: the function returns the sum weighted with them."""
        own = any(c is not None and not all_ones(c, self.scope) for c in event.cotangents)
        return own and (len(event.roots) > 1 or not self.plan.records or self.sequence(event))

    def sequence(self, event: Event) -> bool:
        """The one root is a list of tensors, and so is its cotangent."""
        kinds = {self.module.value(r).kind for r in [*event.roots, *event.cotangents] if r is not None}
        return len(event.roots) == 1 and kinds <= {"tuple", "list"}

    def late(self, call: Call) -> bool:
        """A cotangent uses what is made between the forward and the backward call."""
        region, event = call.region, call.event
        asked = {root(u) for c in event.cotangents if c is not None for u in expression_uses(c, event.stmt)}
        end = event.stmt.number
        start = region.all[-1].number if region.all else end
        between = [s for s in self.scope.body.walk() if start < s.number < end and s not in region.all]
        return bool(asked & {root(d) for s in between for d in s.all_defs | s.all_muts})

    def receive(self, call: Call) -> tuple[str, list[Item]]:
        """The target that takes the gradients, and the statements that hand them to their owners."""
        follow: list[Item] = []
        leaves = [o for o in call.owners if o.kind == "leaf" and not o.parameter]
        others = [o for o in call.owners if o.kind != "leaf"]
        held = [o for o in call.owners if o.parameter]
        targets: dict[str, str] = {}
        for owner in call.owners:
            name = owner.variable
            if owner.place in call.accumulate:
                owner.accumulating = True
                name = self.fresh_once(f"new_{owner.variable}")
                follow.append(self.add(owner, name, sure=call.accumulate[owner.place]))
            elif owner.place in call.delayed:
                name = self.fresh_once(f"new_{owner.variable}")
                follow.append(Text(f"{owner.variable} = {name}"))
            targets[owner.place] = name
        left = ", ".join(targets[o.place] for o in leaves)
        if len(leaves) > 1:
            left = f"({left})"
        if not others and not held:
            return left, follow
        if held and not others:
            names = ", ".join(targets[o.place] for o in held)
            right = f"({names},)" if len(held) == 1 else f"({names})"
        elif held:
            right = self.fresh_once("all_grads")
            parts = [Text(f"{targets[o.place]} = {right}[{i}]") for i, o in enumerate(held)]
            parts.append(Text(f"{targets[others[0].place]} = {right}[{len(held)}:]"))
            follow = [*parts, *follow]
        elif len(others) == 1:
            right = targets[others[0].place]
        else:
            right = self.fresh_once("all_grads")
            parts, offset = [], ""
            for owner in others:
                end = f"{offset}len({self.weights(owner)})"
                last = owner is others[-1]
                parts.append(
                    Text(f"{targets[owner.place]} = {right}[{offset.removesuffix(' + ')}:{'' if last else end}]")
                )
                offset = end + " + "
            follow = [*parts, *follow]
        return (f"({left}, {right})" if leaves else right), follow

    def fresh_once(self, name: str) -> str:
        self.names.add(name)
        return name

    def add(self, owner: Owner, new: str, sure: bool) -> Text:
        old = owner.variable
        if owner.kind == "leaf":
            total = f"{old} + {new}"
        else:
            total = f"tuple(a + b for a, b in zip({old}, {new}))"
        return Text(f"{old} = {total}" if sure else f"{old} = {new} if {old} is None else {total}")

    # --- where it goes

    def place(self, call: Call, line: list[Item], plain: Text, follow: list[Item]) -> None:
        region, event = call.region, call.event
        plan = self.plan
        for stmt in region.all:
            plan.moved.add(id(stmt))
        for stmt in region.after:
            plan.moved.add(id(stmt))
        after: list[Item] = list(region.after)
        if call.keep:
            plan.moved.add(id(event.stmt))
            follow = [*follow, event.stmt]
        if not region.guards:
            if region.stmts and (self.adjacent(region.stmts[-1], event.stmt) or id(region.stmts[-1]) in plan.replaced):
                plan.replaced.setdefault(id(region.stmts[-1]), [])
                plan.replaced[id(event.stmt)] = [*line, *after, *follow]
            elif region.stmts:
                plan.replaced[id(region.stmts[-1])] = [*line, *after]
                plan.replaced[id(event.stmt)] = follow
            else:
                plan.replaced[id(event.stmt)] = [*line, *follow]
            return
        guard = region.guards[-1]
        if len(region.guards) == 1 and self.invariant(guard, region):
            call.form = "the gradient function where the condition holds, the plain forward where it does not"
            otherwise: list[Item] = list(region.stmts) if region.guarded else [plain]
            branch = Branch(guard.node.test, line, otherwise)  # type: ignore[union-attr]
            self.merge(call, guard, branch, after, follow)
            return
        call.form = "the gradient is taken with the forward, and used where the condition holds"
        if region.guarded or not region.stmts:
            plan.replaced[id(event.stmt)] = [*line, *follow]
            return
        plan.replaced[id(region.stmts[-1])] = [*line, *after]
        plan.replaced[id(event.stmt)] = follow

    def adjacent(self, last: Stmt, backward: Stmt) -> bool:
        """Nothing that stays stands between the forward and the backward call."""
        block = last.block
        if backward.block is not block:
            return False
        between = block.stmts[block.stmts.index(last) + 1 : block.stmts.index(backward)]
        return all(id(s) in self.plan.moved or id(s) in self.gone for s in between)

    def merge(self, call: Call, guard: Stmt, branch: Branch, after: list[Item], follow: list[Item]) -> None:
        """Join the new `if` with the user's own where nothing stands between."""
        region, plan = call.region, self.plan
        block = region.block
        anchor = region.stmts[-1]
        between = block.stmts[block.stmts.index(anchor) + 1 : block.stmts.index(guard)]
        plan.replaced[id(call.event.stmt)] = follow
        own_body = guard.blocks[0]
        taken = call.event.stmt.block is own_body and len(guard.blocks) == 1
        reads = {root(u) for s in own_body.stmts for u in s.all_uses}
        writes = {root(d) for s in region.after for d in s.all_defs | s.all_muts}
        if taken and all(id(s) in plan.moved or id(s) in plan.replaced for s in between) and not reads & writes:
            plan.replaced[id(anchor)] = []
            plan.replaced[id(guard)] = [Branch(branch.test, [*branch.body, *own_body.stmts], branch.orelse), *after]
            return
        plan.replaced[id(anchor)] = [branch, *after]

    def invariant(self, guard: Stmt, region: Region) -> bool:
        """The condition can be asked before the forward: nothing of the forward changes it, and it has no effects."""
        reads = {root(u) for u in guard.uses}
        writes = {root(d) for s in region.stmts for d in s.all_defs | s.all_muts}
        between = region.block.stmts[self.position(region) + 1 : region.block.stmts.index(guard)]
        writes |= {root(d) for s in between for d in s.all_defs | s.all_muts}
        return not reads & writes and not guard.calls

    def varied(self, name: str, stmts: list[Stmt]) -> bool:
        return any(inner.out[name].deps for s in stmts for inner in s.walk() if name in inner.out)

    def touches(self, stmts: list[Stmt], owner: Owner) -> bool:
        from torch2ms.analysis.values import overlaps

        uses = {u for s in stmts for u in s.all_uses}
        return any(overlaps(u, o) for u in uses for o in owner.owns or ())


def carried(name: str, stmts: list[Stmt]) -> bool:
    """The statements read what the name was bound to in an earlier turn of the loop around them."""
    for stmt in (inner for s in stmts for inner in s.walk()):
        if any(root(u) == name for u in stmt.uses):
            return True
        if name in stmt.defs:
            return False
    return False


def _target_order(stmt: Stmt) -> list[str]:
    node = stmt.node
    if isinstance(node, cst.Assign):
        return [n for t in node.targets for n in _flat(t.target) if n in stmt.defs]
    if isinstance(node, cst.For):
        return [n for n in _flat(node.target) if n in stmt.defs]
    return sorted(d for d in stmt.defs if "." not in d)


def _flat(target: cst.CSTNode) -> list[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [n for e in target.elements for n in _flat(e.value)]
    return [dotted(target)]
