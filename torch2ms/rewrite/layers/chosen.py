"""Names of a module that a text chooses: `getattr(nn, kind)(...)`, `optim.__dict__[name](...)`, `eval(kind)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.api import Outcome, apply_call, apply_value
from torch2ms.findings import Finding, Tier
from torch2ms.parsing import config_of
from torch2ms.rewrite.layers.texts import evaluated
from torch2ms.rewrite.translation import Translation

TABLES = ("torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.optim.lr_scheduler")
MOST = 12  # more names than a person would write out


def runs(call: cst.Call) -> bool:
    """`eval(kind)`"""
    return type(call.func) is cst.Name and call.func.value == "eval"


def picked(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`getattr(nn, kind)` as a table of the names that the project writes somewhere."""
    asked = dotted(original.func)
    if asked != "getattr" or len(original.args) != 2:
        return evaluated(original, updated, work) if asked == "eval" else None
    home = work.module.value(original.args[0].value)
    if home.kind != "api" or home.name not in TABLES or home.likely:  # or what other callers hand over
        return None
    if _listed(original.args[1].value, work):
        return None
    if home.name == "torch" and _of_types(original, work) and constant(original.args[1].value) is ...:
        return _type(updated.args[1].value, work)
    return _table(home.name, original.args[1].value, updated.args[1].value, work)


def _of_types(call: cst.Call, work: Translation) -> bool:
    """`getattr(torch, cfg["dtype"])`, or one whose result is called so."""
    asked, stmt = call.args[1].value, work.stmt.node if work.stmt is not None else None
    key = asked.slice[0].slice if type(asked) is cst.Subscript else None
    names = [str(constant(key.value)) if isinstance(key, cst.Index) else dotted(asked)]
    if isinstance(stmt, cst.Assign) and stmt.value is call:
        names += [dotted(target.target) for target in stmt.targets]
    return any("dtype" in name.rpartition(".")[2] for name in names)


def _type(key: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    _let_go("torch", work)
    work.notes.needs.add("ms")
    why = "types have the same names in MindSpore; assumed: it is the name of a type"
    work.notes.findings.append(Finding("T2M604", Tier.ASSUMED, "a name of torch", why))
    return cst.parse_expression(f"getattr({work.alias('ms')}, {code(key)})", config_of(work.module.tree))


def called(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`getattr(nn, kind)(3, 4)`: the arguments as each of the names takes them, if all take them alike."""
    func = original.func
    if type(func) is not cst.Call or dotted(func.func) != "getattr" or len(func.args) != 2:
        return None
    home = work.module.value(func.args[0].value)
    if home.kind != "api" or home.name not in TABLES or home.likely:  # or what other callers hand over
        return None
    found: dict[str, Outcome] = {}
    for name in _names(func.args[1].value, work):
        rule = work.rules.find(f"{home.name}.{name}")
        outcome = apply_call(rule, original, updated, work.facts) if rule is not None else None
        if outcome is not None and type(outcome.node) is cst.Call:
            found[name] = outcome
    if not found or len(found) > MOST:
        assert type(updated.func) is cst.Call
        table = _table(home.name, func.args[1].value, updated.func.args[1].value, work)
        return updated.with_changes(func=table) if table is not None else None
    _settled(home.name, list(found), work)
    calls = {name: work.take(outcome, updated) for name, outcome in found.items()}
    if len(calls) == 1 and isinstance(constant(func.args[1].value), str):
        return next(iter(calls.values()))
    assert type(updated.func) is cst.Call
    key = code(updated.func.args[1].value)
    alike = {tuple(code(arg) for arg in call.args) for call in calls.values() if type(call) is cst.Call}
    if len(alike) == 1:
        entries = ", ".join(f'"{name}": {code(call.func)}' for name, call in calls.items() if type(call) is cst.Call)
        return next(iter(calls.values())).with_changes(func=cst.parse_expression(f"{{{entries}}}[{key}]"))
    entries = ", ".join(f'"{name}": lambda: {code(call)}' for name, call in calls.items())
    return cst.parse_expression(f"{{{entries}}}[{key}]()", config_of(work.module.tree))


def _listed(asked: cst.BaseExpression, work: Translation) -> bool:
    """`for name in dir(optim): getattr(optim, name)`: any of its names, whatever the project writes."""
    around = work.stmt.ancestors() if work.stmt is not None and isinstance(asked, cst.Name) else ()
    loops = (a.node for a in around if isinstance(a.node, cst.For) and dotted(a.node.target) == dotted(asked))
    return any(isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) in ("dir", "vars") for loop in loops)


def looked_up(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.BaseExpression | None:
    """`optim.__dict__[name]`"""
    held, index = original.value, original.slice[0].slice
    if type(held) is not cst.Attribute or held.attr.value != "__dict__" or type(index) is not cst.Index:
        return None
    home, made = work.module.value(held.value), updated.slice[0].slice
    if home.kind != "api" or home.name not in TABLES or home.likely or not isinstance(made, cst.Index):
        return None
    return _table(home.name, index.value, made.value, work)


def _table(
    home: str, asked: cst.BaseExpression, key: cst.BaseExpression, work: Translation
) -> cst.BaseExpression | None:
    found: dict[str, Outcome] = {}
    for name in _names(asked, work):
        rule = work.rules.find(f"{home}.{name}")
        outcome = apply_value(rule, asked, work.facts) if rule is not None and not rule.hopeless else None
        if outcome is not None and outcome.node is not None:
            found[name] = outcome
    if not found or len(found) > MOST:
        return None
    nodes = {name: work.take(outcome, key) for name, outcome in found.items()}
    if isinstance(written := constant(asked), str):
        _let_go(home, work)
        return nodes[written]
    _settled(home, list(found), work)
    entries = ", ".join(f'"{name}": {code(node)}' for name, node in nodes.items())
    return cst.parse_expression(f"{{{entries}}}[{code(key)}]")


def _names(asked: cst.BaseExpression, work: Translation) -> list[str]:
    written = constant(asked)
    return [written] if isinstance(written, str) else sorted(n for n in _written(work.project) if n.isidentifier())


def _settled(home: str, names: list[str], work: Translation) -> None:
    """The finding of a table, in the place of what was told of the module's own name."""
    why = f"a table of the names that the project writes; assumed: no other is asked for than {', '.join(names)}"
    _let_go(home, work)
    work.notes.findings.append(Finding("T2M604", Tier.ASSUMED, f"a name of {home}", why))


def _let_go(home: str, work: Translation) -> None:
    """Forget what was told of the module's own name, and what it would need; another in the statement stays told."""
    rule = work.rules.find(home)
    work.notes.needs -= {rule.value} if rule is not None and rule.value else set()
    for what in (home, f"{home}.__dict__"):
        told = [at for at, finding in enumerate(work.notes.findings) if finding.what == what]
        if told:  # the innermost came last
            del work.notes.findings[told[-1]]


@once
def _written(project: Project) -> frozenset[str]:
    """The texts that stand in the project's code."""
    found: set[str] = set()
    for module in project.modules.values():
        for node in module.of_kind(cst.SimpleString):
            if isinstance(text := constant(node), str):
                found.add(text)
    return frozenset(found)
