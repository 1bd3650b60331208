"""Takes the wrappers off the modules of a project, and tells what that assumes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import Imports, dotted
from torch2ms.analysis.syntax.tree import children, descend
from torch2ms.editing import layout
from torch2ms.editing.fold import empty, shared_start, without_start
from torch2ms.editing.suites import Made, Suites, small_of
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.trainers import accumulate, apex, distributed, handed, objects
from torch2ms.wrappers.trainers.expressions import Unwrapping
from torch2ms.wrappers.trainers.objects import constructor, family, member
from torch2ms.wrappers.trainers.steps import KEPT, Steps


def unwrapped(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that change, by name."""
    every = project.modules.values()
    modules = [m for m in every if not m.uses_mindspore and (objects.wraps(m) or distributed.mentioned(m))]
    if not modules:
        return {}
    passed = handed.passed(project)
    steps = Steps(modules)
    while True:
        unwrappers = [Unwrapper(module, steps, passed) for module in modules]
        trees = [unwrapper.whole() for unwrapper in unwrappers]
        if not any(_left(tree, unwrapper) for tree, unwrapper in zip(trees, unwrappers, strict=True)):
            trees = [unwrapper.without_objects(tree) for tree, unwrapper in zip(trees, unwrappers, strict=True)]
        missed = handed.missed(trees, [taken for unwrapper in unwrappers for taken in unwrapper.taken])
        if not missed:
            break
        passed = {name: given for name, given in passed.items() if name not in missed}
    return {
        module.name: unwrapper.of_tree(unwrapper.with_imports(tree), unwrapper.reasons)
        for module, unwrapper, tree in zip(modules, unwrappers, trees, strict=True) if tree is not module.tree
    }  # fmt: skip


def _left(tree: cst.Module, unwrapper: Unwrapper) -> bool:
    """Whether something of the objects is still used."""
    gone = {id(n) for small in unwrapper.objects for n in descend(small)}
    return any(
        (type(n) is cst.Name or type(n) is cst.Attribute) and id(n) not in gone and family(n, unwrapper.module)
        for n in descend(tree)
    )


class Unwrapper(Unwrapping, Suites):
    """One module: statements and blocks."""

    def __init__(self, module: ModuleInfo, steps: Steps, passed: dict[str, set[str]]) -> None:
        Suites.__init__(self, module)
        self.steps = steps
        self.passed = passed
        self.taken: list[handed.Taken] = []
        self.reasons: dict[int, str] = {}
        self.objects: list[cst.CSTNode] = []  # statements that make such an object, or give one another name
        self.imports: list[str] = []
        self.around: list[cst.CSTNode] = []  # definitions
        self.quotes: list[str] = []
        self.amp_gone = apex.replaced(module)
        self.samplers = {"sampler", "train_sampler"} | {
            dotted(t.target).rpartition(".")[2]
            for n in (module.of_kind(cst.Assign) if module.has("DistributedSampler") else ())
            if "DistributedSampler" in objects.text(n.value)
            for t in n.targets
        }
        self.loops: list[accumulate.Loop | str | None] = []
        self.scaled: list[tuple[str, cst.BaseExpression]] = []  # names of scaled losses, and the losses
        self.by_node = {id(i.scope.node): i for i in module.functions.values()}
        self.prepared = {
            dotted(target)
            for n in module.of_kind(cst.Assign)
            if member(n.value, module)[1] in objects.SAME["accelerate"]
            for t in n.targets
            for target in ([e.value for e in t.target.elements] if type(t.target) is cst.Tuple else [t.target])
        }

    def tell(self, what: str, why: str, tier: Tier = Tier.EXACT) -> None:
        code = "T2M530" if tier is Tier.EXACT else "T2M531"
        self.findings.append(Finding(code, tier, what, why, line=self.line))

    # --- statements

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if (type(node) is cst.Assign or type(node) is cst.AnnAssign) and node.value is not None:
            return self.assigned(node, node.value)
        if type(node) is cst.ImportFrom and self.around and self.amp_gone:
            names = [] if isinstance(node.names, cst.ImportStar) else [a.evaluated_name for a in node.names]
            if node.module is not None and dotted(node.module) == "apex" and names == ["amp"]:
                return []
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            if (made := self.called(node.value)) is not None:
                return made
            loop = self.loops[-1] if self.loops else None
            if isinstance(loop, accumulate.Loop) and accumulate.guarded(node.value, self.prepared):
                self.tell("step under accelerator.accumulate", "taken on every k-th batch and on the last")
                line = self.rewrite(node)
                self.number(line, node)
                return [accumulate.guard(line)]
        updated = self.rewrite(node)
        value = updated.value if isinstance(updated, cst.Expr) and updated is not node else None
        return [] if type(value) is cst.Name or type(value) is cst.Attribute else [updated]

    def assigned(self, node: cst.Assign | cst.AnnAssign, value: cst.BaseExpression) -> list[cst.CSTNode]:
        """Objects, their settings, and names that stay what they were."""
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        if any(isinstance(t, cst.Attribute) and family(t.value, self.module) for t in targets):
            self.tell("a setting of the accelerator", "there is no accelerator")
            return []
        if constructor(value, self.module):
            self.constructed(value)  # type: ignore[arg-type]
            self.objects.append(node)
            if (steps := self.steps.kept.get(id(value))) is None:
                return [node]
            kept = cst.Assign([cst.AssignTarget(cst.ensure_type(cst.parse_expression(KEPT), cst.Attribute))], steps)
            self.number(kept, node)
            return [node, kept]
        if family(value, self.module) and all(dotted(t) for t in targets):
            self.objects.append(node)
            return [node]
        if objects.settings(value, self.module):
            self.objects.append(node)
            return [node]
        updated = self.rewrite(node)
        if updated is node or not isinstance(updated, cst.Assign) or len(targets) != 1:
            return [updated]
        return _without_idle(updated)

    def constructed(self, call: cst.Call) -> None:
        """What one process in float32 assumes of the object."""
        kind = constructor(call, self.module)
        why = "one process runs, in float32"
        if any(a.star for a in call.args):
            why += "; nothing in the arguments asks for gradient accumulation"
        self.tell(objects.text(call.func), why, Tier.ASSUMED)
        assert kind

    def called(self, call: cst.Call) -> list[cst.CSTNode] | None:
        """A call whose result nobody takes."""
        kind, name = member(call, self.module)
        if kind and name in objects.NOTHING[kind]:
            tracked = name in objects.TRACKING
            why = "what trackers would keep is not needed" if tracked else "one process has nothing to wait for"
            self.tell(f"{objects.text(call.func)}", why, Tier.ASSUMED if tracked else Tier.EXACT)
            return []
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("info", "debug", "warning", "print"):
            told = [a.value for a in call.args if isinstance(a.value, cst.Attribute)]
            if any(t.attr.value == "state" and family(t.value, self.module) for t in told):
                self.tell("accelerator.state", "a report of the launcher")
                return []
        if (made := self.process_call(call)) is not None:
            return made
        return self.seeded(call)

    def process_call(self, call: cst.Call) -> list[cst.CSTNode] | None:
        """A call that starts or joins processes."""
        name = distributed.name_of(call, self.module)
        if name in distributed.NOTHING and not distributed.waited_for(call):
            self.tell(f"torch.distributed.{name}", "one process runs: nobody else takes part", Tier.ASSUMED)
            return [self.rewrite(cst.Expr(value)) for value in distributed.still_done(call, self.module)]
        if name in distributed.RECEIVED and (made := distributed.received(call, name)) is not None:
            self.tell(f"torch.distributed.{name}", "one process runs: its part is the first and only", Tier.ASSUMED)
            return [self.rewrite(made)]
        if (started := distributed.spawned(call, self.module)) is not None:
            self.tell("torch.multiprocessing.spawn", "one process runs: its rank is 0", Tier.ASSUMED)
            return [self.rewrite(cst.Expr(started))]
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "set_epoch":
            if dotted(call.func.value).rpartition(".")[2] in self.samplers:
                why = "the samples are shuffled anew in every epoch without it"
                self.tell("DistributedSampler.set_epoch", why, Tier.ASSUMED)
                return []
        return None

    # --- blocks

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.around.append(node)
        self.loops.append(None)

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        self.around.pop()
        self.loops.pop()
        kept = [d for d in original.decorators if not self.process_decorator(d)]
        if len(kept) < len(original.decorators):
            gone = [d for d in original.decorators if d not in kept]
            lines = [c for d in gone for c in d.leading_lines if c.comment is not None]
            left = [d for o, d in zip(original.decorators, updated.decorators, strict=True) if o in kept]
            updated = updated.with_changes(decorators=left, leading_lines=[*updated.leading_lines, *lines])
        return self.without_parameters(original, updated)

    def process_decorator(self, node: cst.Decorator) -> bool:
        target = node.decorator
        attribute = isinstance(target, cst.Attribute) and target.attr.value in objects.DECORATORS
        if attribute and family(target.value, self.module):  # type: ignore[attr-defined]
            self.tell(objects.text(target), "the one process is the main one")
            return True
        return False

    def without_parameters(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        """Without parameters that take the object."""
        info = self.by_node.get(id(original))
        if info is None or handed.called(info) not in self.passed or not (names := handed.given(info)):
            return updated
        self.taken.append(handed.Taken(handed.called(info), info.name, frozenset(names)))
        params = updated.params
        kept = {
            part: [p for p in getattr(params, part) if p.name.value not in names]
            for part in ("posonly_params", "params", "kwonly_params")
        }
        for part in kept.values():
            if part and params.star_kwarg is None:
                part[-1] = part[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated.with_changes(params=params.with_changes(**kept))

    def visit_For(self, node: cst.For) -> None:
        if not accumulate.found(node, self.module):
            return
        steps = self.steps.of(self.module, self.around)
        if steps == "1":
            return
        self.loops.append(accumulate.read(node, self.module, steps, self.prepared))

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For:
        if not accumulate.found(original, self.module) or self.steps.of(self.module, self.around) == "1":
            return updated
        loop = self.loops.pop()
        return accumulate.finished(loop, updated, self.number) if isinstance(loop, accumulate.Loop) else updated

    def joined(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        return accumulate.merged(body) if any(isinstance(x, accumulate.Loop) for x in self.loops) else body

    def visit_With(self, node: cst.With) -> None:
        if (scaled := apex.scaled(node, self.module)) is not None:
            self.scaled.append(scaled)

    def leave_With(self, original: cst.With, updated: cst.With) -> cst.With:
        if apex.scaled(original, self.module) is not None:
            self.scaled.pop()
        return updated

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if isinstance(original, cst.With) and isinstance(updated, cst.With):
            return self.context(original, updated)
        if isinstance(original, cst.If) and isinstance(updated, cst.If) and updated is not original:
            return self.condition(original, updated)
        return [updated], ()  # type: ignore[list-item]

    def context(self, original: cst.With, updated: cst.With) -> Made:
        """A `with` without the contexts that do nothing."""
        kept = [i for o, i in zip(original.items, updated.items, strict=True) if not self.idle(o)]
        if len(kept) == len(updated.items):
            return [updated], ()
        loop = self.loops[-1] if self.loops else None
        named = accumulate.accumulates(original, self.module) and isinstance(loop, accumulate.Loop)
        if named:
            assert isinstance(loop, accumulate.Loop)
            line = cst.SimpleStatementLine([accumulate.assignment(loop)])
            self.number(line.body[0], original)
            body = updated.body.with_changes(body=[line, *updated.body.body])
            updated = updated.with_changes(body=body)
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return [self.renumbered(updated, items=kept)], ()
        return self.opened(updated)

    def idle(self, item: cst.WithItem) -> bool:
        """Whether the context does nothing in one process."""
        if apex.is_scaling(item, self.module):
            self.tell("apex.amp.scale_loss", "the loss itself: nothing is scaled in float32", Tier.ASSUMED)
            return True
        if isinstance(item.item, cst.Call) and isinstance(item.item.func, cst.Attribute) and item.asname is None:
            if item.item.func.attr.value == "no_sync" and self.module.has("DistributedDataParallel"):
                self.tell("DistributedDataParallel.no_sync", "one process has nobody to wait for", Tier.ASSUMED)
                return True
        kind, name = member(item.item, self.module)
        if kind == "accelerate" and name == "accumulate":
            loop = self.loops[-1] if self.loops else None
            idle = isinstance(loop, accumulate.Loop) or self.steps.of(self.module, self.around) == "1"
            if idle:
                why = "the last batch of a loader steps; a loop that is left early starts its count anew"
                self.tell("accelerator.accumulate", why, Tier.ASSUMED if loop else Tier.EXACT)
            return idle
        if kind and name in objects.CONTEXTS[kind]:
            assert isinstance(item.item, cst.Call)
            self.tell(objects.text(item.item.func), "it does nothing in one process that runs in float32")
            return True
        return False

    def condition(self, original: cst.If, updated: cst.If) -> Made:
        """An `if` whose test became a constant, or whose branches became one."""
        test, was = objects.constant_test(updated.test), objects.constant_test(original.test)
        if test is True and was is None and not (updated.orelse is not None and "#" in objects.text(updated.orelse)):
            return self.opened(updated)
        if test is False and was is None and updated.orelse is None and "#" not in objects.text(updated.body):
            return [], tuple(line for line in updated.leading_lines if line.comment is not None)
        if updated.body is original.body:
            return [updated], ()
        called = any(isinstance(n, (cst.Call, cst.Await)) for n in descend(updated.test))
        if updated.orelse is None and empty(updated.body) and not called:
            return [], tuple(c for c in layout.inner_comments(updated) if c.comment is not None)
        if start := shared_start(updated):
            return self.hoisted(updated, start)
        return [updated], ()

    def hoisted(self, node: cst.If, start: list[cst.BaseStatement]) -> Made:
        """What both branches begin with, and then the rest of them."""
        rest = without_start(node, len(start))
        assert isinstance(node.orelse, cst.Else)
        lines = [c for stmt in node.orelse.body.body[: len(start)] for c in layout.inner_comments(stmt)]
        if not rest:
            headers = [node.body.with_changes(body=_PASS), node.orelse.with_changes(body=_emptied(node.orelse.body))]
            lines = [*(c for header in headers for c in layout.inner_comments(header)), *lines]
        above = [*node.leading_lines, *lines, *layout.strip_blank(start[0].leading_lines)]  # type: ignore[attr-defined]
        start[0] = self.renumbered(start[0], leading_lines=above)
        for small in flow.in_order(node.orelse.body.body[: len(start)]):
            line = self.numbers.get(id(small), (self.line, 0))[0]
            why = "both branches do the same: written once, above what is left of them"
            self.findings.append(Finding("T2M530", Tier.EXACT, "branches of scaled and plain losses", why, line=line))
        for stmt in rest:
            self.number(stmt, node)
        return [*start, *rest], ()

    # --- what is left at the end

    def without_objects(self, tree: cst.Module) -> cst.Module:
        """Without the statements that make the objects."""
        tree = _Gone(self, {id(n) for n in self.objects}).applied(tree)
        tries = [n for n in flow.in_order(tree.body) if type(n) is cst.Try]
        if not tries:
            return tree
        named = {n.value for s in flow.in_order(tree.body) if not isinstance(s, (cst.Import, cst.ImportFrom, cst.Try))
                 for n in _own(s) if type(n) is cst.Name}  # fmt: skip
        unused = {id(n) for n in tries if self.only_imports(n, named)}
        return _Gone(self, unused).applied(tree) if unused else tree

    def only_imports(self, node: cst.Try, named: set[str]) -> bool:
        """A `try` around imports of wrappers that nothing uses any more."""
        imports = list(flow.in_order(node.body.body))
        if not imports or node.orelse is not None or node.finalbody is not None:
            return False
        for small in imports:
            if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
                return False
            table = Imports()
            table.add(small)
            if any(not f"{full}.".startswith(objects.ROOTS) or n in named for n, full in table.table.items()):
                return False
        handled = [s for h in node.handlers for s in flow.in_order(h.body.body)]
        return all(isinstance(s, (cst.Raise, cst.Pass, cst.Expr)) for s in handled)

    def with_imports(self, tree: cst.Module) -> cst.Module:
        """With the imports that the new statements need."""
        wanted = dict.fromkeys(self.imports)
        new = [line for line in wanted if not _has(tree, line)]
        if not new:
            return tree
        body: list[cst.BaseStatement] = list(tree.body)
        at = next((i for i, s in enumerate(body) if _is_import(s)), len(body))
        lines: list[cst.BaseStatement] = [cst.SimpleStatementLine([small_of(line)]) for line in new]
        if at < len(body):
            lines[0] = lines[0].with_changes(leading_lines=body[at].leading_lines)  # type: ignore[attr-defined]
            body[at] = self.renumbered(body[at], leading_lines=[])
        for line in lines:
            self.number(line.body[0], body[at].body[0] if at < len(body) else line)  # type: ignore[attr-defined]
        return tree.with_changes(body=[*body[:at], *lines, *body[at:]])


class _Gone(Suites):
    """Drops statements."""

    def __init__(self, unwrapper: Unwrapper, gone: set[int]) -> None:
        self.module = unwrapper.module
        self.numbers, self.held, self.off, self.line = unwrapper.numbers, unwrapper.held, frozenset(), 0
        self.gone = gone

    def applied(self, tree: cst.Module) -> cst.Module:
        """The tree without them; the same one where it has none."""
        if not self.gone:
            return tree
        body, footer = self.suite(tree.body)
        return tree.with_changes(body=body, footer=[*footer, *tree.footer])

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else [node]

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) in self.gone:
            return [], layout.inner_comments(original)
        return [updated], ()  # type: ignore[list-item]


def _own(stmt: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What stands in a statement itself, not in the statements of its blocks."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack += [c for c in children(node) if type(c) not in (cst.IndentedBlock, cst.SimpleStatementSuite)]


_PASS = [cst.SimpleStatementLine([cst.Pass()])]


def _emptied(body: cst.BaseSuite) -> cst.BaseSuite:
    return body.with_changes(body=_PASS)


def _without_idle(node: cst.Assign) -> list[cst.CSTNode]:
    """`a, b = a, c` as `b = c`, `a = a` as nothing."""
    target, value = node.targets[0].target, node.value
    if objects.text(target) == objects.text(value):
        return []
    if not (isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple)):
        return [node]
    pairs = [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=False)]
    if len(target.elements) != len(value.elements) or any(isinstance(t, cst.StarredElement) for t in target.elements):
        return [node]
    left = [(t, v) for t, v in pairs if objects.text(t) != objects.text(v)]
    if not left:
        return []
    if len(left) == 1:
        return [cst.Assign([cst.AssignTarget(left[0][0])], left[0][1])]  # type: ignore[arg-type]
    bare = [cst.Tuple([cst.Element(n) for n in side], lpar=[], rpar=[]) for side in zip(*left, strict=True)]
    return [cst.Assign([cst.AssignTarget(bare[0])], bare[1])]


def _is_import(stmt: cst.CSTNode) -> bool:
    first = stmt.body[0] if isinstance(stmt, cst.SimpleStatementLine) else None
    future = isinstance(first, cst.ImportFrom) and first.module is not None and dotted(first.module) == "__future__"
    return isinstance(first, (cst.Import, cst.ImportFrom)) and not future


def _has(tree: cst.Module, line: str) -> bool:
    lines = [s for s in tree.body if isinstance(s, cst.SimpleStatementLine)]
    return any(objects.text(small) == line for s in lines for small in s.body)
