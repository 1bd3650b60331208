"""Runs every scope of a project abstractly: the value of each expression, and of each place after each statement."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.env import Env
from torch2ms.analysis.evaluate import Evaluator
from torch2ms.analysis.execute import block
from torch2ms.analysis.modes import is_no_grad
from torch2ms.analysis.parameters import parameters
from torch2ms.analysis.program import Scope
from torch2ms.analysis.project import ModuleInfo, Project
from torch2ms.analysis.usage import NONE, modules_by_use

ROUNDS = 3  # kinds travel one call further each round; three reach through factory, trainer and step


def infer(project: Project) -> None:
    """Fill `values` of each module of the project, and what is known of its classes and functions."""
    project.link()
    for module in project.modules.values():
        module.used = modules_by_use(module.scope)
    known: list[object] = []
    for _ in range(ROUNDS):
        for module in project.modules.values():
            _module(module, project)
        before, known = known, _known(project)
        if known == before:  # the next round would see what this one saw
            break


def _known(project: Project) -> list[object]:
    """What a round learned for the next: what functions are passed and return, what attributes and modules hold."""
    learned: list[object] = []
    for module in project.modules.values():
        learned.append(dict(module.env.layers[0]))
        learned += [(dict(info.args), info.returns) for info in module.functions.values()]
        learned += [dict(cls.attrs) for cls in module.classes.values()]
    return learned


def _module(module: ModuleInfo, project: Project) -> None:
    module.env = Env()
    evaluator = Evaluator(project, module, module.env, None, None)
    evaluator.modules = module.used.get(id(module.scope), NONE)
    block(module.scope.body, evaluator)
    for child in module.scope.children:
        _definition(child, module, module.env, project)


def _definition(scope: Scope, module: ModuleInfo, outer: Env, project: Project) -> None:
    """Run a class or a function, and what is defined inside."""
    if isinstance(scope.node, cst.ClassDef):
        _class(scope, module, outer, project)
        return
    info = module.functions[id(scope)]
    env = Env(outer, scope.locals, later=True)
    env.update(parameters(info, project))
    evaluator = Evaluator(project, module, env, info, info.cls)
    evaluator.modules = module.used.get(id(scope), NONE)
    assert isinstance(scope.node, cst.FunctionDef)
    evaluator.cut = any(is_no_grad(d.decorator, module) for d in scope.node.decorators)
    block(scope.body, evaluator)
    for child in scope.children:
        _definition(child, module, env, project)


def _class(scope: Scope, module: ModuleInfo, outer: Env, project: Project) -> None:
    cls = module.classes[scope.name]
    env = Env(outer)
    block(scope.body, Evaluator(project, module, env, None, cls))
    for stmt in scope.body.stmts:
        for name in stmt.defs:
            if name in env and isinstance(stmt.node, (cst.Assign, cst.AnnAssign)):
                cls.attrs.setdefault(name, env[name])
    for child in sorted(scope.children, key=lambda c: c.name != "__init__"):
        _definition(child, module, outer, project)
