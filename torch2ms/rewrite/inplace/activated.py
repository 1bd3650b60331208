"""Activations with inplace=True whose argument is looked at again: `x + self.block(x)` adds the activated x.

MindSpore's activations return a new tensor. Nearly always nobody sees the difference; where somebody does, what is read
after the call is the activation of the old tensor.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation import activations
from torch2ms.analysis.known.starts import UNSEEN, UNSURE
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.findings import Tier
from torch2ms.rewrite import apis
from torch2ms.rewrite.inplace import order, stores, views
from torch2ms.rewrite.inplace.evaluated import LATE
from torch2ms.rewrite.inplace.hooked import hooked
from torch2ms.rewrite.inplace.keepers import Kept, keepers
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.writer import Writer


def activated(writer: Writer, stmt: Stmt, looked_at: set[int]) -> list[cst.BaseStatement]:
    """Plans the uses in the statement that see the activated tensor; the lines that give it to later ones."""
    if id(stmt) in looked_at:
        return []
    for call in stmt.calls:
        if name_called(call) == "register_forward_hook" and id(call) not in looked_at:
            looked_at.add(id(call))
            hooked(writer, call, stmt)
            continue
        alone = type(stmt.node) is cst.Expr and stmt.node.value is call
        called = writer.module.value(call.func)
        if alone and called.kind == "api" and stores.changes(called.name, call):
            continue  # `F.silu(x, inplace=True)` by itself is a store
        outside = called.kind == "api" and not writer.scope.is_function  # whoever imports the module may look
        lines: list[cst.BaseStatement] = []
        for arg, acts in activations.subjects(call, writer.module, writer.project):
            if type(arg.value) is not cst.Name:
                lines += _part(writer, stmt, call, arg.value, activations.at_once(acts), looked_at, outside)
                continue
            name = arg.value.value
            way = order.path(stmt.node, call)
            bound = order.own_scope(way, name)  # then the tensor is an element of something, or an argument of a lambda
            now = _at_once(writer, arg.value, acts)
            kept = list(keepers(name, stmt, writer)) if bound is None else []
            if _kept_in_turns(writer, call, name, acts, kept):
                looked_at.add(id(stmt))
            here, later = _looking(writer, stmt, call, name, bound, outside) if now else ([], set())
            kept = [one for one in kept if now and not one.turn]
            later |= {one.place for one in kept if one.place}
            shown, part = _bases(writer, stmt, name) if now and bound is None else (set(), False)
            later |= shown
            whole = all(one.whole for one in kept)
            if not here and not later and not kept and not part:
                if now and bound is None and _of_callers(writer, stmt, name):
                    why = f"`{name}` is of a list of the caller; assumed: nobody reads it there again"
                    writer.tell("T2M614", f"{code(call.func)}({name})", why, Tier.ASSUMED)
                continue
            acts = now
            looked_at.add(id(stmt))
            perhaps = any(type(n) in LATE for n in way[:-1] if n is not bound) or bound is not None and bool(later)
            perhaps = perhaps or part or any(not one.place for one in kept)
            perhaps = perhaps or called.kind == "api" and _again(writer, stmt, call, name, acts)
            if not here and not perhaps and whole and called.kind == "api" and (target := _whole(stmt, call)):
                same = f"it is the same tensor as `{target}`" if target != name else "who kept it has it changed"
                why = f"torch changes `{name}` in place: {same}"
                writer.tell("T2M614", f"{code(call.func)}({name})", why)
                lines += [line for other in sorted(later) for line in writer.text(f"{other} = {target}")]
                continue
            lines += _told(writer, call, name, acts, perhaps, here, later)
        if id(stmt) in looked_at:
            return lines
    return []


def _part(
    writer: Writer,
    stmt: Stmt,
    call: cst.Call,
    part: cst.BaseExpression,
    acts: frozenset[str],
    looked_at: set[int],
    outside: bool,
) -> list[cst.BaseStatement]:
    """`self.relu(self.h)`, `F.elu(out["h"], inplace=True)`: the attribute or the item is the activation then."""
    holder = dotted(part.value if isinstance(part, cst.Subscript) else part)
    if not acts or not holder or not isinstance(part, (cst.Attribute, cst.Subscript)) or _same_target(stmt, part):
        return []
    if isinstance(part, cst.Attribute):
        places = [use for s in stmt.block.scope.body.walk() if s is not stmt for use in s.uses]
        read = holder.startswith("self.") or any(f"{use}.".startswith(f"{holder}.") for use in places)
    else:
        read = holder.partition(".")[0] in liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
    if not read and not outside:
        return []
    looked_at.add(id(stmt))
    ends = isinstance(stmt.node, (cst.Return, cst.If, cst.While, cst.For))
    uses = sum(dotted(n) == holder for n in descend(stmt.node) if isinstance(n, (cst.Attribute, cst.Name)))
    return _told(writer, call, code(part), acts, ends or uses > 1, [], {code(part)})


def _same_target(stmt: Stmt, part: cst.BaseExpression) -> bool:
    node = stmt.node
    return isinstance(node, cst.Assign) and any(code(t.target) == code(part) for t in node.targets)


def _at_once(writer: Writer, name: cst.Name, acts: frozenset[str]) -> frozenset[str]:
    """The activations of the tensor itself; a network that may begin with one does not where it is given data."""
    unsure_of_data = UNSURE in acts and not writer.module.value(name).deps
    return frozenset() if unsure_of_data else activations.at_once(acts)


def _kept_in_turns(writer: Writer, call: cst.Call, name: str, acts: frozenset[str], kept: list[Kept]) -> bool:
    """`x = layer(x)`, `feats.append(x)`: what one turn of a loop keeps, the layer of the next one changes."""
    if not any(one.turn for one in kept):
        return False
    what = f"{code(call.func)}({name})"
    if acts - {UNSEEN}:
        why = f"what is kept of `{name}` is changed in place by a layer of a later turn"
        writer.refuse("T2M614", what, why, "say inplace=False, or keep what follows the activation")
    else:
        why = f"`{name}` is kept; assumed: no layer of a later turn begins with an activation in place"
        writer.tell("T2M614", what, why, Tier.ASSUMED)
    return True


def _again(writer: Writer, stmt: Stmt, call: cst.Call, name: str, acts: frozenset[str]) -> bool:
    """The statement holds the result, the tensor itself, and changes it once more: `[F.elu_(x), F.elu_(x)]`."""
    if all(text.startswith(("relu(", "relu6(")) for text in acts):  # twice is once
        return False
    others = (other for other in stmt.calls if other is not call)
    return any(
        type(arg.value) is cst.Name and arg.value.value == name
        for other in others for arg, _ in activations.subjects(other, writer.module, writer.project)
    )  # fmt: skip


def _whole(stmt: Stmt, call: cst.Call) -> str:
    """The name that an assignment gives what the call returns, "" where it does something else with it."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or node.value is not call:
        return ""
    target = node.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def _looking(
    writer: Writer, stmt: Stmt, call: cst.Call, name: str, bound: cst.CSTNode | None, outside: bool
) -> tuple[list[cst.Name], set[str]]:
    """The uses in the statement that see what the call has changed, and the names by which later ones do."""
    after = liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
    if bound is not None:
        names, root, later = {name}, bound, order.sources(bound) & after
    else:
        names, root = {name} | other_names(name, stmt, writer), stmt.node
        later = (names if outside else names & after) - stmt.defs
    inside = {id(n) for n in descend(call)}
    uses = [n for n in order.reads(root, names) if id(n) not in inside]
    return [n for n in uses if order.sees(order.path(root, n), order.path(root, call))], later


def _bases(writer: Writer, stmt: Stmt, name: str) -> tuple[set[str], bool]:
    """The tensors that are read later and have the same elements in another shape (`v = h.view(-1, 3)`); whether one
    has more than these."""
    after = liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)) - stmt.defs
    made = [s for s in stmt.block.scope.body.walk() if name in s.defs and s.number < stmt.number]
    found: set[str] = set()
    for other in made[-1:]:
        node = other.node
        alone = isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name)
        for base in views.sources(name, other, writer.module) & after:
            if any(base in s.defs for s in stmt.block.scope.body.walk() if other.number < s.number < stmt.number):
                continue
            if not alone or not isinstance(node, cst.Assign) or not views.reshaped(node.value, base, writer.module):
                return set(), True
            found.add(base)
    return found, False


def _of_callers(writer: Writer, stmt: Stmt, name: str) -> bool:
    """`h = feats[-1]`, of a list that a caller gave: who keeps the list has the tensor changed."""
    scope = stmt.block.scope
    made = [s.node for s in scope.body.walk() if name in s.defs and s.number < stmt.number]
    node = made[-1].value if made and isinstance(made[-1], cst.Assign) else None
    if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Name):
        return False
    return node.value.value in scope.params and writer.module.value(node.value).kind in ("list", "tuple", "dict")


def _told(
    writer: Writer, call: cst.Call, name: str, acts: frozenset[str], perhaps: bool, here: list[cst.Name],
    later: set[str],
) -> list[cst.BaseStatement]:  # fmt: skip
    """The finding for an activation that somebody sees, and what follows from it."""
    sure = acts - {UNSURE}
    text = next(iter(sure))
    what = f"{code(call.func)}({name})"
    if len(sure) > 1 or text.startswith("(") or perhaps:
        why = f"it changes `{name}` in place, which is used again"
        writer.refuse("T2M614", what, why, "say inplace=False, or take the activation before the call")
        return []
    why = f"torch changes `{name}` in place: what is used again is the activation"
    tier = Tier.EXACT
    if UNSURE in acts:
        tier, why = Tier.ASSUMED, f"{why}; assumed: the module begins with one"
    writer.tell("T2M614", what, why, tier)
    for node in here:
        writer.plan.expressions[id(node)] = applied(writer, text, node.value)
    return [line for other in sorted(later)
            for line in writer.text(f"{other} = {applied(writer, text, other)}")]  # fmt: skip


def applied(writer: Writer, text: str, name: str) -> str:
    """The activation of a name, in MindSpore."""
    function, _, rest = text.partition("(")
    call = cst.parse_expression(f"{function}({name}{rest}")
    assert isinstance(call, cst.Call)
    work = writer.translation()
    made = apis.called(f"torch.nn.functional.{function}", call, call, work, Positions(work.module, work.plan))
    writer.absorb(work.notes)
    return code(made)


def other_names(name: str, stmt: Stmt, writer: Writer) -> set[str]:
    """Names of the same tensor at the statement: `identity = x`, `y = F.relu_(x)`, neither bound again since."""
    body = list(stmt.block.scope.body.walk())
    found, todo = {name}, {name}
    while todo:
        fresh: set[str] = set()
        for other in body:
            node = other.node
            if other.number >= stmt.number or not isinstance(node, cst.Assign) or len(node.targets) != 1:
                continue
            pair = {dotted(node.targets[0].target), _same(node.value, writer)}
            if not todo & pair or len(pair) != 2 or any(not n or "." in n for n in pair):
                continue
            if not any(other.number < s.number < stmt.number and s.defs & pair for s in body):
                fresh |= pair - found
        found |= fresh
        todo = fresh
    return found - {name}


def _same(value: cst.BaseExpression, writer: Writer) -> str:
    """The name of the tensor that an expression is: itself, or what a function of torch changes in place."""
    if not isinstance(value, cst.Call):
        return dotted(value)
    if writer.module.value(value.func).kind != "api":
        return ""
    subjects = activations.subjects(value, writer.module, writer.project)
    return next((dotted(arg.value) for arg, acts in subjects if UNSURE not in acts), "")
