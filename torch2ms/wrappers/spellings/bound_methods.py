"""`zero, step = opt.zero_grad, opt.step` by other names, and networks given to a namespace where it is made.

`step()` is `opt.step()`, where the name is bound once and only called. `ns = SimpleNamespace(net=Net())` is written as
`ns = SimpleNamespace()` and `ns.net = Net()`: a network lives where it is bound.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.boxes import LIVING, closes_over, own_nodes, parts
from torch2ms.wrappers.passes import each_module

METHODS = {"zero_grad", "step"}
NAMESPACES = {"types.SimpleNamespace", "argparse.Namespace"}


@each_module
def called_by_name(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such names or such namespaces."""
    if module.directives.off:
        return None
    writer = _Writer(module)
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            both = parts(stmt.node)
            if both is None or stmt.off:
                continue
            if type(both[1]) is cst.Attribute and both[1].attr.value in METHODS:
                _method(stmt, scope, module, writer)
            elif type(both[1]) is cst.Call and qualified(both[1].func, module.imports) in NAMESPACES:
                _namespace(stmt, module, writer)
    return writer.plain() if writer.dropped or writer.filled else None


class _Writer(Suites):
    """One module, with the methods under their own names."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.dropped: set[int] = set()
        self.called: dict[int, cst.BaseExpression] = {}  # by id of a call: the method
        self.filled: dict[int, list[cst.Arg]] = {}  # by id of a statement that makes a namespace: what comes after it

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.dropped:
            return []
        later = self.filled.get(id(node))
        if later is None:
            return [self.rewrite(node)]
        both = parts(node)
        assert both is not None and isinstance(both[1], cst.Call) and isinstance(node, cst.Assign)
        kept = [a for a in both[1].args if a not in later]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        made = node.with_changes(value=both[1].with_changes(args=kept))
        texts = [f"{code(both[0])}.{a.keyword.value} = {code(a.value)}" for a in later if a.keyword is not None]
        return [made, *map(small_of, texts)]

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        method = self.called.get(id(original))
        return updated if method is None else updated.with_changes(func=method)


def _method(stmt: Stmt, scope: Scope, module: ModuleInfo, writer: _Writer) -> None:
    """A name for a method of an optimizer."""
    both = parts(stmt.node)
    assert both is not None and isinstance(both[1], cst.Attribute)
    name, owner = dotted(both[0]), dotted(both[1].value)
    if not owner or not isinstance(both[0], cst.Name) or module.value(both[1].value).kind != "optimizer":
        return
    seen = [(s, inner) for inner in module.scope.walk() for s in inner.body.walk()]
    if sum(name in s.defs for s, _ in seen) != 1 or stmt.block is not scope.body:
        return
    if sum(owner in s.defs for s, _ in seen) > 1:  # another optimizer at some time
        return
    calls = [
        node
        for s, inner in seen
        if closes_over(inner, scope, name) and closes_over(inner, scope, owner.partition(".")[0])
        for node in own_nodes(s)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == name
    ]
    methods = sum(isinstance(n, cst.Attribute) and n.attr.value == name for n in descend(module.tree))
    mentions = sum(isinstance(n, cst.Name) and n.value == name for n in descend(module.tree)) - methods
    if not calls or mentions != 1 + len(calls):
        return
    writer.dropped.add(id(stmt.node))
    writer.called |= {id(call): both[1] for call in calls}


def _namespace(stmt: Stmt, module: ModuleInfo, writer: _Writer) -> None:
    """Networks that a namespace is made with and an optimizer trains: written behind it, with what follows them."""
    both = parts(stmt.node)
    assert both is not None and isinstance(both[1], cst.Call)
    args = list(both[1].args)
    if not isinstance(stmt.node, cst.Assign) or not dotted(both[0]) or not all(a.keyword is not None for a in args):
        return
    first = next((i for i, a in enumerate(args) if module.value(a.value).kind in LIVING), len(args))
    later = args[first:]
    trained = any(
        module.value(call).kind == "optimizer" and f"{dotted(both[0])}." in code(call)
        for scope in module.scope.walk()
        for other in scope.body.walk()
        for call in other.calls
    )
    if later and trained:
        writer.filled[id(stmt.node)] = later
