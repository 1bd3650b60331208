"""Functions of other libraries that are given a model, its parameters or its optimizer while these have gradients.

`check_update(model, 1.0)` and `sync_gradients(net)` between backward call and step read or change what torch keeps in
the parameters; in MindSpore nothing is there for them to find.
"""

from __future__ import annotations

import builtins
import re
import sys

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.model import Event, Owner

TOUCHES = re.compile(r"(?:^|_)(?:grads?|gradients?|reduce|synchroni[sz]e)(?:_|$)")
BACKWARD = re.compile(r"(?:^|_)(?:backward|backprop(?:agate)?)(?:_|$)", re.IGNORECASE)
NAMED = re.compile(r"\w_backward|backward_\w|backprop|(?<!\.)\bbackward\(", re.IGNORECASE)
PROCESSES = re.compile(r"distributed|world_size|num_processes|\bddp\b|multi_?gpu", re.IGNORECASE)
OWN = ("zero_grad", "requires_grad_")
HOLDERS = frozenset({"module", "optimizer", "params", "named_params"})


def given_elsewhere(
    events: list[Event], owners: list[Owner], scope: Scope, module: ModuleInfo, clipping: set[str]
) -> str:
    """A call between a backward call and a step behind it that hands such a function what has gradients, "" if none.

    `clipping` are functions of the project that change gradients: a call that is no event could not hand it any.
    """
    backwards = [e.stmt.number for e in events if e.kind == "backward"]
    steps = [e.stmt.number for e in events if e.kind in ("step", "scaler_step")]
    known = {id(e.node) for e in events}
    if not backwards or not steps:
        return ""
    for stmt in scope.body.walk():
        if not min(backwards) < stmt.number < max(steps):
            continue
        last = max((b for b in backwards if b < stmt.number), default=-1)
        stepped = max((s for s in steps if s < stmt.number), default=-1)
        if last <= stepped:
            continue
        for call in stmt.calls:
            uses = _imported(call, module) or dotted(call.func) in clipping or _brought(call, module) in clipping
            if id(call) not in known and uses and any(_holds(a.value, module) for a in call.args):
                return dotted(call.func)
            if id(call) not in known and _of_network(call, module):
                if not any(_of_processes(a) for a in stmt.ancestors()):
                    return dotted(call.func)
                for owner in owners:
                    owner.assumed.add(f"one process trains: `{dotted(call.func)}`, which is not seen, does nothing")
            if id(call) not in known and _unseen(call, module):
                for owner in owners:
                    owner.assumed.add(f"`{dotted(call.func)}`, which is not seen, leaves the gradients alone")
    return ""


def backward_elsewhere(events: list[Event], scope: Scope, module: ModuleInfo) -> str:
    """A function that is not seen goes backward from a loss, by its name: `self.regularizer.backward_with(loss)`.

    Or it is given parameters beside it, behind a gradient that kept the graph: `hessian_vector_product(kl, weights)`.
    """
    known = {id(e.node) for e in events}
    kept = min((e.stmt.number for e in events if e.retain_graph), default=None)
    for stmt in scope.body.walk() if kept is not None or module.says(NAMED) else ():
        for call in stmt.calls:
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            behind = kept is not None and stmt.number > kept and len(call.args) > 1
            if id(call) in known or not behind and not BACKWARD.search(name):
                continue
            target, given = module.value(call.func), [module.value(a.value) for a in call.args]
            unseen = target.kind == "unknown" or target.kind == "api" and not is_foreign(target.name)
            weights = behind and any(v.kind == "params" for v in given)
            varied = [v.kind for v in given if v.kind in ("tensor", "unknown") and v.deps]
            if unseen and (weights and varied or BACKWARD.search(name) and "tensor" in varied):
                return dotted(call.func) or name
    return ""


def _unseen(call: cst.Call, module: ModuleInfo) -> bool:
    """Something that callers gave is handed what has gradients, or takes a step of its own: a callback, a
    preconditioner. Most look on."""
    name = dotted(call.func)
    if not name or hasattr(builtins, name) or root(name) in module.imports.table:
        return False
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" and not call.args:
        return module.value(call.func.value).kind in ("unknown", "none") and "sched" not in name.lower()
    return module.value(call.func).kind == "unknown" and any(_holds(a.value, module) for a in call.args)


def _brought(call: cst.Call, module: ModuleInfo) -> str:
    """The last name of a function that is called by the name of an imported module: `utils.clip(parameters)`."""
    name = dotted(call.func)
    return name.rpartition(".")[2] if name and root(name) in module.imports.table else ""


def _imported(call: cst.Call, module: ModuleInfo) -> bool:
    """The function comes from another library, which is neither torch nor Python's own."""
    name = dotted(call.func)
    origin = module.imports.table.get(root(name), "") if name else ""
    theirs = bool(origin) and not is_foreign(origin) or bool(name) and not origin and _by_star(name, module)
    own = origin.partition(".")[0] in sys.stdlib_module_names
    return theirs and not own and module.value(call.func).kind in ("api", "unknown")


def _by_star(name: str, module: ModuleInfo) -> bool:
    """Nothing in the module binds the name, and some other library gives it all its names."""
    libraries = {star.partition(".")[0] for star in module.imports.stars} - {"torch", "torchvision", "torchaudio"}
    bound = hasattr(builtins, name) or any(root(name) in scope.locals for scope in module.scope.walk())
    return bool(libraries - sys.stdlib_module_names) and not bound


def _of_processes(stmt: Stmt) -> bool:
    """An `if` statement for several processes."""
    return isinstance(stmt.node, cst.If) and PROCESSES.search(code(stmt.node.test)) is not None


def _of_network(call: cst.Call, module: ModuleInfo) -> bool:
    """A method of a network, not seen, whose name says that it does something to gradients."""
    func = call.func
    if not isinstance(func, cst.Attribute) or not TOUCHES.search(func.attr.value) or not dotted(func):
        return False
    value = module.value(func.value)
    cls = value.name.rpartition(".")[2]
    defined = any(c.scope.name == cls or func.attr.value in c.methods for c in module.classes.values())
    return value.kind == "module" and func.attr.value not in OWN and not defined


def _holds(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    value = module.value(node)
    listed = isinstance(node, cst.Call) and value.kind == "unknown" and any(_holds(a.value, module) for a in node.args)
    return listed or value.kind in HOLDERS or value.name == "named_parameters"
