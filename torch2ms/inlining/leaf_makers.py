"""Networks that make the leaf which their callers differentiate with respect to: `output, coords = siren(x)`.

SIREN's forward copies its input, lets the copy require gradients, and returns it beside the output. Where gradients
are taken with respect to it, the forward is written out at the call: what is differentiated is seen there.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import Site
from torch2ms.analysis.syntax.names import method_called
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import fits, movable, plain

FORWARD = "forward"


def leaf_makers(project: Project) -> dict[int, Candidate]:
    """By id of the call: the forwards of this kind, where a tuple of names receives what they return."""
    modules = [m for m in project.modules.values() if not m.uses_mindspore]
    if not any(m.has("create_graph") for m in modules) or any(m.has("_forward_hook") for m in modules):
        return {}  # a hook waits for the call
    makers = [
        info for m in modules if m.has("requires_grad_") for cls in m.classes.values()
        if cls.kind == "module" and (info := cls.methods.get(FORWARD)) is not None and _makes(info)
    ]  # fmt: skip
    found: dict[int, Candidate] = {}
    for info in makers:
        assert info.cls is not None
        sites = [site for m in modules for site in _sites(info.cls, m, project)]
        made = plain(info, sites, info.scope.body.stmts[0].lineno) if movable(info) else None
        if made is not None and sites and all(fits(made, site) for site in sites):
            found |= {id(site.call): made for site in sites}
    return found


def _makes(info: FunctionInfo) -> bool:
    """The forward returns a name next to others that it has made a leaf."""
    last = info.scope.body.stmts[-1].node if info.scope.body.stmts else None
    if not isinstance(last, cst.Return) or not isinstance(last.value, cst.Tuple):
        return False
    returned = {e.value.value for e in last.value.elements if isinstance(e.value, cst.Name)}
    leaves = {d for s in info.scope.body.stmts for d in s.defs
              if any(method_called(c) == "requires_grad_" for c in s.calls)}  # fmt: skip
    return bool(returned & leaves)


def _sites(cls: ClassInfo, module: ModuleInfo, project: Project) -> list[Site]:
    """The calls of networks of the class whose parts get names."""
    found = []
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
                continue
            value = module.value(node.value.func)
            if isinstance(node.targets[0].target, cst.Tuple) and value.kind == "module":
                if class_of(value, module, project) is cls and not cls.overriding(FORWARD):
                    found.append(Site(module, scope, stmt, node.value))
    return found
