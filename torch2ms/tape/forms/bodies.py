"""The body of the function around a forward: declarations, the statements, and the root it returns."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.forms.calls import Call, Outputs, all_ones
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Item, Text


def declare(writer: Writer, outputs: Outputs, stmts: list[Stmt]) -> list[Item]:
    if outputs.shared and writer.scope.is_function:
        return [Text(f"{name} = None") for name in outputs.shared if not bound_elsewhere(writer, name, stmts)]
    return []


def bound_elsewhere(writer: Writer, name: str, stmts: list[Stmt]) -> bool:
    """The statements go on from what the name holds before them."""
    kept = name in liveness.exposed(stmts) and not writer.unbound(stmts, [name])
    return name in writer.scope.params or kept


def body_of(writer: Writer, stmts: list[Stmt], outputs: Outputs, event: Event) -> list[Item]:
    body: list[Item] = []
    inherited = [n for n in sorted(writer.declared()) if any(n in s.all_defs for s in stmts)]
    for word, kind in (("global", cst.Global), ("nonlocal", cst.Nonlocal)) if inherited else ():
        names = writer.declared(kind)
        if mine := [n for n in inherited if n in names]:
            body.append(Text(f"{word} {', '.join(mine)}"))
    if shared := [n for n in outputs.shared if n not in inherited]:
        body.append(Text(f"{'nonlocal' if writer.scope.is_function else 'global'} {', '.join(shared)}"))
    body += [Text(f"{name} = None") for name in perhaps_unbound(writer, outputs.aux, stmts, event)]
    body += stmts
    template, nodes = root_text(writer, event, {root(d) for s in stmts for d in s.all_defs})
    if event.scaled is not None and outputs.aux:
        template = f"({template})"
    body.append(Text(f"return {template}{outputs.returned}", nodes))
    return body


def perhaps_unbound(writer: Writer, names: list[str], stmts: list[Stmt], event: Event) -> list[str]:
    """Those of the names that some way through the statements does not bind, and nothing before them does.

    What is read without a condition behind the place where it is bound is there: PyTorch would have failed.
    """
    bound = set().union(*(liveness.definite(s) for s in stmts)) if stmts else set()
    left = [n for n in names if n not in bound]
    asked = liveness.exposed(stmts) if left else []
    left = [n for n in left if n not in asked or writer.unbound(stmts, [n])]
    return [n for n in left if n not in _read_at_once(stmts, event)]


def _read_at_once(stmts: list[Stmt], event: Event) -> set[str]:
    """The names that the statements, the event or what follows these read whatever happens, once they are bound."""
    found = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)} if not event.lifted else set()
    block = stmts[-1].block.stmts
    following: list[Stmt] = []
    for stmt in block[block.index(stmts[-1]) + 1 :]:
        if any(isinstance(i.node, (cst.Break, cst.Continue, cst.Return, cst.Raise)) for i in stmt.walk()):
            break
        following.append(stmt)
    made: set[str] = set()
    for stmt in [*stmts, *following]:
        if not stmt.blocks and not isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
            found |= {root(u) for u in stmt.uses} & made
        made |= {root(d) for d in stmt.all_defs}
    return found


def root_text(writer: Writer, event: Event, made: set[str]) -> tuple[str, list[cst.CSTNode]]:
    """What the function returns first; `made` are the names that its statements bind."""
    if event.episode is not None:  # the call itself may become the name of its result where it stood
        return code(event.roots[0]), []
    nodes: list[cst.CSTNode] = list(event.roots)
    parts = [f"{{{i}}}" for i, _ in enumerate(event.roots)]
    for i, cotangent in enumerate(event.cotangents if weighted(writer, event) else ()):
        if cotangent is not None and sequence(writer, event):
            varied = bool(writer.module.value(cotangent).deps) and bool(made & expression_uses(cotangent, event.stmt))
            writer.plan.needs |= {"ops"} if varied else set()
            u = "ops.stop_gradient(u)" if varied else "u"
            parts[i] = f"sum((g * {u}).sum() for g, u in zip({{{i}}}, {{{len(nodes)}}}))"
            nodes.append(cotangent)
        elif cotangent is not None and all_ones(cotangent, writer.scope):
            parts[i] = f"{{{i}}}.sum()" if dotted(event.roots[i]) else f"({{{i}}}).sum()"
        elif cotangent is not None:
            varied = bool(writer.module.value(cotangent).deps)
            writer.plan.needs |= {"ops"} if varied else set()
            factor = f"ops.stop_gradient({{{len(nodes)}}})" if varied else f"{{{len(nodes)}}}"
            parts[i] = f"({{{i}}} * {factor}).sum()"
            nodes.append(cotangent)
    text = " + ".join(parts)
    if event.scaled is not None:
        plain, scaled = text, f"{event.scaler}.scale({text})"
        first, second = (plain, scaled) if event.inverse else (scaled, plain)
        text = f"{first} if {{{len(nodes)}}} else {second}"
        nodes.append(event.scaled)
    elif event.scaler:
        text = f"{event.scaler}.scale({text})"
    return text, nodes


def weighted(writer: Writer, event: Event) -> bool:
    """Cotangents of the user's own where ms.vjp does not serve: the function returns the sum weighted with them."""
    several = len(event.roots) > 1 and event.episode is None
    if several and any(c is not None for c in event.cotangents):
        return True  # tensors of several shapes add up once each of them is summed
    own = any(c is not None and not all_ones(c, writer.scope) for c in event.cotangents)
    return own and (len(event.roots) > 1 or not writer.plan.records or sequence(writer, event))


def sequence(writer: Writer, event: Event) -> bool:
    """The one root is a list of tensors, and so is its cotangent."""
    kinds = {writer.module.value(r).kind for r in [*event.roots, *event.cotangents] if r is not None}
    return len(event.roots) == 1 and kinds <= {"tuple", "list"}


def late_cotangent(writer: Writer, call: Call) -> bool:
    """A cotangent uses what is made between the forward and the backward call."""
    region, event = call.region, call.event
    asked = {root(u) for c in event.cotangents if c is not None for u in expression_uses(c, event.stmt)}
    end = event.stmt.number
    start = region.all[-1].number if region.all else end
    between = [s for s in writer.scope.body.walk() if start < s.number < end and s not in region.all]
    return bool(asked & {root(d) for s in between for d in s.all_defs | s.all_muts})
