"""A conversion in two reviewable steps: `--select modules`, then `--select autograd`.

The first step writes everything but the gradient code: names, layers, classes and imports. The second converts what the
first has left, from its text alone, so people may commit, review and edit in between. A file takes part only where the
two steps are seen to add up to the whole conversion; another is left to the second step as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch2ms.analysis.program.project import Project
from torch2ms.api import Rules
from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier
from torch2ms.parsing import parse
from torch2ms.pipeline import convert_together, plan_project, translate
from torch2ms.tape.plan import Plan
from torch2ms.wrappers import understood

WHY = "the two steps would not add up to the whole conversion: --select autograd does all of it"


def first_step(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """What `--select modules` makes of modules that belong together."""
    whole = convert_together(sources, config)
    changed = {path: result for path, result in whole.items() if result.changed and not result.error}
    try:
        halves = _halves(sources, config, changed)
    except Exception:  # plans that are not carried out are rare input for the writer: the second step has no such risk
        halves = {}
    halves = {path: half for path, half in halves.items() if half.changed}
    while wrong := _not_adding_up(sources, halves, whole, config):
        halves = {path: half for path, half in halves.items() if path not in wrong}
    left = {path: _left(result) for path, result in changed.items()}
    return {**whole, **left, **halves}


def _halves(sources: Mapping[str, str], config: Config, whole: Mapping[str, Result]) -> dict[str, Result]:
    """The modules with everything translated but the gradient code."""
    project = Project()
    modules = {path: project.add(path, parse(text), text) for path, text in sorted(sources.items())}
    project = understood(project)
    modules = {path: project.modules[module.name] for path, module in modules.items()}
    rules = Rules.load(config.target, config.device)
    plans = plan_project(project, config)
    halves = {}
    for path, result in whole.items():
        module, plan = modules[path], plans[modules[path].name]
        told = frozenset((f.code, f.line, f.what) for f in result.findings)
        text, findings = translate(project, module, Plan(config, leaves=plan.leaves, homes=plan.homes), rules, told)
        halves[path] = Result(path, result.source, text, tuple(findings))
    project.close()
    return halves


def _not_adding_up(
    sources: Mapping[str, str], halves: Mapping[str, Result], whole: Mapping[str, Result], config: Config
) -> set[str]:
    """Files whose second step would end elsewhere; where a file without a first step does, all of them."""
    if not halves:
        return set()
    between = {**sources, **{path: half.text for path, half in halves.items()}}
    again = convert_together(between, config)
    wrong = {path for path, result in again.items() if result.text != whole[path].text or result.error}
    return wrong & halves.keys() or (set(halves) if wrong - {p for p, r in whole.items() if r.error} else set())


def _left(result: Result) -> Result:
    finding = Finding("T2M960", Tier.EXACT, "whole file", WHY)
    return Result(result.path, result.source, result.source, (finding,))
