"""Texts that are run and may name something of torch: `eval(kind)(8, 16)`, where a configuration has "nn.Conv2d"."""

from __future__ import annotations

import ast
import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.api import Outcome, apply_value, template
from torch2ms.api.apply import needs
from torch2ms.api.named import full_value, takes_as_written
from torch2ms.api.rules import Rule
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

MOST = 12  # more names than a person would write out
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
LONGEST = 120  # characters of a text that may be an expression
ASSUMED = "assumed: the texts that it runs name nothing of PyTorch"


def evaluated(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`eval(kind)` with a table of the names of torch that the project writes down as texts, before anything else."""
    own = work.module.value(original.func).kind in ("function", "class")
    if len(original.args) != 1 or own:
        return None
    heads = {name: full for name, full in work.module.imports.table.items() if full.partition(".")[0] == "torch"}
    if not heads:
        return None
    found: dict[str, Outcome] = {}
    written = constant(asked := original.args[0].value)
    for text in [written] if isinstance(written, str) else _written(work.project):
        head, _, rest = text.partition(".")
        if head.split("(")[0] not in heads:
            continue
        full = f"{heads[head]}.{rest}" if rest and NAME.fullmatch(text) else heads.get(text, "")
        rule = work.rules.find(full)
        outcome = _value(rule, asked, work) if rule is not None and not rule.hopeless else None
        if outcome is not None and outcome.node is not None:
            found[text] = outcome
        elif rule is not None or not NAME.fullmatch(text) and _runs(text):
            why = f'the text "{text}" names something of PyTorch'
            work.refuse("T2M605", "eval", why, "write down what the text stands for")
            return None
    if len(found) > MOST:
        work.refuse("T2M605", "eval", "its texts name things of PyTorch", "write down what the texts stand for")
        return None
    if not found:
        if written is ...:
            work.notes.findings.append(Finding("T2M604", Tier.ASSUMED, "eval", ASSUMED))
        return None
    nodes = {text: work.take(outcome, updated) for text, outcome in found.items()}
    if isinstance(written, str):
        return nodes[written]
    why = f"a table of the names of PyTorch that the project writes; {ASSUMED.replace('nothing', 'nothing else')}"
    work.notes.findings.append(Finding("T2M604", Tier.ASSUMED, "eval", why))
    entries = ", ".join(f'"{text}": {code(node)}' for text, node in nodes.items())
    table = cst.parse_expression(f"{{{entries}}}.get({code(updated.args[0].value)})")
    return parenthesised(cst.BooleanOperation(table, cst.Or(), updated))


def _value(rule: Rule, asked: cst.BaseExpression, work: Translation) -> Outcome:
    """What stands for the name, whatever it is called with: `eval(kind)(*options)`."""
    whole = "" if takes_as_written(rule) else full_value(rule)
    if not whole:
        return apply_value(rule, asked, work.facts)
    parsed = template.parse(whole)
    found = Finding("T2M601", Tier.EXACT, rule.name, f"{whole}: it takes torch's arguments")
    return Outcome(parenthesised(parsed.root), (found,), needs(parsed), "function")


def _runs(text: str) -> bool:
    """The text is an expression."""
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


@once
def _written(project: Project) -> list[str]:
    """The texts in the project's code that may be names or calls."""
    found: set[str] = set()
    for module in project.modules.values():
        texts = (constant(node) for node in module.of_kind(cst.SimpleString))
        found |= {t for t in texts if isinstance(t, str) and len(t) < LONGEST and NAME.match(t)}
    return sorted(found)
