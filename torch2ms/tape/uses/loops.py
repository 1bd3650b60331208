"""Loops and comprehensions over parameters that use `p.grad`: they run over parameters and gradients together.

Where the loop does not run over just what the gradients were taken of, each gradient is looked up by its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.known.torchapi import ROWS
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import MIXED
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.ledger.clears import SOME, for_some
from torch2ms.tape.ledger.owners import kinship
from torch2ms.tape.ledger.pairs import COMPREHENSIONS, Pairing, bound, clauses, paired
from torch2ms.tape.model import Event, Owner, Taken
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.refusals import refusal
from torch2ms.tape.uses.layer_loops import plan_layers
from torch2ms.tape.uses.own_memory import by_index, kept_apart

REDUCING = {"sum", "max", "min", "all", "any", "norm", "mean", "len", "set", "sorted", "fsum", "amax", "amin"}
TELLING = {"print", "append", "extend", "write", "writerow", "info", "debug", "log", "add_scalar", "add_histogram"}


def plan_loop(
    event: Event, owner: Owner, module: ModuleInfo, plan: Plan, writer: Writer, empty: bool = False,
    by_value: bool = False,
) -> None:  # fmt: skip
    """`for p in net.parameters(): ... p.grad ...`; `empty`: there may be no gradients yet.

    `by_value`: the loss does not reach some of the parameters, and the loop shows which: their gradients are zeros.
    """
    node = event.node
    assert isinstance(node, cst.For)
    if event.layers:
        plan_layers(event, _table(event.stmt, owner, plan, writer, event.writes), module, plan)
        return
    places = {dotted(g) for n in _inside(event.stmt) for g in descend(n)}
    used = {p.removesuffix(".grad") for p in places if p.endswith(".grad")}
    pairing = paired(node.iter, node.target, used, module)
    if pairing is None:
        plan.refuse(event.stmt, refusal(event, "the loop runs over more than the parameters"))
        return
    param, given = dotted(pairing.target), False
    kin = kinship(event, owner)
    called = bool(pairing.name) and isinstance(pairing.params, cst.Call)  # it gives the names that torch gives
    if called and not any(type(f) is cst.Name and f.value == pairing.name for n in _inside(event.stmt)
                          for f in descend(n)):  # fmt: skip
        pairing, called = replace(pairing, name=""), False
    apart = called and (kin != "same" or pairing.wrapped or not _in_order(owner, writer))
    mixed = _mixed(event, owner, node.iter, module) and (pairing.wrapped or _in_turn(event.stmt))
    picked = isinstance(pairing.params, COMPREHENSIONS)  # `for p in [p for p in ps if p.grad is not None]`
    empty = empty and any(_asked(found, param) for n in _inside(event.stmt) for found in descend(n))
    if kin == "other" or event.writes and pairing.wrapped or apart or mixed or picked or empty:
        if pairing.name and not called:
            plan.refuse(event.stmt, refusal(event, "it names some of the parameters whose gradients were taken"))
            return
        replacement = f"{_table(event.stmt, owner, plan, writer, event.writes, empty)}[{param}]"
        _ask(event.stmt, param, replacement, plan)
        _perhaps_none(_inside(event.stmt), param, replacement, module, plan, writer)
        why = "the gradient of each parameter is looked up"
    else:
        if by_index(event.stmt):
            kept_apart(event.stmt, owner, plan)
        replacement = _numbered(event, param, called, owner, plan, writer) if event.writes else f"{param}_grad"
        if not event.writes:
            given = _zipped(node, pairing, replacement, called, owner, plan)
        why = "runs over the parameters of the optimizer and their gradients"
    if by_value:
        _ask_value(event.stmt, param, replacement, plan)
    for found in (f for n in _inside(event.stmt) for f in descend(n)):
        if _is_gradient(found, param):
            plan.expressions.setdefault(id(found), replacement)
        elif pairing.name and not given and not called and isinstance(found, cst.Name) and found.value == pairing.name:
            plan.expressions[id(found)] = f"{param}.name"
    if told := _clears(event, param, kin, plan):
        why = told
    notes = ["the names MindSpore gives parameters serve as well"] if pairing.name and not called else []
    notes += ["these are the parameters of the optimizer"] if kin == "unseen" else []
    notes += ["a gradient that is zero throughout is one that torch does not have"] if by_value else []
    why += "; assumed: " + ", ".join(notes) if notes else ""
    tier = Tier.ASSUMED if notes else Tier.EXACT
    plan.findings.append(Finding("T2M512", tier, "loop over gradients", why, line=event.stmt.lineno))


def _numbered(event: Event, param: str, called: bool, owner: Owner, plan: Plan, writer: Writer) -> str:
    """The loop counts, and writes into a list of the gradients; how it names one of them."""
    node, index = event.node, writer.fresh_index()
    assert isinstance(node, cst.For)
    if called:
        plan.around[id(node.iter)] = "enumerate({0})"
        plan.expressions[id(node.target)] = f"{index}, ({_bare(node.target)})"
    else:
        plan.expressions[id(node.iter)] = f"enumerate({weights_of(owner)})"
        plan.expressions[id(node.target)] = f"{index}, {param}"
    if not by_index(event.stmt):
        plan.before.setdefault(id(event.stmt), []).append(Text(f"{owner.variable} = list({owner.variable})"))
    return f"{owner.variable}[{index}]"


def _zipped(node: cst.For, pairing: Pairing, gradient: str, called: bool, owner: Owner, plan: Plan) -> bool:
    """The loop runs over the gradients beside its parameters; whether callers give these with their names."""
    given = not called and pairing.name and dotted(pairing.params) == owner.place != ""
    if called:
        plan.around[id(node.iter)] = f"zip({{0}}, {owner.variable})"
        plan.expressions[id(node.target)] = f"({_bare(node.target)}), {gradient}"
    elif given:
        plan.expressions[id(node.iter)] = f"zip({owner.place}, {owner.variable})"
        plan.expressions[id(node.target)] = f"({code(node.target)}), {gradient}"
    else:
        _side_by_side(node, pairing, owner, plan)
    return bool(given)


def _clears(event: Event, param: str, kin: str, plan: Plan) -> str:
    """Statements of the loop that clear a gradient go, or write zeros; what is told of the loop in the latter case."""
    told = ""
    for stmt in (s for b in event.stmt.blocks for s in b.walk()):
        plan.weights |= {id(n) for n in stmt.nodes if type(n) is cst.Name and n.value == param}
        if not _clears_gradient(stmt, param):
            continue
        if kin != "other" and not for_some(stmt, event.stmt):
            plan.replaced[id(stmt)] = []
        elif isinstance(stmt.node, cst.Assign):
            plan.refuse(event.stmt, refusal(event, SOME))
        else:
            told = "zeros are written where the loop writes them"
            plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", told, line=stmt.lineno))
    return told


def _in_order(owner: Owner, writer: Writer) -> bool:
    """The gradients are those of all the parameters that the module names, in the same order."""
    frozen = writer.project is None or writer.project.freezes
    return not frozen and (owner.kind == "module" or owner.ordered)


def _mixed(event: Event, owner: Owner, over: cst.BaseExpression, module: ModuleInfo) -> bool:
    """The optimizer has the parameters in another order than the loop may have them: in groups, sorted, picked."""
    if MIXED in (event.value.odd, module.value(over).odd):  # `for p in reversed(params)`
        return True
    seen = owner.owns is not None and not any(p.startswith(("^", "@")) for p in owner.owns)
    return owner.kind == "optimizer" and seen and not owner.ordered and event.place != owner.place


def _reduced(outer: cst.CSTNode, stmt: Stmt) -> bool:
    """What the comprehension makes is summed up, or asked for its largest: the order plays no part."""
    if isinstance(outer, (cst.DictComp, cst.SetComp)):
        return True
    parts = [n for n in stmt.nodes if isinstance(n, (cst.Call, cst.Subscript))]
    around = [n for n in parts if any(inner is outer for inner in descend(n))]
    calls = [n for n in around if isinstance(n, cst.Call)]
    return len(calls) == len(around) and any(name_called(call) in REDUCING for call in calls)


def _in_turn(loop: Stmt) -> bool:
    """What one turn does shows, or hangs on those before: something is told, gathered or counted, the loop is left."""
    body = [s for b in loop.blocks for s in b.walk()]
    for stmt in body:
        if isinstance(stmt.node, (cst.Break, cst.Return)) or not stmt.blocks and "yield " in code(stmt.node):
            return True
        if any(name_called(c) in TELLING for c in stmt.calls):
            return True
        own = {d for d in stmt.defs if "." not in d and (isinstance(stmt.node, cst.AugAssign) or d in stmt.uses)}
        if any(own & other.uses for other in body if other is not stmt):
            return True
        if isinstance(stmt.node, cst.Assign) and not all(_summed(stmt.node.value, name) for name in own):
            return True
    return False


def _summed(node: cst.BaseExpression, name: str) -> bool:
    """`total + p.grad.norm()`, `max(largest, p.grad.max())`: the order of what is put together plays no part."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Multiply)):
        sides = [node.left, node.right]
    elif isinstance(node, cst.Call) and name_called(node) in ("max", "min"):
        sides = [arg.value for arg in node.args]
    else:
        return False
    used = [sum(isinstance(n, cst.Name) and n.value == name for n in descend(side)) for side in sides]
    return sum(used) == 1 and any(dotted(side) == name for side in sides)


def _by_parameter(event: Event, fill: cst.Assign, owner: Owner, plan: Plan) -> None:
    """A loop that fills gradients in the order of its parameters: they are put into that of the optimizer behind it."""
    loop, param = event.node, dotted(fill.targets[0].target).partition(".")[0]
    assert isinstance(loop, cst.For)
    params: cst.BaseExpression | None = loop.iter if dotted(loop.target) == param else None
    if isinstance(loop.iter, cst.Call) and isinstance(loop.target, cst.Tuple):
        names = [dotted(e.value) for e in loop.target.elements]
        counted = dotted(loop.iter.func) == "enumerate"
        place = names.index(param) - counted if param in names else -1
        params = loop.iter.args[place].value if place >= 0 and (counted or dotted(loop.iter.func) == "zip") else None
    if params is None:
        plan.refuse(event.stmt, refusal(event, "the optimizer has its parameters in another order"))
        return
    if isinstance(params, cst.List) and len(params.elements) == 1:
        return
    plan.behind.setdefault(id(event.stmt), []).extend([
        Text(f"grad_of = dict(zip({{0}}, {owner.variable}))", [params]),
        Text(f"{owner.variable} = [grad_of[param] for param in {weights_of(owner)}]"),
    ])  # fmt: skip


def _bare(target: cst.BaseExpression) -> str:
    return code(target.with_changes(lpar=(), rpar=()) if isinstance(target, cst.Tuple) else target)


def plan_fill(event: Event, owner: Owner, module: ModuleInfo, plan: Plan) -> None:
    """`for p, g in zip(net.parameters(), found): p.grad = g`: the gradients are a list made in one go."""
    node, stmts = event.node, event.stmt.blocks[0].stmts
    stmt = next(s for s in stmts if any(_is_gradient(n, "") for n in s.nodes))
    assert isinstance(node, cst.For) and isinstance(stmt.node, cst.Assign)
    why = "the gradients are what the loop gives them"
    plan.findings.append(Finding("T2M512", Tier.EXACT, "loop that fills gradients", why, line=event.stmt.lineno))
    if _mixed(event, owner, node.iter, module):
        _by_parameter(event, stmt.node, owner, plan)
    if len(stmts) > 1:  # it does more beside
        plan.before.setdefault(id(event.stmt), []).append(Text(f"{owner.variable} = []"))
        plan.replaced[id(stmt)] = [Text(f"{owner.variable}.append({{0}})", [stmt.node.value])]
        return
    made = _filling(owner.variable, node, stmt.node.value)
    around = plan.replaced.get(id(event.stmt), [event.stmt])  # the gradient call that the loop itself makes
    plan.replaced[id(event.stmt)] = [made if item is event.stmt else item for item in around]
    plan.moved.discard(id(event.stmt))


def _filling(variable: str, loop: cst.For, value: cst.BaseExpression) -> Text:
    target, given = loop.target, loop.iter
    if isinstance(target, cst.Tuple):
        names = [dotted(e.value) for e in target.elements]
        if dotted(value) in names and isinstance(given, cst.Call) and dotted(given.func) == "zip":
            filling = given.args[names.index(dotted(value))].value
            listed = "{0}" if isinstance(filling, (cst.List, cst.ListComp)) else "list({0})"
            return Text(f"{variable} = {listed}", [filling])
        target = target.with_changes(lpar=(), rpar=())
    return Text(f"{variable} = [{{0}} for {{1}} in {{2}}]", [value, target, given])


def plan_comprehension(
    event: Event, owner: Owner, module: ModuleInfo, plan: Plan, writer: Writer, empty: bool = False
) -> bool:
    """`[p.grad.norm() for p in net.parameters()]`; False where the read stands in none."""
    node = event.node
    assert isinstance(node, cst.Attribute)
    if owner.kind == "leaf" or event.writes or not isinstance(node.value, cst.Name):
        return False
    param = node.value.value
    for outer in event.stmt.nodes:
        if not isinstance(outer, COMPREHENSIONS) or not any(n is node for n in descend(outer)):
            continue
        clause = outer.for_in
        pairing = paired(clause.iter, clause.target, {param}, module)
        kin = kinship(event, owner) if pairing is not None else "other"
        if pairing is None and not any(param in bound(c) for c in clauses(clause)):
            continue
        mixed = _mixed(event, owner, clause.iter, module) and not _reduced(outer, event.stmt)
        empty = empty and any(_asked(found, param) for found in descend(outer))
        if pairing is None or kin == "other" or clause.inner_for_in is not None or pairing.name or mixed or empty:
            replacement = f"{_table(event.stmt, owner, plan, writer, False, empty)}[{param}]"
            _ask(event.stmt, param, replacement, plan)
            _perhaps_none([outer], param, replacement, module, plan, writer)
        else:
            replacement = f"{param}_grad"
            through = _gone_through(outer, event.stmt, param)
            if through is not None and not _in_rows(pairing.params, module):
                plan.arguments[id(through)] = owner.variable
            if pairing.wrapped or _needed(param, outer):
                _side_by_side(clause, pairing, owner, plan)
            else:
                plan.expressions[id(clause.iter)] = owner.variable
                plan.expressions[id(clause.target)] = replacement
        shown = f"({replacement}.squeeze(2) if {replacement}.ndim == 4 else {replacement})"  # see rewrite.layers.rows
        for found in descend(outer):
            if _is_gradient(found, param):
                in_rows = pairing is not None and _in_rows(pairing.params, module)
                plan.expressions.setdefault(id(found), shown if in_rows else replacement)
        why = "runs over parameters and gradients together"
        why += "; assumed: these are the parameters of the optimizer" if kin == "unseen" else ""
        tier = Tier.ASSUMED if kin == "unseen" else Tier.EXACT
        plan.findings.append(Finding("T2M512", tier, "comprehension over gradients", why, line=event.stmt.lineno))
        return True
    return False


def _gone_through(outer: cst.CSTNode, stmt: Stmt, param: str) -> cst.Arg | None:
    """Of `zip(ps, [q.grad for q in qs])` the second argument: the gradients in their order are there already."""
    if type(outer) is not cst.ListComp or outer.for_in.ifs or not _is_gradient(outer.elt, param):
        return None
    zips = (n for n in stmt.nodes if type(n) is cst.Call and dotted(n.func) == "zip")
    return next((arg for call in zips for arg in call.args if arg.value is outer), None)


def _in_rows(params: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`conv.parameters()` of a one-dimensional convolution, whose weight has an axis more in MindSpore."""
    called = params.func if isinstance(params, cst.Call) else None
    return isinstance(called, cst.Attribute) and module.value(called.value).name in ROWS


def _needed(param: str, outer: cst.CSTNode) -> bool:
    """The comprehension uses the parameter beside its gradient."""
    read = [n for n in descend(outer) if isinstance(n, cst.Name) and n.value == param]
    grads = [n for n in descend(outer) if type(n) is cst.Attribute and dotted(n) == f"{param}.grad"]
    return len(read) > len(grads) + 1


def _side_by_side(loop: cst.For | cst.CompFor, pairing: Pairing, owner: Owner, plan: Plan) -> None:
    """The gradients run along with the parameters."""
    param, weights = dotted(pairing.target), weights_of(owner)
    both = f"{param}, {param}_grad"
    if pairing.zipped is not None:
        plan.expressions[id(pairing.params)] = weights
        plan.beside[id(pairing.zipped)] = f"={owner.variable}"
    else:
        plan.expressions[id(pairing.params)] = f"zip({weights}, {owner.variable})"
    if not pairing.wrapped:
        plan.expressions[id(loop.target)] = both
        return
    place = cst.Name("torch2ms_both")
    target = code(loop.target.deep_replace(pairing.target, place))
    both = both if pairing.zipped is not None else f"({both})"
    plan.expressions[id(loop.target)] = target.replace(place.value, both)


def _table(stmt: Stmt, owner: Owner, plan: Plan, writer: Writer, writes: bool, empty: bool = False) -> str:
    """The name of a dictionary of the gradients by parameter, made above the statement; written back below it.

    It has nothing while there are no gradients (`empty`), and what is written to it then need not be in their order.
    """
    for outer in stmt.ancestors():
        if isinstance(outer.node, cst.For) and any(u.endswith(".param_groups") for u in outer.uses):
            stmt = outer
    table, grads = "grad_of", owner.variable
    writer.names.add(table)
    weights = weights_of(owner)
    made = f"{table} = " + (f"{{}} if {grads} is None else " if empty else "") + f"dict(zip({weights}, {grads}))"
    if by_index(stmt):
        kept_apart(stmt, owner, plan)
    above = plan.before.setdefault(id(stmt), [])
    if not any(isinstance(t, Text) and t.template == made for t in above):
        above.append(Text(made))
    back = f"{grads} = tuple({table}.values())"
    if empty or owner.kind == "optimizers":  # several may hold one parameter
        ordered = f"tuple({table}[param] for param in {weights})"
        back = f"{grads} = {ordered} if {table} else None" if empty else f"{grads} = {ordered}"
    if writes and not any(isinstance(t, Text) and t.template == back for t in plan.behind.get(id(stmt), [])):
        plan.behind.setdefault(id(stmt), []).append(Text(back))
    return table


def _ask(stmt: Stmt, param: str, replacement: str, plan: Plan) -> None:
    """`p.grad is None` asks whether the parameter is among those that have a gradient."""
    table = replacement.partition("[")[0]
    for found in (f for n in [stmt.node, *_inside(stmt)] for f in descend(n)):
        if (asked := _asked(found, param)) is not None:
            word = "in" if isinstance(asked, cst.IsNot) else "not in"
            plan.expressions[id(found)] = f"{param} {word} {table}"


def _ask_value(stmt: Stmt, param: str, replacement: str, plan: Plan) -> None:
    """`p.grad is None` asks whether the loss reaches the parameter: elsewhere there are zeros."""
    for found in (f for n in [stmt.node, *_inside(stmt)] for f in descend(n)):
        if (asked := _asked(found, param)) is not None:
            table, looked_up, _ = replacement.partition(f"[{param}]")
            known = f"{param} in {table} and " if looked_up else ""
            some = f"{known}{replacement}.any()"
            none = f"not ({some})" if known else f"not {some}"
            plan.expressions[id(found)] = some if isinstance(asked, cst.IsNot) else none


def _perhaps_none(
    nodes: Iterable[cst.CSTNode], param: str, replacement: str, module: ModuleInfo, plan: Plan, writer: Writer
) -> None:
    """Where the gradient is handed on as it is, None does no harm: torch has it for frozen parameters."""
    if writer.project is not None and not writer.project.freezes:
        return
    table = replacement.partition("[")[0]
    for node in (n for top in nodes for n in descend(top)):
        held: cst.CSTNode | None = None
        if type(node) is cst.Call and module.value(node.func).kind != "api":
            held = next((a.value for a in node.args if _is_gradient(a.value, param)), None)
        elif type(node) in (cst.Element, cst.Assign, cst.NamedExpr, cst.Return, cst.DictElement):
            held = node.value  # type: ignore[attr-defined]
        elif type(node) in (cst.ListComp, cst.GeneratorExp):
            held = node.elt  # type: ignore[attr-defined]
        elif type(node) is cst.DictComp:
            held = node.value
        if held is not None and _is_gradient(held, param):
            plan.expressions.setdefault(id(held), f"{table}.get({param})")


def asks(event: Event) -> bool:
    """The loop that it stands in, or the comprehension, asks of each parameter whether it has a gradient."""
    loops = [s for s in (event.stmt, *event.stmt.ancestors()) if isinstance(s.node, cst.For)]
    nodes = [n for loop in loops for n in _inside(loop)]
    if any(isinstance(n, COMPREHENSIONS) for n in event.stmt.nodes):
        nodes += event.stmt.nodes
    return any(_asked(found, "") is not None for n in nodes for found in descend(n))


def asks_of_each(taken: Taken) -> bool:
    """The function asks of each parameter whether it has a gradient."""
    return not taken.gives and all(e.kind == "grad_loop" and asks(e) for e in taken.loads)


def _asked(node: cst.CSTNode, param: str) -> cst.BaseCompOp | None:
    """`is` or `is not` of a question whether the gradient of the parameter is None."""
    if type(node) is not cst.Comparison or len(node.comparisons) != 1 or not _is_gradient(node.left, param):
        return None
    asked = node.comparisons[0]
    is_none = constant(asked.comparator) is None and isinstance(asked.operator, (cst.Is, cst.IsNot))
    return asked.operator if is_none else None


def _is_gradient(node: cst.CSTNode, param: str) -> bool:
    """`p.grad` or `p.grad.data`, of any name where none is given."""
    if type(node) is not cst.Attribute:
        return False
    if node.attr.value == "data" and isinstance(node.value, cst.Attribute):
        node = node.value
    return node.attr.value == "grad" and (not param or dotted(node.value) == param)


def _inside(loop: Stmt) -> Iterator[cst.CSTNode]:
    """What the statements of a loop evaluate."""
    for stmt in (s for b in loop.blocks for s in b.walk()):
        if not stmt.blocks:
            yield stmt.node
        elif isinstance(stmt.node, (cst.If, cst.While)):
            yield stmt.node.test
        elif isinstance(stmt.node, cst.For):
            yield stmt.node.iter


def _clears_gradient(stmt: Stmt, param: str) -> bool:
    node = stmt.node
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return dotted(node.targets[0].target) == f"{param}.grad" and constant(node.value) is None
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        return dotted(node.value.func) in (f"{param}.grad.zero_", f"{param}.grad.data.zero_")
    return False
