"""The names that take the gradients of a call: split among their owners, added to what they hold."""

from __future__ import annotations

from torch2ms.tape.forms.calls import Call
from torch2ms.tape.forms.interface import weights_of
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.model import Owner
from torch2ms.tape.plan import Item, Text


def receive(writer: Writer, call: Call) -> tuple[str, list[Item]]:
    """The target that takes the gradients, and the statements that hand them to their owners."""
    follow: list[Item] = []
    leaves = [o for o in call.owners if o.kind == "leaf" and not o.parameter]
    others = [o for o in call.owners if o.kind != "leaf"]
    held = [o for o in call.owners if o.parameter]
    targets: dict[str, str] = {}

    def fresh(name: str, base: str) -> str:
        """A name that is read at once, or that a forward of later may have left something in by then."""
        label = writer.suffix(call) if call.turns is not None or not free(name, writer, call) else ""
        return writer.fresh(f"{label}_{base}") if label else writer.fresh_once(name)

    for owner in call.owners:
        name = owner.variable
        if owner.place in call.accumulate:
            owner.accumulating = True
            name = fresh(f"new_{owner.base}", owner.base)
            follow.append(added(owner, name, sure=call.accumulate[owner.place]))
        elif owner.place in call.delayed:
            name = fresh(f"new_{owner.base}", owner.base)
            follow.append(Text(f"{owner.variable} = {name}"))
        targets[owner.place] = name
        if owner.kind != "optimizer" and not call.event.create_graph:
            follow.append(graphless(owner))
    left = ", ".join(targets[o.place] for o in leaves)
    if len(leaves) > 1:
        left = f"({left})"
    if not others and not held:
        return left, follow
    if held and not others:
        names = ", ".join(targets[o.place] for o in held)
        right = f"({names},)" if len(held) == 1 else f"({names})"
    elif held:
        right = fresh("all_grads", "grads")
        parts = [Text(f"{targets[o.place]} = {right}[{i}]") for i, o in enumerate(held)]
        parts.append(Text(f"{targets[others[0].place]} = {right}[{len(held)}:]"))
        follow = [*parts, *follow]
    elif len(others) == 1:
        right = targets[others[0].place]
    else:
        right = fresh("all_grads", "grads")
        parts, offset = [], ""
        for owner in others:
            end = f"{offset}len({weights_of(owner)})"
            last = owner is others[-1]
            parts.append(Text(f"{targets[owner.place]} = {right}[{offset.removesuffix(' + ')}:{'' if last else end}]"))
            offset = end + " + "
        follow = [*parts, *follow]
    return (f"({left}, {right})" if leaves else right), follow


def free(name: str, writer: Writer, call: Call) -> bool:
    """No other call leaves gradients in the name between the forward of this one, which takes them, and their use."""
    stmts = call.region.stmts
    first, last = stmts[-1].number if stmts else call.event.stmt.number, call.event.stmt.number
    others = writer.plan.waiting.setdefault((id(writer.scope), name), {})
    others.pop(id(call.event), None)
    if any(begun <= last and first <= used for begun, used in others.values()):
        return False
    others[id(call.event)] = first, last
    return True


def graphless(owner: Owner) -> Text:
    """Inside a function that is differentiated, MindSpore's gradients have a graph, which torch's have not."""
    name = owner.variable
    single = owner.kind == "leaf" and not owner.starred
    cut = f"ops.stop_gradient({name})" if single else f"[ops.stop_gradient(g) for g in {name}]"
    return Text(f"{name} = {cut}", inner=True)


def added(owner: Owner, new: str, sure: bool) -> Text:
    old = owner.variable
    if owner.kind == "leaf":
        total = f"{old} + {new}"
    else:
        total = f"tuple(a + b for a, b in zip({old}, {new}))"
    return Text(f"{old} = {total}" if sure else f"{old} = {new} if {old} is None else {total}")
