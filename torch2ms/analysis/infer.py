"""Runs every scope of a project abstractly: the value of each expression, and of each place after each statement."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torch2ms.analysis.evaluation.captured import Around, captured, settled
from torch2ms.analysis.evaluation.env import Env
from torch2ms.analysis.evaluation.evaluate import Evaluator
from torch2ms.analysis.evaluation.execute import block
from torch2ms.analysis.evaluation.flagged import flagged
from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.evaluation.parameters import parameters
from torch2ms.analysis.evaluation.run import Run
from torch2ms.analysis.evaluation.usage import NONE, by_use, givers
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.annotations import but_none
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value, replace

NOTHING: frozenset[str] = frozenset()
DEEPEST = 20  # functions that are run for their callers, one inside the other
GIVING = (cst.Assign, cst.AnnAssign, cst.ClassDef)  # what gives the class it stands in an attribute
ROUNDS = 5  # kinds travel one call further each round; five reach through a driver, two constructors and a helper


def infer(project: Project) -> None:
    """Fill `values` of each module of the project, and what is known of its classes and functions.

    Of modules that stayed as they are since the inference before, runs that come to the same are not made again.
    """
    project.link()
    project.giving = givers(project)
    for module in project.modules.values():
        module.env = Env()
        module.used = module.used or by_use(module.scope, project.giving)
    inference = _Inference(project)
    for _ in range(ROUNDS):
        if not inference.round():
            break
    inference.close()


def rewritten(project: Project, plain: Mapping[str, Plain]) -> Project:
    """The project with other trees for some of its modules, by name; its values are inferred."""
    if not plain:
        return project
    made = project.rewritten(plain)
    infer(made)
    return made


class _Inference:
    """Rounds over the scopes of a project; a scope is run again where something it read is known better."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.runs: dict[int, Run] = {}  # the last of each scope, by its id
        self.made: dict[int, list[Run]] = {}  # all of each scope
        self.before = {} if project.renamed else project.remembered  # ... in the inference before
        self.alone = len(project.modules) == 1
        self.demanded = 0  # how often a function was run for another scope
        self.around: dict[int, Around] = {}  # what functions see of the scope around them, by its id
        self.fixed: dict[int, frozenset[str]] = {}  # the names that functions in a scope find bound once, by its id
        self.ran = False  # whether a scope was run in this round
        self.depth = 0  # functions that wait for the one they call

    def round(self) -> bool:
        """Run what has to be run; False where nothing had to."""
        self.ran = False
        for module in self.project.modules.values():
            module.env = self.run(module.scope, module, None)
            for child in module.scope.children:
                self.definition(child, module, module.env)
        return self.ran

    def definition(self, scope: Scope, module: ModuleInfo, outer: Env) -> None:
        """A class or a function, and what is defined inside."""
        if type(scope.node) is cst.ClassDef:
            self.attributes(scope, module, outer)
            for child in sorted(scope.children, key=lambda c: c.name != "__init__"):
                self.definition(child, module, outer)
            return
        env = self.run(scope, module, outer)
        for child in scope.children:
            self.definition(child, module, env)

    def attributes(self, scope: Scope, module: ModuleInfo, outer: Env) -> None:
        """What the body of a class binds."""
        env = self.run(scope, module, outer)
        attrs = module.classes[scope.name].attrs
        for stmt in scope.body.stmts:
            for name in stmt.defs:
                if name in env and type(stmt.node) in GIVING:
                    attrs.setdefault(name, env[name])
            declared = stmt.node.target if type(stmt.node) is cst.AnnAssign else None
            held = env.get(declared.value) if isinstance(declared, cst.Name) else None
            if isinstance(declared, cst.Name) and held is not None and held.kind in ("tensor", "int"):
                attrs.setdefault(declared.value, replace(held, place="", likely=False))  # of a record
            elif isinstance(declared, cst.Name) and (made := self._instance(stmt.node, module)) is not None:
                attrs.setdefault(declared.value, made)

    def _instance(self, node: cst.CSTNode, module: ModuleInfo) -> Value | None:
        """What `optimizer: Wrapper`, or `Optional[Wrapper]`, in the body of a class says of the attribute."""
        if type(node) is not cst.AnnAssign or node.value is not None:
            return None
        found = self.project.find(dotted(but_none(node.annotation.annotation)), module)
        if not isinstance(found, ClassInfo):
            return None
        return Value("module" if found.kind == "module" else "object", name=found.qualified, likely=True)

    def demand(self, info: FunctionInfo) -> None:
        """Run a function of a module, or a method, before the call that asks what it returns; once."""
        scope = info.scope
        parent = scope.parent if info.cls is None or scope.parent is None else scope.parent.parent
        if id(scope) in self.runs or self.depth >= DEEPEST or parent is None or not parent.is_module:
            return
        if id(info.module.scope) not in self.runs:
            return
        self.depth += 1
        self.demanded += 1
        if info.cls is not None and scope.parent is not None and id(scope.parent) not in self.runs:
            self.attributes(scope.parent, info.module, info.module.env)
        self.run(scope, info.module, info.module.env)
        self.depth -= 1

    def run(self, scope: Scope, module: ModuleInfo, outer: Env | None) -> Env:
        """The places of a scope as they are in the end."""
        info = module.functions.get(id(scope))
        if info is not None and outer is not None and scope.parent is not None:
            around = self.around.setdefault(id(scope.parent), Around(scope.parent))
            if meant := captured(scope, around):
                outer = Env(outer)
                outer.update(meant)
        last = self.runs.get(id(scope))
        if last is not None and last.holds(outer, info):
            return last.env
        self.ran = True
        if info is not None and last is not None and (scope.children or info.sharper):
            info.returns, info.sharper = None, False  # what it gave while functions in it, or types, were not known
        run = self.played(scope, module, outer, info) or self.new_run(scope, module, outer, info)
        self.made.setdefault(id(scope), []).append(run)
        self.around.pop(id(scope), None)  # its statements hold other values now
        return run.env

    def played(self, scope: Scope, module: ModuleInfo, outer: Env | None, info: FunctionInfo | None) -> Run | None:
        """The run that was made at this turn in the inference before, if it comes to the same again."""
        runs, turn = self.before.get(id(scope), []), len(self.made.get(id(scope), []))
        run = runs[turn] if turn < len(runs) else None
        changed = self.project.changed
        if run is None or run.touched is None or module.name in changed or run.touched & changed:
            self.before.pop(id(scope), None)
            return None
        self.runs[id(scope)] = run
        if outer is None:
            module.env = run.env
        if run.again(outer, info, self.project, self.demand):
            return run
        del self.before[id(scope)]
        return None

    def new_run(self, scope: Scope, module: ModuleInfo, outer: Env | None, info: FunctionInfo | None) -> Run:
        """Run the statements of a scope."""
        around, self.project.touched = self.project.touched, set()
        demanded = self.demanded
        settled = self.settled(scope.cls or scope, module) if info is not None else NOTHING
        env = Env(outer, scope.locals if info is not None else NONE, later=info is not None, settled=settled)
        cls = self.project.touch(_class_of(scope, module)) if outer is not None else None
        evaluator = Evaluator(self.project, module, env, info, cls, self.demand)
        if outer is None:
            module.env = env
        if info is not None:
            env.update(parameters(info, self.project))
            assert isinstance(scope.node, cst.FunctionDef)
            evaluator.cut = any(is_no_grad(d.decorator, module) for d in scope.node.decorators)
        if not isinstance(scope.node, cst.ClassDef):
            evaluator.uses = module.used.get(id(scope), NONE)
            evaluator.flagged = flagged(scope, module)
        run = Run(env, evaluator.exchange, dict(info.args) if info is not None else {})
        self.runs[id(scope)] = run
        block(scope.body, evaluator)
        if self.alone:
            run.exchange.forget()
        elif run.exchange.whole and (outer is not None or demanded == self.demanded):  # no module was seen half done
            run.asked, run.touched = dict(env.asked), self.project.touched
        self.project.touched = around
        return run

    def settled(self, scope: Scope, module: ModuleInfo) -> frozenset[str]:
        """The names around a function, or around its class, that hold one value all along."""
        parent = scope.parent
        if parent is None:
            return NOTHING
        if id(parent) not in self.fixed:
            self.fixed[id(parent)] = settled(parent, self.settled(parent.cls or parent, module), module)
        return self.fixed[id(parent)]

    def close(self) -> None:
        """Leave the runs to the next inference; each asks this one for more: a circle, which would keep the project."""
        for run in (run for runs in self.made.values() for run in runs):
            run.exchange.rest()
        self.project.remembered = {} if self.alone else self.made
        self.runs.clear()


def _class_of(scope: Scope, module: ModuleInfo) -> ClassInfo | None:
    """The class whose `self` a function means: a method's own, or that of the method around it."""
    if isinstance(scope.node, cst.ClassDef):
        return module.classes[scope.name]
    inner: Scope | None = scope
    while inner is not None and (info := module.functions.get(id(inner))) is not None:
        if info.cls is not None or "self" in inner.params:
            return info.cls
        inner = inner.parent
    return None
