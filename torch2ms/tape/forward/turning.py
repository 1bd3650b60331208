"""Conditions that are other ones from step to step of an optimizer, as far as that is seen."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.tape.forward.asking import asked_by
from torch2ms.tape.forward.filling import filled
from torch2ms.tape.forward.unsteady import DRAWN
from torch2ms.tape.ledger.again import given_by_loops
from torch2ms.tape.model import Event, Owner


def same_at_every_step(
    test: cst.BaseExpression, asked: set[str], event: Event, owner: Owner, module: ModuleInfo, project: Project
) -> bool:
    """A condition of a step, which `asked` for these names, does not change while the program trains.

    What a function is given for it is assumed to be the same, where no call says more.
    """
    scope = event.stmt.block.scope
    turning = given_by_loops(scope, project) | turning_names(event, owner)
    if _filled(test, event, owner, module):
        return False
    names, asked = asked, _named_again(asked, scope, project)
    if asked & turning or _rebound(test, expression_uses(test, event.stmt), event, project):
        return False
    if _computed_anew(test, names, turning, event, module, project):
        return False
    if asked - scope.locals or asked & set(scope.params):
        owner.assumed.add(f"`{code(test)}` is the same at every step of `{owner.place}`")
    return True


def _computed_anew(
    test: cst.BaseExpression, names: set[str], turning: set[str], event: Event, module: ModuleInfo, project: Project
) -> bool:
    """It is drawn, asks for what tensors hold, or is computed from what changes; their shapes stay as they are."""
    parts, uses = asked_by(test, event.stmt, names)
    if any(DRAWN.search(code(part)) for part in parts):
        return True
    if ".item()" in code(test) or type(test) is not cst.Subscript and module.value(test).kind == "tensor":
        return True
    return bool({root(u) for u in uses} & turning) or _rebound(test, uses, event, project)


def turning_names(event: Event, owner: Owner) -> set[str]:
    """The names that may be others in each turn of the loops in which an optimizer steps that was made before."""
    return {root(d) for a in _loops(event, owner) for s in a.walk() for d in s.defs}


def from_attributes(scope: Scope) -> set[str]:
    """The names of a method that it computes from attributes which methods go on to change: `who = plan[self.turn]`."""
    methods = [s for s in scope.cls.children if s.is_function and s.name != "__init__"] if scope.cls is not None else []
    moving = {d for method in methods for s in method.body.walk() for d in s.defs if "." in d}
    found: set[str] = set()
    for stmt in scope.body.walk() if moving else ():
        if type(stmt.node) is cst.Assign and not stmt.uses.isdisjoint(moving | found):
            found |= {d for d in stmt.defs if "." not in d}
    return found


def _loops(event: Event, owner: Owner) -> list[Stmt]:
    loops = [a for a in event.stmt.ancestors() if a.is_loop]
    return [a for a in loops if not any(owner.place in s.defs for s in a.walk())]


def _filled(test: cst.BaseExpression, event: Event, owner: Owner, module: ModuleInfo) -> bool:
    """It goes through a container in which these loops put something, or from which they take it: `active.remove(k)`.

    What a network that runs leaves in one (a hook) is the same at every step.
    """
    uses = expression_uses(test, event.stmt)
    changing = [s for a in _loops(event, owner) for s in a.walk() if not s.blocks and s.muts & uses]
    return any(not any(module.value(c.func).kind == "module" for c in s.calls) for s in changing)


def _named_again(asked: set[str], scope: Scope, project: Project) -> set[str]:
    """The names of a condition; for one that only names an attribute which nothing changes, what has the attribute.

    `weights = criterion.weights` in the loop is the same at every turn.
    """
    names = set()
    for name in asked:
        bound = [s for s in scope.body.walk() if any(root(d) == name for d in s.defs | s.muts)]
        node = bound[0].node if len(bound) == 1 and name not in scope.params else None
        place = dotted(node.value) if isinstance(node, cst.Assign) and len(node.targets) == 1 else ""
        plain = "." in place and dotted(node.targets[0].target) == name  # type: ignore[union-attr]
        names.add(root(place) if plain and not _bound_anew(place.rpartition(".")[2], project) else name)
    return names


def _bound_anew(attr: str, project: Project) -> bool:
    """Something else than a constructor binds or changes an attribute of this name."""
    scopes = (s for m in project.modules.values() for s in m.scope.walk() if s.name != "__init__" or s.cls is None)
    return any(d.endswith(f".{attr}") for scope in scopes for s in scope.body.walk() for d in s.defs | s.muts)


def _rebound(test: cst.BaseExpression, uses: set[str], event: Event, project: Project) -> bool:
    """A condition `uses` an attribute that other methods than the constructor bind: `if self.step % 2`; or something
    that has the object: `solver.mode = "all"`.

    Whether something is there at all (`self.optimizer is not None`) is settled where the object is set up.
    """
    cls = event.stmt.block.scope.cls
    questions = [c for c in descend(test) if type(c) is cst.Comparison and len(c.comparisons) == 1]
    there = {dotted(c.left) for c in questions if type(c.comparisons[0].operator) in (cst.Is, cst.IsNot)}
    asked = {u for u in uses - there if u.startswith("self.") and u.count(".") == 1}
    methods = [m.scope for m in _methods(cls, project) if m.name != "__init__"] if cls is not None and asked else []
    inside = [s for scope in methods for s in scope.body.walk()]
    if any(asked & s.defs for s in inside) or any(asked.intersection(filled(s)) for s in inside if asked & s.muts):
        return True
    return cls is not None and bool(asked) and _set_from_outside({u[5:] for u in asked}, cls, project)


def _set_from_outside(attrs: set[str], scope: Scope, project: Project) -> bool:
    """Some statement binds one of these attributes of an object of the class."""
    own = [c for m in project.modules.values() for c in m.classes.values() if c.scope is scope]
    family = [f for c in own for f in (*c.lineage(), *c.below())]
    for module in project.modules.values():
        for node in (s.node for inner in module.scope.walk() for s in inner.body.walk()):
            for target in (t.target for t in node.targets) if isinstance(node, cst.Assign) else ():
                if isinstance(target, cst.Attribute) and target.attr.value in attrs and dotted(target.value) != "self":
                    value = module.value(target.value)
                    if value.kind == "object" and class_of(value, module, project) in family:
                        return True
    return False


def _methods(scope: Scope, project: Project) -> list[FunctionInfo]:
    """The methods of a class, its own and those that it inherits or that are derived from it."""
    found = [c for m in project.modules.values() for c in m.classes.values() if c.scope is scope]
    return [m for c in found for cls in (*c.lineage(), *c.below()) for m in cls.methods.values()]
