"""`loss.backward(create_graph=True)`, where the gradients are read before anything changes them: `autograd.grad`.

Gradients that keep their graph are values of the program like any other: `x.grad` is what `autograd.grad(loss, x,
create_graph=True)` returns, as long as nothing was in `.grad` before. Where an optimizer takes the same gradients,
they are stored in front of its step; where another backward call adds to them, that call goes backward from the sum.
Else the backward call stays behind, and needs no graph of its own gradients then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program import flow, liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import overlaps, within
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites, small_of
from torch2ms.wrappers.passes import each_module

METHODS = ("step", "zero_grad", "backward", "zero_", "clip_grad_norm_", "clip_grad_value_")


@dataclass(eq=False)
class Kept:
    """One backward call, and the gradients that are read behind it."""

    stmt: Stmt
    call: cst.Call
    leaves: dict[str, cst.BaseExpression] = field(default_factory=dict)  # single tensors, by place
    params: cst.BaseExpression | None = None  # what lists the others
    names: dict[str, str] = field(default_factory=dict)  # of the gradients of single tensors
    grads: str = ""  # the name of the others
    reads: dict[int, str] = field(default_factory=dict)  # id of `x.grad` -> the name in its place
    loops: dict[int, str] = field(default_factory=dict)  # id of a loop over the parameters -> the name of one gradient
    listing: Stmt | None = None  # binds the name that lists the parameters, behind the call
    dead: bool = False  # nobody takes what the call itself stores
    cleared: Stmt | None = None  # a loop that clears just this
    summed: Stmt | None = None  # the next backward call, which adds to what this one stores
    stored: Stmt | None = None  # in front of it, the gradients are stored for whoever takes them
    one: str = ""  # the name of one of the parameters where they are stored


@each_module
def kept_graphs(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such calls."""
    if not module.has("create_graph") or module.directives.off:
        return None
    found = [kept for scope in module.scope.walk() for kept in _found(scope, module)]
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope, module: ModuleInfo) -> Iterator[Kept]:
    taken: set[str] = set()
    for stmt in scope.body.walk():
        call = stmt.node.value if type(stmt.node) is cst.Expr else None
        if type(call) is not cst.Call or not _keeps(call) or module.value(call.func).kind in ("function", "api"):
            continue
        kept = Kept(stmt, call)
        if _reads(kept) and _empty_before(kept, scope, module) and not _changed_behind(kept):
            taken |= {n.value for n in descend(scope.node) if type(n) is cst.Name}
            _name(kept, taken)
            kept.dead = _dead(kept, scope, module)
            kept.cleared = _clearing(kept) if kept.dead else None
            if kept.loops and not kept.dead:
                _hand_over(kept, module)
            yield kept


def _keeps(call: cst.Call) -> bool:
    """`loss.backward(create_graph=True)`, perhaps with a cotangent."""
    func, named = call.func, {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    if not isinstance(func, cst.Attribute) or func.attr.value != "backward" or not dotted(func.value):
        return False
    plain = [a for a in call.args if a.keyword is None]
    known = named.keys() <= {"create_graph", "retain_graph", "gradient"} and len(plain) <= 1
    return known and constant(named.get("create_graph")) is True and not any(a.star for a in call.args)


def _behind(stmt: Stmt) -> list[Stmt]:
    """The statements of its block behind it, up to one that changes gradients."""
    stmts = stmt.block.stmts
    found: list[Stmt] = []
    for other in stmts[stmts.index(stmt) + 1 :]:
        if _changes(other):
            break
        found.append(other)
    return found


def _changes(stmt: Stmt) -> bool:
    """Gradients are cleared, added to or used up in the statement."""
    for inner in stmt.walk():
        for call in inner.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in METHODS:
                return True
        if any("grad" in d.split(".")[1:] for d in inner.defs | inner.muts) and _writes_grad(inner):
            return True
    return False


def _writes_grad(stmt: Stmt) -> bool:
    """`p.grad = ...`, or one of its parts."""
    node = stmt.node
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    targets += [node.target] if isinstance(node, (cst.AugAssign, cst.AnnAssign)) else []
    places = {dotted(n) for t in targets for n in descend(t)} | {dotted(n.value) for t in targets for n in descend(t)
                                                              if isinstance(n, cst.Attribute)}  # fmt: skip
    return any(place.endswith(".grad") for place in places)


def _reads(kept: Kept) -> bool:
    """Every gradient that is read behind the call is one whose origin is seen; there are some."""
    for stmt in _behind(kept.stmt):
        for inner in stmt.walk():
            if isinstance(inner.node, (cst.FunctionDef, cst.ClassDef)):
                return False
            if not _of_statement(inner, kept):
                return False
    names = {root(place) for place in kept.leaves} - {"self"}
    behind = (s for outer in _behind(kept.stmt) for s in outer.walk())
    bound = {d for s in behind if type(s.node) is not cst.AugAssign for d in s.defs}  # `w -= ...` changes the tensor
    return bool(kept.leaves) != bool(kept.loops) and not names & bound and _listed_in_time(kept)


def _listed_in_time(kept: Kept) -> bool:
    """What lists the parameters is there before the call, or can be: `params = [p for p in net.parameters()]`."""
    name = dotted(kept.params) if kept.params is not None else ""
    binding = [s for s in _behind(kept.stmt) if name and name in s.all_defs]
    if not binding:
        return True
    kept.listing = stmt = binding[0]
    value = stmt.node.value if type(stmt.node) is cst.Assign and dotted(stmt.node.targets[0].target) == name else None
    called = [c.func.attr.value if type(c.func) is cst.Attribute else dotted(c.func) for c in stmt.calls]
    lists = value is not None and "parameters" in called and {*called} <= {"parameters", "list", "tuple"}
    earlier = {d for s in _behind(kept.stmt) if s.number < stmt.number for d in s.all_defs | s.all_muts}
    return len(binding) == 1 and lists and not earlier & {root(u) for u in stmt.uses}


def _clearing(kept: Kept) -> Stmt | None:
    """`for p in params: p.grad = None` behind the reads: there is nothing in them where nothing was before."""
    stmts = kept.stmt.block.stmts
    stmt = next(iter(stmts[stmts.index(kept.stmt) + 1 + len(_behind(kept.stmt)) :]), kept.stmt)
    if type(stmt.node) is not cst.For or kept.params is None or stmt.node.orelse is not None:
        return None
    inner = [s for s in stmt.walk() if s is not stmt]
    alone = len(inner) == 1 and inner[0].defs == {f"{dotted(stmt.node.target)}.grad"} and _clears(inner[0])
    return stmt if alone and code(stmt.node.iter) == code(kept.params) else None


def _hand_over(kept: Kept, module: ModuleInfo) -> None:
    """What the call stores are the gradients that are read behind it: they need no second run of the backward."""
    assert isinstance(kept.call.func, cst.Attribute) and kept.params is not None
    stmts = kept.stmt.block.stmts
    following = stmts[stmts.index(kept.stmt) + 1 + len(_behind(kept.stmt)) :]
    filled, listed = module.value(kept.call.func.value).deps, module.value(kept.params).deps
    if not following or not filled or not all(within(f, listed) for f in filled):
        return
    call = following[0].node.value if type(following[0].node) is cst.Expr else None
    again = type(call) is cst.Call and not call.args and call in _backward_calls(following[0])
    alone = {a.keyword.value for a in kept.call.args if a.keyword is not None} <= {"create_graph", "retain_graph"}
    kept_name = {d for s in _behind(kept.stmt) for d in s.all_defs}.isdisjoint({dotted(kept.call.func.value)})
    if again and alone and kept_name and len(kept.call.args) <= 2:
        kept.summed = following[0]
    elif not any(_backward_calls(s) for s in following[0].walk()):
        kept.stored = following[0]


def _of_statement(stmt: Stmt, kept: Kept) -> bool:
    """The gradients that one statement reads; a loop's own are those of its head."""
    if stmt.blocks and not isinstance(stmt.node, cst.For):
        return not any(_is_grad(n) for e in _heads(stmt.node) for n in descend(e))
    if isinstance(stmt.node, cst.For):
        return _loop(stmt.node, [n for s in stmt.walk() if s is not stmt for n in _own(s)], kept)
    inside: set[int] = set()
    for node in stmt.nodes:
        if isinstance(node, (cst.BaseSimpleComp, cst.DictComp)):
            inside |= {id(n) for n in descend(node)}
            held = [n for n in descend(node) if not isinstance(n, cst.CompFor)]
            if any(_is_grad(n) for n in held) and not _loop(node.for_in, held, kept):
                return False
    for node in stmt.nodes:
        if _is_grad(node) and id(node) not in inside and id(node) not in kept.reads:
            place = dotted(node.value)  # type: ignore[attr-defined]
            if not place or any(a.is_loop and root(place) in a.defs for a in stmt.ancestors()):
                return False
            kept.reads[id(node)] = place
            kept.leaves.setdefault(place, node.value)  # type: ignore[attr-defined]
    return True


def _heads(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The expressions of a compound statement itself."""
    return [node.test] if isinstance(node, (cst.If, cst.While)) else [i.item for i in getattr(node, "items", ())]


def _own(stmt: Stmt) -> list[cst.CSTNode]:
    """What is in a statement, without the blocks that it holds."""
    if stmt.blocks:
        return [n for e in _heads(stmt.node) for n in descend(e)]
    return stmt.nodes


def _is_grad(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "grad" and dotted(node) != "torch.autograd.grad"


def _loop(node: cst.For | cst.CompFor, held: list[cst.CSTNode], kept: Kept) -> bool:
    """A loop over parameters, perhaps beside other things, that reads the gradient of each; or one that reads none."""
    reads = [n for n in held if _is_grad(n) and id(n) not in kept.reads]
    names = {dotted(n.value) for n in reads}  # type: ignore[attr-defined]
    if not reads:
        return True
    target, over = node.target, node.iter
    if isinstance(target, cst.Tuple):
        if not isinstance(over, cst.Call) or dotted(over.func) != "zip" or len(over.args) != len(target.elements):
            return False
        pairs = [(dotted(e.value), a.value) for e, a in zip(target.elements, over.args, strict=True)]
    else:
        pairs = [(dotted(target), over)]
    listed = [value for name, value in pairs if {name} == names]
    if len(listed) != 1 or isinstance(node, cst.CompFor) and node.inner_for_in is not None:
        return False
    (params,) = listed
    if not dotted(params) and not (isinstance(params, cst.Call) and _lists(params)):
        return False
    if kept.params is not None and code(kept.params) != code(params):
        return False
    kept.params = params
    kept.loops[id(node)] = ""
    for read in reads:
        kept.reads[id(read)] = ""
    return True


def _lists(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters" and not call.args


def _changed_behind(kept: Kept) -> bool:
    """A name for a gradient itself is used behind a statement that changes the gradient in place."""
    held: set[str] = set()
    for stmt in (s for outer in _behind(kept.stmt) for s in outer.walk()):
        value = stmt.node.value if isinstance(stmt.node, cst.Assign) else None
        parts = [value.elt] if isinstance(value, (cst.ListComp, cst.GeneratorExp)) else [value]
        parts += [e.value for e in value.elements] if isinstance(value, (cst.List, cst.Tuple)) else []
        if any(id(part) in kept.reads for part in parts):
            held |= {root(d) for d in stmt.defs}
    block, behind = kept.stmt.block, _behind(kept.stmt)
    last = block.stmts.index(kept.stmt) + len(behind)
    if not held or block.stmts[last + 1 :] == [] or _forgets(block.stmts[last + 1]):
        return False
    return bool(liveness.read_after(block, behind, last) & held)


def _forgets(stmt: Stmt) -> bool:
    """The statement leaves gradients as they were, and is done with them."""
    if any(a.keyword is not None and a.keyword.value == "set_to_none" for c in stmt.calls for a in c.args):
        return False
    return _clears(stmt) or any(_clears(s) for s in stmt.walk())


def _empty_before(kept: Kept, scope: Scope, module: ModuleInfo) -> bool:
    """Nothing is in the gradients when backward is called: they were cleared, or their tensors made, just before."""
    stmts = kept.stmt.block.stmts
    fresh: set[str] = set()
    emptied: set[str] = set()
    cleared = False
    for stmt in reversed(stmts[: stmts.index(kept.stmt)]):
        cleared |= any(_clears(s) for s in stmt.walk()) and _clears_all(stmt, kept, module)
        if any(
            _same_tensors(s, call, kept, scope, module.imports.table)
            for s in stmt.walk()
            for call in _backward_calls(s)
        ):
            break
        fresh |= {root(d) for d in stmt.defs}
        emptied |= _cleared(stmt, module)
        known = {p for p, node in kept.leaves.items() if root(p) in fresh or _among(p, node, emptied, module)}
        if kept.leaves and set(kept.leaves) == known or cleared and not kept.leaves:
            return True
    else:
        around = any(a.is_loop for a in kept.stmt.ancestors())
        earlier = [s for s in scope.body.walk() if s.number < kept.stmt.number and s.block is not kept.stmt.block]
        return scope.is_module and not around and not any(_backward_calls(s) for s in earlier)
    return False


def _among(place: str, node: cst.BaseExpression, cleared: set[str], module: ModuleInfo) -> bool:
    """A tensor is one of those that are cleared, under its own name or as a part of what the name stands for."""
    value = module.value(node)
    own = value.place if value.name in ("module_param", "parameter") else ""
    return any(overlaps(p, c) for p in (place, own) if p for c in cleared)


def _backward_calls(stmt: Stmt) -> list[cst.Call]:
    return [c for c in stmt.calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "backward"]


def _same_tensors(stmt: Stmt, call: cst.Call, kept: Kept, scope: Scope, imported: Iterable[str]) -> bool:
    """Another backward call may fill the same gradients: what the two go back from has something in common."""
    assert isinstance(kept.call.func, cst.Attribute) and isinstance(call.func, cst.Attribute)
    one = _origins(call.func.value, stmt, scope)
    return bool(one & _origins(kept.call.func.value, kept.stmt, scope) - set(imported))


def _origins(node: cst.BaseExpression, stmt: Stmt, scope: Scope) -> set[str]:
    """The names that an expression is made of, and those that they are made of."""
    found = {root(u) for u in expression_uses(node, stmt)}
    for other in reversed([s for s in scope.body.walk() if s.number < stmt.number]):
        if {root(d) for d in other.defs | other.muts} & found:
            found |= {root(u) for u in other.uses}
    return found


def _clears(stmt: Stmt) -> bool:
    named = any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "zero_grad" for c in stmt.calls)
    return named or isinstance(stmt.node, cst.Assign) and dotted(stmt.node.value) == "None" and _writes_grad(stmt)


def _dead(kept: Kept, scope: Scope, module: ModuleInfo) -> bool:
    """What backward stores is cleared behind the reads, or nobody looks at it."""
    stmts = kept.stmt.block.stmts
    following = stmts[stmts.index(kept.stmt) + 1 + len(_behind(kept.stmt)) :]
    if not following and all(a.is_loop for a in kept.stmt.ancestors()) and _unread(kept, scope, module):
        return True
    if not following or not any(_clears(s) for s in following[0].walk()):
        return False
    if kept.loops:
        return _clears_all(following[0], kept, module)
    assert isinstance(kept.call.func, cst.Attribute)
    cleared = _cleared(following[0], module)
    cleared |= {d.removesuffix(".grad") for s in following[0].walk() for d in s.defs if d.endswith(".grad")}
    others = {dotted(n.value) for n in descend(scope.node) if type(n) is cst.Attribute and _is_grad(n)
              and id(n) not in kept.reads}  # fmt: skip
    filled = module.value(kept.call.func.value).deps
    unseen = {d for d in filled if d in kept.leaves and d not in others and "." not in d}
    return bool(filled) and all(any(overlaps(d, c) for c in cleared) for d in filled - unseen)


def _unread(kept: Kept, scope: Scope, module: ModuleInfo) -> bool:
    """In a script, nobody else reads gradients or takes a step."""
    if not scope.is_module or len(list(scope.walk())) > 1:
        return False
    nodes = [n for s in scope.body.walk() for n in s.nodes if type(n) is cst.Attribute]
    inner = {id(s) for s in _behind(kept.stmt)}
    others = [s for s in scope.body.walk() if id(s) not in inner and not s.blocks and s is not kept.stmt]
    kinds = {module.value(c.func).kind for s in scope.body.walk() for c in s.calls}
    alone = all(_clears(s) for s in others if _changes(s)) and not kinds & {"function", "object", "class"}
    return alone and not any(_is_grad(n) and id(n) not in kept.reads for n in nodes)


def _clears_all(stmt: Stmt, kept: Kept, module: ModuleInfo) -> bool:
    """What a statement clears are, for all that is seen, the parameters of the loops."""
    cleared = _cleared(stmt, module)
    filled = module.value(kept.params).deps if kept.params is not None else frozenset()
    if not cleared or any(place.startswith("@") for place in filled | cleared):
        return True
    return all(any(overlaps(f, c) for c in cleared) for f in filled)


def _cleared(stmt: Stmt, module: ModuleInfo) -> set[str]:
    """Whose gradients `zero_grad` clears."""
    found: set[str] = set()
    for inner in stmt.walk():
        for call in inner.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad":
                value = module.value(call.func.value)
                found |= (value.owns or set()) if value.kind == "optimizer" else value.own
    return found


def _name(kept: Kept, taken: set[str]) -> None:
    """Names for the gradients."""

    def fresh(base: str) -> str:
        name, number = base, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        return name

    if kept.loops:
        kept.grads = fresh("grads")
        one = fresh("grad")
        kept.one = fresh("p")
        kept.loops = dict.fromkeys(kept.loops, one)
        kept.reads = dict.fromkeys(kept.reads, one)
        return
    kept.names = {place: fresh(f"{place.rpartition('.')[2]}_grad") for place in kept.leaves}
    kept.reads = {key: kept.names[place] for key, place in kept.reads.items()}


class _Writer(Suites):
    """One module with these calls written as gradients that have names."""

    def __init__(self, module: ModuleInfo, found: list[Kept]) -> None:
        super().__init__(module)
        self.found = {id(k.stmt.node): k for k in found}
        self.reads = {key: name for k in found for key, name in k.reads.items()}
        self.loops = {key: (name, k) for k in found for key, name in k.loops.items()}
        self.moved = {id(k.listing.node) for k in found if k.listing is not None}
        self.cleared = {id(k.cleared.node) for k in found if k.cleared is not None}
        self.summed = {id(k.summed.node): k for k in found if k.summed is not None}
        self.stored = {id(k.stored.node): k for k in found if k.stored is not None}

    def statement(self, stmt: cst.CSTNode) -> Made:
        made, waiting = super().statement(stmt)
        first = stmt.body[0] if type(stmt) is cst.SimpleStatementLine else stmt
        if id(first) in self.cleared:
            return [], layout.leading(stmt)
        kept = self.stored.get(id(first))
        if kept is None or kept.params is None:
            return made, waiting
        one, grad = kept.one, next(iter(kept.loops.values()))
        text = f"for {one}, {grad} in zip({code(kept.params)}, {kept.grads}):\n    {one}.grad = {grad}\n"
        loop = cst.parse_statement(text, config=self.module.tree.config_for_parsing)
        for node in flow.in_order([loop]):
            self.number(node, first)
        return [loop, *made], waiting

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.moved:
            return []
        if (before := self.summed.get(id(node))) is not None:
            return [small_of(self.sum_of(before, node))]
        kept = self.found.get(id(node))
        if kept is None:
            return [self.rewrite(node)]
        func = kept.call.func
        assert isinstance(func, cst.Attribute)
        given = [a.value for a in kept.call.args if a.keyword is None or a.keyword.value == "gradient"]
        cotangent = f", {code(given[0])}" if given else ""
        output = code(func.value)
        if kept.params is not None:
            inputs, target = code(kept.params), kept.grads
        else:
            inputs = ", ".join(kept.leaves) if len(kept.leaves) == 1 else f"[{', '.join(kept.leaves)}]"
            target = ", ".join(kept.names.values()) + ("," if len(kept.leaves) == 1 else "")
        again = f"{output}.backward({f'{code(given[0])}, ' if given else ''}retain_graph=True)"
        grad = self.grad()
        texts = [
            f"{target} = {grad}({output}, {inputs}{cotangent}, create_graph=True)",
            *([] if kept.dead or kept.summed or kept.stored else [again]),
        ]
        if kept.listing is not None:
            texts.insert(0, code(kept.listing.node))
        return [small_of(text) for text in texts]

    def sum_of(self, kept: Kept, node: cst.BaseSmallStatement) -> str:
        """`(loss + penalty).backward()`."""
        first, second = kept.call.func, node.value.func  # type: ignore[attr-defined]
        assert isinstance(first, cst.Attribute)
        text = code(self.rewrite(second.value))
        whole = second.value.lpar or dotted(second.value)
        return f"({code(first.value)} + {text if whole else f'({text})'}).backward()"

    def grad(self) -> str:
        """How the module calls `torch.autograd.grad`."""
        table = self.module.imports.table
        for target, rest in (("torch.autograd.grad", ""), ("torch.autograd", ".grad"), ("torch", ".autograd.grad")):
            for name, meant in table.items():
                if meant == target:
                    return name + rest
        return "torch.autograd.grad"

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        name = self.reads.get(id(original))
        return updated if name is None else cst.Name(name)

    def leave_CompFor(self, original: cst.CompFor, updated: cst.CompFor) -> cst.CompFor:
        return self.beside(original, updated)  # type: ignore[return-value]

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For:
        return self.beside(original, updated)  # type: ignore[return-value]

    def beside(self, original: cst.For | cst.CompFor, updated: cst.For | cst.CompFor) -> cst.For | cst.CompFor:
        """`for p in params` runs over the gradients too."""
        if id(original) not in self.loops:
            return updated
        name, kept = self.loops[id(original)]
        target, over = code(updated.target).strip("()"), updated.iter
        zipped = isinstance(over, cst.Call) and isinstance(updated.target, cst.Tuple)
        lists = ", ".join(code(a.value) for a in over.args) if zipped and isinstance(over, cst.Call) else code(over)
        made = cst.parse_expression(f"zip({lists}, {kept.grads})")
        both = cst.parse_expression(f"{target}, {name}")
        return updated.with_changes(target=both, iter=made)
