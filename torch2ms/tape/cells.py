"""`--style cell`: the training step as a cell, where the step has the shape that such a cell runs.

`nn.TrainOneStepCell` differentiates its network by the optimizer's parameters and updates them. A forward of one model
call and one loss call fits `nn.WithLossCell`; any other becomes the `construct` of a cell of its own. Clipping between
the gradient and the update, and what leaves the forward beside the loss, needs a subclass with its own `construct`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.bodies import body_of
from torch2ms.tape.forms.calls import Call, Outputs
from torch2ms.tape.forms.function import decorator_of, optimizer_optional, turns
from torch2ms.tape.forms.interface import changed_in_place, outputs_of, parameters_of
from torch2ms.tape.forms.placement import place
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Class, Function, Item, Text
from torch2ms.tape.uses.clipping import clipping, told

# attributes of nn.Cell that a captured name must not hide, and those of nn.TrainOneStepCell
TAKEN = {
    "apply", "buffers", "cells", "compile", "compiled", "construct", "offload", "phase", "recompute", "shard", "to",
    "training", "network", "optimizer", "weights", "grad", "grad_no_sens", "sens", "reducer_flag", "grad_reducer",
    "mean", "degree", "value_and_grad", "cls_name", "param_prefix", "requires_grad", "jit_config_dict",
}  # fmt: skip
QUIET = {"print", "len", "float", "int", "str", "round", "min", "max", "sum", "list", "tuple", "range"}
NAMING = re.compile(r"state_dict|named_parameters")
HELD = ("module", "lossfn", "tensor", "int", "float", "bool", "str", "none", "object", "unknown", "function")


class NoFit(Exception):
    """Why a step does not become a cell."""


@dataclass
class Network:
    """The cell to differentiate: the text that makes it, and the class it needs, if any."""

    made: Text
    items: list[Item] = field(default_factory=list)


class CellWriter:
    """Plans steps as cells; `done` are the events that a cell takes over."""

    def __init__(self, writer: Writer, events: list[Event], owners: list[Owner], project: Project) -> None:
        self.writer = writer
        self.module: ModuleInfo = writer.module
        self.plan = writer.plan
        self.events = events
        self.owners = owners
        self.project = project
        self.done: set[int] = set()

    def write(self, call: Call) -> str:
        """Plan the call with the step behind it as a cell; the reason if it does not fit."""
        before = self.plan.saved()
        try:
            self._write(call)
        except NoFit as reason:
            self.plan.restore(before)
            return str(reason)
        return ""

    def _write(self, call: Call) -> None:
        owner, step, clips = self.episode(call)
        loop = self.writer.hoist(call)
        if loop is None or optimizer_optional(self.writer, call, loop):
            raise NoFit("no loop stands around the step, above which the cell could be made")
        stmts = call.region.all
        self.plan.inside += [*stmts, call.event.stmt]
        outputs = outputs_of(self.writer, call, stmts)
        if outputs.shared or outputs.wrapped:
            raise NoFit(f"`{(outputs.shared or outputs.aux)[0]}` leaves the forward, and is no tensor")
        params = parameters_of(self.writer, call, stmts, loop, outputs)
        if changed_in_place(self.writer, params, stmts):
            raise NoFit("its forward changes in place what it is given")
        limits = [self.clip(clip, owner, loop) for clip in clips]
        decorator = decorator_of(self.writer, call, params, outputs, loop)
        canonical = self.canonical(call, outputs) if not decorator else None
        if canonical is not None:
            network, arguments = canonical
        else:
            network, arguments = self.own(call, outputs, params, loop, decorator), Text(", ".join(params))
        self.place(call, outputs, (network, arguments, params), limits, owner, loop)
        self.done |= {id(e) for e in (step, *clips)}
        for event in (step, *clips):
            self.plan.replaced[id(event.stmt)] = []
        self.plan.findings += [told(clip, [owner]) for clip in clips]
        why = "inside the training cell"
        self.plan.findings.append(Finding("T2M103", Tier.EXACT, "optimizer step", why, line=step.stmt.lineno))

    # --- whether the episode fits

    def episode(self, call: Call) -> tuple[Owner, Event, list[Event]]:
        """The optimizer, its one step, and the clipping before it."""
        event, region = call.event, call.region
        if region.idle:
            raise NoFit("its optimizer leaves alone the layers that did not run")
        if event.scaler:
            raise NoFit("the loss is scaled, and nn.TrainOneStepWithLossScaleCell has no CPU kernel")
        if event.lifted or event.branches or call.keep or call.delayed or call.inputs or call.played:
            raise NoFit("the backward call stands in another function")
        if any(c is not None for c in event.cotangents) or region.cut or region.guards or event.create_graph:
            raise NoFit("the backward call is not that of a plain step")
        special = event.episode or event.beside or event.closure or event.taking or event.kind == "handed" or call.turns
        if special or any(id(a) in self.plan.halved for a in event.stmt.ancestors()):
            raise NoFit("the backward call is not that of a plain step")
        if len(call.owners) != 1 or call.owners[0].kind != "optimizer":
            raise NoFit("the gradients are not those of one optimizer")
        owner = call.owners[0]
        if turns(self.writer, owner, event.stmt):
            raise NoFit("the optimizer is another one in each turn of a loop")
        if call.accumulate:
            raise NoFit("gradients are summed over several backward calls")
        loads = [e for e in self.events if e.kind not in ("backward", "clear") and concerns(e, owner, self.owners)]
        steps = [e for e in loads if e.kind == "step" and e.stmt.number > event.stmt.number]
        if len(steps) != 1 or steps[0].stmt.block is not event.stmt.block:
            raise NoFit("the step does not stand in one block with the backward call")
        step = steps[0]
        clips = [e for e in loads if e is not step]
        for e in (step, *clips):
            if not isinstance(e.stmt.node, cst.Expr) or e.stmt.node.value is not e.node:
                raise NoFit("the gradients, or the result of the step, are looked at")
            if e is not step and (
                e.kind not in ("clip_norm", "clip_value")
                or e.stmt.block is not step.stmt.block
                or not event.stmt.number < e.stmt.number < step.stmt.number
            ):
                raise NoFit("more than clipping happens to the gradients")
        self.between(call, owner, step, clips)
        return owner, step, clips

    def between(self, call: Call, owner: Owner, step: Event, clips: list[Event]) -> None:
        """What stands between forward and step runs behind the update now: it must not notice."""
        region = call.region
        block = step.stmt.block
        start = block.stmts.index(region.all[-1]) if region.all else block.stmts.index(call.event.stmt)
        own = {id(s) for s in region.all} | {id(e.stmt) for e in (call.event, step, *clips)}
        inner = block.stmts[start + 1 : block.stmts.index(step.stmt)]
        for stmt in [*region.after, *inner]:
            if id(stmt) in own or id(stmt) in self.writer.gone:
                continue
            watched = {owner.place, *(owner.owns or ())}
            touched = any(overlaps(u, w) for u in stmt.all_uses | stmt.all_defs for w in watched)
            if stmt.blocks or touched or not all(self.quiet(c) for c in stmt.calls):
                raise NoFit("what stands between the loss and the step may have to run before the update")

    def quiet(self, call: cst.Call) -> bool:
        """The call reads values that an update does not change."""
        if isinstance(call.func, cst.Attribute):
            receiver = self.module.value(call.func.value).kind
            return receiver in ("tensor", "numpy", "float", "int", "list", "dict", "str", "size", "tuple")
        return dotted(call.func) in QUIET

    # --- the network

    def canonical(self, call: Call, outputs: Outputs) -> tuple[Network, Text] | None:
        """`loss = criterion(net(x), y)`, in one statement or two, and nothing else wanted of it."""
        stmts = [s.node for s in call.region.all]
        if outputs.aux or not outputs.root or len(stmts) not in (1, 2):
            return None
        last = _assigned(stmts[-1], outputs.root)
        if last is None or len(last.args) != 2 or any(a.keyword is not None or a.star for a in last.args):
            return None
        prediction, label = (a.value for a in last.args)
        if len(stmts) == 2:
            name = dotted(prediction)
            first = _assigned(stmts[0], name) if isinstance(prediction, cst.Name) else None
            if first is None or any(isinstance(n, cst.Name) and n.value == name for n in descend(label)):
                return None
            prediction = first
        if not isinstance(prediction, cst.Call) or len(prediction.args) != 1:
            return None
        data = prediction.args[0]
        plain = data.keyword is None and not data.star and not self.module.value(data.value).deps
        if not plain or self.module.value(label).deps or any(isinstance(n, cst.Call) for n in descend(label)):
            return None
        for func in (prediction.func, last.func):
            if not dotted(func) or self.module.value(func).kind not in ("module", "lossfn"):
                return None
        made = Text("nn.WithLossCell({0}, {1})", [prediction.func, last.func])
        return Network(made), Text("{0}, {1}", [data.value, label])

    def own(self, call: Call, outputs: Outputs, params: list[str], loop: Stmt, decorator: str) -> Network:
        """A cell with the forward region as its `construct`; what it uses becomes arguments of the constructor."""
        stmts, event = call.region.all, call.event
        nodes = [n for source in [*(s.node for s in stmts), *event.roots] for n in descend(source)]
        if any("." in d for s in stmts for d in s.all_defs | s.all_muts):
            raise NoFit("its forward writes attributes")
        if any(isinstance(n, (cst.Lambda, cst.CompFor, cst.Await, cst.Yield, cst.NamedExpr)) for n in nodes):
            raise NoFit("its forward holds a lambda, a comprehension or the like")
        planned = (self.plan.expressions, self.plan.around, self.plan.picks)
        if any(id(n) in edits for n in nodes for edits in planned) or any(map(self.rewritten, stmts)):
            raise NoFit("its forward holds what becomes functions of their own")
        held = self.held(nodes, stmts, params, loop)
        if clash := next((n for n in held if n in TAKEN or n in params), ""):
            raise NoFit(f"`{clash}` means something else in a cell")
        defined = {d for s in stmts for d in s.all_defs}
        if clash := next((n for n in held if n in defined), ""):
            raise NoFit(f"`{clash}` is bound in the forward as well")
        for node in _reads(nodes):
            if held.get(node.value) == node.value:
                self.plan.expressions[id(node)] = f"self.{node.value}"
        name = self.class_name("ForwardCell")
        construct = Function("construct", ["self", *params], body_of(self.writer, stmts, outputs, event), decorator)
        text = f"class {name}(nn.Cell):\n    def __init__({', '.join(['self', *held])}):\n"
        text += "        super().__init__(auto_prefix=False)\n"
        text += "".join(f"        self.{short} = {short}\n" for short in held)
        return Network(Text(f"{name}({', '.join(held.values())})"), [Class(text, construct)])

    def rewritten(self, stmt: Stmt) -> bool:
        """Something else was planned for the statement, or for one inside."""
        edits = (self.plan.contexts, self.plan.replaced, self.plan.before, self.plan.behind)
        return any(id(inner) in made for inner in stmt.walk() for made in edits)

    def class_name(self, base: str) -> str:
        """A name for a class at the top of the module, where the other scopes put theirs as well."""
        self.writer.names |= self.plan.classes
        name = self.writer.fresh(base)
        self.plan.classes.add(name)
        return name

    def held(self, nodes: list[cst.CSTNode], stmts: list[Stmt], params: list[str], loop: Stmt) -> dict[str, str]:
        """What the forward takes from around it: names in the cell -> places in the source."""
        bound = set(params) | {d for s in stmts for d in s.all_defs}
        nested = [self.writer.scope] if self.writer.scope.is_function else []
        local = {n for scope in nested for n in scope.locals}
        found: dict[str, str] = {}
        networks: set[str] = set()
        values: set[str] = set()
        owned = {id(n.value): n for n in nodes if isinstance(n, cst.Attribute)}
        for node in _reads(nodes):
            name = node.value
            if name in bound or name in ("True", "False", "None"):
                continue
            place, value = name, self.module.value(node)
            if name == "self" and self.writer.scope.cls is not None:
                outer = owned.get(id(node))
                if outer is None:
                    raise NoFit("its forward passes `self` on")
                place, value = f"self.{outer.attr.value}", self.module.value(outer)
                called = any(isinstance(n, cst.Call) and n.func is outer for n in nodes)
                if value.kind in ("function", "method") or called and value.kind not in ("module", "lossfn"):
                    raise NoFit("its forward calls a method of its object")
            elif name in self.module.imports.table or value.kind in ("api", "class", "builtin", "dtype", "modulefile"):
                continue
            elif value.kind == "function":
                if name in local:
                    raise NoFit(f"its forward calls `{name}`, which is defined inside a function")
                continue
            elif name not in local and name not in self.module.scope.locals:
                if not self.visible(name):
                    continue
            if value.kind not in HELD or value.leaf:
                raise NoFit(f"its forward uses `{place}`, which is no network, tensor or number")
            if value.kind == "module" and not self.module.weightless(value):
                networks.add(place)
            if value.kind not in ("module", "lossfn"):
                values.add(place)
            found.setdefault(place.rpartition(".")[2], place)
            if found[place.rpartition(".")[2]] != place:
                raise NoFit("two things its forward uses have the same short name")
        if len(networks) > 1 and self.project.says(NAMING):
            raise NoFit("names of parameters are read, which a cell of several networks changes when it runs")
        self.constant(set(found.values()), loop, values)
        return found

    def visible(self, name: str) -> bool:
        """The name belongs to a function around this one."""
        scope = self.writer.scope.parent
        while scope is not None:
            if name in scope.locals:
                return True
            scope = scope.parent
        return False

    def constant(self, places: set[str], loop: Stmt, values: set[str]) -> None:
        """What the cell is given above the loop stays the same inside it, whatever the loop calls; `values` that are
        changed, and are no networks, may be others in MindSpore."""
        attributes = {p.rpartition(".")[2] for p in places if "." in p}
        names = {p for p in places if "." not in p}
        changed = {p.removesuffix(".data") for p in loop.all_defs} | loop.all_muts & values
        if bound := sorted(names & changed):
            raise NoFit(f"`{bound[0]}` is bound inside the loop")
        for stmt, _ in reached([loop], self.module, self.project):
            if any(dotted(c.func) in ("setattr", "globals", "exec") for c in stmt.calls):
                raise NoFit("attributes or globals are set by name inside the loop")
            for written in stmt.defs | stmt.muts:
                if "." in written and written.removesuffix(".data").rpartition(".")[2] in attributes:
                    raise NoFit(f"`{written}` may change inside the loop")
            if isinstance(stmt.node, (cst.Global, cst.Nonlocal)):
                if changed := {i.name.value for i in stmt.node.names} & names:
                    raise NoFit(f"`{changed.pop()}` may change inside the loop")

    # --- the training cell

    def clip(self, event: Event, owner: Owner, loop: Stmt) -> tuple[Callable[[str, str], str], cst.BaseExpression, str]:
        """How the cell clips, by what, and under which name the cell holds that."""
        form = clipping(event, [owner])
        if isinstance(form, str):
            raise NoFit(form)
        text, limit = form
        if constant(limit) is not ...:
            return text, limit, ""
        place = dotted(limit)
        if not place or any(overlaps(place, d) for d in loop.all_defs):
            raise NoFit("what the gradients are clipped by is not a plain name")
        self.constant({place}, loop, {place})
        return text, limit, place.rpartition(".")[2]

    def place(
        self,
        call: Call,
        outputs: Outputs,
        inner: tuple[Network, Text, list[str]],
        limits: list[tuple[Callable[[str, str], str], cst.BaseExpression, str]],
        owner: Owner,
        loop: Stmt,
    ) -> None:
        """The classes at the top of the module, the cell above the loop, its call for forward, gradient and step."""
        network, arguments, params = inner
        suffix = self.writer.suffix(call)
        step = self.writer.fresh(f"train_{suffix}" if suffix else "train_step")
        made = f"nn.TrainOneStepCell({network.made.template}, {owner.place})"
        items = list(network.items)
        if limits or outputs.aux:
            names = [name for _, _, name in limits if name]
            if len(set(names)) != len(names) or set(names) & (TAKEN | {"self"}):
                raise NoFit("the limits of clipping have names that a cell cannot hold")
            kind = self.class_name("TrainStepCell")
            items.append(self.subclass(kind, outputs, limits, params if network.items else ["data", "label"]))
            own = [dotted(limit) for _, limit, name in limits if name]
            made = f"{kind}({', '.join([network.made.template, owner.place, *own])})"
        top = self.module.top_level(loop)
        self.plan.before.setdefault(id(top), [])[:0] = items
        self.plan.before.setdefault(id(loop), []).append(Text(f"{step} = {made}", network.made.nodes))
        target = f"{outputs.root or '_'}{outputs.returned} = " if outputs.root or outputs.aux else ""
        line = Text(f"{target}{step}({arguments.template})", arguments.nodes)
        place(self.writer, call, [], [line], line, [])
        for stmt in [] if network.items else call.region.all:  # they are nowhere else: their comments stay here
            self.plan.moved.discard(id(stmt))
            self.plan.replaced.setdefault(id(stmt), [])
        over = "nn.WithLossCell" if not network.items else "a cell of the forward"
        call.form = f"{'a subclass of ' if limits or outputs.aux else ''}nn.TrainOneStepCell over {over}{call.compiled}"
        self.plan.needs |= {"nn"} | ({"ops"} if limits else set())

    def subclass(
        self,
        name: str,
        outputs: Outputs,
        limits: list[tuple[Callable[[str, str], str], cst.BaseExpression, str]],
        params: list[str],
    ) -> Class:
        """A training cell that clips, and returns what the forward returns."""
        held = [short for _, _, short in limits if short]
        text = f"class {name}(nn.TrainOneStepCell):\n"
        text += f"    def __init__({', '.join(['self', 'network', 'optimizer', *held])}):\n"
        text += "        super().__init__(network, optimizer)\n"
        text += "".join(f"        self.{short} = {short}\n" for short in held)
        aux = ", has_aux=True" if outputs.aux else ""
        text += f"        self.value_and_grad = ms.value_and_grad(network, None, self.weights{aux})\n"
        used = {*params, *outputs.aux}
        loss = outputs.root or next(n for n in ("loss", "value", "root") if n not in used)
        grads = next(n for n in ("grads", "gradients", "weight_grads") if n not in used)
        target = f"({loss}{outputs.returned})" if outputs.aux else loss
        body: list[Item] = [
            Text(f"{target}, {grads} = self.value_and_grad({', '.join(params)})"),
            Text(f"{grads} = self.grad_reducer({grads})"),
        ]
        for form, limit, short in limits:
            clipped = form(grads, f"self.{short}" if short else "{0}")
            body.append(Text(f"{grads} = {clipped}", [] if short else [limit]))
        body += [Text(f"self.optimizer({grads})"), Text(f"return {loss}{outputs.returned}")]
        return Class(text, Function("construct", ["self", *params], body, differentiated=False))


def _assigned(node: cst.CSTNode, name: str) -> cst.Call | None:
    """The call that a statement binds to a name."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or dotted(node.targets[0].target) != name:
        return None
    return node.value if isinstance(node.value, cst.Call) else None


def _reads(nodes: list[cst.CSTNode]) -> list[cst.Name]:
    """The names among the nodes that stand for a value, in order."""
    other = {id(n.attr) for n in nodes if isinstance(n, cst.Attribute)}
    other |= {id(n.keyword) for n in nodes if isinstance(n, cst.Arg) and n.keyword is not None}
    other |= {id(n.annotation) for n in nodes if isinstance(n, cst.Annotation)}
    return [n for n in nodes if isinstance(n, cst.Name) and id(n) not in other]
