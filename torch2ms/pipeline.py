"""A project through the program: parse, analyse, plan, rewrite, check."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

import libcst as cst

from torch2ms import packages
from torch2ms.analysis.infer import infer
from torch2ms.analysis.program.naming import module_name
from torch2ms.analysis.program.project import Added, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.settled import Earlier
from torch2ms.analysis.program.snapshot import Snapshot, restore, snapshot
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.text import code
from torch2ms.analysis.values import PART
from torch2ms.api import Rules, definitions
from torch2ms.bounds import TOO_DEEP, TURN, deep_recursion, unparsable
from torch2ms.check import STILL, check_output, gained_comments, owned_up, unmarked
from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier, told_apart
from torch2ms.parsing import parse, unasked
from torch2ms.rewrite import imports
from torch2ms.rewrite.emit import Emitter
from torch2ms.rewrite.functions import planning
from torch2ms.rewrite.writer import Told, Writer
from torch2ms.source import parse_quietly
from torch2ms.tape.autocast import plan_autocast
from torch2ms.tape.copies import ADDS
from torch2ms.tape.derivatives.transforms import plan_transforms
from torch2ms.tape.functions.lifting import lift
from torch2ms.tape.inside import inside as inside_of
from torch2ms.tape.plan import Plan
from torch2ms.tape.planner import plan_scope
from torch2ms.tape.project import UNRECORDED, differentiate, prepare
from torch2ms.tape.uses.late_thaws import refuse_late_thaws
from torch2ms.tape.uses.phases import refuse_phases
from torch2ms.tape.uses.saved import keep_values
from torch2ms.tape.uses.skipping import decide, refuse_left_out
from torch2ms.tape.uses.spent import refuse_spent
from torch2ms.tape.uses.stored import begin_stores
from torch2ms.wrappers import in_parts, understood_from_steps_on, understood_up_to_steps

# how errors begin that no second try mends
THEIRS = re.compile(r"line \d+: |the source is not valid Python|the code is nested|cannot parse: ")


def convert_module(source: str, config: Config, path: str) -> Result:
    """Translate the text of one module that mentions torch."""
    return convert_project({path: source}, config)[path]


def convert_project(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """Translate modules that belong together; keys are POSIX paths relative to the project's root."""
    own = packages.own_packages((*config.own, *packages.around(sources, sources.__contains__)))
    with TURN, _without_collector(), deep_recursion(), unasked(), own:  # what comes out is compiled
        if config.stage == "modules":
            from torch2ms.stages import first_step

            return first_step(sources, config)
        return convert_together(sources, config)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Trees are freed by their reference counts: the cyclic collector would only read them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        parse_quietly.cache_clear()  # of the last text: the first thing that an enabled collector would read
        if enabled:
            gc.enable()


def convert_together(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """The whole conversion of modules that belong together.

    Where gradient code is refused, functions that do a part of a training step are written out where they are called,
    if less is refused then. Where there is no good translation, gradient code of the files concerned is refused, and
    the rest done.
    """
    results = _attempted(sources, config, written_out=True)
    if _failed_here(results):
        results = _attempted(sources, config)
    if failed := _failed_here(results):
        careful = _attempted(sources, config, failed)
        if _failed_here(careful) < failed:
            return careful
    return results


def _left_over(results: Mapping[str, Result]) -> int:
    """How much gradient code of training steps is refused."""
    return sum(_is_left(f) for r in results.values() for f in r.findings)


def _is_left(finding: Finding) -> bool:
    return finding.tier is Tier.REFUSED and finding.code.startswith("T2M11")


def _unread(results: Mapping[str, Result]) -> int:
    """How many backward calls are dropped as nobody reads their gradients: the reader of one may be refused."""
    return sum(f.code == "T2M104" for r in results.values() for f in r.findings)


def _attempted(
    sources: Mapping[str, str], config: Config, held: frozenset[str] = frozenset(), written_out: bool = False
) -> dict[str, Result]:
    results = _best(sources, config) if written_out else _translated(sources, config, held)

    @cache
    def moved() -> set[str]:
        return gained_comments(results.values())

    @cache
    def together() -> dict[str, Result]:
        return _translated({path: result.text for path, result in results.items()}, config, held)

    among = together if len(results) > 1 else None
    return {path: _checked(result, config, held, moved, among) for path, result in results.items()}


def _best(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """The better one of two translations: with functions that do a part of a training step as they are, and without."""
    halfway = Halfway()  # let go of when this is done: it has every tree of the project
    results = _translated(sources, config, halfway=halfway)
    if halfway.in_parts and (left := _left_over(results)):
        halfway.results = results
        other = _translated(sources, config, written_out=True, halfway=halfway)
        less = _left_over(other) < left and _unread(other) <= _unread(results) or not _left_over(other)
        if other and less and not any(other[path].error for path in other if not results[path].error):
            return other
    if halfway.first is not None:
        halfway.first.close()
    return results


def _failed_here(results: Mapping[str, Result]) -> frozenset[str]:
    """The files that have no translation for a reason that is not theirs."""
    return frozenset(path for path, result in results.items() if result.error and not THEIRS.match(result.error))


@dataclass
class Halfway:
    """A project as it is before parts of training steps are written out: a second attempt goes on from here."""

    modules: list[tuple[str, Added]] = field(default_factory=list)  # with their paths
    problems: dict[str, Result] = field(default_factory=dict)  # of files that are not among them
    in_parts: bool = True  # there may be something to write out
    results: dict[str, Result] = field(default_factory=dict)  # of the first attempt
    first: Project | None = None  # what it ended with, where a second one may use what was inferred
    before: Snapshot = field(default_factory=list)  # ... and its statements before it was planned

    @property
    def lacking(self) -> frozenset[str]:
        """The files in which the first attempt left gradient code of training steps."""
        return frozenset(path for path, result in self.results.items() if any(map(_is_left, result.findings)))

    def beats(self, modules: list[tuple[str, ModuleInfo]], plans: Mapping[str, Plan]) -> bool:
        """The first attempt is the better one already by what is planned in the second: writing refuses no less."""
        refused = (
            finding
            for path, module in modules
            if not self.results[path].error and not Earlier(self.results[path].source).settled
            for finding in plans[module.name].findings
            if _is_left(finding) and not module.directives.speaks_of(finding.code, finding.line)
        )
        return sum(1 for _ in refused) >= _left_over(self.results)


def _translated(
    sources: Mapping[str, str],
    config: Config,
    held: frozenset[str] = frozenset(),
    whole: bool = True,
    written_out: bool = False,
    halfway: Halfway | None = None,
) -> dict[str, Result]:
    """The translations, before anybody looked at them; trees and analysis are given up when this is done.

    Gradient code of files that are `held` back is refused. `whole` says that no file was taken out of the project.
    """
    begun = halfway if written_out and halfway is not None and halfway.modules else None
    if begun is not None:
        results = dict(begun.problems)
        project, modules = _resumed(held, begun)
    else:
        project = Project(held=held, written_out=halfway.lacking if written_out and halfway else frozenset())
        results, modules = _read(project, sources, config)
    try:
        infer(project)
        project = project if begun is not None else understood_up_to_steps(project)
        if halfway is not None and not written_out:
            halfway.modules = [(path, project.modules[module.name].added) for path, module in modules]
            halfway.problems = dict(results)
            halfway.in_parts = len(modules) == 1 or in_parts(project)  # a single file is soon inferred again
        project = understood_from_steps_on(project)
        if written_out and not project.written_out:
            project.close()
            return {}  # as it was before
        modules = [(path, project.modules[module.name]) for path, module in modules]
        rules = Rules.load(config.target, config.device)
        if halfway is not None and not written_out and halfway.in_parts and len(modules) > 1:
            halfway.first, halfway.before = project, snapshot(project)
        plans = plan_project(project, config)
        if written_out and halfway is not None and halfway.beats(modules, plans):
            project.close()
            return {}
    except Exception as error:  # a bug of ours: it must not take the other files along
        if os.environ.get("TORCH2MS_DEBUG"):
            raise
        if len(sources) < 2:
            return results | {path: _failed(path, sources[path], error) for path, _ in modules}
        said, blamed = _said(error), _blamed(error) if whole else ""
        error.__traceback__ = None
        left = {path: sources[path] for path, _ in modules}
    else:
        results |= _written(project, modules, plans, rules, sources)
        if halfway is None or halfway.first is None:
            project.close()
        return results
    if halfway is not None:
        halfway.first, halfway.before = None, []
    del project, modules, begun  # before all of it is done again
    gc.collect()
    return results | _apart(left, config, held, said, blamed)


def _written(
    project: Project,
    modules: list[tuple[str, ModuleInfo]],
    plans: Mapping[str, Plan],
    rules: Rules,
    sources: Mapping[str, str],
) -> dict[str, Result]:
    """The translations by what was planned."""
    results = {}
    for path, module in modules:
        try:
            results[path] = _convert(project, module, plans[module.name], rules, sources[path], path)
        except Exception as error:
            results[path] = _failed(path, sources[path], error)
    return results


def _read(
    project: Project, sources: Mapping[str, str], config: Config
) -> tuple[dict[str, Result], list[tuple[str, ModuleInfo]]]:
    """The files become modules of the project; results of those that do not parse."""
    off = config.left_alone
    results: dict[str, Result] = {}
    modules: list[tuple[str, ModuleInfo]] = []
    for path in sorted(sources):
        text = sources[path]
        try:
            problem = unparsable(text)
            if not problem:
                modules.append((path, project.add(path, parse(text), text, off.get(path, frozenset()))))
        except (cst.ParserSyntaxError, SyntaxError, RecursionError) as error:
            problem = _parse_error(error)
        if problem:
            results[path] = Result(path, text, text, error=problem)
    return results, modules


def _resumed(held: frozenset[str], halfway: Halfway) -> tuple[Project, list[tuple[str, ModuleInfo]]]:
    """The project of an attempt before, as it was halfway; what the first attempt did not change stays inferred."""
    if halfway.first is None:
        project = Project(held=held, written_out=halfway.lacking)
        return project, [(path, project.add(*added)) for path, added in halfway.modules]
    restore(halfway.before)
    first, names = halfway.first, [(path, module_name(path), added) for path, added in halfway.modules]
    halfway.first, halfway.before = None, []
    changed = {name: added for _, name, added in names if first.modules[name].tree is not added[1]}
    project = first.succeeded(changed, halfway.lacking)
    return project, [(path, project.modules[name]) for path, name, _ in names]


def _apart(
    sources: Mapping[str, str], config: Config, held: frozenset[str], said: str, blamed: str
) -> dict[str, Result]:
    """Translations of files that could not be analysed together: all without the one to blame, or each alone."""
    names = [sources.keys() - {blamed}, {blamed}] if blamed in sources else [{path} for path in sources]
    place = f" in {blamed}" if blamed in sources else ""
    why = f"an error of torch2ms{place} ({said}); TORCH2MS_DEBUG=1 shows where"
    groups = [{path: sources[path] for path in sorted(group)} for group in names]
    made = [_translated(group, config, held, whole=False) for group in groups]
    return {path: told_apart(result, why) for results in made for path, result in results.items()}


def _blamed(error: Exception) -> str:
    """The file that the program was looking at when it failed, "" where that is not known."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        for held in trace.tb_frame.f_locals.values():
            module = getattr(held, "module", None) if isinstance(held, FunctionInfo) else held
            found = module.path if isinstance(module, ModuleInfo) else found
        trace = trace.tb_next
    return found


def _failed(path: str, source: str, error: Exception) -> Result:
    """The file as it was, and what went wrong in this program."""
    if isinstance(error, RecursionError):
        return Result(path, source, source, error=TOO_DEEP)
    if os.environ.get("TORCH2MS_DEBUG"):
        raise error
    return Result(path, source, source, error=f"an error of torch2ms ({_said(error)}); TORCH2MS_DEBUG=1 shows where")


def _said(error: Exception) -> str:
    said = error.message if isinstance(error, cst.ParserSyntaxError) else error  # its text may point past the code
    return f"{type(error).__name__}: {said}"


def plan_project(project: Project, config: Config) -> dict[str, Plan]:
    """The plan of every module, made before anything is rewritten: what one decides reaches the others."""
    plans = _planned(project, config)
    return _planned(project, config) if project.idle else plans  # now that it is known what optimizers are to skip


def _planned(project: Project, config: Config) -> dict[str, Plan]:
    prepare(project)
    planning.prepare(project)
    lifting = lift(project, stores=not config.assume_cleared)
    decide(project, lifting)
    plans = {}
    for module in project.modules.values():
        plan = Plan(config)
        plan.leaves, plan.homes = leaves(module)
        plan.findings += module.plain.findings if module.plain is not None else []
        plan_autocast(project, module, plan)
        kept = {name for name, cls in module.classes.items() if cls.refused}  # in two functions a name may mean two
        refused = {
            id(s) for c in module.scope.walk() if type(c.node) is cst.ClassDef and c.name in kept for s in c.walk()
        }
        for scope in module.scope.walk():
            if id(scope) in refused:  # the whole class stays
                continue
            plan_scope(scope, module, plan, lifting, project)
            plan_transforms(scope, module, project, plan, lifting.callee)
            refuse_phases(scope, module, project, plan)
            refuse_late_thaws(scope, module, project, plan)
            refuse_spent(scope, module, project, plan)
            keep_values(scope, module, project, plan)
        refuse_left_out(module, plan)
        planning.plan_functions(module, plan)
        plans[module.name] = plan
    begin_stores(lifting.stores, {id(m): plans[m.name] for m in project.modules.values()})
    inside = [(s, project.modules[name]) for name, plan in plans.items() for s in plan.inside]
    calls = [c for s, _ in inside for i in s.walk() for c in i.calls]
    reached = [lifting.callee[id(c)] for c in calls if id(c) in lifting.callee]
    if project.says(UNRECORDED):
        named = inside_of(project)
        reached += [info for s, module in inside for info in named.of(s.node, module)]
    values = [i for m in project.modules.values() for i in m.functions.values() if i.name in project.written_as_values]
    differentiate([*reached, *values, *lifting.exporting()], project)
    return plans


def _parse_error(error: Exception) -> str:
    if isinstance(error, cst.ParserSyntaxError):
        return f"line {error.raw_line}: it does not parse"
    return f"line {error.lineno}: it does not parse" if isinstance(error, SyntaxError) else TOO_DEEP


def _convert(project: Project, module: ModuleInfo, plan: Plan, rules: Rules, source: str, path: str) -> Result:
    earlier = Earlier(source)
    if earlier.settled:
        return Result(path, source, source)
    text, findings = translate(project, module, plan, rules)
    return Result(path, source, source if earlier.marked else text, tuple(findings))


def _checked(
    result: Result,
    config: Config,
    held: frozenset[str],
    moved: Callable[[], set[str]],
    among: Callable[[], dict[str, Result]] | None = None,
) -> Result:
    """The translation, or the file as it was with the reason why the translation is not to be had.

    A file `among` others is converted alone the second time: what is only marked then is known better with the others.
    Where it is changed again, they are all converted once more: what is seen of the others may keep a call as it is.
    """
    path, source, text = result.path, result.source, result.text
    if text == source and (result.error or "torch" not in source):
        return result
    numbered = path in config.left_alone  # numbers of lines mean nothing in the translation

    def once_more(translation: str) -> str:
        second = _again(translation, config, path, held)
        if among is None or unmarked(second) == unmarked(translation):
            return second if among is None else translation
        whole = among()[path]
        return whole.text if whole.source == translation and not whole.error else second

    again = None if numbered else once_more
    try:
        problem = check_output(source, text, result.findings, again, moved)
        if problem.startswith(STILL) and again is not None:
            text, left = owned_up(source, text)
            result = replace(result, text=text, findings=tuple(sorted((*result.findings, *left), key=lambda f: f.line)))
            problem = check_output(
                source, text, result.findings, lambda translation: owned_up(source, once_more(translation))[0], moved
            )
    except Exception as error:
        return _failed(path, source, error)
    return Result(path, source, source, result.findings, error=problem) if problem else result


def translate(
    project: Project, module: ModuleInfo, plan: Plan, rules: Rules, told: frozenset[Told] | None = None
) -> tuple[str, list[Finding]]:
    """The text a module becomes, and what was decided on the way; `told` are the only findings that count."""
    aliases = imports.conflicts(module.scope, module.imports)
    writer = Writer(project, module, rules, plan, aliases, told)
    tree = Emitter(writer).emit()
    gone = imports.lost(module.tree, tree, module.imports)
    kept = imports.kept_names(module.scope)
    said = project.said if writer.needs & definitions.table().keys() else None
    bound = module.bound if module.imports.stars else frozenset()
    tree = imports.rewrite(tree, module.imports, writer.needs, aliases, kept, said, gone, bound)
    findings = sorted((f for f in writer.findings if writer.counts(f)), key=lambda f: f.line)
    return code(tree, tree), findings


def leaves(module: ModuleInfo) -> tuple[dict[str, str], set[tuple[int, str]]]:
    """Places of leaf tensors that optimizers own, and of containers that hold some: they become Parameters.

    The second are those among them that are local names, with the id of their scope.
    """
    found: dict[str, str] = {}
    optimizers = [v for v in module.values.values() if v.kind == "optimizer" and v.owns]
    if not optimizers:
        return found, set()
    owned = {o for v in optimizers for o in v.owns or ()}
    for value in module.values.values():
        if not (value.leaf or value.items or value.each is not None):  # most: it is neither a leaf nor holds any
            continue
        for leaf in (value, *value.parts):
            place = leaf.place.partition(PART)[0]
            if leaf.leaf and place in owned:
                found[place] = place.rpartition(".")[2]
    homes, grows = set(), module.has(ADDS)
    for scope in module.scope.walk():
        made = [module.value(call) for stmt in scope.body.walk() for call in stmt.calls]
        if grows:
            funcs = [call.func for stmt in scope.body.walk() for call in stmt.calls]
            made += [module.value(f.value) for f in funcs if type(f) is cst.Attribute and f.attr.value == ADDS]
        for place in {o for v in made if v.kind == "optimizer" for o in v.owns or ()}:
            home: Scope | None = scope
            while home is not None and place not in home.locals:
                home = home.parent
            homes.add((id(home), place))
    return found, homes


def _again(text: str, config: Config, path: str, held: frozenset[str]) -> str:
    """A second conversion, without a third."""
    earlier = Earlier(text)
    if earlier.settled or earlier.marked or earlier.apart:
        return text
    project = Project(held=held)
    module = project.add(path, parse(text), text)
    infer(project)
    plan = plan_project(project, config)[module.name]
    again, _ = translate(project, module, plan, Rules.load(config.target, config.device))
    project.close()
    return again
